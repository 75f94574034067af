// The noise of column sums: uniform, and independent over rows and keys.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "common/random.h"
#include "common/thread_pool.h"
#include "inference/cpu/attention.h"

namespace turnbench {
namespace {

constexpr int kRows = 512, kPairs = 512;

/// E' / (E + E') for the exponential variates E, E' of keys 2 i and 2 i + 1: uniform, because two
/// keys of equal score share a row's probability in this ratio.  [row][pair]
std::vector<double> uniforms() {
  constexpr int kHeadDim = 16, kKeys = 2 * kPairs;
  KvHeadCache keys(std::make_shared<KvPool>(PageLayout{kHeadDim, DType::kF32, false}));
  const std::vector<float> zeros(kHeadDim);
  for (int j = 0; j < kKeys; ++j) keys.append(zeros.data(), zeros.data(), nullptr, j);
  ThreadPool pool(1);
  cpu::AttentionWorkspace workspace(1);
  std::vector<double> out;
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t position = kKeys + r;
    const std::uint64_t seed = Random::from({7, 0, static_cast<std::uint64_t>(position)}).next();
    const float lse = std::log(static_cast<float>(kKeys));
    const RowNoise noise{{&seed, 1, 1}, 1};
    std::vector<float> sums(kKeys);
    ColumnJob job;
    job.keys = &keys;
    job.q = {zeros.data(), 1, kHeadDim};
    job.positions = &position;
    job.lse = {&lse, 1, 1};
    job.noise = &noise;
    job.sums = {sums.data(), 1, kKeys};
    cpu::add_column_sums(pool, 1, {&job, 1}, workspace);
    EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), 1, 1e-5);
    for (std::size_t j = 0; j < sums.size(); j += 2)
      out.push_back(sums[j] / (static_cast<double>(sums[j]) + sums[j + 1]));
  }
  return out;
}

/// Pearson's statistic of draws that should be uniform over `cells` cells, in standard deviations.
double excess(const std::vector<int>& draws, int cells) {
  std::vector<int> counts(static_cast<std::size_t>(cells));
  for (int x : draws) ++counts.at(static_cast<std::size_t>(x));
  const double expected = static_cast<double>(draws.size()) / cells;
  double sum = 0;
  for (int n : counts) sum += (n - expected) * (n - expected) / expected;
  return (sum - (cells - 1)) / std::sqrt(2.0 * (cells - 1));
}

int cell(double u, int cells) {
  return std::min(static_cast<int>(u * cells), cells - 1);
}

class ColumnNoise : public testing::Test {
 protected:
  double at(int row, int pair) const { return uniforms_[row * kPairs + pair]; }
  const std::vector<double> uniforms_ = uniforms();
};

TEST_F(ColumnNoise, IsUniform) {
  std::vector<int> draws;
  for (double u : uniforms_) draws.push_back(cell(u, 256));
  EXPECT_LT(std::abs(excess(draws, 256)), 4);
  double most = 0;
  for (int i = 0; i < kRows; ++i) {
    std::vector<int> row, column;
    for (int j = 0; j < kPairs; ++j) {
      row.push_back(cell(at(i, j), 16));
      column.push_back(cell(at(j, i), 16));
    }
    most = std::max({most, excess(row, 16), excess(column, 16)});
  }
  EXPECT_LT(most, 7) << "of 1024 rows and keys";
}

TEST_F(ColumnNoise, NeighboursAreIndependent) {
  for (const auto& [rows, pairs] :
       {std::pair{0, 1}, {0, 2}, {0, 32}, {1, 0}, {2, 0}, {64, 0}, {1, 1}}) {
    std::vector<int> draws;
    double product = 0;
    for (int r = 0; r + rows < kRows; ++r) {
      for (int i = 0; i + pairs < kPairs; ++i) {
        const double u = at(r, i), next = at(r + rows, i + pairs);
        draws.push_back(cell(u, 16) * 16 + cell(next, 16));
        product += (u - 0.5) * (next - 0.5) * 12;
      }
    }
    const auto n = static_cast<double>(draws.size());
    EXPECT_LT(std::abs(excess(draws, 256)), 4) << rows << " rows, " << pairs << " pairs on";
    EXPECT_LT(std::abs(product) / std::sqrt(n), 4) << rows << " rows, " << pairs << " pairs on";
  }
}

// Over all pairs of 512 rows, and of 512 pairs of keys: normal deviates without outliers.
TEST_F(ColumnNoise, NoTwoRowsOrKeysAreCorrelated) {
  for (bool of_rows : {true, false}) {
    double most = 0, squares = 0;
    for (int a = 0; a < kRows; ++a) {
      for (int b = 0; b < a; ++b) {
        double product = 0;
        for (int i = 0; i < kPairs; ++i) {
          const double x = of_rows ? at(a, i) : at(i, a), y = of_rows ? at(b, i) : at(i, b);
          product += (x - 0.5) * (y - 0.5) * 12;
        }
        const double deviate = product / std::sqrt(kPairs);
        most = std::max(most, std::abs(deviate));
        squares += deviate * deviate;
      }
    }
    EXPECT_LT(most, 6);
    const int pairs = kRows * (kRows - 1) / 2;
    EXPECT_NEAR(squares / pairs, 1, 0.02);
  }
}

}  // namespace
}  // namespace turnbench
