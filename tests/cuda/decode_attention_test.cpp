#include "inference/cuda/decode_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "../inference/reference.h"
#include "device_floats.h"
#include "inference/cpu/attention.h"
#include "inference/cuda/decode_plan.h"
#include "orders.h"

namespace turnbench {
namespace {

using test::DeviceFloats;
using test::eager_attention;
using test::random_floats;

struct DecodeCase {
  int keys, heads, head_dim;
  DType dtype = DType::kF32;
  int window = 0;
  bool holes = false;                ///< among the positions of the keys
  std::optional<int> position = {};  ///< of the row; by default the last key's
};

float scale_of(int head_dim) {
  return 1.0f / std::sqrt(static_cast<float>(head_dim));
}

double tolerance(DType dtype) {
  return dtype == DType::kF32 ? 1e-4 : 2e-2;
}

/// One row over its set, on the host and on the device.
class Row {
 public:
  Row(const DecodeCase& c, std::uint64_t seed)
      : c_(c),
        keys_(random_floats(static_cast<std::size_t>(c.keys * c.head_dim), seed)),
        values_(random_floats(keys_.size(), seed + 1)),
        query_(random_floats(static_cast<std::size_t>(c.heads * c.head_dim), seed + 2)),
        set_(std::make_shared<KvPool>(PageLayout{c.head_dim, c.dtype, false})),
        device_set_(set_),
        q_(query_),
        out_(query_.size()),
        lse_(static_cast<std::size_t>(c.heads)) {
    std::mt19937_64 random(seed);
    std::vector<std::int32_t> positions;
    for (int j = 0, p = 0; j < c.keys; ++j) {
      positions.push_back(p);
      p += c.holes ? 1 + static_cast<int>(random() % 3) : 1;
    }
    position_ = c.position.value_or(positions.back());
    set_.extend(positions);
    for (int j = 0; j < c.keys; ++j) {
      float *key = keys_.data() + j * c.head_dim, *value = values_.data() + j * c.head_dim;
      set_.write(j, {key, 1, c.head_dim}, {value, 1, c.head_dim});
      set_.read_key(j, key);  // after rounding
      set_.read_value(j, value);
    }
    device_set_ = test::on_device(set_);
  }
  Row(const Row&) = delete;

  void choose(std::vector<std::int32_t> slots) { slots_ = std::move(slots); }
  /// Assigns each of the chosen slots to some of the heads, the last slot to all.
  void share(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < slots_->size(); ++i)
      slot_heads_.push_back(i + 1 == slots_->size() ? ~0U : static_cast<std::uint32_t>(random()));
  }

  /// The job on the device.
  AttentionJob job() { return job(device_set_, q_.data(), out_.data(), lse_.data()); }

  void run(cuda::Context& context) {
    const AttentionJob j = job();
    const AttentionJob* one = &j;
    cuda::attend_single_rows(context, scale_of(c_.head_dim), {&one, 1});
  }

  std::vector<float> bits() const {
    std::vector<float> all = out_.values();
    const std::vector<float> lse = lse_.values();
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  }

  /// Largest difference of outputs and log-sum-exps from the double-precision reference.
  double error() const {
    double worst = 0;
    const auto out = out_.values(), lse = lse_.values();
    for (int h = 0; h < c_.heads; ++h) {
      const auto visible = [&](int j) {
        const std::int32_t p = set_.position(j);
        return p <= position_ && (c_.window == 0 || p > position_ - c_.window) && reads(h, j);
      };
      bool nothing = true;
      for (int j = 0; j < c_.keys; ++j) nothing = nothing && !visible(j);
      const std::size_t at = static_cast<std::size_t>(h * c_.head_dim);
      auto want = eager_attention(query_.data() + at, keys_, values_, c_.head_dim, visible);
      if (nothing) {
        want.out.assign(want.out.size(), 0);
        want.lse = -INFINITY;
      }
      for (std::size_t d = 0; d < want.out.size(); ++d)
        worst = larger(worst, std::abs(out[at + d] - want.out[d]));
      const double got = lse[h];
      if (got != want.lse) worst = larger(worst, std::abs(got - want.lse));
    }
    return worst;
  }

  /// Largest difference from the CPU backend's kernel.
  double error_against_cpu() {
    const std::vector<float> got = bits();
    ThreadPool pool(1);
    cpu::AttentionWorkspace workspace(1);
    std::vector<float> want(query_.size() + static_cast<std::size_t>(c_.heads));
    const AttentionJob j = job(set_, query_.data(), want.data(), want.data() + query_.size());
    cpu::attend(pool, scale_of(c_.head_dim), {&j, 1}, workspace);
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != want[i])  // infinities are equal
        worst = larger(worst, std::abs(static_cast<double>(got[i]) - want[i]));
    }
    return worst;
  }

 private:
  AttentionJob job(const KvHeadCache& keys, const float* q, float* out, float* lse) const {
    AttentionJob j;
    j.keys = &keys;
    j.q = {q, 1, c_.heads * c_.head_dim};
    j.positions = &position_;
    j.out = {out, 1, c_.heads * c_.head_dim};
    j.lse = {lse, 1, c_.heads};
    j.sliding_window = c_.window;
    if (slots_) j.slots = &*slots_;
    if (!slot_heads_.empty()) j.slot_heads = &slot_heads_;
    return j;
  }
  bool reads(int head, int slot) const {
    if (!slots_) return true;
    const auto at = std::lower_bound(slots_->begin(), slots_->end(), slot);
    if (at == slots_->end() || *at != slot) return false;
    return slot_heads_.empty() || (slot_heads_[at - slots_->begin()] >> head & 1) != 0;
  }
  static double larger(double a, double b) { return b <= a ? a : b; }  // NaN is largest

  DecodeCase c_;
  std::vector<float> keys_, values_, query_;
  KvHeadCache set_, device_set_;
  DeviceFloats q_, out_, lse_;
  std::int32_t position_ = 0;
  std::optional<std::vector<std::int32_t>> slots_;
  std::vector<std::uint32_t> slot_heads_;
};

std::vector<std::int32_t> every_third(int keys, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> slots;
  for (int j = 0; j < keys; ++j) {
    if (j == keys - 1 || random() % 3 == 0) slots.push_back(j);
  }
  return slots;
}

class CudaDecodeAttention : public testing::Test {
 protected:
  /// Runs one row and compares it with the reference and the CPU.
  void expect_right(const DecodeCase& c, std::optional<std::vector<std::int32_t>> slots = {}) {
    Row row(c, seed_ += 3);
    if (slots) row.choose(std::move(*slots));
    expect_right(row, c);
  }
  void expect_right(Row& row, const DecodeCase& c) {
    row.run(context_);
    const double error = row.error();
    EXPECT_LE(error, tolerance(c.dtype)) << c.keys << " keys, " << c.heads << " heads of "
                                         << c.head_dim << " in " << name_of(c.dtype);
    EXPECT_LE(row.error_against_cpu(), tolerance(c.dtype));
    if (!(error <= worst_)) worst_ = error;
  }
  void TearDown() override { RecordProperty("largest_error", fmt::format("{:.1e}", worst_)); }

  cuda::Context context_{0};
  std::uint64_t seed_ = 1;
  double worst_ = 0;
};

TEST_F(CudaDecodeAttention, EqualsTheReference) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int head_dim : {16, 64, 128, 256}) {
      for (int heads : {1, 4, 7, 8, 32}) {
        for (int n : {1, 63, 64, 65}) expect_right({n, heads, head_dim, dtype});
      }
      expect_right({1000, 4, head_dim, dtype});
    }
    for (int heads : {1, 7, 8, 32}) expect_right({1000, heads, 64, dtype});
  }
}

TEST_F(CudaDecodeAttention, LongListsTakeLongSegments) {
  expect_right({8300, 1, 64, DType::kBF16});
  expect_right({33000, 2, 16, DType::kF32});
}

TEST_F(CudaDecodeAttention, HeadDimsThatLeaveLanesIdle) {
  for (int head_dim : {4, 12, 20, 100, 132, 192}) expect_right({130, 3, head_dim, DType::kF32});
  for (int head_dim : {8, 24, 72, 80, 96, 136, 192, 256})
    expect_right({130, 3, head_dim, DType::kBF16});
}

TEST_F(CudaDecodeAttention, RefusesRowsThatItCannotRead) {
  for (const auto& [head_dim, dtype] : {std::pair{12, DType::kF16},
                                        {60, DType::kBF16},
                                        {257, DType::kF16},
                                        {264, DType::kBF16},
                                        {260, DType::kF32}}) {
    Row row({3, 1, head_dim, dtype}, 5);
    EXPECT_THROW(row.run(context_), Error);
  }
}

TEST_F(CudaDecodeAttention, WindowsHolesAndLaterKeys) {
  for (bool holes : {false, true}) {
    for (int window : {0, 1, 70, 400, 5000}) {
      for (int position : {0, 64, 299, 10000}) {
        expect_right({300, 4, 32, DType::kF32, window, holes, position});
      }
    }
  }
}

TEST_F(CudaDecodeAttention, Slots) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<std::int32_t> all(500);
    std::iota(all.begin(), all.end(), 0);
    for (bool holes : {false, true}) {
      for (int window : {0, 90}) {
        const DecodeCase c{500, 4, 64, dtype, window, holes};
        expect_right(c, std::vector{499});
        expect_right(c, all);
        expect_right(c, every_third(500, seed_));
      }
    }
    expect_right({500, 4, 64, dtype, 0, false, 250}, every_third(500, seed_));
  }
}

TEST_F(CudaDecodeAttention, SlotsOfSomeHeads) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int heads : {3, 4, 9, 32}) {
      for (int window : {0, 90}) {
        const DecodeCase c{700, heads, 64, dtype, window, true};
        Row row(c, seed_ += 3);
        row.choose(every_third(700, seed_));
        row.share(seed_);
        expect_right(row, c);
      }
    }
  }
}

TEST_F(CudaDecodeAttention, AllSlotsAreTheWholeSetToTheBit) {
  Row row({700, 4, 32}, 9);
  row.run(context_);
  const auto dense = row.bits();
  std::vector<std::int32_t> all(700);
  std::iota(all.begin(), all.end(), 0);
  row.choose(all);
  row.run(context_);
  EXPECT_EQ(dense, row.bits());
}

TEST_F(CudaDecodeAttention, RowsThatSeeNothing) {
  const std::vector<float> nothing = {0, 0, 0, 0, 0, 0, 0, 0, -INFINITY, -INFINITY};
  Row before({100, 2, 4, DType::kF32, 0, false, -1}, 11);
  before.run(context_);
  EXPECT_EQ(before.bits(), nothing);
  EXPECT_EQ(before.error_against_cpu(), 0);
  Row unlisted({100, 2, 4}, 12);
  unlisted.choose({});
  unlisted.run(context_);
  EXPECT_EQ(unlisted.bits(), nothing);
  EXPECT_EQ(unlisted.error_against_cpu(), 0);
  Row passed({100, 2, 4, DType::kF32, 10}, 13);  // the window begins after the listed slots
  passed.choose({1, 50});
  passed.run(context_);
  EXPECT_EQ(passed.bits(), nothing);
  EXPECT_EQ(passed.error_against_cpu(), 0);
}

TEST_F(CudaDecodeAttention, LogSumExpMayBeLeftOut) {
  Row row({90, 2, 16}, 15);
  AttentionJob job = row.job();
  job.lse = {};
  const AttentionJob* one = &job;
  cuda::attend_single_rows(context_, scale_of(16), {&one, 1});
  const std::vector<float> without = row.bits();
  EXPECT_EQ(without[32], -1);
  row.run(context_);
  EXPECT_TRUE(std::equal(without.begin(), without.begin() + 32, row.bits().begin()));
}

TEST_F(CudaDecodeAttention, JobsOfOneCallDoNotTouchEachOther) {
  const std::vector<DecodeCase> cases = {{1, 4, 32},
                                         {1000, 4, 32},
                                         {64, 7, 32},
                                         {65, 32, 32},
                                         {300, 1, 32},
                                         {130, 2, 32, DType::kBF16},
                                         {700, 4, 64},
                                         {300, 4, 32, DType::kF32, 70, true},
                                         {300, 4, 32, DType::kF32, 0, true, 120},
                                         {3000, 3, 32},
                                         {10, 4, 32, DType::kF32, 0, false, -1}};
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<AttentionJob> jobs;
  for (const DecodeCase& c : cases) {
    rows.push_back(std::make_unique<Row>(c, seed_ += 3));
    if (rows.size() % 4 == 2) rows.back()->choose(every_third(c.keys, seed_));
    if (rows.size() % 8 == 2) rows.back()->share(seed_);
    jobs.push_back(rows.back()->job());
  }
  for (int i = 0; i < 3; ++i) {  // jobs of several heads over one set
    jobs.push_back(jobs[1]);
    rows.push_back(std::make_unique<Row>(cases[1], seed_ += 3));
    const AttentionJob own = rows.back()->job();
    jobs.back().q = own.q;
    jobs.back().out = own.out;
    jobs.back().lse = own.lse;
    jobs.back().slots = nullptr;
    jobs.back().slot_heads = nullptr;
  }
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const AttentionJob* one = &jobs[i];
    cuda::attend_single_rows(context_, 0.2f, {&one, 1});
    alone.push_back(rows[i]->bits());
  }
  std::vector<const AttentionJob*> all;
  for (const AttentionJob& job : jobs) all.push_back(&job);
  for (int turn = 0; turn < 3; ++turn) {
    cuda::attend_single_rows(context_, 0.2f, all);
    for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(rows[i]->bits(), alone[i]) << i;
    std::shuffle(all.begin(), all.end(), std::mt19937_64(static_cast<std::uint64_t>(turn)));
  }
}

TEST(CudaDecodePlan, ListsATableOnceAndCutsByTheJobsOwnLength) {
  Row a({200, 4, 16}, 21), b({65, 9, 16}, 22);
  const std::vector<AttentionJob> jobs = {a.job(), b.job(), a.job()};
  const std::vector<const AttentionJob*> all = {&jobs[0], &jobs[1], &jobs[2]};
  const cuda::DecodePlan plan = cuda::plan_decode(all, 8);
  EXPECT_EQ(plan.tables.size(), 2u);
  EXPECT_EQ(plan.tables[0].size(), 4u);
  EXPECT_EQ(plan.jobs[0].pages, 0);
  EXPECT_EQ(plan.jobs[1].pages, 4);
  EXPECT_EQ(plan.jobs[2].pages, 0);
  EXPECT_EQ(plan.jobs[0].segments(), 4);
  EXPECT_EQ(plan.jobs[1].segments(), 2);
  EXPECT_EQ(plan.tasks.size(), 4u + 2 * 2u + 4u);  // nine heads need two blocks
  EXPECT_EQ(plan.partials, 4 * 4 + 2 * 9 + 4 * 4);
}

TEST_F(CudaDecodeAttention, DoesNotDependOnThreadOrder) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& [heads, head_dim] : {std::pair{1, 16}, {4, 128}, {7, 64}, {9, 200}}) {
      Row row({333, heads, head_dim, dtype}, seed_ += 3);
      test::in_every_order([&] {
        row.run(context_);
        return row.bits();
      });
    }
  }
}

}  // namespace
}  // namespace turnbench
