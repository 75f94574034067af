// TurboQuant against a Python implementation, its matrices, and its distortion.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/file.h"
#include "common/json.h"
#include "inference/model/dtype.h"
#include "methods/parts/random_matrices.h"
#include "tests/cpu/simd_levels.h"
#include "tests/methods/codec_rows.h"

namespace turnbench::test {
namespace {

std::unique_ptr<GroupCodec> turboquant(int bits, bool sketch) {
  return codec_of<GroupCodec>(fmt::format("turboquant:bits={},sketch={}", bits, sketch));
}

Bytes stored(const GroupCodec& codec, KvRow kind, const std::vector<float>& row) {
  Bytes out(codec.row_bytes(kind, static_cast<int>(row.size())));
  codec.encode(kind, {row.data(), 1, std::ssize(row)}, out);
  return out;
}

std::vector<float> read_back(const GroupCodec& codec, KvRow kind, const std::vector<float>& row) {
  std::vector<float> out(row.size());
  codec.decode(kind, stored(codec, kind, row), {out.data(), 1, std::ssize(out)});
  return out;
}

/// Numbers of `bits` bits, the lowest bits first, after `offset` bytes.
std::vector<int> numbers(const Bytes& bytes, std::size_t offset, std::size_t bits,
                         std::size_t count) {
  std::vector<int> out(count);
  for (std::size_t at = 0; at < count * bits; ++at) {
    const int bit = std::to_integer<int>(bytes[offset + at / 8] >> at % 8) & 1;
    out[at / bits] |= bit << at % bits;
  }
  return out;
}

TEST(TurboQuant, QuantisesAsTheReference) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/turboquant.json";
  const Json golden = parse_json(read_file(path), path);
  EXPECT_EQ(golden["cases"].size(), 72u);
  for (const Json& c : golden["cases"]) {
    const int bits = c["bits"];
    const bool sketch = c["sketch"];
    const auto row = c["row"].get<std::vector<float>>();
    const auto decoded = c["decoded"].get<std::vector<double>>();
    const std::size_t dims = row.size(),
                      of_level = static_cast<std::size_t>(bits - (sketch ? 1 : 0)),
                      levels_end = 4 + dims * of_level / 8;
    SCOPED_TRACE(fmt::format("{} bits, {} elements, sketch {}", bits, dims, sketch));
    const auto codec = turboquant(bits, sketch);
    for (const KvRow kind : {KvRow::kKey, KvRow::kValue}) {
      EXPECT_EQ(codec->row_bytes(kind, static_cast<int>(dims)),
                4 + dims * static_cast<std::size_t>(bits) / 8);
    }
    // Algorithm 1 encodes values, and keys without the sketch.
    for (const KvRow kind : {KvRow::kKey, KvRow::kPreRopeKey, KvRow::kValue}) {
      if (kind == KvRow::kValue && sketch) continue;
      const Bytes bytes = stored(*codec, kind, row);
      EXPECT_EQ(numbers(bytes, 4, of_level, dims), c["levels"].get<std::vector<int>>());
      double tolerance = 2e-6;
      if (sketch) {
        EXPECT_EQ(numbers(bytes, levels_end, 1, dims), c["signs"].get<std::vector<int>>());
        std::uint16_t norms[2];
        std::memcpy(norms, bytes.data(), sizeof norms);
        EXPECT_EQ(f16_to_float(norms[0]), 8);
        EXPECT_EQ(f16_to_float(norms[1]), f16_to_float(float_to_f16(c["error"].get<float>())));
        tolerance = 3e-3;  // the error's norm is rounded to float16
      } else {
        float norm = 0;
        std::memcpy(&norm, bytes.data(), sizeof norm);
        EXPECT_FLOAT_EQ(norm, 8);
      }
      const std::vector<float> got = read_back(*codec, kind, row);
      for (std::size_t d = 0; d < dims; ++d) EXPECT_NEAR(got[d], decoded[d], 8 * tolerance) << d;
    }
  }
}

// For rows of norm 1, the squared error is that of the quantiser (Max 1960, table 1).  That of
// inner products is pi / (2 d) times the squared error with one bit less (the paper's Theorem 2,
// which gives 0.56, 0.18 and 0.047 over d), and they have no bias.
TEST(TurboQuant, HasTheDistortionOfThePaper) {
  constexpr int kDims = 128, kSeeds = 20, kRows = 40;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const auto row_of_norm_1 = [&] {
    std::vector<float> row(kDims);
    double squares = 0;
    for (float& x : row) {
      x = static_cast<float>(normal(random));
      squares += static_cast<double>(x) * x;
    }
    for (float& x : row) x /= static_cast<float>(std::sqrt(squares));
    return row;
  };
  for (const auto& [bits, row_error, product_error] :
       {std::tuple(2, 0.1175, 0.571), {3, 0.03454, 0.1846}, {4, 0.009497, 0.0543}}) {
    double row_squares = 0, product_squares = 0, slope = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const auto codec = [&, bits = bits](bool sketch) {
        return codec_of<GroupCodec>(
            fmt::format("turboquant:bits={},sketch={},seed={}", bits, sketch, seed));
      };
      const auto plain = codec(false), sketch = codec(true);
      for (int i = 0; i < kRows; ++i) {
        const std::vector<float> row = row_of_norm_1(), query = row_of_norm_1(),
                                 value = read_back(*plain, KvRow::kValue, row),
                                 key = read_back(*sketch, KvRow::kKey, row);
        double error = 0;
        for (std::size_t d = 0; d < kDims; ++d) {
          row_squares += (value[d] - row[d]) * (value[d] - row[d]);
          error += static_cast<double>(query[d]) * (key[d] - row[d]);
          slope += static_cast<double>(row[d]) * key[d];  // the query is the row itself
        }
        product_squares += error * error;
      }
    }
    const double count = kSeeds * kRows;
    EXPECT_NEAR(row_squares / count, row_error, 0.05 * row_error) << bits;
    EXPECT_NEAR(product_squares / count, product_error / kDims, 0.2 * product_error / kDims)
        << bits;
    EXPECT_NEAR(slope / count, 1, 0.01) << bits << " bits: biased";
  }
}

TEST(TurboQuant, StoresZerosAndWhatIsNotANumber) {
  for (const bool sketch : {false, true}) {
    const auto codec = turboquant(3, sketch);
    for (const KvRow kind : {KvRow::kKey, KvRow::kValue}) {
      EXPECT_EQ(read_back(*codec, kind, std::vector<float>(40, 0.0f)),
                std::vector<float>(40, 0.0f));
      for (const float x : {INFINITY, NAN}) {
        std::vector<float> row(40, 1.0f);
        row[7] = x;
        for (const float y : read_back(*codec, kind, row)) EXPECT_FALSE(std::isfinite(y)) << x;
      }
    }
  }
}

TEST(RandomMatrices, RotationsAreOrthogonalAndTransposesAgree) {
  RandomMatrices matrices(7), same(7), other(8);
  for (const std::size_t dims : {32u, 80u}) {
    const RandomMatrices::OfSize& of = matrices.of(dims);
    EXPECT_EQ(of.dims, dims);
    double squares = 0;
    bool differs = false;
    for (std::size_t i = 0; i < dims; ++i) {
      std::vector<float> unit(dims, 0), column(dims), back(dims), projected(dims), again(dims);
      unit[i] = 1;
      of.rotation.multiply(unit, column);
      of.rotation.multiply_transposed(column, back);
      for (std::size_t d = 0; d < dims; ++d) EXPECT_NEAR(back[d], unit[d], 1e-6);
      of.projection.multiply(unit, projected);
      for (const float x : projected) squares += static_cast<double>(x) * x;
      same.of(dims).rotation.multiply(unit, again);
      EXPECT_EQ(again, column);
      other.of(dims).rotation.multiply(unit, again);
      differs |= again != column;
    }
    EXPECT_TRUE(differs);
    const auto count = static_cast<double>(dims * dims);
    EXPECT_NEAR(squares / count, 1, 6 * std::sqrt(2 / count)) << "the variance of its elements";
  }
}

TEST(SquareMatrix, ProductsAreSumsInOrderAtEverySimdLevel) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  with_each_simd_level([&](std::int64_t) {
    for (const std::size_t dims : {1u, 5u, 37u, 64u, 80u, 130u, 256u}) {
      std::vector<double> rows(dims * dims);
      for (double& x : rows) x = normal(random);
      const SquareMatrix matrix(rows, dims);
      std::vector<float> x(dims), product(dims), transposed(dims), want(dims, 0),
          want_transposed(dims, 0);
      for (float& value : x) value = static_cast<float>(normal(random));
      for (std::size_t i = 0; i < dims; ++i) {
        for (std::size_t d = 0; d < dims; ++d) {
          want[d] += x[i] * static_cast<float>(rows[d * dims + i]);
          want_transposed[d] += x[i] * static_cast<float>(rows[i * dims + d]);
        }
      }
      matrix.multiply(x, product);
      EXPECT_EQ(product, want) << dims;
      matrix.multiply_transposed(x, transposed);
      EXPECT_EQ(transposed, want_transposed) << dims;
    }
  });
}

}  // namespace
}  // namespace turnbench::test
