// Keys computed as products with a basis, on every backend, compared with double precision.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "inference/model/rope.h"
#include "tests/backends/backend.h"
#include "tests/inference/selection.h"
#include "tests/inference/set_rows.h"

namespace turnbench {
namespace {

using test::BackendArray;
using test::BackendMatrix;
using test::elements;

constexpr int kPositions = 300;

struct Table {
  Table(Backend& backend, int head_dim)
      : cos(BackendMatrix::blank(backend, kPositions, head_dim / 2)),
        sin(BackendMatrix::blank(backend, kPositions, head_dim / 2)) {
    std::vector<std::int32_t> positions(kPositions);
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> c(elements(kPositions, head_dim / 2)), s(c.size());
    rope_tables(rope_frequencies({}, head_dim), 1, positions, c.data(), s.data());
    cos = BackendMatrix(backend, c, kPositions, head_dim / 2);
    sin = BackendMatrix(backend, s, kPositions, head_dim / 2, 0);
  }
  RopeTable view() { return {cos.view(), sin.view()}; }
  BackendMatrix cos, sin;
};

/// The bytes of values in a dtype, and the values after this conversion.
struct Rounded {
  Rounded(const std::vector<float>& from, DType dtype) : bytes(from.size() * size_of(dtype)) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      store_element(bytes.data(), dtype, i, from[i]);
      values.push_back(load_element(bytes.data(), dtype, i));
    }
  }
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

TEST(RebuildKeys, AreRotatedProducts) {
  const auto backend = test::make_backend(2);
  const std::vector<RebuildKeysJob::Run> runs = {{5, 64, 8}, {40, 3, 1}, {0, 120, 16}, {17, 90, 7}};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const double unit = dtype == DType::kF32 ? 0x1p-20 : dtype == DType::kF16 ? 0x1p-10 : 0x1p-7;
    for (const int dim : {4, 20, 64, 80, 128}) {
      if (test::is_emulated() && dim != 20 && dim != 80) continue;
      Table table(*backend, dim);
      for (const int rank : {1, 13, 40}) {
        SCOPED_TRACE(fmt::format("{}, dim {}, rank {}", static_cast<int>(dtype), dim, rank));
        // Two sets, of which the second gets one key; a third none.
        std::vector<KvHeadCache> sets;
        for (int s = 0; s < 3; ++s) {
          auto pool = std::make_shared<KvPool>(PageLayout{dim, dtype, true}, backend->memory());
          sets.push_back(KvHeadCache::working_set(pool, 140));
          const std::vector<float> row(static_cast<std::size_t>(dim), 7);
          for (int slot = 0; slot < 140; ++slot) {
            sets.back().set_position(slot, (slot * 37 + s) % kPositions);
            test::write_rows(sets.back(), slot, row.data(), row.data(), row.data());
          }
        }
        const Rounded rows(test::random_floats(elements(48, rank), 3), dtype);
        BackendArray<std::byte> coefficients(*backend, rows.bytes);
        BackendMatrix basis = BackendMatrix::random(*backend, rank, dim, 4);
        const std::vector<std::vector<RebuildKeysJob::Run>> of_sets = {runs, {{47, 0, 1}}, {}};
        std::vector<RebuildKeysJob> jobs;
        for (std::size_t s = 0; s < 3; ++s) {
          jobs.push_back({&sets[s], of_sets[s], coefficients.data(), basis.view(), table.view()});
        }
        backend->rebuild_keys(jobs);
        backend->memory()->synchronize();
        for (std::size_t s = 0; s < 3; ++s) {
          std::vector<int> row_of(140, -1);
          for (const auto& run : of_sets[s]) {
            for (int k = 0; k < run.count; ++k) row_of[run.slot + k] = run.row + k;
          }
          std::vector<float> key(static_cast<std::size_t>(dim)), other(key.size());
          for (int slot = 0; slot < 140; ++slot) {
            test::read_row(sets[s], KvRow::kKey, slot, key.data());
            const int row = row_of[slot];
            test::read_row(sets[s], KvRow::kValue, slot, other.data());
            for (const float x : other) ASSERT_EQ(x, 7);
            test::read_row(sets[s], KvRow::kPreRopeKey, slot, other.data());
            for (const float x : other) ASSERT_EQ(x, 7);
            const auto product = [&](int d) {
              double sum = 0;
              for (int r = 0; r < rank; ++r)
                sum += double{rows.values[row * rank + r]} * basis.at(r, d);
              return sum;
            };
            for (int d = 0; d < dim; ++d) {
              double want = 7;
              if (row >= 0) {
                const int pair = d % (dim / 2);
                const double cos = table.cos.at(sets[s].position(slot), pair),
                             sin = table.sin.at(sets[s].position(slot), pair), low = product(pair),
                             high = product(pair + dim / 2);
                want = d < dim / 2 ? low * cos - high * sin : high * cos + low * sin;
              }
              ASSERT_NEAR(key[d], want, 1e-5 + unit * std::abs(want))
                  << "set " << s << ", slot " << slot << ", " << d;
            }
          }
        }
      }
    }
  }
  backend->rebuild_keys({});
}

// A key's bits do not depend on the keys that are rebuilt with it.
TEST(RebuildKeys, AreEqualOneByOneAndInBatches) {
  const auto backend = test::make_backend(3);
  constexpr int kDim = 80, kRank = 24, kKeys = 70;
  Table table(*backend, kDim);
  const Rounded rows(test::random_floats(elements(kKeys, kRank), 3), DType::kBF16);
  BackendArray<std::byte> coefficients(*backend, rows.bytes);
  BackendMatrix basis = BackendMatrix::random(*backend, kRank, kDim, 4);
  const auto pool =
      std::make_shared<KvPool>(PageLayout{kDim, DType::kBF16, false}, backend->memory());
  std::vector<KvHeadCache> sets;
  for (int i = 0; i < 2; ++i) {
    sets.push_back(KvHeadCache::working_set(pool, kKeys));
    for (int slot = 0; slot < kKeys; ++slot) sets.back().set_position(slot, 3 * slot);
  }
  const RebuildKeysJob::Run all{0, 0, kKeys};
  const RebuildKeysJob at_once{
      &sets[0], {&all, 1}, coefficients.data(), basis.view(), table.view()};
  backend->rebuild_keys({&at_once, 1});
  for (int k = kKeys - 1; k >= 0; --k) {
    const RebuildKeysJob::Run one{k, k, 1};
    const RebuildKeysJob job{&sets[1], {&one, 1}, coefficients.data(), basis.view(), table.view()};
    backend->rebuild_keys({&job, 1});
  }
  backend->memory()->synchronize();
  std::vector<float> a(kDim), b(kDim);
  for (int k = 0; k < kKeys; ++k) {
    test::read_row(sets[0], KvRow::kKey, k, a.data());
    test::read_row(sets[1], KvRow::kKey, k, b.data());
    ASSERT_EQ(a, b) << k;
  }
}

}  // namespace
}  // namespace turnbench
