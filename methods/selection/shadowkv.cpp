#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/chunk_index.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"
#include "methods/parts/step_tokens.h"

namespace turnbench {
namespace {

// As in the official offloading implementation: chunks in multiples of eight, and a number of
// outliers per 1024 tokens read.
constexpr int kChunksTogether = 8, kOutliersPerPart = 24, kPartTokens = 1024;

class ShadowKv : public Cloned<ShadowKv, TopKSelection>, public KeyRebuilder {
 public:
  struct Settings {
    Budget budget;
    int chunk;      ///< tokens
    int rank;       ///< rank of the joint factorisation of all KV heads' keys
    int local;      ///< newest complete chunks of a prompt, always read
    int outliers;   ///< chunks of each KV head
    bool offloads;  ///< as in the official implementation for speed
    bool rebuild;   ///< rebuilds the index in each turn
  };
  explicit ShadowKv(const Settings& s) : s_(s) {}

  SelectionTraits traits() const override {
    return {.pre_rope_keys = true, .needs_equal_sets = true, .needs_whole_answers = true};
  }

  void after_prefill(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    layer.prompt = view.sets.front().size();
    const int budget = s_.budget.tokens(view.prompt_tokens);
    layer.chosen = budget / s_.chunk;
    layer.reads_all = reads_everything(layer.prompt, budget);
    if (layer.reads_all) return;
    // After evictions, slots refer to other tokens.
    const bool goes_on = !s_.rebuild && layer.prompt == view.prompt_tokens;
    if (!goes_on || layer.index.tokens() > layer.prompt) layer.index = {};
    layer.index.extend(view, {s_.chunk, s_.rank, chunks_of(layer.prompt), outliers_of(budget)});
  }

  /// The index: the copy of the keys that is factorised, its factors (twice), and landmarks.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    const int budget = s_.budget.tokens(size.prompt_tokens), chunks = chunks_of(size.tokens),
              tail = size.tokens - chunks * s_.chunk;
    DeviceNeeds out = {.everything = reads_everything(size.tokens, budget),
                       .pinned_tokens = outliers_of(budget) * s_.chunk + tail + kAnswerRoom,
                       .step_tokens = budget / s_.chunk * s_.chunk,
                       .block = s_.chunk,
                       .index_bytes = index_bytes(size)};
    if (known == nullptr) return out;
    const Layer& layer = layers_[size.layer];
    out.everything = layer.reads_all;
    out.pinned_tokens = static_cast<std::int32_t>(layer.index.outliers(0).size()) * s_.chunk +
                        layer.prompt - layer.index.chunks() * s_.chunk + kAnswerRoom;
    return out;
  }

  /// Outliers, the newest tokens of the prompt, and the answer.
  std::vector<SlotRange> pinned(int layer, int set, int tokens) const override {
    const ChunkIndex& index = layers_[layer].index;
    std::vector<SlotRange> out;
    for (const std::int32_t chunk : index.outliers(static_cast<std::size_t>(set)))
      out.push_back({chunk * s_.chunk, (chunk + 1) * s_.chunk});
    out.push_back({index.chunks() * s_.chunk, tokens});
    return out;
  }

  std::size_t key_bytes(int layer) const override { return layers_[layer].index.key_bytes(); }
  void rebuild_keys(const LayerView& view, const MissingKeys& missing) override {
    layers_[view.layer].index.rebuild_keys(view, missing);
  }

 protected:
  /// The score of a chunk is the highest of any query head.
  Ranking ranking(const LayerView&) const override {
    return {.reduction = HeadReduction::kMaxOfLogSoftmax};
  }
  std::vector<Candidates> begin_step(const LayerView& view) override {
    const Layer& layer = layers_[view.layer];
    if (layer.reads_all) return {};
    std::vector<Candidates> out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t count = layer.index.landmarks(s);
      out.push_back({s, 0, view.heads_per_set(), count, 0, count, layer.chosen});
    }
    return out;
  }
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    layers_[view.layer].index.add_scores(view, set, scores, jobs);
  }
  /// The slots of the best chunks and of the outliers, and the newest tokens.
  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override {
    const ChunkIndex& index = layers_[view.layer].index;
    std::vector<std::int32_t> chunks = index.chunks_of(list.set, best), out;
    for (const std::int32_t outlier : index.outliers(list.set)) chunks.push_back(outlier);
    std::sort(chunks.begin(), chunks.end());
    for (const std::int32_t chunk : chunks)
      out = with_tail(std::move(out), chunk * s_.chunk, (chunk + 1) * s_.chunk);
    return with_tail(std::move(out), index.chunks() * s_.chunk, view.sets[list.set].size());
  }

 private:
  std::size_t index_bytes(const PromptSize& size) const {
    const std::int64_t width = std::int64_t{size.sets} * size.shape.head_dim,
                       rank = std::min<std::int64_t>({s_.rank, size.tokens, width});
    const auto coefficients = static_cast<std::size_t>(size.tokens * rank),
               basis = static_cast<std::size_t>(rank * width);
    return size.key_elements(size.tokens) * sizeof(float) +
           coefficients * (sizeof(float) + 2 * size_of(size.dtype)) + basis * sizeof(float) +
           size.key_elements(chunks_of(size.tokens)) * size_of(size.dtype);
  }

  struct Layer {
    bool reads_all = true;
    int prompt = 0;  ///< tokens of each set
    int chosen = 0;  ///< chunks in a set's list in addition to those that are always read
    ChunkIndex index;
  };

  /// The number of chunks of a prompt, without the newest ones.
  int chunks_of(int tokens) const {
    const int out = std::max(0, tokens / s_.chunk - s_.local);
    return s_.offloads ? out - out % kChunksTogether : out;
  }
  bool reads_everything(int tokens, int budget) const {
    const int chunks = chunks_of(tokens);
    return tokens <= budget || chunks < budget / s_.chunk + outliers_of(budget) || chunks == 0;
  }
  int outliers_of(int budget) const {
    return s_.offloads ? kOutliersPerPart * (budget / kPartTokens) : s_.outliers;
  }

  Settings s_;
  PerLayer<Layer> layers_;
};

}  // namespace

/// ShadowKV (Sun et al., 2024): keys before RoPE are stored as low-rank factors, from which the
/// keys of selected chunks are rebuilt; their values are transferred from the host; chunks are
/// selected by the means of their keys (section 4, algorithms 1 and 2).
MethodInfo shadowkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "shadowkv",
      .summary = "computes the keys of selected chunks from a low-rank product",
      .paper =
          "Sun et al., ShadowKV: KV Cache in Shadows for High-Throughput Long-Context LLM "
          "Inference, 2024",
      .budget_unit =
          "tokens of selected chunks, read per KV head and step; outliers, the newest tokens of "
          "the prompt, and the answer are not counted",
      .deviations =
          "class=acc is the official accuracy code (48 outliers at any budget), class=offload the "
          "official offloading code; both rebuild the keys of selected chunks, class=offload also "
          "those that the official prefill leaves on the device; the singular vectors are those of "
          "the keys' Gram matrix in double precision; coefficients and landmarks have the type of "
          "the cache, the basis is float32 (official code: all bfloat16), scores are not rounded, "
          "and their scale is the model's (official code: that of head dimension 128); a later "
          "turn's prompt is prefilled like the first one, and its keys are added to the index in "
          "the basis of the first prompt, with a proportional number of outliers (official code: "
          "up to 4096 tokens are read like an answer, more overwrite the index), or the index is "
          "rebuilt (rebuild=true, or with evictions); budgets are rounded down to whole chunks; "
          "ties go to the earlier chunk; the device's blocks are the chunks, regardless of "
          "cache_block; cached keys are kept in addition to the product, for later turns; with "
          "placement=device they and the values stay on the device",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens of selected chunks"},
                     {"rank", Kind::kInteger, "160", "singular values",
                      "rank of the keys of all KV heads together", 1},
                     {"chunk", Kind::kInteger, "8", "tokens", "chunk size", 1},
                     {"local_chunks", Kind::kInteger, "4", "chunks",
                      "newest chunks of a prompt, always read together with the tokens after them"},
                     {"outliers", Kind::kInteger, "48", "chunks",
                      "chunks per KV head that are always read; class=offload: 24 per 1024 tokens "
                      "of the budget instead"},
                     {"class", Kind::kChoice, "acc", "acc|offload",
                      "official accuracy code or official offloading code"},
                     {"rebuild", Kind::kFlag, "false", "", "rebuild the index in each turn"}},
      .make =
          [](const Parameters& p) {
            const int chunk = p.integer("chunk");
            check_room("shadowkv", p.budget("budget"), chunk - 1,
                       fmt::format("chunks of {} tokens", chunk));
            return Policies{.selection = std::make_unique<ShadowKv>(
                                ShadowKv::Settings{.budget = p.budget("budget"),
                                                   .chunk = p.integer("chunk"),
                                                   .rank = p.integer("rank"),
                                                   .local = p.integer("local_chunks"),
                                                   .outliers = p.integer("outliers"),
                                                   .offloads = p.choice("class") == "offload",
                                                   .rebuild = p.flag("rebuild")})};
          },
      .placement = {{"placement", "host"}, {"cache_block", "8"}, {"cache_rule", "previous"}}};
}

}  // namespace turnbench
