// safetensors: bytes against the published format, written here by hand; halves against their definition;
// files that are damaged in every way that the header can say or hide.
#include "trireme/storage/safetensors.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

#include "trireme/base/error.hpp"

namespace trireme::storage {
namespace {

class Safetensors : public testing::Test {
  protected:
    Safetensors() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme-safetensors-XXXXXX").string();
        directory_ = mkdtemp(name.data());
    }
    ~Safetensors() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }

    std::filesystem::path file() const { return directory_ / "x.safetensors"; }
    // 8 bytes of length, the header, `data` bytes 0, 1, 2, ...
    void write(const std::string& header, std::size_t data, std::uint64_t length_says = 0) const {
        std::uint64_t length = length_says == 0 ? header.size() : length_says;
        std::ofstream out(file(), std::ios::binary);
        out.write(reinterpret_cast<const char*>(&length), sizeof length);
        out << header;
        for (std::size_t i = 0; i < data; ++i)
            out.put(static_cast<char>(i));
    }
    std::string refusal() const {
        try {
            SafetensorsReader reader(file());
            return "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.category(), ErrorCategory::checkpoint);
            EXPECT_NE(std::string(error.what()).find(file().string()), std::string::npos) << error.what();
            return error.what();
        }
    }

    std::filesystem::path directory_;
};

TEST_F(Safetensors, ReadsWhatTheFormatSays) {
    write(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
        R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
        R"("c":{"dtype":"I64","shape":[],"data_offsets":[12,20]},"d":{"dtype":"F16","shape":[0,3],"data_offsets":[20,20]}})",
        20);
    const SafetensorsReader reader(file());
    ASSERT_EQ(reader.tensors().size(), 4U);
    EXPECT_EQ(reader.tensors().at("a").type, FloatType::bf16);
    EXPECT_EQ(reader.tensors().at("b").shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(reader.tensors().at("c").type, FloatType::other);
    EXPECT_EQ(reader.tensors().at("d").elements(), 0);
    std::array<std::byte, 4> bytes{};
    reader.read(reader.tensors().at("b"), 1, bytes);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(bytes[static_cast<std::size_t>(i)], static_cast<std::byte>(8 + i));
}

TEST_F(Safetensors, WritesWhatTheFormatSays) {
    const std::vector<SafetensorsWriter::Declared> declared{{"x", FloatType::f32, {1, 2}},
                                                            {"y\"", FloatType::f16, {3}}};
    const std::array<float, 2> x{1.0F, -2.0F};
    const std::array<std::uint16_t, 3> y{1, 2, 3};
    {
        SafetensorsWriter writer(file(), declared);
        writer.write(std::as_bytes(std::span(x)));
        writer.write(std::as_bytes(std::span(y)));
        EXPECT_FALSE(std::filesystem::exists(file())) << "seen before it is whole";
        writer.publish();
    }
    std::ifstream in(file(), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    std::string header =
        R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
        R"("y\"":{"dtype":"F16","shape":[3],"data_offsets":[8,14]}})";
    while (header.size() % 8 != 0)
        header += ' ';
    ASSERT_EQ(all.size(), 8 + header.size() + 14);
    EXPECT_EQ(static_cast<unsigned char>(all[0]), header.size());
    EXPECT_EQ(all.substr(8, header.size()), header);
    EXPECT_EQ(std::memcmp(all.data() + 8 + header.size(), x.data(), 8), 0);
    EXPECT_EQ(std::memcmp(all.data() + 8 + header.size() + 8, y.data(), 6), 0);
    EXPECT_EQ(SafetensorsReader(file()).tensors().at("y\"").elements(), 3);
}

TEST_F(Safetensors, AnUnfinishedFileIsGone) {
    {
        const std::vector<SafetensorsWriter::Declared> declared{{"x", FloatType::f32, {1}}};
        SafetensorsWriter writer(file(), declared);
    }
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(Safetensors, DamagedFilesAreRefused) {
    EXPECT_NE(refusal().find("cannot open"), std::string::npos);
    std::ofstream(file()) << "abc";
    EXPECT_NE(refusal().find("too short: 3 bytes"), std::string::npos);
    write("{}", 0, 1000);
    EXPECT_NE(refusal().find("cut short: a header of 1000 bytes"), std::string::npos);
    write("{}", 0, ~std::uint64_t{0});
    EXPECT_NE(refusal().find("cut short"), std::string::npos);
    write("{]", 0);
    EXPECT_NE(refusal().find("not JSON"), std::string::npos);
    write("[1]", 0);
    EXPECT_NE(refusal().find("not an object"), std::string::npos);
    const auto one = [&](const std::string& fields, std::size_t data) {
        write("{\"a\":{" + fields + "}}", data);
        return refusal();
    };
    EXPECT_EQ(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 8), "no error");
    EXPECT_NE(one(R"("dtype":"F32","shape":[2])", 8).find("lacks dtype, shape or data_offsets"),
              std::string::npos);
    EXPECT_NE(one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", 8).find("unknown type F33"),
              std::string::npos);
    EXPECT_NE(
        one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", 8).find("has 8 bytes, but its shape 12"),
        std::string::npos);
    EXPECT_NE(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7).find("lies outside"),
              std::string::npos);
    EXPECT_NE(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 9).find("its last 1 bytes"),
              std::string::npos);
    EXPECT_NE(one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])", 8).find("lies outside"),
              std::string::npos);
    EXPECT_NE(one(R"("dtype":"F32","shape":[-1,-2],"data_offsets":[0,8])", 8).find("extent that cannot be"),
              std::string::npos);
    EXPECT_NE(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])", 8)
                  .find("extent that cannot be"),
              std::string::npos);
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    write("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8);
    EXPECT_NE(refusal().find("overlap at byte 4"), std::string::npos);
    write("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16);
    EXPECT_NE(refusal().find("the bytes from 8 to 12"), std::string::npos);
    write("{" + a + "," + a + "}", 8);
    EXPECT_NE(refusal().find("tensor a occurs twice"), std::string::npos);
}

double half_by_definition(unsigned bits) {
    const unsigned exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                         : sign * std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
}

template <class To, class From>
To converted(From value, FloatType from, FloatType to) {
    To result{};
    convert(std::as_bytes(std::span(&value, 1)), from, std::as_writable_bytes(std::span(&result, 1)), to);
    return result;
}

TEST(FloatTypes, EveryHalfIsWhatItsBitsSay) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const auto value = converted<float>(half, FloatType::f16, FloatType::f32);
        if (((bits >> 10) & 31) == 31) {
            EXPECT_TRUE((bits & 1023) != 0 ? std::isnan(value) : std::isinf(value)) << bits;
            EXPECT_EQ(std::signbit(value), (bits >> 15) != 0);
            continue;
        }
        ASSERT_EQ(value, half_by_definition(bits)) << bits;
        ASSERT_EQ(std::signbit(value), (bits >> 15) != 0) << bits;
        ASSERT_EQ(converted<std::uint16_t>(value, FloatType::f32, FloatType::f16), half) << bits;
    }
}

TEST(FloatTypes, BetweenTwoHalvesTheNearestEvenIsTaken) {
    for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
        const double low = half_by_definition(bits), high = half_by_definition(bits + 1),
                     middle = (low + high) / 2;
        const auto rounded = [](double value) {
            return converted<std::uint16_t>(static_cast<float>(value), FloatType::f32, FloatType::f16);
        };
        ASSERT_EQ(rounded(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
        ASSERT_EQ(rounded(std::nextafter(static_cast<float>(middle), 0.0F)), bits) << bits;
        ASSERT_EQ(rounded(std::nextafter(static_cast<float>(middle), 1e9F)), bits + 1) << bits;
    }
    EXPECT_EQ(converted<std::uint16_t>(65519.0F, FloatType::f32, FloatType::f16), 0x7BFF);
    EXPECT_EQ(converted<std::uint16_t>(65520.0F, FloatType::f32, FloatType::f16), 0x7C00) << "infinity";
}

TEST(FloatTypes, ATypeIntoItselfKeepsEveryBit) {
    const std::uint32_t odd = 0x7F800001u; // a signalling NaN
    EXPECT_EQ(converted<std::uint32_t>(odd, FloatType::f32, FloatType::f32), odd);
    EXPECT_EQ(converted<double>(1.0F / 3, FloatType::f32, FloatType::f64), static_cast<double>(1.0F / 3));
    EXPECT_EQ(converted<std::uint16_t>(1.00390625F, FloatType::f32, FloatType::bf16), 0x3F80)
        << "a tie: to even";
}

} // namespace
} // namespace trireme::storage
