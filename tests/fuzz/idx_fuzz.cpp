// Any bytes as .idx over a .bin of a size that some of them describe: an Error, or a file of which every
// document can be read.
#include <vector>

#include "fuzz/fuzz_file.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/indexed_dataset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace trireme;
    if (size == 0)
        return 0;
    const std::vector<std::uint8_t> tokens(bytes[0], 7); // the first byte is the size of .bin
    fuzz::write("x.bin", tokens.data(), tokens.size());
    const std::string idx = fuzz::write("x.idx", bytes + 1, size - 1);
    try {
        const data::IndexedDataset file(idx.substr(0, idx.size() - 4));
        std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
        file.read(0, ids);
        file.verify();
        for (std::int64_t document = 0; document < file.documents(); ++document) {
            ids.resize(static_cast<std::size_t>(file.document_length(document)));
            file.read(file.document_begin(document), ids);
        }
    } catch (const Error&) {
        return 0;
    }
    return 0;
}
