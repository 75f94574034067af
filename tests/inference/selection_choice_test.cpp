// From scores to tokens: reductions over heads, top-k, nearest centroids, and keys as floats, on
// every backend.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>

#include "tests/backends/backend.h"
#include "tests/inference/selection.h"
#include "tests/inference/set_rows.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using test::BackendArray;
using test::BackendMatrix;
using test::elements;

std::vector<float> reduce(Backend& backend, HeadReduction reduction, std::int64_t heads,
                          std::vector<float> scores) {
  const std::int64_t n = std::ssize(scores) / heads;
  BackendMatrix in(backend, std::move(scores), heads, n), out = BackendMatrix::blank(backend, 1, n);
  const ReduceHeadsJob job{in.view(), reduction, out.view()};
  backend.reduce_heads({&job, 1});
  return out.read();
}

TEST(ReduceHeads, WorkedExample) {
  const auto backend = test::make_backend(1);
  const std::vector<float> scores = {10, 0, 8, 0, 9, 8};
  const auto expect_near = [&](HeadReduction reduction, std::vector<float> wanted) {
    const std::vector<float> got = reduce(*backend, reduction, 2, scores);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], wanted[i], 5e-4) << i;
  };
  expect_near(HeadReduction::kSum, {10, 9, 16});
  expect_near(HeadReduction::kMax, {10, 9, 8});
  expect_near(HeadReduction::kSumOfSoftmax, {0.881f, 0.731f, 0.388f});
  expect_near(HeadReduction::kMaxOfLogSoftmax, {-0.1269f, -0.3133f, -1.3133f});
}

TEST(ReduceHeads, EqualsDoublePrecision) {
  const auto backend = test::make_backend(2);
  struct Case {
    HeadReduction reduction;
    BackendMatrix scores, out;
  };
  std::list<Case> cases;
  std::vector<ReduceHeadsJob> jobs;
  for (const HeadReduction reduction :
       {HeadReduction::kSum, HeadReduction::kMax, HeadReduction::kSumOfSoftmax,
        HeadReduction::kMaxOfLogSoftmax}) {
    for (int heads : {1, 2, 3, 4, 7, 8}) {
      for (int n : {0, 1, 63, 65, 1000, 4096, 9000}) {
        if (test::is_emulated() && n > 65 && (n != 9000 || heads != 3)) continue;
        std::vector<float> scores =
            test::random_floats(elements(heads, n), static_cast<std::uint64_t>(n), 4);
        for (std::size_t i = 0; i < scores.size(); i += 5) scores[i] = -INFINITY;
        Case& c = cases.emplace_back(Case{reduction, BackendMatrix(*backend, scores, heads, n),
                                          BackendMatrix::blank(*backend, 1, n)});
        jobs.push_back({c.scores.view(), reduction, c.out.view()});
      }
    }
  }
  backend->reduce_heads(jobs);
  for (Case& c : cases) {
    const std::int64_t heads = c.scores.rows(), n = c.scores.columns();
    SCOPED_TRACE(fmt::format("{} heads, {}, {}", heads, n, static_cast<int>(c.reduction)));
    c.out.read();
    std::vector<double> tops(static_cast<std::size_t>(heads), -INFINITY), sums(tops.size());
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto i = static_cast<std::size_t>(h);
      for (std::int64_t j = 0; j < n; ++j) tops[i] = std::max(tops[i], double{c.scores.at(h, j)});
      for (std::int64_t j = 0; j < n; ++j) sums[i] += std::exp(c.scores.at(h, j) - tops[i]);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const bool logarithms = c.reduction == HeadReduction::kMaxOfLogSoftmax,
                 greatest = logarithms || c.reduction == HeadReduction::kMax;
      double wanted = greatest ? -INFINITY : 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto i = static_cast<std::size_t>(h);
        const double score = c.scores.at(h, j),
                     share = sums[i] > 0 ? std::exp(score - tops[i]) / sums[i] : 0;
        if (c.reduction == HeadReduction::kSum) wanted += score;
        if (c.reduction == HeadReduction::kSumOfSoftmax) wanted += share;
        if (c.reduction == HeadReduction::kMax) wanted = std::max(wanted, score);
        if (logarithms && sums[i] > 0)
          wanted = std::max(wanted, score - tops[i] - std::log(sums[i]));
      }
      if (std::isinf(wanted)) {
        ASSERT_EQ(c.out.at(0, j), -INFINITY) << j;
      } else {
        const double least = c.reduction == HeadReduction::kSumOfSoftmax ? 1e-12 : 1e-5;
        ASSERT_NEAR(c.out.at(0, j), wanted, 2e-6 * std::abs(wanted) + least) << j;
      }
    }
  }
}

TEST(ReduceHeads, HeadsWithoutKeysAddNothing) {
  const auto backend = test::make_backend(1);
  const std::vector<float> scores = {-INFINITY, -INFINITY, 3, 3};
  EXPECT_EQ(reduce(*backend, HeadReduction::kSumOfSoftmax, 2, scores),
            (std::vector<float>{0.5f, 0.5f}));
  for (const float greatest : reduce(*backend, HeadReduction::kMaxOfLogSoftmax, 2, scores))
    EXPECT_FLOAT_EQ(greatest, std::log(0.5f));
  const std::vector<float> nothing = {-INFINITY, -INFINITY};
  EXPECT_EQ(reduce(*backend, HeadReduction::kSumOfSoftmax, 1, nothing), (std::vector<float>{0, 0}));
  EXPECT_EQ(reduce(*backend, HeadReduction::kMaxOfLogSoftmax, 1, nothing), nothing);
}

// If one token has all of a head's attention, the other probabilities are 0 as floats.
TEST(ReduceHeads, LogarithmsDistinguishUnderflowingProbabilities) {
  const auto backend = test::make_backend(1);
  const std::vector<float> scores = {400, 10, 30, 20, 0, 0, 0, 0};
  EXPECT_EQ(reduce(*backend, HeadReduction::kSumOfSoftmax, 1, {400, 10, 30, 20}),
            (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(reduce(*backend, HeadReduction::kMaxOfLogSoftmax, 1, {400, 10, 30, 20}),
            (std::vector<float>{0, -390, -370, -380}));
  const std::vector<float> with_a_flat_head =
      reduce(*backend, HeadReduction::kMaxOfLogSoftmax, 2, scores);
  EXPECT_EQ(with_a_flat_head[0], 0);
  for (std::size_t j = 1; j < 4; ++j) EXPECT_FLOAT_EQ(with_a_flat_head[j], std::log(0.25f));
}

TEST(ReduceHeads, NaNPropagates) {
  const auto backend = test::make_backend(1);
  for (const float bad : {NAN, INFINITY}) {
    for (const std::size_t at : {0u, 1u, 40u, 129u, 5000u, 9999u}) {
      if (test::is_emulated() && at > 129) continue;
      const std::size_t n = at < 200 ? 130 : 10000;
      std::vector<float> scores(2 * n, 1);
      scores[n + at] = bad;
      for (const auto reduction : {HeadReduction::kSumOfSoftmax, HeadReduction::kMaxOfLogSoftmax}) {
        const std::vector<float> out = reduce(*backend, reduction, 2, scores);
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }))
            << bad << " at " << at;
      }
    }
  }
}

// A maximum of scores is NaN where one of them is.
TEST(ReduceHeads, MaximaPropagateNaN) {
  const auto backend = test::make_backend(1);
  for (const std::size_t n : {1u, 40u}) {
    for (const std::size_t head : {0u, 1u, 2u}) {
      std::vector<float> scores(3 * n, 1);
      scores[head * n + n - 1] = NAN;
      const std::vector<float> out = reduce(*backend, HeadReduction::kMax, 3, scores);
      EXPECT_TRUE(std::isnan(out.back())) << head;
      for (std::size_t i = 0; i + 1 < n; ++i) EXPECT_EQ(out[i], 1);
    }
  }
  EXPECT_EQ(reduce(*backend, HeadReduction::kMax, 2, {-INFINITY, 1, -INFINITY, INFINITY}),
            (std::vector<float>{-INFINITY, INFINITY}));
}

TEST(SlotMass, EqualsDoublePrecision) {
  const auto backend = test::make_backend(2);
  struct Case {
    BackendMatrix scores, out;
    std::vector<std::int32_t> slots;
  };
  std::list<Case> cases;
  std::vector<SlotMassJob> jobs;
  for (int heads : {1, 3, 8}) {
    for (int n : {0, 1, 63, 65, 1000, 4096, 9000}) {
      if (test::is_emulated() && n > 65 && (n != 9000 || heads != 3)) continue;
      for (int step : {1, 3, 50, 10000}) {
        std::vector<float> scores =
            test::random_floats(elements(heads, n), static_cast<std::uint64_t>(n), 4);
        for (std::size_t i = 0; i < scores.size(); i += 5) scores[i] = -INFINITY;
        Case& c = cases.emplace_back(Case{BackendMatrix(*backend, scores, heads, n),
                                          BackendMatrix::blank(*backend, 1, heads),
                                          {}});
        for (int j = step == 1 ? 0 : 1; j < n; j += step) c.slots.push_back(j);
        jobs.push_back({c.scores.view(), c.slots, c.out.view().data});
      }
    }
  }
  backend->slot_mass(jobs);
  for (Case& c : cases) {
    const std::int64_t heads = c.scores.rows(), n = c.scores.columns();
    SCOPED_TRACE(fmt::format("{} heads, {}, {} slots", heads, n, c.slots.size()));
    c.out.read();
    for (std::int64_t h = 0; h < heads; ++h) {
      double sum = 0, mass = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += std::exp(double{c.scores.at(h, j)});
      for (const std::int32_t j : c.slots) mass += std::exp(double{c.scores.at(h, j)});
      ASSERT_NEAR(c.out.at(0, h), sum > 0 ? mass / sum : 0, 3e-6) << h;
    }
  }
  backend->slot_mass({});
}

TEST(SlotMass, WorkedExampleAndNaN) {
  const auto backend = test::make_backend(1);
  BackendMatrix scores(*backend,
                       {1.936492f, 0, 0.968246f, -1.936492f,         //
                        -INFINITY, -INFINITY, -INFINITY, -INFINITY,  //
                        1, NAN, 1, 1,                                //
                        1, INFINITY, 1, 1},
                       4, 4),
      out = BackendMatrix::blank(*backend, 1, 4);
  const std::vector<std::int32_t> slots = {0, 2};
  const SlotMassJob job{scores.view(), slots, out.view().data};
  backend->slot_mass({&job, 1});
  out.read();
  EXPECT_NEAR(out.at(0, 0), 0.893183, 1e-6);
  EXPECT_EQ(out.at(0, 1), 0);
  EXPECT_TRUE(std::isnan(out.at(0, 2)));
  EXPECT_TRUE(std::isnan(out.at(0, 3)));
}

TEST(AddValues, AreEqualOneByOneAndInBatches) {
  const auto backend = test::make_backend(2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int head_dim : {20, 80, 128}) {
      const int n = test::is_emulated() ? 70 : 333;
      KvHeadCache set = test::random_set(*backend, {head_dim, dtype, true}, 0, 4);
      const std::vector<double> zeros(static_cast<std::size_t>(head_dim));
      BackendArray<double> step_by_step(*backend, zeros), at_once(*backend, zeros);
      BackendArray<float> mean(*backend, zeros.size());
      std::vector<double> wanted = zeros;
      for (int count : {n - 8, 1, 2, 0, 5}) {
        const int first = set.size();
        test::append_random(*backend, set, count, static_cast<std::uint64_t>(first));
        const AddValuesJob job{&set, first, step_by_step.data(), set.size(), mean.data()};
        backend->add_values({&job, 1});
        backend->memory()->synchronize();
        for (int j = first; j < set.size(); ++j) {
          const std::vector<float> value = test::row_of(set, KvRow::kValue, j);
          for (std::size_t d = 0; d < wanted.size(); ++d) wanted[d] += double{value[d]};
        }
        EXPECT_EQ(step_by_step.values(), wanted);
        const std::vector<float> means = mean.values();
        for (std::size_t d = 0; d < wanted.size(); ++d)
          EXPECT_EQ(means[d], static_cast<float>(wanted[d] / set.size())) << d;
      }
      const AddValuesJob jobs[] = {{&set, 0, at_once.data()}};
      backend->add_values(jobs);
      EXPECT_EQ(at_once.values(), wanted);
    }
  }
  backend->add_values({});
}

TEST(BlendRows, IsWeighted) {
  const auto backend = test::make_backend(2);
  for (const int dim : {4, 37, 128}) {
    const std::vector<float> weights = {0, 1, 0.25f, 0.893183f};
    BackendMatrix out = BackendMatrix::random(*backend, 4, dim, 1, 5),
                  vector = BackendMatrix::random(*backend, 1, dim, 2, 5);
    BackendArray<float> stored(*backend, weights);
    const std::vector<float> before = out.read();
    const BlendJob job{out.view(), stored.data(), vector.view().data};
    backend->blend({&job, 1});
    out.read();
    for (int h = 0; h < 4; ++h) {
      const double weight = double{weights[h]};
      for (int d = 0; d < dim; ++d) {
        const float was = before[elements(h, dim) + static_cast<std::size_t>(d)];
        EXPECT_NEAR(out.at(h, d), weight * was + (1 - weight) * vector.at(0, d), 1e-6) << h;
        if (h == 0) {
          EXPECT_EQ(out.at(h, d), vector.at(0, d));
        }
        if (h == 1) {
          EXPECT_EQ(out.at(h, d), was);
        }
      }
    }
  }
  backend->blend({});
}

TEST(Merge, EqualsASingleSoftmax) {
  const auto backend = test::make_backend(2);
  for (const int dim : {4, 37, 64}) {
    for (const int rows : {1, 3, 40}) {
      constexpr int kHeads = 5;
      // Two values and their scores: the outputs are the values.
      BackendMatrix a = BackendMatrix::random(*backend, rows, kHeads * dim, 1, 3),
                    b = BackendMatrix::random(*backend, rows, kHeads * dim, 2, 3);
      std::vector<float> of_a = test::random_floats(elements(rows, kHeads), 3, 4),
                         of_b = test::random_floats(elements(rows, kHeads), 4, 4);
      of_a[0] = 80, of_b[0] = -60;
      of_b[1] = -INFINITY;
      of_a[2] = -INFINITY;
      of_a[3] = of_b[3] = -INFINITY;
      BackendMatrix lse_a(*backend, of_a, rows, kHeads), lse_b(*backend, of_b, rows, kHeads);
      const std::vector<float> before = a.read();
      b.read();
      const MergeJob job{a.view(), lse_a.view(), b.view(), lse_b.view()};
      backend->merge({&job, 1});
      a.read();
      lse_a.read();
      for (int r = 0; r < rows; ++r) {
        for (int h = 0; h < kHeads; ++h) {
          SCOPED_TRACE(fmt::format("row {}, head {}, {} dimensions", r, h, dim));
          const std::size_t at = elements(r, kHeads) + static_cast<std::size_t>(h);
          const double x = double{of_a[at]}, y = double{of_b[at]};
          if (r == 0 && h == 3) {
            EXPECT_EQ(lse_a.at(r, h), -INFINITY);
            continue;
          }
          const double top = std::max(x, y), sum = std::exp(x - top) + std::exp(y - top);
          EXPECT_NEAR(lse_a.at(r, h), top + std::log(sum), 1e-5);
          for (int d = 0; d < dim; ++d) {
            const int column = h * dim + d;
            const double was =
                double{before[elements(r, kHeads * dim) + static_cast<std::size_t>(column)]};
            EXPECT_NEAR(
                a.at(r, column),
                (std::exp(x - top) * was + std::exp(y - top) * double{b.at(r, column)}) / sum,
                2e-6);
            if (r == 0 && h == 1) {
              EXPECT_EQ(a.at(r, column), static_cast<float>(was)) << "nothing is merged into it";
            }
          }
        }
      }
    }
  }
  backend->merge({});
}

// Slots whose keys before RoPE are read have the results of a set of such keys.  In a set with
// shifted positions, a row attends only to tokens at the shifted distance or farther.
TEST(PreRopeKeys, AreAttendedTo) {
  const auto backend = test::make_backend(2);
  const int n = test::is_emulated() ? 70 : 333;
  constexpr int kHeads = 4, kShift = 9;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int dim : {16, 64}) {
      SCOPED_TRACE(fmt::format("{} dimensions in {}", dim, name_of(dtype)));
      const KvHeadCache set = test::random_set(*backend, {dim, dtype, true}, n, 4);
      const auto pool = std::make_shared<KvPool>(PageLayout{dim, dtype}, backend->memory());
      BackendMatrix q = BackendMatrix::random(*backend, 2, kHeads * dim, 5);
      const std::vector<std::int32_t> positions = {n - 2, n - 1};
      const auto attend = [&](const KvHeadCache& keys, int row,
                              const std::vector<std::int32_t>* slots) {
        BackendMatrix out = BackendMatrix::blank(*backend, 1, kHeads * dim),
                      lse = BackendMatrix::blank(*backend, 1, kHeads);
        AttentionJob job;
        job.keys = &keys;
        job.q = q.view().rows_at(row, 1);
        job.positions = positions.data() + row;
        job.out = out.view();
        job.lse = lse.view();
        job.slots = slots;
        job.pre_rope = slots != nullptr;
        job.pass = {positions[row], 1};
        backend->attend(0.25f, {&job, 1});
        std::vector<float> all = out.read();
        const std::vector<float> sums = lse.read();
        all.insert(all.end(), sums.begin(), sums.end());
        return all;
      };
      std::vector<std::int32_t> slots;
      for (int j = 3; j < n; j += j % 5 == 0 ? 7 : 1) slots.push_back(j);
      for (const std::int32_t shift : {0, kShift}) {
        KvHeadCache raw(pool);
        std::vector<Copy> copies;
        raw.append_slots(set, slots, copies, KeyRows::kPreRopeAsKeys, shift);
        backend->memory()->copy(copies);
        for (const int row : {0, 1}) {
          std::vector<std::int32_t> seen = slots;
          std::erase_if(seen, [&](std::int32_t slot) { return slot > positions[row] - shift; });
          const std::vector<float> want = attend(raw, row, nullptr), got = attend(set, row, &seen);
          for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << i;
        }
      }
    }
  }
}

std::vector<std::int32_t> sorted_top(const std::vector<float>& scores, int k) {
  std::vector<std::int32_t> out = all_slots(static_cast<int>(scores.size()));
  std::stable_sort(out.begin(), out.end(),
                   [&](std::int32_t a, std::int32_t b) { return scores[a] > scores[b]; });
  out.resize(static_cast<std::size_t>(std::clamp(k, 0, static_cast<int>(out.size()))));
  std::sort(out.begin(), out.end());
  return out;
}

/// Scores of all kinds: many different values, ties, signs, infinities, orders.
std::vector<std::vector<float>> hard_scores(int n) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<float> any = test::random_floats(size, 5), few = any, mixed = any, ascending = any,
                     positive = any, runs(size);
  for (float& x : few) x = std::round(2 * x) / 2;  // with -0 and 0
  const float kinds[] = {-INFINITY, INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, -3e38f, 1.0f};
  for (std::size_t i = 0; i < size; i += 2) mixed[i] = kinds[i / 2 % std::size(kinds)];
  std::sort(ascending.begin(), ascending.end());
  std::vector<float> descending(ascending.rbegin(), ascending.rend());
  for (float& x : positive) x = std::exp(8 * x);
  for (std::size_t i = 0; i < size; ++i) runs[i] = i / 100 % 7 == 3 ? 2.0f : any[i];
  return {any,
          few,
          mixed,
          ascending,
          descending,
          positive,
          runs,
          std::vector<float>(size, -2.5f),
          std::vector<float>(size, -INFINITY)};
}

TEST(TopK, EqualsASort) {
  const auto backend = test::make_backend(2);
  struct Case {
    std::vector<float> scores;
    BackendArray<float> stored;
    int k;
    std::vector<std::int32_t> out;
  };
  std::list<Case> cases;
  std::vector<TopKJob> jobs;
  for (const int n : {0, 1, 2, 63, 65, 1000, 20000}) {
    for (const std::vector<float>& scores : hard_scores(n)) {
      for (const int k : {0, 1, 2, 17, 64, n / 100, n / 10, n / 3, n - 1, n, n + 5}) {
        if (k < 0 || (test::is_emulated() && n >= 1000 && k != 17 && k != n / 3)) continue;
        Case& c =
            cases.emplace_back(Case{scores, BackendArray<float>(*backend, scores), k, {7, 7, 7}});
        jobs.push_back({{c.stored.data(), c.scores.size()}, k, &c.out});
      }
    }
  }
  backend->top_k(jobs);
  for (const Case& c : cases)
    ASSERT_EQ(c.out, sorted_top(c.scores, c.k)) << c.scores.size() << ", k " << c.k;
  backend->top_k({});
}

TEST(TopK, HandlesVeryLongRows) {
  if (test::is_emulated()) GTEST_SKIP() << "takes long";
  const auto backend = test::make_backend(2);
  for (const int n : {131072, 300001}) {
    for (const std::vector<float>& scores : hard_scores(n)) {
      BackendArray<float> stored(*backend, scores);
      std::vector<std::int32_t> few, many;
      const std::span<const float> all(stored.data(), scores.size());
      const TopKJob jobs[] = {{all, 512, &few}, {all, n / 4, &many}};
      backend->top_k(jobs);
      EXPECT_EQ(few, sorted_top(scores, 512));
      EXPECT_EQ(many, sorted_top(scores, n / 4));
    }
  }
}

TEST(TopK, RejectsNaN) {
  const auto backend = test::make_backend(2);
  for (const std::size_t n : {1u, 70u, 1000u}) {
    for (const int k : {0, 1, 1000}) {
      std::vector<float> scores(n, 1);
      scores[n - 1] = NAN;
      BackendArray<float> stored(*backend, scores);
      std::vector<std::int32_t> out;
      const TopKJob job{{stored.data(), n}, k, &out};
      EXPECT_EQ(test::message_of(
                    [&] {
                      backend->top_k({&job, 1});
                    },
                    ErrorKind::kRuntime),
                "top_k: found a score that is not a number");
    }
  }
}

TEST(AssignNearest, FindsTheNearest) {
  const auto backend = test::make_backend(2);
  struct Case {
    BackendMatrix vectors, centroids;
    BackendArray<std::uint8_t> out;
  };
  std::list<Case> cases;
  std::vector<NearestJob> jobs;
  for (int rows : {0, 1, 25, 65, 1000, 2100}) {
    for (int count : {1, 2, 17, 64, 65, 256}) {
      for (int dim : {1, 8, 32, 40, 128}) {
        if (test::is_emulated() && (rows > 65 || (count > 65 && rows != 25) || dim > 40)) continue;
        Case& c = cases.emplace_back(Case{BackendMatrix::random(*backend, rows, dim, 1),
                                          BackendMatrix::random(*backend, count, dim, 2),
                                          {*backend, elements(rows, 1)}});
        jobs.push_back({c.vectors.view(), c.centroids.view(), c.out.data()});
      }
    }
  }
  backend->assign_nearest(jobs);
  for (Case& c : cases) {
    const std::vector<std::uint8_t> out = c.out.values();
    for (std::int64_t r = 0; r < c.vectors.rows(); ++r) {
      std::vector<double> distances;
      for (std::int64_t i = 0; i < c.centroids.rows(); ++i) {
        double& sum = distances.emplace_back(0);
        for (std::int64_t d = 0; d < c.vectors.columns(); ++d)
          sum += std::pow(double{c.vectors.at(r, d)} - c.centroids.at(i, d), 2);
      }
      const std::size_t found = out[r];
      ASSERT_LT(found, distances.size());
      ASSERT_LE(distances[found], *std::min_element(distances.begin(), distances.end()) + 1e-4);
    }
  }
}

TEST(AssignNearest, PrefersTheFirstOfEquallyNearOnes) {
  const auto backend = test::make_backend(1);
  // Around the origin, then twice the same; numbers that are exact in float.
  BackendMatrix vectors(*backend, {0, 0, 3, 1, -1, -1, 5, 5}, 4, 2),
      centroids(*backend, {1, 1, -1, 1, 1, -1, -1, -1, 4, 4, 4, 4, 2, 2}, 7, 2);
  BackendArray<std::uint8_t> out(*backend, 4);
  const NearestJob job{vectors.view(), centroids.view(), out.data()};
  backend->assign_nearest({&job, 1});
  EXPECT_EQ(out.values(), (std::vector<std::uint8_t>{0, 6, 3, 4}));
}

TEST(ReadKeys, ReturnsTheStoredKeys) {
  const auto backend = test::make_backend(2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int head_dim : {20, 32, 80, 128}) {
      const KvHeadCache set = test::random_set(*backend, {head_dim, dtype, true}, 333, 4, 0.01f);
      struct Range {
        int first, rows;
      };
      std::list<BackendMatrix> outs;
      std::vector<ReadRowsJob> jobs;
      for (const Range& range : {Range{0, 333}, {0, 0}, {63, 2}, {100, 1}, {300, 33}}) {
        for (const KvRow row : {KvRow::kKey, KvRow::kPreRopeKey, KvRow::kValue}) {
          BackendMatrix& out =
              outs.emplace_back(BackendMatrix::blank(*backend, range.rows, head_dim));
          jobs.push_back({&set, range.first, row, out.view()});
        }
      }
      backend->read_rows(jobs);
      std::size_t i = 0;
      for (BackendMatrix& out : outs) {
        const ReadRowsJob& job = jobs[i++];
        const int rows = static_cast<int>(job.out.rows);
        const std::vector<float> expected =
            backend->rows_on_host(set, job.row, job.first, job.first + rows);
        out.read();
        for (int r = 0; r < rows; ++r) {
          for (int d = 0; d < head_dim; ++d) {
            ASSERT_EQ(out.at(r, d), expected[r * head_dim + d]) << r << ", " << d;
          }
        }
      }
    }
  }
}

TEST(Selection, DoesNotDependOnThreads) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      const auto backend = test::make_backend(threads);
      const std::vector<float> out = test::is_emulated()
                                         ? test::outputs_of_selection(*backend, dtype, 3, 32, 70)
                                         : test::outputs_of_selection(*backend, dtype, 4, 80, 9000);
      if (threads == 1) first = out;
      EXPECT_EQ(out, first) << threads << " threads, " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace turnbench
