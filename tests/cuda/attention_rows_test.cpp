#include "inference/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "../inference/reference.h"
#include "inference/cpu/attention.h"
#include "managed_memory.h"

namespace turnbench {
namespace {

using test::eager_attention;
using test::EagerRow;
using test::managed_memory;
using test::ManagedFloats;
using test::random_floats;

struct Case {
  int rows, keys, heads, head_dim;
  DType dtype = DType::kF32;
  int window = 0;
  bool holes = false;  ///< among the positions of the keys before the rows'
};

/// The last `rows` of a conversation over its cached tokens, on the host and on the device.
class Problem {
 public:
  Problem(const Case& c, std::uint64_t seed)
      : c_(c),
        keys_(random_floats(static_cast<std::size_t>(c.keys * c.head_dim), seed)),
        values_(random_floats(keys_.size(), seed + 1)),
        // Rows lie further apart than their heads need.
        stride_(static_cast<std::size_t>((c.heads + 1) * c.head_dim)),
        q_(random_floats(static_cast<std::size_t>(c.rows) * stride_, seed + 2)),
        host_(std::make_shared<KvPool>(PageLayout{c.head_dim, c.dtype, false})),
        device_(std::make_shared<KvPool>(PageLayout{c.head_dim, c.dtype, false}, managed_memory())),
        device_q_(q_),
        device_out_(q_.size()),
        device_lse_(static_cast<std::size_t>(c.rows * c.heads)) {
    std::mt19937_64 random(seed);
    for (int j = 0, p = 0; j < c.keys; ++j) {
      positions_.push_back(p);
      p += c.holes && j < c.keys - c.rows ? 1 + static_cast<int>(random() % 3) : 1;
    }
    host_.extend(positions_);
    device_.extend(positions_);
    for (int j = 0; j < c.keys; ++j) {
      float *key = keys_.data() + j * c.head_dim, *value = values_.data() + j * c.head_dim;
      host_.write(j, key, value, nullptr);
      device_.write(j, key, value, nullptr);
      // What the cache really holds, after rounding to its dtype.
      host_.read_key(j, key);
      host_.read_value(j, value);
    }
    managed_memory()->finish();
    out_.assign(q_.size(), -1);
    lse_.assign(static_cast<std::size_t>(c.rows * c.heads), -1);
  }

  int first_row() const { return row_positions()[0]; }
  PatternPass pass() const { return {first_row(), c_.rows}; }
  void set_patterns(std::vector<HeadPattern> patterns) { patterns_ = std::move(patterns); }

  /// The job on the device.
  AttentionJob job() {
    AttentionJob j = common();
    j.keys = &device_;
    j.q = device_q_.data();
    j.out = device_out_.data();
    j.lse = device_lse_.data();
    return j;
  }
  std::vector<float> out() const { return device_out_.values(); }
  std::vector<float> lse() const { return device_lse_.values(); }

  /// The device's results are the CPU's, and nothing was written between the rows.
  void expect_as_on_cpu(double tolerance) {
    AttentionJob j = common();
    j.keys = &host_;
    j.q = q_.data();
    j.out = out_.data();
    j.lse = lse_.data();
    ThreadPool pool(1);
    cpu::AttentionWorkspace workspace(1);
    cpu::attend(pool, scale(), {&j, 1}, workspace);
    expect_equal(out(), out_, tolerance);
    expect_equal(lse(), lse_, tolerance);
  }

  /// The device's results are those of the pairs for which visible(row, head, key), by positions.
  void expect_pairs(double tolerance, const std::function<bool(int, int, int)>& visible) {
    std::vector<float> want(q_.size(), -1), want_lse(lse_.size());
    for (int r = 0; r < c_.rows; ++r) {
      for (int h = 0; h < c_.heads; ++h) {
        const std::size_t at =
            static_cast<std::size_t>(r) * stride_ + static_cast<std::size_t>(h * c_.head_dim);
        const int position = row_positions()[r];
        EagerRow row = eager_attention(q_.data() + at, keys_, values_, c_.head_dim, [&](int j) {
          return visible(position, h, positions_[static_cast<std::size_t>(j)]);
        });
        if (std::isnan(row.lse)) {  // it sees nothing
          row.out.assign(row.out.size(), 0);
          row.lse = -INFINITY;
        }
        std::copy(row.out.begin(), row.out.end(), want.begin() + static_cast<std::ptrdiff_t>(at));
        want_lse[static_cast<std::size_t>(r * c_.heads + h)] = static_cast<float>(row.lse);
      }
    }
    expect_equal(out(), want, tolerance);
    expect_equal(lse(), want_lse, tolerance);
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

 private:
  const std::int32_t* row_positions() const { return positions_.data() + (c_.keys - c_.rows); }

  AttentionJob common() {
    AttentionJob j;
    j.q_stride = j.out_stride = stride_;
    j.heads = c_.heads;
    j.positions = row_positions();
    j.rows = c_.rows;
    j.lse_stride = static_cast<std::size_t>(c_.heads);
    j.sliding_window = c_.window;
    if (!patterns_.empty()) j.patterns = patterns_.data();
    j.pass = pass();
    return j;
  }

  static void expect_equal(const std::vector<float>& got, const std::vector<float>& want,
                           double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isinf(want[i])) {
        ASSERT_EQ(got[i], want[i]) << "at " << i;
      } else {
        ASSERT_NEAR(got[i], want[i], tolerance) << "at " << i;
      }
    }
  }

  Case c_;
  std::vector<float> keys_, values_;
  std::size_t stride_;
  std::vector<float> q_, out_, lse_;
  KvSet host_, device_;
  ManagedFloats device_q_, device_out_, device_lse_;
  std::vector<std::int32_t> positions_;
  std::vector<HeadPattern> patterns_;
};

double tolerance_of(DType dtype) {
  return dtype == DType::kF32 ? 1e-4 : 2e-2;
}

void attend(cuda::Context& context, std::span<Problem* const> problems) {
  std::vector<AttentionJob> jobs;
  for (Problem* p : problems) jobs.push_back(p->job());
  std::vector<const AttentionJob*> pointers;
  for (const AttentionJob& job : jobs) pointers.push_back(&job);
  cuda::attend_rows(context, problems[0]->scale(), pointers);
  context.finish();
}

void attend(Problem& problem) {
  cuda::Context context(0);
  Problem* const problems[] = {&problem};
  attend(context, problems);
}

void expect_as_on_cpu(const Case& c, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.keys << " keys, " << c.heads
                                  << " heads of " << c.head_dim << " " << name_of(c.dtype)
                                  << ", window " << c.window << ", holes " << c.holes);
  Problem p(c, seed);
  attend(p);
  p.expect_as_on_cpu(tolerance_of(c.dtype));
}

TEST(CudaAttendRows, EqualsCpu) {
  std::uint64_t seed = 1;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int n : {1, 63, 64, 65, 130}) {
      for (int head_dim : {16, 32, 64}) expect_as_on_cpu({n, n, 1, head_dim, dtype}, seed += 3);
    }
    for (int heads : {1, 4, 7}) {
      expect_as_on_cpu({65, 65, heads, 128, dtype}, seed += 3);
      expect_as_on_cpu({130, 130, heads, 16, dtype}, seed += 3);
    }
    for (int head_dim : {24, 80, 96}) expect_as_on_cpu({66, 66, 2, head_dim, dtype}, seed += 3);
    expect_as_on_cpu({66, 66, 1, 256, dtype}, seed += 3);
    expect_as_on_cpu({1000, 1000, 1, 64, dtype}, seed += 3);
  }
  expect_as_on_cpu({1000, 1000, 1, 128, DType::kBF16}, seed += 3);
  for (int head_dim : {4, 8, 20, 36, 132}) expect_as_on_cpu({66, 66, 2, head_dim}, seed += 3);
}

TEST(CudaAttendRows, EqualsTheReference) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Problem p({150, 200, 2, 64, dtype}, 5);
    attend(p);
    p.expect_pairs(tolerance_of(dtype), [](int row, int, int key) { return key <= row; });
  }
}

TEST(CudaAttendRows, RowsThatContinueALongerCache) {
  std::uint64_t seed = 300;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int window : {0, 1, 40, 5000}) {
      for (bool holes : {false, true}) {
        expect_as_on_cpu({2, 321, 2, 32, dtype, window, holes}, seed += 3);
        expect_as_on_cpu({150, 450, 2, 32, dtype, window, holes}, seed += 3);
      }
    }
    expect_as_on_cpu({40, 300, 1, 128, dtype, 70, true}, seed += 3);
  }
}

// Of few rows over many keys, parts of the keys are computed on their own.
TEST(CudaAttendRows, KeysThatAreSplit) {
  std::uint64_t seed = 700;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    expect_as_on_cpu({2, 4097, 2, 16, dtype}, seed += 3);
    expect_as_on_cpu({150, 8300, 1, 16, dtype}, seed += 3);
    expect_as_on_cpu({5, 9000, 2, 16, dtype, 4200, true}, seed += 3);
    expect_as_on_cpu({5, 9000, 2, 16, dtype, 300}, seed += 3);
  }
  Problem a({20, 4200, 2, 16}, 1), b({7, 300, 3, 16}, 2), c({3, 8200, 1, 16}, 3);
  Problem* const problems[] = {&a, &b, &c};
  cuda::Context context(0);
  attend(context, problems);
  for (Problem* p : problems) p->expect_as_on_cpu(1e-4);
}

// Rows before all keys: where a method has dropped everything that they would see.
TEST(CudaAttendRows, RowsThatSeeNothing) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int keys : {70, 4200}) {  // in one part, in two
      Problem p({70, keys, 1, 32, dtype}, 9);
      AttentionJob job = p.job();
      std::vector<std::int32_t> positions(70);
      for (int r = 0; r < 70; ++r)
        positions[static_cast<std::size_t>(r)] = r < 66 ? r - 66 : keys - 70 + r;
      job.positions = positions.data();
      const AttentionJob* const jobs[] = {&job};
      cuda::Context context(0);
      cuda::attend_rows(context, p.scale(), jobs);
      context.finish();
      for (int r = 0; r < 70; ++r) {
        const float out = p.out()[static_cast<std::size_t>(r * 64)];
        EXPECT_EQ(p.lse()[static_cast<std::size_t>(r)] == -INFINITY, r < 66) << r;
        EXPECT_EQ(out == 0, r < 66) << r;
        EXPECT_TRUE(std::isfinite(out)) << r;
      }
    }
  }
}

TEST(CudaAttendRows, JobsOfDifferentShapesTogether) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Problem a({100, 100, 3, 32, dtype}, 1), b({3, 200, 1, 32, dtype, 20}, 2),
        c({65, 130, 2, 32, dtype, 0, true}, 3), d({64, 64, 2, 32, dtype}, 4);
    HeadPattern band;
    band.kind = HeadPattern::Kind::kBand;
    band.sinks = 3;
    band.local = 9;
    d.set_patterns({HeadPattern{}, band});
    Problem* const problems[] = {&a, &b, &c, &d};
    cuda::Context context(0);
    attend(context, problems);
    for (Problem* p : problems) p->expect_as_on_cpu(tolerance_of(dtype));
  }
}

TEST(CudaAttendRows, RowsDoNotDependOnTheBatch) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Problem alone({90, 150, 2, 32, dtype}, 1), together({90, 150, 2, 32, dtype}, 1),
        other({200, 200, 4, 32, dtype}, 2);
    attend(alone);
    Problem* const problems[] = {&other, &together};
    cuda::Context context(0);
    attend(context, problems);
    EXPECT_EQ(alone.out(), together.out());
    EXPECT_EQ(alone.lse(), together.lse());
  }
}

HeadPattern band(int sinks, int local, int dense_rows = 0) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBand;
  p.sinks = sinks;
  p.local = local;
  p.dense_rows = dense_rows;
  return p;
}

/// Each column and each offset below n with a given probability; offset 0 always.
HeadPattern lines(int n, double columns, double offsets, HeadPattern::Granularity granularity,
                  std::uint64_t seed) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kLines;
  p.granularity = granularity;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < n; ++i) {
    if (uniform(random) < columns) p.columns.push_back(i);
    if (i == 0 || uniform(random) < offsets) p.offsets.push_back(i);
  }
  return p;
}

/// Lists of key blocks, the diagonal always among them.
HeadPattern key_blocks(const PatternPass& pass, int size, int rows_per_list, std::uint64_t seed) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBlocks;
  p.block_size = size;
  p.block_rows = rows_per_list;
  const BlockGrid grid(size, pass.first_row);
  std::mt19937_64 random(seed);
  for (int first = pass.first_row; first < pass.first_row + pass.rows; first += rows_per_list) {
    std::vector<std::int32_t>& list = p.blocks.emplace_back();
    for (int b = 0; b <= grid.of(pass.first_row + pass.rows - 1); ++b) {
      if (b >= grid.of(first) || random() % 4 == 0) list.push_back(b);
    }
  }
  return p;
}

constexpr auto kLine = HeadPattern::Granularity::kLine;
constexpr auto kBlock64 = HeadPattern::Granularity::kBlock64;

std::vector<HeadPattern> all_patterns(const PatternPass& pass, std::uint64_t seed) {
  const int n = pass.first_row + pass.rows;
  std::mt19937_64 random(seed);
  HeadPattern no_offsets = lines(n, 0.05, 0, kBlock64, seed), exact = no_offsets;
  no_offsets.offsets.clear();
  exact.offsets = {n - 1};  // a row sees what it has of the columns, if anything
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

/// Every kind of pattern as one head of a job.
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
    return pattern_has(patterns[static_cast<std::size_t>(head)], p.pass(), row, key) &&
           (c.window == 0 || row - key < c.window);
  });
}

TEST(CudaAttendRows, PatternsEqualCpu) {
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

#if __has_include("emulated_intrinsics.h")
TEST(CudaAttendRows, EveryOrderOfThreadsGivesTheSameBits) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto run = [&](emulation::Order order, std::uint64_t seed) {
      emulation::set_order(order, seed);
      Problem p({70, 200, 17, 16, dtype}, 3), dense({140, 200, 1, 64, dtype}, 4);
      p.set_patterns(all_patterns(p.pass(), 3));
      attend(p);
      attend(dense);
      emulation::set_order(emulation::Order::kForward);
      std::vector<float> all = p.out();
      for (const std::vector<float>& more : {p.lse(), dense.out(), dense.lse()})
        all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const std::vector<float> forward = run(emulation::Order::kForward, 1);
    EXPECT_EQ(forward, run(emulation::Order::kBackward, 1));
    EXPECT_EQ(forward, run(emulation::Order::kShuffled, 1));
    EXPECT_EQ(forward, run(emulation::Order::kShuffled, 2));
  }
}
#endif

/// Tiles that a pattern takes over n rows and as many keys.
std::int64_t tiles_of(const HeadPattern& pattern, int n) {
  KvSet keys(std::make_shared<KvPool>(PageLayout{16, DType::kBF16, false}, managed_memory()));
  std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) positions[static_cast<std::size_t>(i)] = i;
  keys.extend(positions);
  AttentionJob job;
  job.keys = &keys;
  job.positions = positions.data();
  job.rows = n;
  job.patterns = &pattern;
  job.pass = {0, n};
  cuda::Context context(0);
  const AttentionJob* const jobs[] = {&job};
  return cuda::count_pattern_tiles(context, jobs);
}

// The work follows the pairs that a pattern keeps: of a twentieth of them, little more than a
// twentieth of the tiles.
TEST(CudaAttendRows, WorkFollowsThePattern) {
  constexpr int n = 8192, blocks = n / 64;
  constexpr std::int64_t dense = blocks * (blocks + 1) / 2;
  const PatternPass pass{0, n};
  // As many pieces as lanes, and columns behind the last of them.
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
    std::int64_t least = 0;  // tiles of 64 keys with the keys that the blocks of rows read
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
