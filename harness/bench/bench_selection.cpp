#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "harness/bench/bench.h"
#include "harness/bench/numbers.h"
#include "harness/bench/planted_kv.h"

namespace turnbench {
namespace {

constexpr int kLayers = 3;       // that are measured
constexpr int kSteps = 8;        // of one repeat
constexpr int kRecallSteps = 4;  // whose selections are compared with exact scores

/// What the selections of a sequence read, by layer.
struct Observed {
  std::vector<double> tokens = std::vector<double>(kLayers);  ///< over sets and steps
  double recall = 0;                                          ///< sum over heads and steps
  int heads = 0;                                              ///< its terms
};

/// A policy whose selections are compared with the exact scores.
class Observing : public SelectionPolicy {
 public:
  Observing(std::unique_ptr<SelectionPolicy> policy, Observed& observed)
      : policy_(std::move(policy)), observed_(observed) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<Observing>(policy_->clone(), observed_);
  }
  int window() const override { return std::max(1, policy_->window()); }
  void after_prefill(const LayerView& view) override { policy_->after_prefill(view); }
  DeviceNeeds device_needs(const LayerView& view) const override {
    return policy_->device_needs(view);
  }
  std::vector<SlotRange> pinned(int layer, int tokens) const override {
    return policy_->pinned(layer, tokens);
  }
  void prefetch(int layer, const IndexPath& path) override { policy_->prefetch(layer, path); }

  Selection select(const LayerView& view) override {
    Selection out = policy_->select(view);
    double& tokens = observed_.tokens[static_cast<std::size_t>(view.layer)];
    const std::size_t sets = view.sets.size(), lists = out.slots.size();
    for (std::size_t s = 0; s < sets; ++s) {
      std::vector<std::int32_t> all;
      for (std::size_t i = s * lists / sets; i < (s + 1) * lists / sets; ++i)
        all.insert(all.end(), out.slots[i].begin(), out.slots[i].end());
      std::sort(all.begin(), all.end());
      const auto read = std::unique(all.begin(), all.end()) - all.begin();
      tokens += static_cast<double>(out.all() ? view.sets[s].size() : read);
    }
    if (view.layer == kLayers - 1) compare(view, out);
    return out;
  }

 private:
  void compare(const LayerView& view, const Selection& selection) {
    const HeadScores& mass = view.stats.window_mass(1);
    for (int h = 0; h < view.shape.heads; ++h) {
      ++observed_.heads;
      if (selection.all()) {
        ++observed_.recall;
        continue;
      }
      const auto lists = std::ssize(selection.slots);
      const auto& list = selection.slots[static_cast<std::size_t>(h * lists / view.shape.heads)];
      const int n = view.sets[static_cast<std::size_t>(h / view.heads_per_set())].size();
      const std::span<const float> scores = mass.head(h, n);
      std::vector<std::int32_t> best = all_slots(n);
      const auto k = static_cast<std::ptrdiff_t>(list.size());
      std::nth_element(best.begin(), best.begin() + k - 1, best.end(), [&](auto a, auto b) {
        const float x = scores[static_cast<std::size_t>(a)],
                    y = scores[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
      });
      std::sort(best.begin(), best.begin() + k);
      std::vector<std::int32_t> both;
      std::set_intersection(best.begin(), best.begin() + k, list.begin(), list.end(),
                            std::back_inserter(both));
      observed_.recall += static_cast<double>(both.size()) / static_cast<double>(k);
    }
  }

  std::unique_ptr<SelectionPolicy> policy_;
  Observed& observed_;
};

/// A model of the same attention, whose other sizes do not matter.
Checkpoint stand_in(const ModelConfig& config) {
  Checkpoint out;
  out.name = "stand-in";
  out.config = config;
  out.config.layers = std::min(config.layers, kLayers);
  out.config.sliding_window.resize(static_cast<std::size_t>(out.config.layers));
  out.config.hidden = out.config.ffn = out.config.vocab = 64;
  return out;
}

/// The sum over all layers of a model, the last measured one standing for those after it.
double whole(const std::vector<double>& by_layer, int layers) {
  return std::accumulate(by_layer.begin(), by_layer.end(), 0.0) +
         by_layer.back() * (layers - static_cast<int>(by_layer.size()));
}

class SelectionBench {
 public:
  SelectionBench(const ModelConfig& config, Backend& backend, const BenchOptions& options)
      : layers_(config.layers),
        repeats_(options.repeats),
        model_(stand_in(config), backend, DType::kF32),
        engine_(model_, backend, {.kv_dtype = options.kv_dtype}),
        source_(engine_.shape()) {
    dialogue_.seed = 1;
    dialogue_.token_text = [](int token) { return token % 16 == 0 ? "." : " word"; };
  }

  std::vector<SelectionRow> rows(int depth, const std::vector<Method>& methods) {
    for (int i = 0; i < depth; ++i) tokens_.push_back(i % 64);
    Sequence dense = filled({});
    std::vector<SelectionRow> out(1);
    for (int i = 0; i < repeats_; ++i) out[0].seconds.push_back(seconds(dense));
    out[0].method = "full";
    out[0].bytes_read =
        whole(std::vector<double>(measured(), depth * sets()), layers_) * row_bytes();
    for (const Method& method : methods) {
      if (method.canonical() != "full") out.push_back(row(method, dense));
    }
    for (SelectionRow& row : out) row.depth = depth;
    return out;
  }

 private:
  SelectionRow row(const Method& method, Sequence& dense) {
    SelectionRow out;
    out.method = method.label();
    Sequence sequence = filled(method.make());
    std::vector<double> ratios;
    for (int i = 0; i < repeats_; ++i) {
      const double beside = seconds(dense);
      out.seconds.push_back(seconds(sequence));
      ratios.push_back(out.seconds.back() / beside);
    }
    out.of_full = median(ratios);
    std::vector<double> moved(measured());
    const Ledger& ledger = sequence.counters.ledger;
    for (std::size_t l = 0; l < measured() && ledger.steps() > 0; ++l) {
      for (std::size_t s = 2; s < ledger.steps(); ++s)  // not the prompt, nor the first step
        moved[l] += static_cast<double>(ledger.at(s, static_cast<int>(l)).bytes());
      moved[l] /= static_cast<double>(ledger.steps() - 2);
    }
    out.bytes_moved = whole(moved, layers_);
    observe(method, out);
    return out;
  }

  void observe(const Method& method, SelectionRow& out) {
    Policies policies = method.make();
    std::vector<double> tokens(measured());
    if (policies.selection == nullptr) {
      Sequence sequence = filled(std::move(policies));
      for (std::size_t l = 0; l < measured(); ++l) {
        for (const KvHeadCache& set : sequence.cache.layer(static_cast<int>(l)))
          tokens[l] += set.size();
      }
      out.recall = 0;  // of what it evicted it knows nothing
    } else {
      Observed observed;
      policies.selection = std::make_unique<Observing>(std::move(policies.selection), observed);
      Sequence sequence = filled(std::move(policies));
      for (int i = 0; i < kRecallSteps; ++i) step(sequence);
      for (std::size_t l = 0; l < measured(); ++l) tokens[l] = observed.tokens[l] / kRecallSteps;
      out.recall = observed.recall / observed.heads;
    }
    out.bytes_read = whole(tokens, layers_) * row_bytes();
  }

  Sequence filled(Policies policies) {
    Sequence out = engine_.make_sequence(std::move(policies));
    engine_.fill_kv(out, tokens_, dialogue_, source_, 1);
    step(out);  // touches all memory once, and waits for what is built behind the prompt
    return out;
  }

  std::vector<double> step(Sequence& sequence) {
    const Pass pass{.sequence = &sequence,
                    .tokens = {tokens_.data(), 1},
                    .kind = Pass::Kind::kDecode,
                    .dialogue = &dialogue_};
    return engine_.attend_made_up(pass, source_);
  }

  /// Of a step, the median of a few for each layer.
  double seconds(Sequence& sequence) {
    std::vector<std::vector<double>> by_layer(measured());
    for (int i = 0; i < kSteps; ++i) {
      const std::vector<double> one = step(sequence);
      for (std::size_t l = 0; l < one.size(); ++l) by_layer[l].push_back(one[l]);
    }
    std::vector<double> medians;
    for (const std::vector<double>& layer : by_layer) medians.push_back(median(layer));
    return whole(medians, layers_);
  }

  std::size_t measured() const { return static_cast<std::size_t>(engine_.shape().layers); }
  int sets() const { return engine_.shape().kv_heads; }
  double row_bytes() const {
    return 2.0 * engine_.shape().head_dim *
           static_cast<double>(size_of(engine_.options().kv_dtype));
  }

  int layers_, repeats_;
  Model model_;
  Engine engine_;
  PlantedKv source_;
  DialogueView dialogue_;
  std::vector<int> tokens_;
};

}  // namespace

double SelectionRow::median_seconds() const {
  return median(seconds);
}

std::vector<SelectionRow> bench_selection(const ModelConfig& config, Backend& backend,
                                          const BenchOptions& options) {
  std::vector<SelectionRow> out;
  for (const int depth : options.tokens) {
    SelectionBench bench(config, backend, options);
    const std::vector<SelectionRow> rows = bench.rows(depth, options.methods);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

}  // namespace turnbench
