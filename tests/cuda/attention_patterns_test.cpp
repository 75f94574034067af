#include "rows_problem.h"

namespace turnbench {
namespace {

using test::attend;
using test::band;
using test::Case;
using test::plain_device_memory;
using test::Problem;
using test::tolerance_of;

/// Columns and offsets below n, each with a given probability; offset 0 always.
HeadPattern lines(int n, double columns, double offsets, HeadPattern::Granularity granularity,
                  std::uint64_t seed) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kVerticalSlash;
  p.granularity = granularity;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < n; ++i) {
    if (uniform(random) < columns) p.columns.push_back(i);
    if (i == 0 || uniform(random) < offsets) p.offsets.push_back(i);
  }
  return p;
}

/// Lists of key blocks; the diagonal is always included.
HeadPattern key_blocks(const PatternPass& pass, int size, int rows_per_list, std::uint64_t seed) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBlocks;
  p.block_size = size;
  p.block_rows = rows_per_list;
  const BlockGrid grid(size, pass.first_position);
  std::mt19937_64 random(seed);
  for (int first = pass.first_position; first < pass.first_position + pass.rows;
       first += rows_per_list) {
    std::vector<std::int32_t>& list = p.blocks.emplace_back();
    for (int b = 0; b <= grid.block_of(pass.first_position + pass.rows - 1); ++b) {
      if (b >= grid.block_of(first) || random() % 4 == 0) list.push_back(b);
    }
  }
  return p;
}

constexpr auto kLine = HeadPattern::Granularity::kLine;
constexpr auto kBlock64 = HeadPattern::Granularity::kBlock64;

std::vector<HeadPattern> all_patterns(const PatternPass& pass, std::uint64_t seed) {
  const int n = pass.first_position + pass.rows;
  std::mt19937_64 random(seed);
  HeadPattern no_offsets = lines(n, 0.05, 0, kBlock64, seed), exact = no_offsets;
  no_offsets.offsets.clear();
  exact.offsets = {n - 1};  // a row has only its part of the columns, which may be empty
  exact.granularity = kLine;
  return {HeadPattern{},
          band(3, 20),
          band(0, 1),
          band(static_cast<int>(random() % 70), 1 + static_cast<int>(random() % 150)),
          band(2, 10, 9),
          band(5, 70, 100),
          key_blocks(pass, 32, 64, seed),
          key_blocks(pass, 128, 128, seed),
          key_blocks(pass, 16, 512, seed),
          lines(n, 1.0 / 31, 1.0 / 47, kLine, seed),
          lines(n, 1.0 / 5, 1.0 / 300, kLine, seed),
          lines(n, 0, 1.0 / 3, kLine, seed),
          lines(n, 1.0 / 31, 1.0 / 200, kBlock64, seed),
          lines(n, 1.0 / 5, 1.0 / 47, kBlock64, seed),
          lines(n, 0, 1.0 / 300, kBlock64, seed),
          no_offsets,
          exact};
}

/// Attention with every kind of pattern, each as one head of a job.
void expect_patterns_as_on_cpu(Case c, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.keys << " keys, " << name_of(c.dtype)
                                  << ", window " << c.window << ", holes " << c.holes);
  c.heads = static_cast<int>(all_patterns({0, 1}, 1).size());
  Problem p(c, seed);
  const std::vector<HeadPattern> patterns = all_patterns(p.pass(), seed);
  p.set_patterns(patterns);
  attend(p);
  p.expect_as_on_cpu(tolerance_of(c.dtype));
  if (c.keys > 70) return;
  p.expect_pairs(tolerance_of(c.dtype), [&](int row, int head, int key) {
    return pattern_contains(patterns[head], p.pass(), row, key) &&
           (c.window == 0 || row - key < c.window);
  });
}

TEST(CudaPatterns, PatternsEqualCpu) {
  std::uint64_t seed = 51;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int keys : {1, 8, 64, 65, 300}) {
      for (int rows : {keys, std::max(1, keys - 37)})
        expect_patterns_as_on_cpu({rows, keys, 0, 16, dtype}, seed += 3);
    }
    expect_patterns_as_on_cpu({150, 300, 0, 16, dtype, 0, true}, seed += 3);
    expect_patterns_as_on_cpu({150, 300, 0, 16, dtype, 33}, seed += 3);
    expect_patterns_as_on_cpu({150, 300, 0, 16, dtype, 90, true}, seed += 3);
  }
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int head_dim : {32, 64, 128, 256})
      expect_patterns_as_on_cpu({70, 140, 0, head_dim, dtype}, seed += 3);
  }
  expect_patterns_as_on_cpu({70, 600, 0, 64, DType::kF16}, seed += 3);
}

TEST(CudaPatterns, EveryOrderOfThreadsGivesTheSameBits) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    test::in_every_order([&] {
      Problem p({70, 200, 17, 16, dtype}, 3), dense({140, 200, 1, 64, dtype}, 4);
      p.set_patterns(all_patterns(p.pass(), 3));
      attend(p);
      attend(dense);
      std::vector<float> all = p.out();
      for (const std::vector<float>& more : {p.lse(), dense.out(), dense.lse()})
        all.insert(all.end(), more.begin(), more.end());
      return all;
    });
  }
}

/// Number of tiles that a pattern needs for n rows and n keys.
std::int64_t tiles_of(const HeadPattern& pattern, int n) {
  KvHeadCache keys(
      std::make_shared<KvPool>(PageLayout{16, DType::kBF16, false}, plain_device_memory()));
  std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) positions[i] = i;
  keys.extend(positions);
  AttentionJob job;
  job.keys = &keys;
  job.q = {nullptr, n, 16};
  job.positions = positions.data();
  job.patterns = &pattern;
  job.pass = {0, n};
  cuda::Context context(0);
  const AttentionJob* const jobs[] = {&job};
  return cuda::count_pattern_tiles(context, jobs);
}

// The work is proportional to the pairs of a pattern: a twentieth of the pairs needs little more
// than a twentieth of the tiles.
TEST(CudaPatterns, WorkFollowsThePattern) {
  constexpr int n = 8192, blocks = n / 64;
  constexpr std::int64_t dense = blocks * (blocks + 1) / 2;
  const PatternPass pass{0, n};
  // As many pieces as lanes, and columns after the last piece.
  HeadPattern full_rounds = lines(n, 0.01, 0, kBlock64, 5), exact_rounds;
  full_rounds.offsets.clear();
  for (int i = 0; i < 64; ++i) full_rounds.offsets.push_back(100 + i * 120);
  exact_rounds = full_rounds;
  exact_rounds.granularity = kLine;
  for (const HeadPattern& p :
       {full_rounds, exact_rounds, lines(n, 0.02, 0.0004, kBlock64, 1),
        lines(n, 0.03, 0.0002, kBlock64, 2), lines(n, 0.03, 0.0002, kLine, 3), band(64, 300),
        key_blocks(pass, 128, 128, 4)}) {
    const std::int64_t tiles = tiles_of(p, n);
    std::int64_t least = 0;  // tiles of 64 keys with the keys that the row blocks read
    std::vector<std::int32_t> keys;
    for (int b = 0; b < blocks; ++b) {
      pattern_keys(p, pass, b, keys);
      least += (static_cast<std::int64_t>(keys.size()) + 63) / 64;
    }
    EXPECT_EQ(tiles, least);
  }
  const HeadPattern slashes = lines(n, 0.02, 0.0004, kBlock64, 1);
  const double kept =
      static_cast<double>(pattern_pairs(slashes, pass)) / (static_cast<double>(n) * (n + 1) / 2);
  EXPECT_NEAR(kept, 0.05, 0.02);
  EXPECT_LT(static_cast<double>(tiles_of(slashes, n)) / dense, kept + 0.02);
}

}  // namespace
}  // namespace turnbench
