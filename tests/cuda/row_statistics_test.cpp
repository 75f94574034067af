// Probabilities of rows and their sums on a CUDA device, compared with the CPU's and with double
// precision.

#include <gtest/gtest.h>

#include <memory>

#include "inference/cpu/attention.h"
#include "tests/cuda/attended_rows.h"

namespace turnbench {
namespace {

using namespace test;

class RowStatistics : public testing::Test {
 protected:
  std::vector<float> row_probabilities(const Rows& x, int head, std::size_t ld) {
    std::vector<float> out(static_cast<std::size_t>(x.shape.rows) * ld, NAN);
    cuda::row_probabilities(context, kScale, x.device, x.float_queries(head, 1), x.positions.data(),
                            x.shape.window, MatrixView(out.data(), x.shape.rows, ld));
    return out;
  }

  cuda::Context context{0};
};

TEST_F(RowStatistics, RowProbabilities) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    const auto ld = static_cast<std::size_t>(shape.keys / 64 + 2) * 64;
    const int head = shape.heads - 1;
    std::vector<float> want(static_cast<std::size_t>(shape.rows) * ld);
    cpu::row_probabilities(kScale, x.host, x.queries(head, 1), x.positions.data(), shape.window,
                           MatrixView(want.data(), shape.rows, ld));
    const std::vector<float> first = in_every_order([&] { return row_probabilities(x, head, ld); });
    EXPECT_EQ(first, want) << "the CPU's bits";
    for (int r = 0; r < shape.rows; ++r) {
      for (int j = 0; j < static_cast<int>(ld); ++j) {
        const float p = first[static_cast<std::size_t>(r) * ld + static_cast<std::size_t>(j)];
        ASSERT_NEAR(p, j < shape.keys ? x.probability(head, r, j) : 0, 2e-6) << r << " " << j;
      }
    }
  }
}

// Rows of the host in any order, and more of them than are processed at once.
TEST_F(RowStatistics, RowProbabilitiesOfChosenRows) {
  const Rows x({.keys = 90, .rows = 90, .head_dim = 16});
  std::vector<float> q, want, got(300 * 128);
  std::vector<std::int32_t> positions;
  const std::vector<float> all = row_probabilities(x, 0, 128);
  for (int i = 0; i < 300; ++i) {
    const int r = i * 37 % 90;
    q.insert(q.end(), x.query(0, r), x.query(0, r) + 16);
    positions.push_back(x.positions[r]);
    want.insert(want.end(), all.begin() + r * 128, all.begin() + (r + 1) * 128);
  }
  cuda::row_probabilities(context, kScale, x.device, {q.data(), 300, 16}, positions.data(), 0,
                          {got.data(), 300, 128});
  EXPECT_EQ(got, want);
}

/// The results of a LineMassJob, which begin at some value.
struct MassSums {
  explicit MassSums(const Rows& x)
      : vertical(static_cast<std::size_t>(x.shape.heads * (x.shape.keys + 3)), 0.25F),
        slash(static_cast<std::size_t>(x.positions.back() + 1), 0.5F) {}
  LineMassJob job(const Rows& x, int first = 0, int rows = -1) {
    LineMassJob out;
    x.fill(out, x.device, first, rows);
    out.vertical = {vertical.data(), x.shape.heads, x.shape.keys, x.shape.keys + 3};
    if (x.shape.heads == 1) out.slash = slash.data();
    return out;
  }
  bool operator==(const MassSums&) const = default;
  std::vector<float> vertical, slash;
};

TEST_F(RowStatistics, MassIsTheSumOfRows) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    MassSums want(x), split(x);
    const auto ld = static_cast<std::size_t>(shape.keys + 63) / 64 * 64;
    for (int h = 0; h < shape.heads; ++h) {
      const std::vector<float> rows = row_probabilities(x, h, ld);
      for (int r = 0; r < shape.rows; ++r) {
        for (int j = 0; j < shape.keys; ++j) {
          if (!x.sees(r, j)) continue;
          const float p = rows[static_cast<std::size_t>(r) * ld + static_cast<std::size_t>(j)];
          want.vertical[h * (shape.keys + 3) + j] += p;
          if (shape.heads == 1)
            want.slash[x.positions[static_cast<std::size_t>(r)] - x.host.position(j)] += p;
        }
      }
    }
    in_every_order([&] {
      MassSums got(x);
      const LineMassJob job = got.job(x);
      cuda::add_line_mass(context, kScale, {&job, 1});
      ASSERT_EQ(got.vertical, want.vertical);
      ASSERT_EQ(got.slash, want.slash);
    });
    for (int first = 0; first < shape.rows; first += 37) {
      const LineMassJob job = split.job(x, first, std::min(37, shape.rows - first));
      cuda::add_line_mass(context, kScale, {&job, 1});
    }
    EXPECT_TRUE(split == want);
  }
}

TEST_F(RowStatistics, MassOfRowsOfAnswers) {
  for (const Shape& shape : shapes_of_answers()) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    MassSums got(x);
    const LineMassJob job = got.job(x);
    cuda::add_line_mass(context, kScale, {&job, 1});
    for (int h = 0; h < shape.heads; ++h) {
      for (int j = 0; j < shape.keys; ++j) {
        double sum = 0.25;
        for (int r = 0; r < shape.rows; ++r) sum += x.probability(h, r, j);
        const auto at = static_cast<std::size_t>(h * (shape.keys + 3) + j);
        ASSERT_NEAR(got.vertical[at], sum, 2e-6 * sum) << h << " " << j;
      }
    }
  }
}

TEST_F(RowStatistics, MassDoesNotDependOnTheBatch) {
  std::vector<std::unique_ptr<Rows>> all;
  std::vector<MassSums> together, alone;
  for (const std::vector<Shape>& some : {shapes(), shapes_of_answers()}) {
    for (const Shape& shape : some) all.push_back(std::make_unique<Rows>(shape));
  }
  for (const auto& x : all) {
    together.emplace_back(*x);
    alone.emplace_back(*x);
  }
  std::vector<LineMassJob> jobs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    jobs.push_back(together[i].job(*all[i]));
    const LineMassJob job = alone[i].job(*all[i]);
    cuda::add_line_mass(context, kScale, {&job, 1});
  }
  cuda::add_line_mass(context, kScale, jobs);
  EXPECT_TRUE(together == alone);
}

}  // namespace
}  // namespace turnbench
