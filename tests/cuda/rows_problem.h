#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "../inference/reference.h"
#include "device_floats.h"
#include "inference/cpu/attention.h"
#include "inference/cuda/attention.h"
#include "orders.h"

namespace turnbench::test {

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
        // Rows are further apart than their heads require.
        stride_(static_cast<std::size_t>((c.heads + 1) * c.head_dim)),
        q_(random_floats(static_cast<std::size_t>(c.rows) * stride_, seed + 2)),
        host_(std::make_shared<KvPool>(PageLayout{c.head_dim, c.dtype, false})),
        device_(host_),
        device_q_(q_),
        device_out_(q_.size()),
        device_lse_(static_cast<std::size_t>(c.rows * c.heads)) {
    std::mt19937_64 random(seed);
    for (int j = 0, p = 0; j < c.keys; ++j) {
      positions_.push_back(p);
      p += c.holes && j < c.keys - c.rows ? 1 + static_cast<int>(random() % 3) : 1;
    }
    host_.extend(positions_);
    for (int j = 0; j < c.keys; ++j) {
      float *key = keys_.data() + j * c.head_dim, *value = values_.data() + j * c.head_dim;
      host_.write(j, {key, 1, c.head_dim}, {value, 1, c.head_dim});
      // The cached values after rounding to the cache's dtype.
      host_.read_key(j, key);
      host_.read_value(j, value);
    }
    device_ = on_device(host_);
    out_.assign(q_.size(), -1);
    lse_.assign(static_cast<std::size_t>(c.rows * c.heads), -1);
  }

  int first_row() const { return row_positions()[0]; }
  PatternPass pass() const { return {first_row(), c_.rows}; }
  void set_patterns(std::vector<HeadPattern> patterns) { patterns_ = std::move(patterns); }

  /// The job on the device.
  AttentionJob job() {
    return job(device_, device_q_.data(), device_out_.data(), device_lse_.data());
  }
  std::vector<float> out() const { return device_out_.values(); }
  std::vector<float> lse() const { return device_lse_.values(); }

  /// Expects that the device's results equal the CPU's, and that the gaps between rows are
  /// unchanged.
  void expect_as_on_cpu(double tolerance) {
    const AttentionJob j = job(host_, q_.data(), out_.data(), lse_.data());
    ThreadPool pool(1);
    cpu::AttentionWorkspace workspace(1);
    cpu::attend(pool, scale(), {&j, 1}, workspace);
    expect_equal(out(), out_, tolerance);
    expect_equal(lse(), lse_, tolerance);
  }

  /// Expects that the device's results are those of the pairs with visible(row, head, key), by
  /// positions.
  void expect_pairs(double tolerance, const std::function<bool(int, int, int)>& visible) {
    std::vector<float> want(q_.size(), -1), want_lse(lse_.size());
    for (int r = 0; r < c_.rows; ++r) {
      for (int h = 0; h < c_.heads; ++h) {
        const std::size_t at =
            static_cast<std::size_t>(r) * stride_ + static_cast<std::size_t>(h * c_.head_dim);
        const int position = row_positions()[r];
        EagerRow row = eager_attention(q_.data() + at, keys_, values_, c_.head_dim,
                                       [&](int j) { return visible(position, h, positions_[j]); });
        if (std::isnan(row.lse)) {  // the row can attend to no key
          row.out.assign(row.out.size(), 0);
          row.lse = -INFINITY;
        }
        std::copy(row.out.begin(), row.out.end(), want.begin() + static_cast<std::ptrdiff_t>(at));
        want_lse[r * c_.heads + h] = static_cast<float>(row.lse);
      }
    }
    expect_equal(out(), want, tolerance);
    expect_equal(lse(), want_lse, tolerance);
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

 private:
  const std::int32_t* row_positions() const { return positions_.data() + (c_.keys - c_.rows); }

  AttentionJob job(const KvHeadCache& keys, const float* q, float* out, float* lse) const {
    const int width = c_.heads * c_.head_dim;
    AttentionJob j;
    j.keys = &keys;
    j.q = MatrixView(q, c_.rows, width, stride_);
    j.out = MatrixView(out, c_.rows, width, stride_);
    j.lse = {lse, c_.rows, c_.heads};
    j.positions = row_positions();
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
  KvHeadCache host_, device_;
  DeviceFloats device_q_, device_out_, device_lse_;
  std::vector<std::int32_t> positions_;
  std::vector<HeadPattern> patterns_;
};

inline double tolerance_of(DType dtype) {
  return dtype == DType::kF32 ? 1e-4 : 2e-2;
}

inline void attend(cuda::Context& context, std::span<Problem* const> problems) {
  std::vector<AttentionJob> jobs;
  for (Problem* p : problems) jobs.push_back(p->job());
  std::vector<const AttentionJob*> pointers;
  for (const AttentionJob& job : jobs) pointers.push_back(&job);
  cuda::attend_rows(context, problems[0]->scale(), pointers);
  context.synchronize();
}

inline void attend(Problem& problem) {
  cuda::Context context(0);
  Problem* const problems[] = {&problem};
  attend(context, problems);
}

}  // namespace turnbench::test
