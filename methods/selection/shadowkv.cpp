#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/chunk_landmarks.h"
#include "methods/parts/low_rank_keys.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kAnswerRoomPinned = 1024;  // answer tokens before a new working set is needed
// As in the official offloading implementation: chunks in multiples of eight, and a number of
// outliers per 1024 tokens read.
constexpr int kChunksTogether = 8, kOutliersPerPart = 24, kPartTokens = 1024;

class ShadowKv : public SelectionPolicy, public KeyRebuilder {
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

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ShadowKv>(*this);
  }
  SelectionTraits traits() const override {
    return {.pre_rope_keys = true, .needs_equal_sets = true, .needs_whole_answers = true};
  }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    layer.prompt = view.sets.front().size();
    const int budget = s_.budget.tokens(view.prompt_tokens), chunks = chunks_of(layer.prompt);
    layer.chosen = budget / s_.chunk;
    layer.reads_all = reads_all(layer.prompt, budget);
    if (layer.reads_all) return;
    // After evictions, slots refer to other tokens.
    const bool goes_on = !s_.rebuild && !layer.keys.empty() && layer.prompt == view.prompt_tokens &&
                         layer.keys.back()->end() <= layer.prompt;
    if (!goes_on) layer.forget();
    extend(view, layer, chunks, outliers_of(budget));
  }

  /// The index: the copy of the keys that is factorised, its factors (twice), and landmarks.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    const int budget = s_.budget.tokens(size.prompt_tokens), chunks = chunks_of(size.tokens),
              tail = size.tokens - chunks * s_.chunk;
    DeviceNeeds out = {.everything = reads_all(size.tokens, budget),
                       .pinned_tokens = outliers_of(budget) * s_.chunk + tail + kAnswerRoomPinned,
                       .step_tokens = budget / s_.chunk * s_.chunk,
                       .block = s_.chunk,
                       .index_bytes = index_bytes(size)};
    if (known == nullptr) return out;
    const Layer& layer = layers_[static_cast<std::size_t>(size.layer)];
    out.everything = layer.reads_all;
    std::size_t outliers = 0;  // of all parts of the index
    for (const auto& part : layer.landmarks) outliers += part->outliers(0).size();
    out.pinned_tokens = static_cast<std::int32_t>(outliers) * s_.chunk + layer.prompt -
                        layer.chunks() * s_.chunk + kAnswerRoomPinned;
    return out;
  }

  /// Outliers, the newest tokens of the prompt, and the answer.
  std::vector<SlotRange> pinned(int layer, int set, int tokens) const override {
    const Layer& own = layers_[static_cast<std::size_t>(layer)];
    std::vector<SlotRange> out;
    for (const auto& part : own.landmarks) {
      for (const std::int32_t chunk : part->outliers(static_cast<std::size_t>(set)))
        out.push_back({chunk * s_.chunk, (chunk + 1) * s_.chunk});
    }
    out.push_back({own.chunks() * s_.chunk, tokens});
    return out;
  }

  /// Products with landmarks -> for each KV head, the chunks with the highest scores of any of its
  /// query heads.
  Selection select(const LayerView& view) override {
    const Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    if (layer.reads_all) return {};
    const std::vector<std::vector<std::int32_t>> chosen = best_chunks(view, layer);
    Selection out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      std::vector<std::int32_t> chunks = chosen[s];
      for (const auto& part : layer.landmarks) {
        const auto outliers = part->outliers(s);
        chunks.insert(chunks.end(), outliers.begin(), outliers.end());
      }
      std::sort(chunks.begin(), chunks.end());
      std::vector<std::int32_t>& slots = out.slots.emplace_back();
      const int tail = layer.chunks() * s_.chunk, n = view.sets[s].size();
      slots.reserve(chunks.size() * static_cast<std::size_t>(s_.chunk) +
                    static_cast<std::size_t>(n - tail));
      for (const std::int32_t chunk : chunks) {
        for (int j = 0; j < s_.chunk; ++j) slots.push_back(chunk * s_.chunk + j);
      }
      slots = with_tail(std::move(slots), tail, n);
    }
    return out;
  }

  std::size_t key_bytes(int layer) const override {
    const auto l = static_cast<std::size_t>(layer);
    std::size_t out = 0;
    if (l >= layers_.size()) return out;  // before the first prompt
    for (const auto& part : layers_[l].keys) out += part->bytes();
    return out;
  }

  void rebuild_keys(const LayerView& view, const MissingKeys& missing) override {
    using Run = RebuildKeysJob::Run;
    const Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    // For each set, the runs of each part of the keys.
    std::vector<std::vector<std::vector<Run>>> runs(
        missing.sets.size(), std::vector<std::vector<Run>>(layer.keys.size()));
    for (const SlotCopy& c : missing.tokens) {
      for (std::size_t k = 0; k < layer.keys.size(); ++k) {
        const std::int32_t begin = std::max(c.host, layer.keys[k]->first()),
                           end = std::min(c.host + c.count, layer.keys[k]->end());
        if (begin >= end) continue;
        runs[static_cast<std::size_t>(c.set)][k].push_back(
            {begin - layer.keys[k]->first(), c.device + begin - c.host, end - begin});
      }
    }
    std::vector<RebuildKeysJob> jobs;
    for (std::size_t s = 0; s < runs.size(); ++s) {
      for (std::size_t k = 0; k < layer.keys.size(); ++k) {
        if (runs[s][k].empty()) continue;
        jobs.push_back({&missing.sets[s], runs[s][k], layer.keys[k]->coefficients(),
                        layer.keys[k]->basis(s), missing.rope});
      }
    }
    view.backend->rebuild_keys(jobs);
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
    std::vector<std::shared_ptr<const ChunkLandmarks>> landmarks;  ///< chunk after chunk
    std::vector<std::shared_ptr<const LowRankKeys>> keys;          ///< token after token

    int chunks() const { return landmarks.empty() ? 0 : landmarks.back()->settings().end; }
    void forget() {
      landmarks.clear();
      keys.clear();
    }
  };

  /// The number of chunks of a prompt, without the newest ones.
  int chunks_of(int tokens) const {
    const int out = std::max(0, tokens / s_.chunk - s_.local);
    return s_.offloads ? out - out % kChunksTogether : out;
  }
  bool reads_all(int tokens, int budget) const {
    const int chunks = chunks_of(tokens);
    return tokens <= budget || chunks < budget / s_.chunk + outliers_of(budget) || chunks == 0;
  }
  int outliers_of(int budget) const {
    return s_.offloads ? kOutliersPerPart * (budget / kPartTokens) : s_.outliers;
  }

  /// Extends the index by the new tokens of the prompt.
  void extend(const LayerView& view, Layer& layer, int chunks, int outliers) const {
    const int known = layer.chunks(), end = layer.keys.empty() ? 0 : layer.keys.back()->end();
    std::string history;  // history of the index, which otherwise depends only on the tokens
    for (const auto& part : layer.landmarks) {
      history += fmt::format(" {}-{}/{}", part->settings().first, part->settings().end,
                             part->settings().outliers);
    }
    if (chunks > known) {
      ChunkLandmarks::Settings part{s_.chunk, known, chunks, outliers};
      if (known > 0) {  // the same share of outliers as among the first chunks
        const ChunkLandmarks::Settings& first = layer.landmarks.front()->settings();
        part.outliers = static_cast<int>(std::int64_t{first.outliers} * (chunks - known) /
                                         (first.end - first.first));
      }
      layer.landmarks.push_back(view.memo->get<ChunkLandmarks>(
          fmt::format("shadowkv {} {}{} {}-{}", s_.chunk, part.outliers, history, known, chunks),
          [&] { return std::make_shared<ChunkLandmarks>(view, part); }));
    }
    if (layer.prompt == end) return;
    std::string parts = fmt::format("shadowkv {}", s_.rank);
    for (const auto& part : layer.keys) parts += fmt::format(" {}", part->end());
    layer.keys.push_back(view.memo->get<LowRankKeys>(parts, [&] {
      return layer.keys.empty()
                 ? std::make_shared<LowRankKeys>(view, layer.prompt, s_.rank)
                 : std::make_shared<LowRankKeys>(view, layer.keys.back(), layer.prompt);
    }));
  }

  std::vector<std::vector<std::int32_t>> best_chunks(const LayerView& view,
                                                     const Layer& layer) const {
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    std::int64_t count = 0;
    for (const auto& part : layer.landmarks) count += std::ssize(part->chunks(0));
    const auto sets = static_cast<std::int64_t>(view.sets.size());
    std::vector<std::vector<std::int32_t>> out(view.sets.size());
    if (layer.chosen == 0 || count == 0) return out;
    float* memory = view.scratch->get(static_cast<std::size_t>(sets * (heads + 1) * count));
    std::vector<PageScoreJob> scoring;
    std::vector<ReduceHeadsJob> reducing;
    std::vector<TopKJob> choosing;
    std::vector<std::vector<std::int32_t>> best(view.sets.size());
    for (std::int64_t s = 0; s < sets; ++s, memory += (heads + 1) * count) {
      const auto set = static_cast<std::size_t>(s);
      const MatrixView<float> scores(memory, heads, count), most(scores.row(heads), 1, count);
      const auto q = MatrixView(view.queries.data, view.shape.heads, dim).rows_at(s * heads, heads);
      std::int64_t column = 0;
      for (const auto& part : layer.landmarks) {
        const std::int64_t landmarks = std::ssize(part->chunks(set));
        if (landmarks == 0) continue;
        scoring.push_back({q, part->landmarks(set), view.sets[set].layout().dtype,
                           scores.columns_at(column, landmarks)});
        column += landmarks;
      }
      reducing.push_back({scores, HeadReduction::kMaxOfLogSoftmax, most});
      choosing.push_back({{most.data, static_cast<std::size_t>(count)}, layer.chosen, &best[set]});
    }
    view.backend->score_pages(view.scale, scoring);
    view.backend->reduce_heads(reducing);
    view.backend->top_k(choosing);
    for (std::size_t s = 0; s < best.size(); ++s) {
      auto part = layer.landmarks.begin();
      std::int32_t before = 0;  // chunks of the preceding parts
      for (const std::int32_t i : best[s]) {
        while (i - before >= std::ssize((*part)->chunks(s)))
          before += static_cast<std::int32_t>(std::ssize((*part++)->chunks(s)));
        out[s].push_back((*part)->chunks(s)[static_cast<std::size_t>(i - before)]);
      }
    }
    return out;
  }

  Settings s_;
  std::vector<Layer> layers_;
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
            Policies out;
            out.selection = std::make_unique<ShadowKv>(
                ShadowKv::Settings{.budget = p.budget("budget"),
                                   .chunk = p.integer("chunk"),
                                   .rank = p.integer("rank"),
                                   .local = p.integer("local_chunks"),
                                   .outliers = p.integer("outliers"),
                                   .offloads = p.choice("class") == "offload",
                                   .rebuild = p.flag("rebuild")});
            return out;
          },
      .placement = {{"placement", "host"}, {"cache_block", "8"}, {"cache_rule", "previous"}}};
}

}  // namespace turnbench
