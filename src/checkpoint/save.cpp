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
        const bool on_host = model.backend->device() == backend::Device::cpu;
        std::vector<std::byte> staging(on_host ? 0 : static_cast<std::size_t>(kPieceBytes));
        for (const Piece& piece : share_of_this_rank(model, saving.contents(), kPieceBytes)) {
            const Tensor& tensor = piece.tensor;
            const Tensor host(on_host ? tensor.data() : staging.data(), tensor.shape(), tensor.type());
            if (!on_host)
                model.backend->copy_to_host(tensor, host);
            saving.writer().write(
                piece.slot, piece.box,
                {static_cast<const std::byte*>(host.data()), static_cast<std::size_t>(host.bytes())});
        }
        saving.writer().finish(options.read_back, kReaders);
    });
    return saving.publish();
}

} // namespace trireme::checkpoint
