// Saving at once: what one rank holds goes through a small staging buffer while training waits.
#include "saving.hpp"
#include "share.hpp"

namespace trireme::checkpoint {

std::filesystem::path save(const std::filesystem::path& directory, const State& state, const Model& model,
                           const SaveOptions& options) {
    constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20; // copied to the host at a time
    Saving saving(directory, state, model, options);
    comm::agree(*model.groups->world, [&] {
        std::vector<std::byte> staging;
        for (const Piece& piece : share_of_this_rank(model, saving.contents(), kPieceBytes)) {
            staging.resize(static_cast<std::size_t>(piece.tensor.bytes()));
            model.backend->copy_to_host(piece.tensor,
                                        Tensor(staging.data(), piece.tensor.shape(), piece.tensor.type()));
            saving.writer().write(piece.slot, piece.box, staging);
        }
        saving.writer().finish(options.read_back);
    });
    return saving.publish();
}

} // namespace trireme::checkpoint
