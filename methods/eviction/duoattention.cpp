#include <cmath>

#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"
#include "inference/model/model_config.h"
#include "methods/method.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// The learned gate of each KV head.
struct HeadGates {
  std::string source;                      ///< file; empty: random gates
  std::vector<std::vector<float>> layers;  ///< [layers][kv_heads]

  /// Reads DuoAttention's format: one line per layer, numbers separated by tabs.
  static HeadGates load(const std::string& path);
  /// Draws random gates, or refuses a file for a model of another shape.
  void fit(int model_layers, int kv_heads);
  /// The round(sparsity * heads) heads with the smallest gates, which are clipped to [0, 1]; ties
  /// go to the lower index: [layers * kv_heads].
  std::vector<bool> smallest(double sparsity) const;
};

HeadGates HeadGates::load(const std::string& path) {
  HeadGates out{path, {}};
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    out.layers.emplace_back();
    for (const std::string& text : split(trim(line), "\t")) {
      const auto gate = parse_number<double>(text);
      if (!gate || !std::isfinite(*gate)) {
        throw input_error("{}: line {}: found \"{}\" as gate {}, expected a number", path, number,
                          shorten(printable(text), 40), out.layers.back().size() + 1);
      }
      out.layers.back().push_back(static_cast<float>(std::clamp(*gate, 0.0, 1.0)));
    }
  });
  return out;
}

void HeadGates::fit(int model_layers, int kv_heads) {
  if (source.empty()) {
    Random random = Random::from({seed_of("duoattention")});
    layers.assign(static_cast<std::size_t>(model_layers), {});
    for (std::vector<float>& layer : layers) {
      for (int h = 0; h < kv_heads; ++h) layer.push_back(static_cast<float>(random.uniform()));
    }
  }
  if (std::ssize(layers) != model_layers) {
    throw input_error("{}: found {} lines, expected one for each of the model's {} layers", source,
                      layers.size(), model_layers);
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (std::ssize(layers[l]) == kv_heads) continue;
    throw input_error("{}: line {}: found {} gates, expected the model's {} KV heads", source,
                      l + 1, layers[l].size(), kv_heads);
  }
}

std::vector<bool> HeadGates::smallest(double sparsity) const {
  std::vector<float> negated;
  for (const std::vector<float>& layer : layers) {
    for (const float gate : layer) negated.push_back(-gate);
  }
  std::vector<bool> out(negated.size(), false);
  const double count = std::nearbyint(sparsity * static_cast<double>(out.size()));
  for (const std::int32_t head : top_k(negated, static_cast<int>(count))) out[head] = true;
  return out;
}

class DuoAttention : public Cloned<DuoAttention, EvictionPolicy> {
 public:
  struct Settings {
    HeadGates gates;
    double sparsity;
    int sinks, recent;
    bool rolling;
  };
  explicit DuoAttention(Settings settings) : s_(std::move(settings)) {}

  bool keeps_unequal_sets() const override { return true; }
  bool evicts_in_answers() const override { return s_.rolling; }

  KeepSets after_prefill(const LayerView& view) override {
    if (streams_.empty()) {
      s_.gates.fit(view.shape.layers, view.shape.kv_heads);
      streams_ = s_.gates.smallest(s_.sparsity);
    }
    return after_decode(view);
  }

  KeepSets after_decode(const LayerView& view) override {
    if (streams_.empty()) return {};
    KeepSets out;
    bool drops = false;
    for (std::size_t h = 0; h < view.sets.size(); ++h) {
      const int n = view.sets[h].size();
      const bool cuts = n > s_.sinks + s_.recent && streams_[view.layer * view.sets.size() + h];
      out.slots.push_back(cuts ? with_tail(all_slots(s_.sinks), n - s_.recent, n) : all_slots(n));
      drops |= cuts;
    }
    return drops ? out : KeepSets{};
  }

 private:
  Settings s_;
  std::vector<bool> streams_;  // [layers * kv_heads], from the end of the first prompt on
};

HeadGates gates_of(const Parameters& p) {
  const auto file = p.file("gates");
  return file ? HeadGates::load(file->string()) : HeadGates();
}

}  // namespace

/// Retrieval heads keep all tokens; streaming heads, the KV heads with the smallest learned gates,
/// keep the first and the most recent ones (Xiao et al., 2024, section 2.3).
MethodInfo duoattention() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "duoattention",
      .summary =
          "keeps all tokens in some KV heads, and the first and the most recent ones in the others",
      .paper =
          "Xiao et al., DuoAttention: Efficient Long-Context LLM Inference with Retrieval and "
          "Streaming Heads, 2024",
      .budget_unit =
          "none: a streaming head keeps sinks + recent tokens, a retrieval head all tokens",
      .deviations =
          "prefill attention is dense, as in the official code for a prompt of one chunk (in later "
          "chunks, its streaming heads read only what they keep); a decode step attends before "
          "the oldest token is evicted; kvpress (DuoAttentionPress) does not evict while decoding "
          "(rolling=false); the number of streaming heads is rounded, half to even, as in kvpress; "
          "ties go to the lower layer and head (official code: random noise); gates=none is a "
          "control: random gates, equal in all runs",
      .parameters = {{"gates", Kind::kFile, "none", "file of a model",
                      "file full_attention_heads.tsv of DuoAttention: the gates of a layer's KV "
                      "heads in each line; none: random gates, a control"},
                     {"sparsity", Kind::kNumber, "0.5", "share of KV heads",
                      "streaming heads: those with the smallest gates", 0, 1},
                     {"sinks", Kind::kInteger, "64", "tokens",
                      "first tokens that a streaming head keeps", 0, 1e6},
                     {"recent", Kind::kInteger, "256", "tokens",
                      "most recent tokens that a streaming head keeps", 1, 1e6},
                     {"rolling", Kind::kFlag, "true", "", "evict while decoding too"}},
      .make =
          [](const Parameters& p) {
            return Policies{.eviction = std::make_unique<DuoAttention>(DuoAttention::Settings{
                                gates_of(p), p.number("sparsity"), p.integer("sinks"),
                                p.integer("recent"), p.flag("rolling")})};
          },
      .check_model =
          [](const Parameters& p, const ModelConfig& config) {
            gates_of(p).fit(config.layers, config.kv_heads);
          }};
}

}  // namespace turnbench
