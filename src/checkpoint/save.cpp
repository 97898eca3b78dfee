// Saving at once: what one rank holds goes through a small staging buffer while training waits.
#include "saving.hpp"
#include "share.hpp"

namespace trireme::checkpoint {

std::filesystem::path save(const std::filesystem::path& directory, const State& state, const Model& model,
                           const SaveOptions& options) {
    constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20; // copied to the host at a time
    constexpr std::size_t kReaders = 2; // one waits for the disk while the other hashes
    Saving saving(directory, state, model, options);
    comm::agree(*model.groups->world, [&] {
        Elements elements(*model.backend);
        for (const Piece& piece : share_of_this_rank(model, saving.contents(), kPieceBytes))
            saving.writer().write(piece.slot, piece.box, elements.on_host(piece));
        saving.writer().finish(options.read_back, kReaders);
    });
    return saving.publish();
}

} // namespace trireme::checkpoint
