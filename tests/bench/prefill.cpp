// Sparse prefill of one layer: statistics, selection and attention of a method against dense
// attention on the same tensors.  Queries and keys carry a planted structure: sinks, a local band,
// a few diagonals and columns.

#include <benchmark/benchmark.h>

#include <cmath>
#include <ctime>
#include <random>

#include "inference/backend.h"
#include "methods/method.h"

namespace turnbench {
namespace {

struct Geometry {
  int layers, heads, kv_heads, head_dim, tokens;
};
constexpr Geometry kHalfBillion{24, 14, 2, 64, 16384}, kSmall{4, 6, 6, 32, 2048};

/// Processor time of this process: on a busy machine it says more than the clock on the wall.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// One layer whose logits are translation-invariant waves (a band around the diagonal and around
/// some offsets), columns that all rows see, sinks, and noise.
class PlantedLayer {
 public:
  explicit PlantedLayer(const Geometry& g)
      : shape_{g.layers, g.heads, g.kv_heads, g.head_dim},
        n_(g.tokens),
        backend_(make_cpu_backend(1)),
        q_(static_cast<std::size_t>(g.tokens) * width()),
        out_(q_.size()) {
    auto pool = std::make_shared<KvPool>(PageLayout{g.head_dim, DType::kF32, false});
    for (int s = 0; s < g.kv_heads; ++s) plant(s, pool);
    for (int i = 0; i < n_; ++i) positions_.push_back(i);
    dialogue_.seed = 1;
  }

  /// Plans and attends once; returns the seconds that planning took.
  double run(PrefillPolicy* policy) {
    const float scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    AttentionStats stats(*backend_, shape_, scale, 0, sets_,
                         {q_.data(), width(), positions_.data(), n_}, nullptr);
    const double start = cpu_seconds();
    patterns_.clear();
    if (policy != nullptr) {
      patterns_ = policy->plan({1, shape_, sets_, stats, dialogue_, 0, n_, 0, 0});
    }
    const double planning = cpu_seconds() - start;
    std::vector<AttentionJob> jobs;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      const auto first = s * static_cast<std::size_t>(shape_.group());
      AttentionJob job;
      job.keys = &sets_[s];
      job.q = q_.data() + first * static_cast<std::size_t>(shape_.head_dim);
      job.out = out_.data() + first * static_cast<std::size_t>(shape_.head_dim);
      job.q_stride = job.out_stride = width();
      job.heads = shape_.group();
      job.positions = positions_.data();
      job.rows = n_;
      job.pass = {0, n_};
      if (!patterns_.empty()) job.patterns = patterns_.data() + first;
      jobs.push_back(job);
    }
    backend_->attend(scale, jobs);
    return planning;
  }

  double share_of_pairs() const {
    if (patterns_.empty()) return 1;
    double pairs = 0;
    for (const HeadPattern& p : patterns_) pairs += static_cast<double>(pattern_pairs(p, {0, n_}));
    return pairs / (shape_.heads * 0.5 * n_ * (n_ + 1.0));
  }

 private:
  std::size_t width() const {
    return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.head_dim);
  }

  /// Dimension 0 holds the sinks, 1 the columns, the others waves: cos and sin of w * position for
  /// keys, shifted by the head's offsets for queries.
  void plant(int set, const std::shared_ptr<KvPool>& pool) {
    std::mt19937 random(static_cast<unsigned>(set) + 1);
    std::normal_distribution<double> noise(0, 0.25);
    std::uniform_real_distribution<double> uniform(0, 1);
    const int d = shape_.head_dim, waves = (d - 2) / 2;
    const double peak = std::sqrt(13.0 * std::sqrt(static_cast<double>(d)) / waves);
    std::vector<double> frequency;
    for (int w = 0; w < waves; ++w) frequency.push_back(std::pow(10.0, -2.5 * uniform(random)));
    KvSet keys(pool);
    std::vector<float> key(static_cast<std::size_t>(d)), value(key.size());
    for (int j = 0; j < n_; ++j) {
      for (float& x : key) x = static_cast<float>(noise(random));
      for (float& x : value) x = static_cast<float>(noise(random));
      key[0] += j < 4 ? 10.0f : 0.0f;
      key[1] += uniform(random) < 0.002 ? 8.0f : 0.0f;
      for (int w = 0; w < waves; ++w) {
        const double angle = frequency[static_cast<std::size_t>(w)] * j;
        key[static_cast<std::size_t>(2 + 2 * w)] += static_cast<float>(peak * std::cos(angle));
        key[static_cast<std::size_t>(3 + 2 * w)] += static_cast<float>(peak * std::sin(angle));
      }
      keys.append(key.data(), value.data(), nullptr, j);
    }
    sets_.push_back(std::move(keys));
    for (int h = set * shape_.group(); h < (set + 1) * shape_.group(); ++h) {
      const double second = 100 + uniform(random) * n_ / 2;
      for (int i = 0; i < n_; ++i) {
        float* q = q_.data() + static_cast<std::size_t>(i) * width() +
                   static_cast<std::size_t>(h) * static_cast<std::size_t>(d);
        q[0] = q[1] = 10.0f;
        for (int w = 0; w < waves; ++w) {
          for (const auto& [offset, strength] : {std::pair{0.0, 1.0}, {second, 0.8}}) {
            const double angle = frequency[static_cast<std::size_t>(w)] * (i - offset);
            q[2 + 2 * w] += static_cast<float>(strength * peak * std::cos(angle));
            q[3 + 2 * w] += static_cast<float>(strength * peak * std::sin(angle));
          }
        }
      }
    }
  }

  ModelShape shape_;
  int n_;
  std::unique_ptr<Backend> backend_;
  std::vector<KvSet> sets_;
  std::vector<float> q_, out_;
  std::vector<std::int32_t> positions_;
  std::vector<HeadPattern> patterns_;
  DialogueView dialogue_;
};

/// One iteration is a whole layer; dense attention is timed beside each, so that the ratio means
/// something on a busy machine.
void SparsePrefill(benchmark::State& state, const Geometry& geometry, const char* spec) {
  PlantedLayer layer(geometry);
  const Policies policies = Method::parse(spec).make();
  double dense = 0, sparse = 0, planning = 0;
  const auto seconds = [&](PrefillPolicy* policy, double& planning) {
    const double start = cpu_seconds();
    planning += layer.run(policy);
    return cpu_seconds() - start;
  };
  for (auto _ : state) {
    double none = 0;
    dense += seconds(nullptr, none);
    const double mine = seconds(policies.prefill.get(), planning);
    sparse += mine;
    state.SetIterationTime(mine);
  }
  state.counters["of dense"] = sparse / dense;
  state.counters["planning"] = planning / dense;
  state.counters["pairs"] = layer.share_of_pairs();
}

#define TURNBENCH_PREFILL(name, geometry, spec)          \
  BENCHMARK_CAPTURE(SparsePrefill, name, geometry, spec) \
      ->UseManualTime()                                  \
      ->Unit(benchmark::kMillisecond)
TURNBENCH_PREFILL(16k_loopserve, kHalfBillion, "loopserve-prefill");
TURNBENCH_PREFILL(16k_minference, kHalfBillion, "minference:vertical=500,slash=700");
TURNBENCH_PREFILL(16k_flexprefill, kHalfBillion, "flexprefill");
TURNBENCH_PREFILL(16k_critiprefill, kHalfBillion, "critiprefill");
TURNBENCH_PREFILL(16k_a_shape, kHalfBillion, "a-shape:n_init=128,n_local=896");
TURNBENCH_PREFILL(2k_loopserve, kSmall, "loopserve-prefill");
TURNBENCH_PREFILL(2k_minference, kSmall, "minference:vertical=100,slash=200");
#undef TURNBENCH_PREFILL

}  // namespace
}  // namespace turnbench
