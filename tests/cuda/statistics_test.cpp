// Attention statistics of a CUDA device against the CPU's and against double precision.

#include "inference/cuda/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "common/random.h"
#include "common/thread_pool.h"
#include "inference/cpu/attention.h"
#include "tests/cuda/managed_memory.h"
#include "tests/inference/reference.h"

#if __has_include("emulated_intrinsics.h")
#include "scheduler.h"
#endif

namespace turnbench {
namespace {

using namespace test;

/// run() in every order that threads can be made to take: on a card, twice as it comes.
void in_every_order(const std::function<void()>& run) {
#if __has_include("emulated_intrinsics.h")
  for (const auto order :
       {emulation::Order::kForward, emulation::Order::kBackward, emulation::Order::kShuffled}) {
    emulation::set_order(order, 7);
    run();
  }
  emulation::set_order(emulation::Order::kForward);
#else
  run();
  run();
#endif
}

struct Shape {
  int keys = 0, rows = 0, heads = 1, head_dim = 64;
  DType dtype = DType::kF32;
  bool holes = false;
  int window = 0;
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << s.keys << " keys, " << s.rows << " rows, " << s.heads << " heads, head_dim "
               << s.head_dim << ", " << name_of(s.dtype) << (s.holes ? ", holes" : "")
               << ", window " << s.window;
  }
};

constexpr float kScale = 0.11F;

/// The last rows of a sequence over a set on host and device, and what a double-precision
/// implementation makes of them.  With holes some rows see nothing, some have no key of their own.
struct Rows {
  explicit Rows(const Shape& shape, std::uint64_t seed = 1)
      : shape(shape),
        host(std::make_shared<KvPool>(PageLayout{shape.head_dim, shape.dtype, false})),
        device(std::make_shared<KvPool>(PageLayout{shape.head_dim, shape.dtype, false},
                                        managed_memory())),
        q(bytes(shape.rows * stride()), managed_memory()),
        lse(bytes(shape.rows * lse_stride()), managed_memory()) {
    const auto width = static_cast<std::size_t>(shape.head_dim);
    const auto keys = random_floats(static_cast<std::size_t>(shape.keys) * width, seed, 1.5F);
    std::int32_t position = shape.holes ? 3 : 0;
    for (int j = 0; j < shape.keys; ++j) {
      const float* key = keys.data() + static_cast<std::size_t>(j) * width;
      host.append(key, key, nullptr, position);
      device.append(key, key, nullptr, position);
      position += !shape.holes ? 1 : j == shape.keys / 2 ? 60 : j % 5 == 2 ? 1 + j % 7 : 1;
    }
    const std::int32_t end = position + (shape.holes ? 2 : 0);
    positions.resize(static_cast<std::size_t>(shape.rows));
    std::iota(positions.begin(), positions.end(), std::max(0, end - shape.rows));
    const auto queries = random_floats(q.size() / sizeof(float), seed + 100);
    std::copy(queries.begin(), queries.end(), q.as<float>());
    std::fill_n(lse.as<float>(), shape.rows * lse_stride(), NAN);
    probabilities.resize(static_cast<std::size_t>(shape.heads * shape.rows));
    std::vector<float> all(static_cast<std::size_t>(shape.keys) * width);
    for (int j = 0; j < shape.keys; ++j)
      host.read_key(j, all.data() + static_cast<std::size_t>(j) * width);
    for (int h = 0; h < shape.heads; ++h) {
      for (int r = 0; r < shape.rows; ++r) {
        std::vector<double>& row = probabilities[static_cast<std::size_t>(h * shape.rows + r)];
        row = scores(all, query(h, r));
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < shape.keys; ++j) {
          double& x = row[static_cast<std::size_t>(j)];
          if (!sees(r, j)) x = -INFINITY;
          top = std::max(top, x);
        }
        for (double& x : row) sum += x = top == -INFINITY ? 0 : std::exp(x - top);
        for (double& x : row) x = sum > 0 ? x / sum : 0;
        lse.as<float>()[static_cast<std::size_t>(r * lse_stride() + h)] =
            static_cast<float>(top + std::log(sum));
      }
    }
  }

  static std::size_t bytes(int floats) { return static_cast<std::size_t>(floats) * sizeof(float); }
  int stride() const { return (shape.heads + 1) * shape.head_dim; }
  int lse_stride() const { return shape.heads + 2; }
  const float* query(int h, int r) const {
    return q.as<float>() + r * stride() + h * shape.head_dim;
  }
  bool sees(int r, int j) const {
    const std::int32_t row = positions[static_cast<std::size_t>(r)], key = host.position(j);
    return key <= row && (shape.window == 0 || key > row - shape.window);
  }
  /// Whether some row sees nothing.
  bool is_blind() const {
    for (int r = 0; r < shape.rows; ++r) {
      int seen = 0;
      for (int j = 0; j < shape.keys; ++j) seen += sees(r, j);
      if (seen == 0) return true;
    }
    return false;
  }
  double probability(int h, int r, int j) const {
    return probabilities[static_cast<std::size_t>(h * shape.rows + r)][static_cast<std::size_t>(j)];
  }
  std::vector<double> scores(const std::vector<float>& keys, const float* query) const {
    std::vector<double> out;
    for (std::size_t at = 0; at < keys.size(); at += static_cast<std::size_t>(shape.head_dim)) {
      double dot = 0;
      for (int d = 0; d < shape.head_dim; ++d)
        dot += static_cast<double>(query[d]) * keys[at + static_cast<std::size_t>(d)];
      out.push_back(dot * kScale);
    }
    return out;
  }
  void fill(CausalRows& job, const KvSet& keys, int first = 0, int rows = -1) const {
    job.keys = &keys;
    job.q = query(0, first);
    job.q_stride = static_cast<std::size_t>(stride());
    job.heads = shape.heads;
    job.positions = positions.data() + first;
    job.rows = rows < 0 ? shape.rows - first : rows;
    job.sliding_window = shape.window;
  }

  Shape shape;
  KvSet host, device;
  Buffer q, lse;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<double>> probabilities;  // head by head, row by row
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {.keys = 1, .rows = 1, .heads = 1, .head_dim = 16},
      {.keys = 63, .rows = 63, .heads = 4, .head_dim = 16},
      {.keys = 64, .rows = 64, .heads = 1, .head_dim = 64, .dtype = DType::kBF16},
      {.keys = 65, .rows = 65, .heads = 7, .head_dim = 36},
      {.keys = 65, .rows = 150, .heads = 4, .head_dim = 128, .dtype = DType::kBF16, .holes = true},
      {.keys = 130, .rows = 5, .heads = 1, .head_dim = 20, .dtype = DType::kF16},
      {.keys = 150, .rows = 150, .heads = 1, .head_dim = 256, .dtype = DType::kF16, .window = 40},
      {.keys = 300, .rows = 300, .heads = 2, .head_dim = 64, .holes = true, .window = 50},
      {.keys = 300, .rows = 200, .heads = 1, .head_dim = 80, .dtype = DType::kF16, .holes = true},
      {.keys = 1000, .rows = 70, .heads = 1, .head_dim = 128, .dtype = DType::kBF16},
      {.keys = 1000, .rows = 80, .heads = 1, .head_dim = 64, .window = 70},
  };
  return all;
}

class Statistics : public testing::Test {
 protected:
  std::vector<float> row_probabilities(const Rows& x, int head, std::size_t ld) {
    std::vector<float> out(static_cast<std::size_t>(x.shape.rows) * ld, NAN);
    cuda::row_probabilities(context, kScale, x.device, x.query(head, 0),
                            static_cast<std::size_t>(x.stride()), x.positions.data(), x.shape.rows,
                            x.shape.window, out.data(), ld);
    return out;
  }

  cuda::Context context{0};
};

TEST_F(Statistics, RowProbabilities) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    const auto ld = static_cast<std::size_t>(shape.keys / 64 + 2) * 64;
    const int head = shape.heads - 1;
    std::vector<float> want(static_cast<std::size_t>(shape.rows) * ld), first;
    cpu::row_probabilities(kScale, x.host, x.query(head, 0), static_cast<std::size_t>(x.stride()),
                           x.positions.data(), shape.rows, shape.window, want.data(), ld);
    in_every_order([&] {
      const std::vector<float> got = row_probabilities(x, head, ld);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first);
    });
    EXPECT_EQ(first, want) << "the CPU's bits";
    for (int r = 0; r < shape.rows; ++r) {
      for (int j = 0; j < static_cast<int>(ld); ++j) {
        const float p = first[static_cast<std::size_t>(r) * ld + static_cast<std::size_t>(j)];
        ASSERT_NEAR(p, j < shape.keys ? x.probability(head, r, j) : 0, 1e-5) << r << " " << j;
      }
    }
  }
}

// Rows in any order, of the host, and more of them than are taken at once.
TEST_F(Statistics, RowProbabilitiesOfChosenRows) {
  const Rows x({.keys = 90, .rows = 90, .head_dim = 16});
  std::vector<float> q, want, got(300 * 128);
  std::vector<std::int32_t> positions;
  const std::vector<float> all = row_probabilities(x, 0, 128);
  for (int i = 0; i < 300; ++i) {
    const int r = i * 37 % 90;
    q.insert(q.end(), x.query(0, r), x.query(0, r) + 16);
    positions.push_back(x.positions[static_cast<std::size_t>(r)]);
    want.insert(want.end(), all.begin() + r * 128, all.begin() + (r + 1) * 128);
  }
  cuda::row_probabilities(context, kScale, x.device, q.data(), 16, positions.data(), 300, 0,
                          got.data(), 128);
  EXPECT_EQ(got, want);
}

/// A MassJob's results, which begin at some value.
struct MassSums {
  explicit MassSums(const Rows& x)
      : vertical(static_cast<std::size_t>(x.shape.heads * (x.shape.keys + 3)), 0.25F),
        slash(static_cast<std::size_t>(x.positions.back() + 1), 0.5F) {}
  MassJob job(const Rows& x, int first = 0, int rows = -1) {
    MassJob out;
    x.fill(out, x.device, first, rows);
    out.vertical = vertical.data();
    out.vertical_stride = static_cast<std::size_t>(x.shape.keys + 3);
    if (x.shape.heads == 1) out.slash = slash.data();
    return out;
  }
  bool operator==(const MassSums&) const = default;
  std::vector<float> vertical, slash;
};

TEST_F(Statistics, MassIsTheSumOfRows) {
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
          want.vertical[static_cast<std::size_t>(h * (shape.keys + 3) + j)] += p;
          if (shape.heads == 1)
            want.slash[static_cast<std::size_t>(x.positions[static_cast<std::size_t>(r)] -
                                                x.host.position(j))] += p;
        }
      }
    }
    in_every_order([&] {
      MassSums got(x);
      const MassJob job = got.job(x);
      cuda::add_mass(context, kScale, {&job, 1});
      ASSERT_EQ(got.vertical, want.vertical);
      ASSERT_EQ(got.slash, want.slash);
    });
    for (int first = 0; first < shape.rows; first += 37) {
      const MassJob job = split.job(x, first, std::min(37, shape.rows - first));
      cuda::add_mass(context, kScale, {&job, 1});
    }
    EXPECT_TRUE(split == want);
  }
}

TEST_F(Statistics, MassDoesNotDependOnTheCompany) {
  std::vector<std::unique_ptr<Rows>> all;
  std::vector<MassSums> together, alone;
  for (const Shape& shape : shapes()) {
    all.push_back(std::make_unique<Rows>(shape));
  }
  for (const auto& x : all) {
    together.emplace_back(*x);
    alone.emplace_back(*x);
  }
  std::vector<MassJob> jobs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    jobs.push_back(together[i].job(*all[i]));
    const MassJob job = alone[i].job(*all[i]);
    cuda::add_mass(context, kScale, {&job, 1});
  }
  cuda::add_mass(context, kScale, jobs);
  EXPECT_TRUE(together == alone);
}

struct Rule {
  bool gumbel;
  float temperature;
};

/// A ColumnJob with what it refers to; sums begin at some value.
struct ColumnSums {
  ColumnSums(const Rows& x, const std::optional<Rule>& rule)
      : x(x),
        rule(rule),
        sums(static_cast<std::size_t>(x.shape.heads * (x.shape.keys + 5)), 0.125F),
        seeds(static_cast<std::size_t>(x.shape.rows * x.lse_stride())) {
    Random random(11);
    for (std::uint64_t& seed : seeds) seed = random.next();
  }
  ColumnJob job(const KvSet& keys, int first = 0, int rows = -1) {
    ColumnJob out;
    x.fill(out, keys, first, rows);
    const auto at = static_cast<std::size_t>(first * x.lse_stride());
    out.lse = x.lse.as<float>() + at;
    out.lse_stride = static_cast<std::size_t>(x.lse_stride());
    if (rule) {
      noise = {rule->gumbel ? seeds.data() + at : nullptr, 1 / rule->temperature};
      out.noise = &noise;
    }
    out.sums = sums.data();
    out.sums_stride = static_cast<std::size_t>(x.shape.keys + 5);
    return out;
  }
  /// In double precision, [keys].
  std::vector<double> reference(int head) const {
    std::vector<double> out(static_cast<std::size_t>(x.shape.keys), 0.125), row(out.size());
    for (int r = 0; r < x.shape.rows; ++r) {
      double sum = 0;
      for (int j = 0; j < x.shape.keys; ++j) {
        double weight = x.probability(head, r, j);
        if (rule && x.sees(r, j)) {
          const auto seed = seeds[static_cast<std::size_t>(r * x.lse_stride() + head)];
          const double g = rule->gumbel ? gumbel(seed, x.host.position(j)) : 0;
          weight = std::exp((std::log(weight) + g) / rule->temperature);
        }
        sum += row[static_cast<std::size_t>(j)] = weight;
      }
      for (std::size_t j = 0; j < row.size() && sum > 0; ++j) out[j] += row[j] / sum;
    }
    return out;
  }
  static double gumbel(std::uint64_t seed, std::int32_t position) {
    std::uint32_t h = static_cast<std::uint32_t>(position) * 0x9E3779B1u;
    h += static_cast<std::uint32_t>(seed);
    h = (h ^ h >> 16) * 0x85EBCA6Bu ^ static_cast<std::uint32_t>(seed >> 32);
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    h ^= h >> 16;
    return -std::log(-std::log(((h >> 9) + 0.5) / (1 << 23)));
  }

  const Rows& x;
  std::optional<Rule> rule;
  RowNoise noise;
  std::vector<float> sums;
  std::vector<std::uint64_t> seeds;
};

class Columns : public Statistics, public testing::WithParamInterface<std::optional<Rule>> {};

// Against double precision, and to the bit, or nearly, against the CPU, which knows no noise of
// rows that see nothing.
TEST_P(Columns, EqualTheCpus) {
  ThreadPool pool(1);
  cpu::AttentionWorkspace workspace(1);
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    const Rows x(shape);
    ColumnSums cpu(x, GetParam());
    const bool has_cpu = !GetParam() || !x.is_blind();
    const ColumnJob job = cpu.job(x.host);
    if (has_cpu) cpu::add_column_sums(pool, kScale, {&job, 1}, workspace);
    std::vector<float> got;
    in_every_order([&] {
      ColumnSums sums(x, GetParam());
      const ColumnJob job = sums.job(x.device);
      cuda::add_column_sums(context, kScale, {&job, 1});
      if (got.empty()) got = sums.sums;
      ASSERT_EQ(sums.sums, got);
    });
    const bool is_exact = has_cpu && (shape.dtype == DType::kF32 || shape.head_dim % 16 != 0) &&
                          (!GetParam() || GetParam()->temperature == 1);
    if (is_exact) {
      EXPECT_EQ(got, cpu.sums) << "the CPU's bits";
    }
    for (int h = 0; h < shape.heads; ++h) {
      const std::vector<double> want = cpu.reference(h);
      for (int j = 0; j < shape.keys + 5; ++j) {
        const auto at = static_cast<std::size_t>(h * (shape.keys + 5) + j);
        const double sum = j < shape.keys ? want[static_cast<std::size_t>(j)] : 0.125;
        ASSERT_NEAR(got[at], sum, 1e-4 * sum) << h << " " << j;
        if (has_cpu) {
          ASSERT_NEAR(got[at], cpu.sums[at], 3e-5 * sum) << h << " " << j;
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

TEST_P(Columns, DoNotDependOnTheCompany) {
  std::vector<std::unique_ptr<Rows>> all;
  std::vector<std::unique_ptr<ColumnSums>> together, alone;
  std::vector<ColumnJob> jobs;
  for (const Shape& shape : shapes()) {
    all.push_back(std::make_unique<Rows>(shape));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Rows& x = *all[i];
    // Some without noise.
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

INSTANTIATE_TEST_SUITE_P(Rules, Columns,
                         testing::Values(std::optional<Rule>(), Rule{true, 1}, Rule{true, 1.5F},
                                         Rule{false, 1.5F}),
                         [](const auto& rule) {
                           if (!rule.param) return std::string("plain");
                           return std::string(rule.param->gumbel ? "gumbel" : "plain") +
                                  (rule.param->temperature == 1 ? "_at_1" : "_warm");
                         });

}  // namespace
}  // namespace turnbench
