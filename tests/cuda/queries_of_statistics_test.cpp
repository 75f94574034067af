// Attention statistics and attention use the same queries: for several rows over 16-bit keys,
// queries rounded to the keys' type; for a single row, float32 queries.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "inference/backend/selection_jobs.h"
#include "inference/cuda/cuda_backend.h"
#include "tests/cuda/device_floats.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

constexpr int kRows = 2, kKeys = 2;
constexpr float kSize = 256;  // of the keys
constexpr double kLead = 6;   // of the first key's scaled score, if queries are not rounded
/// Of probabilities.  Scaled scores are up to 24576, where float32 has steps of 2^-9.
constexpr double kTolerance = 1e-3;

struct KeyType {
  DType dtype;
  int head_dim;
};

/// Two keys along the first two axes, and rows at the last position with the query (1 + e, 1),
/// which rounds to (1, 1): then both probabilities are 1/2, otherwise the first key's is
/// 1 / (1 + exp(-kLead)).
class QueriesOfStatistics : public testing::TestWithParam<KeyType> {
 protected:
  QueriesOfStatistics() {
    const float e = dtype_ == DType::kF16 ? 0x1p-12F : 0x1p-9F;
    scale_ = static_cast<float>(kLead) / (kSize * e);
    std::vector<float> q(static_cast<std::size_t>(kRows * dim_)), of_keys(q.size()),
        values(q.size());
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t row = r * static_cast<std::size_t>(dim_);
      q[row] = 1 + e;
      q[row + 1] = 1;
      of_keys[row + r] = kSize;
      values[row + r] = 1;  // outputs are the keys' probabilities
    }
    if (dtype_ != DType::kF32) {
      EXPECT_EQ(test::rounded_to(dtype_, {1 + e}), std::vector<float>{1});
    }
    device_q_ = test::DeviceFloats(q);
    set_ = test::on_device(test::make_set(of_keys, values, dim_, {0, 1}, dtype_));
  }

  void fill(CausalRows& job, int rows) const {
    job.keys = &set_;
    job.q = MatrixView<const float>(device_q_.data(), rows, dim_);
    job.positions = positions_;
  }

  /// The first key's probability in the attention of `rows` rows; also stores their log-sum-exp.
  float attention(int rows) {
    test::DeviceFloats out(static_cast<std::size_t>(rows * dim_));
    AttentionJob job;
    fill(job, rows);
    job.out = {out.data(), rows, dim_};
    job.lse = {lse_.data(), rows, 1};
    backend_->attend(scale_, {&job, 1});
    backend_->memory()->synchronize();
    return out.values()[0];
  }

  /// The mean of the first key's probabilities in statistics of `rows` rows.
  float column_sum(int rows, int pass_rows) {
    std::vector<float> sums(kKeys);
    ColumnJob job;
    fill(job, rows);
    job.pass_rows = pass_rows;
    job.lse = {lse_.data(), rows, 1};
    job.sums = {sums.data(), 1, kKeys};
    backend_->add_column_sums(scale_, {&job, 1});
    EXPECT_NEAR(sums[0] + sums[1], rows, kTolerance) << "the log-sum-exp is of the same scores";
    return sums[0] / static_cast<float>(rows);
  }
  float line_mass(int rows, int pass_rows) {
    std::vector<float> sums(kKeys);
    LineMassJob job;
    fill(job, rows);
    job.pass_rows = pass_rows;
    job.vertical = {sums.data(), 1, kKeys};
    backend_->add_line_mass(scale_, {&job, 1});
    return sums[0] / static_cast<float>(rows);
  }
  float row_probability(int rows) {
    std::vector<float> out(static_cast<std::size_t>(rows * kPageTokens));
    backend_->row_probabilities(scale_, set_, {device_q_.data(), rows, dim_}, positions_, 0,
                                {out.data(), rows, kPageTokens});
    return out[0];
  }
  /// The difference of the first key's score to the other key's, for selections.
  float lead_in_selection() {
    test::DeviceFloats scores(std::size_t{kKeys});
    KeyScoreJob job;
    job.set = &set_;
    job.q = MatrixView<const float>(device_q_.data(), 1, dim_);
    job.out = {scores.data(), 1, kKeys};
    backend_->score_keys(scale_, {&job, 1});
    backend_->memory()->synchronize();
    return scores.values()[0] - scores.values()[1];
  }

  const DType dtype_ = GetParam().dtype;
  const int dim_ = GetParam().head_dim;
  const std::unique_ptr<Backend> backend_ = cuda::make_backend(0, 1);
  const std::int32_t positions_[kRows] = {kKeys - 1, kKeys - 1};
  float scale_ = 0;
  test::DeviceFloats device_q_{std::size_t{0}}, lse_{std::size_t{kRows}};
  KvHeadCache set_{nullptr};
};

TEST_P(QueriesOfStatistics, OfSeveralRowsAreRounded) {
  const float want = dtype_ == DType::kF32 ? static_cast<float>(1 / (1 + std::exp(-kLead))) : 0.5F;
  EXPECT_NEAR(attention(kRows), want, kTolerance);
  EXPECT_NEAR(column_sum(kRows, 0), want, kTolerance);
  EXPECT_NEAR(column_sum(1, kRows), want, kTolerance) << "one of several rows";
  EXPECT_NEAR(line_mass(kRows, 0), want, kTolerance);
  EXPECT_NEAR(line_mass(1, kRows), want, kTolerance) << "one of several rows";
  EXPECT_NEAR(row_probability(kRows), want, kTolerance);
  EXPECT_NEAR(row_probability(1), want, kTolerance) << "one of several rows";
}

TEST_P(QueriesOfStatistics, OfSingleRowsAreFloat32) {
  const auto want = static_cast<float>(1 / (1 + std::exp(-kLead)));
  EXPECT_NEAR(attention(1), want, kTolerance);
  EXPECT_NEAR(column_sum(1, 0), want, kTolerance);
  EXPECT_NEAR(line_mass(1, 0), want, kTolerance);
  EXPECT_NEAR(line_mass(kRows, 1), want, kTolerance) << "rows that attended one by one";
  EXPECT_NEAR(lead_in_selection(), kLead, 4e-3);
}

INSTANTIATE_TEST_SUITE_P(KeyTypes, QueriesOfStatistics,
                         testing::Values(KeyType{DType::kBF16, 128}, KeyType{DType::kBF16, 256},
                                         KeyType{DType::kBF16, 24}, KeyType{DType::kF16, 64},
                                         KeyType{DType::kF32, 64}),
                         [](const auto& type) {
                           return std::string(name_of(type.param.dtype)) + "_" +
                                  std::to_string(type.param.head_dim);
                         });

}  // namespace
}  // namespace turnbench
