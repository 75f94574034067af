// The quantised caches of llama.cpp against its own Python package, and their bounds.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/json.h"
#include "methods/method.h"
#include "tests/methods/codec_rows.h"
#include "tests/methods/conformance.h"

namespace turnbench::test {
namespace {

std::unique_ptr<RowCodec> ggml_codec(const std::string& type, bool rotate) {
  return codec_of<RowCodec>(fmt::format("ggml:type={},rotate={}", type, rotate));
}

std::string hex_of(const std::vector<std::byte>& bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", std::to_integer<int>(b));
  return out;
}

TEST(Ggml, EncodesAndDecodesAsLlamaCpp) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/ggml.json";
  const Json golden = parse_json(read_file(path), path);
  std::size_t rotated = 0;
  for (const Json& c : golden["cases"]) {
    const auto rotate = c["rotate"].get<std::string>();
    rotated += rotate.empty() ? 0 : 1;
    const KvRow kind = rotate == "value" ? KvRow::kValue : KvRow::kKey;
    const auto codec = ggml_codec(c["type"], !rotate.empty());
    const auto row = c["row"].get<std::vector<float>>();
    const std::vector<std::byte> bytes = encoded(*codec, row, kind);
    EXPECT_EQ(hex_of(bytes), c["bytes"].get<std::string>()) << c["type"] << " " << rotate;
    const std::vector<float> got = decoded(*codec, bytes, row.size(), kind);
    for (std::size_t d = 0; d < row.size(); ++d) {
      const auto want = c["decoded"][d].get<float>();
      if (rotate.empty()) {
        EXPECT_EQ(got[d], want);
      } else {
        EXPECT_NEAR(got[d], want, 2e-5);  // sums in another order
      }
    }
  }
  EXPECT_EQ(rotated, 12u);
}

TEST(Ggml, ReadsBackWithinHalfAStep) {
  std::vector<float> row(40);  // a block, and a part of one
  for (std::size_t d = 0; d < row.size(); ++d) row[d] = std::sin(static_cast<float>(d * d));
  for (const auto& [type, bytes, steps] :
       {std::tuple("q8_0", 44u, 127.0), {"q5_0", 29u, 16.0}, {"q4_0", 24u, 8.0}}) {
    const auto codec = ggml_codec(type, true);  // without effect: 40 is no multiple of 64
    for (const KvRow kind : {KvRow::kKey, KvRow::kValue})
      EXPECT_EQ(codec->row_bytes(kind, 40), bytes) << type;
    const std::vector<float> got = read_back(*codec, row);
    // A value opposite in sign to the largest magnitude can be a whole step off with q5_0 and q4_0.
    const double step = 1 / steps, bound = (steps == 127 ? 0.5 : 1) * step * 1.001 + 1e-3;
    double worst = 0;
    for (std::size_t d = 0; d < row.size(); ++d)
      worst = std::max(worst, static_cast<double>(std::abs(got[d] - row[d])));
    EXPECT_LE(worst, bound) << type;
    EXPECT_GT(worst, step / 4) << type;
  }
}

// As llama.cpp's options --cache-type-k and --cache-type-v.
TEST(Ggml, KeysAndValuesMayHaveDifferentTypes) {
  std::vector<float> row(128);
  for (std::size_t d = 0; d < row.size(); ++d) row[d] = std::sin(static_cast<float>(d * d));
  const auto both = codec_of<RowCodec>("ggml:type=q8_0,values=q4_0"),
             keys = codec_of<RowCodec>("ggml:type=q8_0"),
             values = codec_of<RowCodec>("ggml:type=q4_0");
  for (const KvRow kind : {KvRow::kKey, KvRow::kPreRopeKey, KvRow::kValue}) {
    const RowCodec& same = kind == KvRow::kValue ? *values : *keys;
    EXPECT_EQ(both->row_bytes(kind, 128), same.row_bytes(kind, 128));
    EXPECT_EQ(encoded(*both, row, kind), encoded(same, row, kind));
    EXPECT_EQ(read_back(*both, row, kind), read_back(same, row, kind));
  }
  EXPECT_EQ(both->row_bytes(KvRow::kKey, 128), 136u);
  EXPECT_EQ(both->row_bytes(KvRow::kValue, 128), 72u);
}

TEST(Ggml, HalfPrecisionIsNotRotated) {
  const auto codec = codec_of<RowCodec>("ggml:type=q4_0,values=f16");
  EXPECT_EQ(codec->row_bytes(KvRow::kValue, 64), 128u);
  std::vector<float> row(64), want;
  for (std::size_t d = 0; d < row.size(); ++d) row[d] = std::exp(static_cast<float>(d) / 4 - 12);
  row[3] = -1e6f;  // beyond the range
  for (const float x : row) want.push_back(f16_to_float(float_to_f16(x)));
  EXPECT_EQ(read_back(*codec, row, KvRow::kValue), want);
}

TEST(Ggml, RoundsTinyRowsToZero) {
  for (const char* type : {"q8_0", "q5_0", "q4_0"}) {
    const auto codec = ggml_codec(type, true);
    const std::vector<float> row(64, -1e-42f);  // below the smallest scale in float16
    for (const float x : read_back(*codec, row)) EXPECT_EQ(x, 0) << type;
  }
}

TEST(Ggml, KeepsWhatIsNotANumber) {
  for (const char* type : {"q8_0", "q5_0", "q4_0"}) {
    const auto codec = ggml_codec(type, false);
    for (const float x : {INFINITY, -INFINITY, NAN, 1e30f}) {  // the last scale is no float16
      std::vector<float> row(64, 1.0f);
      row[7] = x;
      const std::vector<float> got = read_back(*codec, row, KvRow::kValue);
      for (std::size_t d = 0; d < 32; ++d) EXPECT_TRUE(std::isnan(got[d])) << type << " " << x;
      EXPECT_NEAR(got[40], 1, 0.01) << "the other block";
    }
  }
}

TEST(Ggml, DoesNotDependOnChunksForksAndBatches) {
  ConformanceChecks checks;
  for (const char* spec :
       {"ggml:type=q4_0+snapkv:budget=24,window=4", "quest:budget=24,page=4+ggml:type=q5_0"}) {
    for (const auto& [name, check] : ConformanceChecks::all())
      EXPECT_EQ(checks.finding(check, Candidate(Method::parse(spec))), "") << spec << " " << name;
  }
}

}  // namespace
}  // namespace turnbench::test
