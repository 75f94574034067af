// Column sums on a CUDA device, compared with the CPU's and with double precision.

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "common/random.h"
#include "common/thread_pool.h"
#include "inference/cpu/attention.h"
#include "tests/cuda/attended_rows.h"

namespace turnbench {
namespace {

using namespace test;

struct Rule {
  bool gumbel;
  float temperature;
};

/// A ColumnJob with its data; the sums begin at some value.
struct ColumnSums {
  ColumnSums(const Rows& x, const std::optional<Rule>& rule)
      : x(x),
        rule(rule),
        sums(static_cast<std::size_t>(x.shape.heads * (x.shape.keys + 5)), 0.125F),
        seeds(static_cast<std::size_t>(x.shape.rows * x.lse_stride())) {
    Random random(11);
    for (std::uint64_t& seed : seeds) seed = random.next();
  }
  ColumnJob job(const KvHeadCache& keys, int first = 0, int rows = -1) {
    ColumnJob out;
    x.fill(out, keys, first, rows);
    const int heads = x.shape.heads, stride = x.lse_stride(), at = first * stride;
    const float* lse = Rows::is_host(keys) ? x.lse.data() : x.device_lse.data();
    out.lse = {lse + at, out.q.rows, heads, stride};
    if (rule) {
      noise = {{rule->gumbel ? seeds.data() + at : nullptr, out.q.rows, heads, stride},
               1 / rule->temperature};
      out.noise = &noise;
    }
    out.sums = {sums.data(), heads, x.shape.keys, x.shape.keys + 5};
    return out;
  }
  /// The sums in double precision, [keys].
  std::vector<double> reference(int head) const {
    std::vector<double> out(static_cast<std::size_t>(x.shape.keys), 0.125), row(out.size());
    for (int r = 0; r < x.shape.rows; ++r) {
      double sum = 0;
      for (int j = 0; j < x.shape.keys; ++j) {
        double weight = x.probability(head, r, j);
        if (rule && x.sees(r, j)) {
          const auto seed = seeds[r * x.lse_stride() + head];
          const double g = rule->gumbel ? gumbel(seed, x.host.position(j)) : 0;
          weight = std::exp((std::log(weight) + g) / rule->temperature);
        }
        sum += row[j] = weight;
      }
      for (std::size_t j = 0; j < row.size() && sum > 0; ++j) out[j] += row[j] / sum;
    }
    return out;
  }
  static double gumbel(std::uint64_t seed, std::int32_t position) {
    const auto mixed = [](std::uint32_t h) {
      h = (h ^ h >> 16) * 0x85EBCA6Bu;
      h = (h ^ h >> 13) * 0xC2B2AE35u;
      return h ^ h >> 16;
    };
    const auto key = static_cast<std::uint32_t>(position), low = static_cast<std::uint32_t>(seed),
               high = static_cast<std::uint32_t>(seed >> 32);
    const std::uint32_t h = (mixed(key) ^ low) * ((mixed(~key) & ~1u) + (high | 1u));
    return -std::log(-std::log(((h >> 9) + 0.5) / (1 << 23)));
  }

  const Rows& x;
  std::optional<Rule> rule;
  RowNoise noise;
  std::vector<float> sums;
  std::vector<std::uint64_t> seeds;
};

class ColumnSumsOf : public testing::TestWithParam<std::optional<Rule>> {
 protected:
  cuda::Context context{0};
};

// Compares with double precision, and with the CPU: bit-identical, or nearly, because the CPU adds
// no noise for rows that can attend to no key.
TEST_P(ColumnSumsOf, EqualTheCpu) {
  ThreadPool pool(1);
  cpu::AttentionWorkspace workspace(1);
  std::vector<Shape> all = shapes();
  all.insert(all.end(), shapes_of_answers().begin(), shapes_of_answers().end());
  for (const Shape& shape : all) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    ColumnSums cpu(x, GetParam());
    const bool has_cpu = !GetParam() || !x.is_blind();
    const ColumnJob job = cpu.job(x.host);
    if (has_cpu) cpu::add_column_sums(pool, kScale, {&job, 1}, workspace);
    const std::vector<float> got = in_every_order([&] {
      ColumnSums sums(x, GetParam());
      const ColumnJob job = sums.job(x.device);
      cuda::add_column_sums(context, kScale, {&job, 1});
      return sums.sums;
    });
    const bool on_tensor_cores =
        shape.dtype != DType::kF32 && shape.head_dim % 16 == 0 && !shape.answers;
    const bool is_exact = !GetParam() && !on_tensor_cores;
    if (is_exact) {
      EXPECT_EQ(got, cpu.sums) << "the CPU's bits";
    }
    for (int h = 0; h < shape.heads; ++h) {
      const std::vector<double> want = cpu.reference(h);
      for (int j = 0; j < shape.keys + 5; ++j) {
        const auto at = static_cast<std::size_t>(h * (shape.keys + 5) + j);
        const double sum = j < shape.keys ? want[j] : 0.125;
        ASSERT_NEAR(got[at], sum, 1e-5 * sum) << h << " " << j;
        if (has_cpu) {
          ASSERT_NEAR(got[at], cpu.sums[at], 1e-5 * sum) << h << " " << j;
        }
      }
    }
    ColumnSums split(x, GetParam());
    for (int r = 0; r < shape.rows; r += 41) {
      const ColumnJob job = split.job(x.device, r, std::min(41, shape.rows - r));
      cuda::add_column_sums(context, kScale, {&job, 1});
    }
    EXPECT_EQ(split.sums, got) << "calls of 41 rows";
  }
}

TEST_P(ColumnSumsOf, DoNotDependOnTheBatch) {
  std::vector<std::unique_ptr<Rows>> all;
  std::vector<std::unique_ptr<ColumnSums>> together, alone;
  std::vector<ColumnJob> jobs;
  for (const std::vector<Shape>& some : {shapes(), shapes_of_answers()}) {
    for (const Shape& shape : some) all.push_back(std::make_unique<Rows>(shape));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Rows& x = *all[i];
    // Some with noise disabled.
    const auto rule = i % 3 == 1 ? std::optional<Rule>() : GetParam();
    together.push_back(std::make_unique<ColumnSums>(x, rule));
    alone.push_back(std::make_unique<ColumnSums>(x, rule));
    jobs.push_back(together[i]->job(x.device));
    const ColumnJob job = alone[i]->job(x.device);
    cuda::add_column_sums(context, kScale, {&job, 1});
  }
  cuda::add_column_sums(context, kScale, jobs);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(together[i]->sums, alone[i]->sums) << i;
}

INSTANTIATE_TEST_SUITE_P(Rules, ColumnSumsOf,
                         testing::Values(std::optional<Rule>(), Rule{true, 1}, Rule{true, 1.5F},
                                         Rule{false, 1.5F}),
                         [](const auto& rule) {
                           if (!rule.param) return std::string("plain");
                           return std::string(rule.param->gumbel ? "gumbel" : "plain") +
                                  (rule.param->temperature == 1 ? "_at_1" : "_warm");
                         });

}  // namespace
}  // namespace turnbench
