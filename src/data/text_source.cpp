// TextSource: read(2), then one of three decoders, then cutting at line ends.
#include "trireme/data/text_source.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zlib.h>
#include <zstd.h>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;
constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
// Text that grows beyond this gets room for the longest line at once: doubling would hold it twice for a
// while, and pages that are never touched cost nothing.
constexpr std::size_t kUsualBytes = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = kLongestLine + 2 * kReadBytes;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The file itself, with a look at its first bytes.
class RawInput {
  public:
    explicit RawInput(const std::string& path) : name_(path == "-" ? "standard input" : path) {
        descriptor_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor_ < 0)
            throw Error(ErrorCategory::data, concat("cannot open ", name_, ": ", system_reason()));
        struct stat status {};
        if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode))
            size_ = status.st_size;
        else if (S_ISDIR(status.st_mode)) {
            close();
            throw Error(ErrorCategory::data, concat(name_, " is a directory"),
                        {"try: the files in it, one --input FILE..."});
        }
        buffer_.resize(kReadBytes);
    }
    ~RawInput() { close(); }
    RawInput(const RawInput&) = delete;
    RawInput& operator=(const RawInput&) = delete;

    const std::string& name() const { return name_; }
    std::int64_t position() const { return position_; }
    std::int64_t size() const { return size_; }

    // What is buffered, after reading more if that is less than `wanted`; shorter only at the end of the
    // input.
    std::string_view peek(std::size_t wanted) {
        if (filled_ - begin_ < wanted && !ended_) {
            std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                      buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
            filled_ -= begin_;
            begin_ = 0;
            while (filled_ < wanted && !ended_) {
                const ssize_t count = ::read(descriptor_, buffer_.data() + filled_, buffer_.size() - filled_);
                if (count < 0 && errno == EINTR)
                    continue;
                if (count < 0)
                    throw Error(ErrorCategory::data, concat("cannot read ", name_, ": ", system_reason()));
                ended_ = count == 0;
                filled_ += static_cast<std::size_t>(count);
                position_ += count;
            }
        }
        return {buffer_.data() + begin_, filled_ - begin_};
    }
    void drop(std::size_t bytes) { begin_ += bytes; }

  private:
    void close() {
        if (descriptor_ > STDIN_FILENO)
            ::close(descriptor_);
    }

    std::string name_;
    int descriptor_ = -1;
    std::int64_t size_ = -1;
    std::int64_t position_ = 0;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, filled_ = 0;
    bool ended_ = false;
};

class Decoder {
  public:
    virtual ~Decoder() = default;
    // Puts some bytes into `bytes`; false at the end.
    virtual bool next(RawInput& input, std::string& bytes) = 0;
};

class PlainDecoder final : public Decoder {
  public:
    bool next(RawInput& input, std::string& bytes) override {
        const std::string_view available = input.peek(1);
        bytes.assign(available);
        input.drop(available.size());
        return !bytes.empty();
    }
};

[[noreturn]] void refuse_compressed(const RawInput& input, const char* kind, const std::string& why) {
    throw Error(ErrorCategory::data,
                concat(input.name(), " is damaged: ", kind, ": ", why, ", near byte ", input.position()),
                {"try: copy or download it again"});
}

constexpr std::string_view kGzipMagic = "\x1F\x8B";
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

class GzipDecoder final : public Decoder {
  public:
    GzipDecoder() { TRIREME_ASSERT(::inflateInit2(&stream_, 15 + 16) == Z_OK, "inflateInit2"); }
    ~GzipDecoder() override { ::inflateEnd(&stream_); }

    bool next(RawInput& input, std::string& bytes) override {
        bytes.resize(kReadBytes);
        stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
        stream_.avail_out = static_cast<uInt>(bytes.size());
        while (stream_.avail_out == bytes.size()) {
            if (between_members_ && !begin_member(input)) {
                bytes.clear();
                return false;
            }
            const std::string_view available = input.peek(1);
            if (available.empty())
                refuse_compressed(input, "gzip", "it ends in the middle");
            stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(available.data()));
            stream_.avail_in = static_cast<uInt>(available.size());
            const int result = ::inflate(&stream_, Z_NO_FLUSH);
            input.drop(available.size() - stream_.avail_in);
            if (result == Z_STREAM_END)
                between_members_ = true;
            else if (result != Z_OK && result != Z_BUF_ERROR)
                refuse_compressed(input, "gzip",
                                  stream_.msg != nullptr ? stream_.msg : concat("code ", result));
        }
        bytes.resize(bytes.size() - stream_.avail_out);
        return true;
    }

  private:
    // Files may be several gzip files in a row, and padded with zeros at the end.
    bool begin_member(RawInput& input) {
        while (!input.peek(1).empty() && input.peek(1).front() == '\0')
            input.drop(1);
        if (input.peek(1).empty())
            return false;
        if (!input.peek(kGzipMagic.size()).starts_with(kGzipMagic))
            refuse_compressed(input, "gzip", "something else follows the compressed data");
        ::inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    z_stream stream_ = {};
    bool between_members_ = true;
};

class ZstdDecoder final : public Decoder {
  public:
    ZstdDecoder() : stream_(::ZSTD_createDStream()) {
        TRIREME_ASSERT(stream_ != nullptr, "ZSTD_createDStream");
    }
    ~ZstdDecoder() override { ::ZSTD_freeDStream(stream_); }
    ZstdDecoder(const ZstdDecoder&) = delete;
    ZstdDecoder& operator=(const ZstdDecoder&) = delete;

    bool next(RawInput& input, std::string& bytes) override {
        bytes.resize(kReadBytes);
        ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
        while (out.pos == 0) {
            const std::string_view available = input.peek(1);
            if (available.empty() && pending_ != 0)
                refuse_compressed(input, "zstd", "it ends in the middle");
            if (available.empty()) {
                bytes.clear();
                return false;
            }
            ZSTD_inBuffer in = {available.data(), available.size(), 0};
            pending_ = ::ZSTD_decompressStream(stream_, &out, &in);
            if (::ZSTD_isError(pending_))
                refuse_compressed(input, "zstd", ::ZSTD_getErrorName(pending_));
            input.drop(in.pos);
        }
        bytes.resize(out.pos);
        return true;
    }

  private:
    ZSTD_DStream* stream_;
    std::size_t pending_ = 0; // 0: between frames
};

std::unique_ptr<Decoder> decoder_for(RawInput& input) {
    const std::string_view start = input.peek(kZstdMagic.size());
    if (start.starts_with(kGzipMagic))
        return std::make_unique<GzipDecoder>();
    if (start.starts_with(kZstdMagic))
        return std::make_unique<ZstdDecoder>();
    return std::make_unique<PlainDecoder>();
}

} // namespace

struct TextSource::State {
    explicit State(const std::string& path) : input(path), decoder(decoder_for(input)) {}

    RawInput input;
    std::unique_ptr<Decoder> decoder;
    bool at_start = true;
    std::string bytes;          // the last piece from the decoder
    std::string rest;           // the unfinished last line of the blocks so far
    std::int64_t next_line = 1; // the number of the first line in `rest`
};

TextSource::TextSource(const std::string& path) : state_(std::make_unique<State>(path)) {}
TextSource::~TextSource() = default;

const std::string& TextSource::name() const {
    return state_->input.name();
}
std::int64_t TextSource::bytes_read() const {
    return state_->input.position();
}
std::int64_t TextSource::bytes_in_all() const {
    return state_->input.size();
}

bool TextSource::next_bytes(std::string& bytes) {
    if (!state_->decoder->next(state_->input, bytes))
        return false;
    if (std::exchange(state_->at_start, false)) {
        // The mark has three bytes, and a decoder may give fewer at first.
        std::string more;
        while (bytes.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(bytes) &&
               state_->decoder->next(state_->input, more))
            bytes += more;
        if (bytes.starts_with(kByteOrderMark))
            bytes.erase(0, kByteOrderMark.size());
    }
    return true;
}

std::string describe_too_long() {
    return concat("a line of more than ", kLongestLine >> 20, " MiB");
}

bool TextSource::next_lines(LineBlock& block) {
    State& state = *state_;
    block.text.swap(state.rest);
    state.rest.clear();
    block.first_line = state.next_line;
    block.too_long = false;
    bool ended = false;
    std::size_t line_end = block.text.rfind('\n'); // past the last '\n' of the block
    line_end += line_end == std::string::npos ? 0 : 1;
    while (block.text.size() < kBlockBytes || line_end == std::string::npos) {
        if (!next_bytes(state.bytes)) {
            ended = true;
            break;
        }
        // Without a line end the block is the beginning of one line.
        const std::size_t newline = state.bytes.find('\n');
        if (line_end == std::string::npos &&
            block.text.size() + std::min(newline, state.bytes.size()) > kLongestLine) {
            std::string().swap(block.text);
            block.too_long = true;
            pass_over_line(newline);
            return true;
        }
        if (newline != std::string::npos)
            line_end = block.text.size() + state.bytes.rfind('\n') + 1;
        if (block.text.size() + state.bytes.size() > kUsualBytes)
            block.text.reserve(kMostBytes);
        block.text += state.bytes;
    }
    if (!ended) {
        state.rest.assign(block.text, line_end, std::string::npos);
        block.text.resize(line_end);
        state.next_line += std::count(block.text.begin(), block.text.end(), '\n');
    }
    return !block.text.empty();
}

void TextSource::pass_over_line(std::size_t newline) {
    State& state = *state_;
    while (newline == std::string::npos) {
        if (!next_bytes(state.bytes))
            return;
        newline = state.bytes.find('\n');
    }
    state.rest.assign(state.bytes, newline + 1, std::string::npos);
    ++state.next_line;
}

} // namespace trireme::data
