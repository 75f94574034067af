#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"

namespace turnbench {
namespace {

constexpr int kLeastWindow = 2;               // tokens
constexpr int kPendingRows = 128;             // rows of an answer whose masses are added together
constexpr std::int32_t kCachedAnswer = 1024;  // answer tokens for which the device cache has room
constexpr std::int64_t kLeastBlocks = 16;     // minimal capacity of the buffer of representatives
constexpr std::int64_t kMadeAtOnce = 16;      // blocks whose keys are read together
constexpr int kUsualCache = 32;               // blocks
constexpr double kLargeCache = 1ll << 30;     // bytes of additional blocks if a step reads more

/// Copy-on-write array of floats in a backend's memory.
class SharedFloats {
 public:
  float* data() const { return floats_ == nullptr ? nullptr : floats_->as<float>(); }
  std::int64_t size() const {
    return floats_ == nullptr ? 0 : static_cast<std::int64_t>(floats_->size() / sizeof(float));
  }
  /// Returns a private array of at least `size` floats, with the first `kept` ones preserved.
  float* own(std::int64_t size, std::int64_t kept, const std::shared_ptr<Memory>& memory) {
    if (floats_ == nullptr || floats_.use_count() > 1 || this->size() < size) {
      const auto larger = std::make_shared<Buffer>(
          static_cast<std::size_t>(std::max(size, this->size())) * sizeof(float), memory);
      if (kept > 0)
        memory->copy(
            std::array{copy_of(data(), larger->as<float>(), static_cast<std::size_t>(kept))});
      floats_ = larger;
    }
    return data();
  }

 private:
  std::shared_ptr<Buffer> floats_;
};

class InfLlm : public SelectionPolicy, public PromptSelection {
 public:
  struct Settings {
    Budget budget;
    int sinks, block, local, topk, representatives, rows, chunk;
    bool by_head;
  };
  explicit InfLlm(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<InfLlm>(*this);
  }
  SelectionTraits traits() const override {
    return {.pre_rope_keys = true, .needs_every_pass = true, .max_distance = sizes_.local - 1};
  }

  /// Sizes and query blocks depend on the prompt.
  bool reuses_cached_prompt() const override { return false; }

  /// The last row of a prompt is a block of its own, like the rows of an answer.
  int query_block_rows(const LayerView& view) override {
    Layer& layer = ready(view);
    add_pending(view, layer);
    return view.rows > 1 ? std::min(sizes_.rows, view.rows - 1) : 1;
  }

  /// For a cache that was filled without this policy's prefill: builds blocks without masses.
  void after_prefill(const LayerView& view) override {
    Layer& layer = ready(view);
    if (layer.tokens < view.sets.front().size()) {
      layer.grow(view.sets.front().size(), view.shape.heads);
      take_blocks(view, layer);
    }
  }

  /// The index: representatives with room for twice as many, masses, and the keys and values of a
  /// window.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    // Later turns use the sizes of the first one.
    const Sizes sizes = sizes_.local > 0 ? sizes_ : sizes_for(size.prompt_tokens);
    // A block is cached for all sets of a layer, regardless of which sets read it.
    const int lists = s_.by_head ? size.shape.heads : 1;
    const std::int64_t all = (size.prompt_tokens + kCachedAnswer) / s_.block + 1,
                       read = std::int64_t{lists} * sizes.topk;
    std::int64_t blocks = read;
    if (sizes.topk > kUsualCache) {
      const double bytes = 4.0 * s_.block * size.shape.heads * size.shape.head_dim;
      blocks += static_cast<std::int64_t>(std::ceil(kLargeCache / bytes));
    }
    blocks = std::max(std::min(blocks, all), std::min(read, all));
    return {.pinned_tokens = s_.sinks + sizes.local + s_.block + 1,
            .step_tokens = static_cast<std::int32_t>(blocks * s_.block),
            .first = s_.sinks,
            .block = s_.block,
            .lists_per_set = s_.by_head ? size.heads_per_set() : 1,
            .keys = KeyRows::kPreRope,
            .index_bytes = index_bytes(size)};
  }

  /// Sinks, and all tokens outside blocks.
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    const Layer& l = layers_[static_cast<std::size_t>(layer)];
    if (l.blocks == 0) return {{0, tokens}};
    if (l.sinks == 0) return {{l.first_loose(s_.block), tokens}};
    return {{0, l.sinks}, {l.first_loose(s_.block), tokens}};
  }

  /// Products of the mean far query with the representatives -> the best blocks.
  Selection select(const LayerView& view) override {
    Layer& layer = ready(view);
    const std::int32_t end = view.first_position + view.rows;
    if (layer.tokens != view.first_position || !view.sets.front().is_contiguous()) {
      throw input_error(
          "infllm: found a step at position {} of layer {}, expected {}: it needs all tokens in "
          "order",
          view.first_position, view.layer, layer.tokens);
    }
    if (end <= sizes_.local) return {};
    const auto lists = static_cast<std::size_t>(s_.by_head ? view.shape.heads : 1);
    std::vector<std::vector<std::int32_t>> best(lists, all_slots(layer.blocks));
    if (layer.blocks > sizes_.topk) choose(view, layer, best);
    Selection out;
    for (const std::vector<std::int32_t>& blocks : best)
      out.slots.push_back(slots(layer, blocks, end));
    out.slots.resize(s_.by_head ? lists : view.sets.size(), out.slots.front());
    return out;
  }

  void after_attention(const LayerView& view, MatrixView<const float> lse) override {
    Layer& layer = ready(view);
    const std::int32_t tokens = view.first_position + view.rows;
    layer.grow(tokens, view.shape.heads);
    if (view.generated == 0) {
      add_masses(view, layer, view.queries, lse, view.first_position, view.rows);
    } else {
      remember(view, layer, lse);
      const bool leaves = tokens - layer.first_loose(s_.block) - s_.block >= sizes_.local;
      if (leaves || layer.pending == kPendingRows) add_pending(view, layer);
    }
    take_blocks(view, layer);
  }

 private:
  std::size_t index_bytes(const PromptSize& size) const {
    const Sizes sizes = sizes_for(size.prompt_tokens);
    const std::int64_t window = sizes.local + sizes.rows + s_.block, heads = size.shape.heads;
    const auto vectors = static_cast<std::size_t>(2 * size.tokens / s_.block * heads *
                                                  size.shape.head_dim),
               masses = static_cast<std::size_t>(2 * heads * window);
    return (vectors + masses) * sizeof(float) + 2 * size.key_elements(window) * size_of(size.dtype);
  }

  /// Sizes derived from the budget at the first prompt of a cache.
  struct Sizes {
    int local = 0, topk = 0, rows = 0;
  };

  struct Layer {
    std::int32_t tokens = 0;  ///< processed so far
    std::int32_t sinks = 0;   ///< tokens
    std::int32_t blocks = 0;
    /// Accumulated attention of the tokens outside blocks, from rows whose window contains them:
    /// [query heads, tokens].
    std::vector<float> masses;
    std::int64_t mass_tokens = 0, mass_room = 0;  ///< mass_room is their stride
    SharedFloats representatives;                 ///< [blocks, query heads * head_dim]
    /// Rows of an answer whose masses are not added yet: queries and log-sum-exp.
    SharedFloats queries, lse;
    int pending = 0;
    std::shared_ptr<KvPool> windows;  ///< pool of the keys for which masses are computed

    std::int32_t first_loose(int block) const { return sinks + blocks * block; }
    std::int32_t loose(int block) const { return tokens - first_loose(block); }
    MatrixView<float> mass_rows(int heads, std::int64_t count) {
      return {masses.data(), heads, count, mass_room};
    }
    /// Appends masses of new tokens, which start at 0.
    void grow(std::int32_t new_tokens, int heads);
    /// Removes the masses of the first `count` tokens.
    void drop(std::int64_t count, std::int64_t kept, int heads) {
      for (int h = 0; h < heads; ++h) {
        float* row = masses.data() + h * mass_room;
        std::copy(row + count, row + count + kept, row);
        std::fill(row + kept, row + kept + count, 0.0f);
      }
      mass_tokens -= count;
    }
  };

  Layer& ready(const LayerView& view) {
    if (sizes_.local == 0) sizes_ = sizes_for(view.prompt_tokens);
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    return layers_[static_cast<std::size_t>(view.layer)];
  }

  /// The sizes for a prompt, derived as in PQCache's official implementation after all tokens
  /// except the last one.
  Sizes sizes_for(int prompt_tokens) const {
    const int seen = s_.chunk > 0 ? std::min(s_.chunk, prompt_tokens - 1) : prompt_tokens - 1;
    const double tokens =
        s_.budget.is_ratio ? std::max(0, seen - s_.sinks) * s_.budget.value : s_.budget.value;
    Sizes out;
    out.local = std::max(kLeastWindow, s_.local > 0 ? s_.local : static_cast<int>(tokens * 0.5));
    const double rest = std::max(0.0, tokens - out.local);
    out.topk = s_.topk > 0 ? s_.topk : static_cast<int>(std::ceil(rest / s_.block));
    out.rows = std::min(s_.rows, out.local);
    return out;
  }

  std::vector<std::int32_t> slots(const Layer& layer, std::span<const std::int32_t> blocks,
                                  std::int32_t end) const {
    std::vector<std::int32_t> out = all_slots(layer.sinks);
    const std::int32_t loose = layer.first_loose(s_.block);
    out.resize(out.size() + blocks.size() * static_cast<std::size_t>(s_.block) +
               static_cast<std::size_t>(end - loose));
    auto at = out.begin() + layer.sinks;
    for (const std::int32_t block : blocks) {
      std::iota(at, at + s_.block, layer.sinks + block * s_.block);
      at += s_.block;
    }
    std::iota(at, out.end(), loose);
    return out;
  }

  void choose(const LayerView& view, const Layer& layer,
              std::vector<std::vector<std::int32_t>>& best) const {
    const std::int64_t heads = view.shape.heads, dim = view.shape.head_dim, width = heads * dim,
                       blocks = layer.blocks;
    float* memory = view.scratch->get(static_cast<std::size_t>(width + (heads + 1) * blocks));
    const float* query = view.far_queries.data;
    if (view.rows > 1) {
      put_mean(view, memory);
      query = memory;
    }
    const MatrixView<float> scores(memory + width, heads, blocks),
        sums(scores.row(heads), 1, blocks);
    const MatrixView<const float> queries(query, heads, dim),
        representatives(layer.representatives.data(), blocks, width);
    std::vector<VectorScoreJob> jobs;
    for (std::int64_t h = 0; h < heads; ++h) {
      jobs.push_back(
          {queries.rows_at(h, 1), representatives.columns_at(h * dim, dim), scores.rows_at(h, 1)});
    }
    view.backend->score_vectors(1, jobs);
    std::vector<TopKJob> choosing;
    if (s_.by_head) {
      for (std::int64_t h = 0; h < heads; ++h)
        choosing.push_back({{scores.row(h), static_cast<std::size_t>(blocks)},
                            sizes_.topk,
                            &best[static_cast<std::size_t>(h)]});
    } else {
      const ReduceHeadsJob reducing{scores, HeadReduction::kSum, sums};
      view.backend->reduce_heads({&reducing, 1});
      choosing.push_back({{sums.data, static_cast<std::size_t>(blocks)}, sizes_.topk, best.data()});
    }
    view.backend->top_k(choosing);
  }

  /// Writes the mean of the rows' clamped queries to the backend's memory.
  static void put_mean(const LayerView& view, float* out) {
    const MatrixView<const float>& q = view.far_queries;
    const auto width = static_cast<std::size_t>(q.columns);
    std::vector<float> rows(static_cast<std::size_t>(q.rows) * width), mean(width);
    view.backend->memory()->copy_floats(q.data, rows.data(), rows.size());
    std::vector<double> sums(width);
    for (std::size_t r = 0; r < static_cast<std::size_t>(q.rows); ++r) {
      for (std::size_t i = 0; i < width; ++i) sums[i] += static_cast<double>(rows[r * width + i]);
    }
    for (std::size_t i = 0; i < width; ++i)
      mean[i] = static_cast<float>(sums[i] / static_cast<double>(q.rows));
    view.backend->memory()->copy_floats(mean.data(), out, width);
  }

  /// Stores the query of a step of an answer, and its log-sum-exp.
  static void remember(const LayerView& view, Layer& layer, MatrixView<const float> lse) {
    const std::int64_t width = view.queries.columns, heads = view.shape.heads, row = layer.pending;
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    float* queries = layer.queries.own(kPendingRows * width, row * width, memory);
    float* of_heads = layer.lse.own(kPendingRows * heads, row * heads, memory);
    memory->copy(std::array{
        copy_of(view.queries.data, queries + row * width, static_cast<std::size_t>(width)),
        copy_of(lse.data, of_heads + row * heads, static_cast<std::size_t>(heads))});
    ++layer.pending;
  }

  void add_pending(const LayerView& view, Layer& layer) {
    if (layer.pending == 0) return;
    const std::int64_t width = std::int64_t{view.shape.heads} * view.shape.head_dim;
    add_masses(view, layer, {layer.queries.data(), layer.pending, width},
               {layer.lse.data(), layer.pending, view.shape.heads}, layer.tokens - layer.pending,
               1);
    layer.pending = 0;
  }

  /// Adds the attention of rows at positions first, first + 1, ... to the masses of the tokens
  /// within their windows.  pass_rows: as in StatisticRows.
  void add_masses(const LayerView& view, Layer& layer, MatrixView<const float> q,
                  MatrixView<const float> lse, std::int32_t first, int pass_rows) {
    const std::int32_t loose = layer.first_loose(s_.block),
                       begin = std::max(loose, first - sizes_.local + 1),
                       end = first + static_cast<std::int32_t>(q.rows);
    std::vector<std::int32_t> window(static_cast<std::size_t>(end - begin)), positions;
    std::iota(window.begin(), window.end(), begin);
    for (std::int32_t p = first; p < end; ++p) positions.push_back(p);
    const MatrixView<float> masses =
        layer.mass_rows(view.shape.heads, end - loose).columns_at(begin - loose, end - begin);
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    if (layer.windows == nullptr) {
      layer.windows = std::make_shared<KvPool>(
          PageLayout{view.shape.head_dim, view.sets.front().layout().dtype},
          view.backend->memory());
    }
    std::vector<KvHeadCache> keys;
    std::vector<ColumnJob> jobs;
    keys.reserve(view.sets.size());
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t head = static_cast<std::int64_t>(s) * heads;
      keys.push_back(view.sets[s].gathered(window, layer.windows));
      ColumnJob& job = jobs.emplace_back();
      job.keys = &keys.back();
      job.q = q.columns_at(head * dim, heads * dim);
      job.positions = positions.data();
      job.pass_rows = pass_rows;
      job.sliding_window = sizes_.local;
      job.lse = lse.columns_at(head, heads);
      job.sums = masses.rows_at(head, heads);
    }
    view.backend->add_column_sums(view.scale, jobs);
  }

  /// Moves tokens that are no longer in the window to the sinks, then to blocks.
  void take_blocks(const LayerView& view, Layer& layer) const {
    const int heads = view.shape.heads;
    if (layer.sinks < s_.sinks && layer.loose(s_.block) > sizes_.local) {
      const std::int32_t taken =
          std::min(s_.sinks - layer.sinks, layer.loose(s_.block) - sizes_.local);
      layer.drop(taken, layer.loose(s_.block) - taken, heads);
      layer.sinks += taken;
    }
    const std::int32_t left = layer.loose(s_.block) - sizes_.local,
                       more = left >= s_.block ? left / s_.block : 0;
    if (more == 0) return;
    const std::int64_t width = std::int64_t{heads} * view.shape.head_dim,
                       kept = layer.blocks * width, size = kept + more * width;
    const std::int64_t room =
        layer.representatives.size() >= size ? size : std::max(2 * size, kLeastBlocks * width);
    float* to = layer.representatives.own(room, kept, view.backend->memory()) + kept;
    for (std::int64_t at = 0; at < more; at += kMadeAtOnce)
      represent(view, layer, at, std::min<std::int64_t>(kMadeAtOnce, more - at), to + at * width);
    layer.drop(more * s_.block, layer.loose(s_.block) - more * s_.block, heads);
    layer.blocks += more;
  }

  /// Writes the representatives of `count` new blocks from block `first` on: for each query head,
  /// the mean of the pre-RoPE keys with the most mass.
  void represent(const LayerView& view, Layer& layer, std::int64_t first, std::int64_t count,
                 float* out) const {
    const std::int64_t heads = view.shape.heads, dim = view.shape.head_dim;
    const int chosen = std::min(s_.representatives, s_.block);
    const std::int32_t loose = layer.first_loose(s_.block);
    std::vector<std::int32_t> tokens;  // [blocks, query heads, chosen], in slots of the sets
    for (std::int64_t b = first; b < first + count; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* mass = layer.masses.data() + h * layer.mass_room + b * s_.block;
        std::vector<std::int32_t> order = all_slots(s_.block);
        std::partial_sort(order.begin(), order.begin() + chosen, order.end(),
                          [&](std::int32_t i, std::int32_t j) {
                            return mass[i] != mass[j] ? mass[i] > mass[j] : i < j;
                          });
        order.resize(static_cast<std::size_t>(chosen));
        std::sort(order.begin(), order.end());
        for (const std::int32_t i : order)
          tokens.push_back(loose + static_cast<std::int32_t>(b) * s_.block + i);
      }
    }
    std::vector<float> keys(tokens.size() * static_cast<std::size_t>(dim));
    read_keys(view, tokens, chosen, keys);
    std::vector<float> means;
    means.reserve(static_cast<std::size_t>(count * heads * dim));
    for (std::size_t i = 0; i < tokens.size(); i += static_cast<std::size_t>(chosen)) {
      for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d) {
        double sum = 0;
        for (std::size_t j = i; j < i + static_cast<std::size_t>(chosen); ++j)
          sum += static_cast<double>(keys[j * static_cast<std::size_t>(dim) + d]);
        means.push_back(static_cast<float>(sum / chosen));
      }
    }
    view.backend->memory()->copy_floats(means.data(), out, means.size());
  }

  /// Reads the pre-RoPE keys of tokens [n, query heads, chosen] from each head's set.
  static void read_keys(const LayerView& view, std::span<const std::int32_t> tokens, int chosen,
                        std::vector<float>& keys) {
    const std::int64_t dim = view.shape.head_dim;
    const auto set_of = [&](std::size_t i) -> const KvHeadCache& {
      const auto heads = static_cast<std::size_t>(view.shape.heads),
                 head = i / static_cast<std::size_t>(chosen) % heads;
      return view.sets[head * view.sets.size() / heads];
    };
    if (view.index_path.link) {  // the keys are in host memory
      for (std::size_t i = 0; i < tokens.size(); ++i)
        set_of(i).read_pre_rope_key(tokens[i], keys.data() + i * static_cast<std::size_t>(dim));
      return;
    }
    const MatrixView<float> rows(view.scratch->get(keys.size()), std::ssize(tokens), dim);
    std::vector<ReadRowsJob> jobs;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      jobs.push_back({&set_of(i), tokens[i], KvRow::kPreRopeKey,
                      rows.rows_at(static_cast<std::int64_t>(i), 1)});
    view.backend->read_rows(jobs);
    view.backend->memory()->copy_floats(rows.data, keys.data(), keys.size());
  }

  Settings s_;
  Sizes sizes_;
  std::vector<Layer> layers_;
};

void InfLlm::Layer::grow(std::int32_t new_tokens, int heads) {
  const std::int64_t more = new_tokens - tokens;
  if (mass_tokens + more > mass_room) {
    const std::int64_t room = 2 * (mass_tokens + more);
    std::vector<float> larger(static_cast<std::size_t>(room * heads));
    for (int h = 0; h < heads; ++h)
      std::copy_n(masses.begin() + h * mass_room, mass_tokens, larger.begin() + h * room);
    masses = std::move(larger);
    mass_room = room;
  }
  mass_tokens += more;
  tokens = new_tokens;
}

}  // namespace

/// InfLLM (Xiao et al., 2024): a sliding window, and blocks of earlier tokens, retrieved by
/// representative keys that received the most attention while they were in the window (section 3
/// and the official implementation).
MethodInfo infllm() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "infllm",
      .summary =
          "reads a sliding window and the earlier blocks whose representatives have the highest "
          "scores, also in prompts",
      .paper =
          "Xiao et al., InfLLM: Training-Free Long-Context Extrapolation for LLMs with an "
          "Efficient Context Memory, 2024",
      .budget_unit =
          "tokens of the window and of the blocks that a step reads, rounded up to whole blocks; "
          "sinks, and tokens that have left the window and do not form a block yet, are not "
          "counted; a ratio refers to the prompt without its sinks and its last token: to each "
          "turn's prompt with history=reprefill, otherwise to the first one",
      .deviations =
          "half of the budget is the window, as in PQCache's comparison; the setting of InfLLM's "
          "paper is local=4096,topk=16,exc=512; representatives are selected by the attention that "
          "a token received within the window, as in the official code; tokens that leave the "
          "window within a block of prompt rows count once (official code: they are read twice); "
          "RoPE is scaled as in the model (official code: plain RoPE only); a layer is on the "
          "device while its part of the prompt is computed, and its blocks are transferred to the "
          "host afterwards; the device cache replaces the least recently read block (demand-lru; "
          "the official lru-s is not implemented); ties go to the earlier block and the earlier "
          "token",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens of the window and of the blocks that a step reads"},
                     {"init", Kind::kInteger, "128", "tokens", "first tokens, always read"},
                     {"block", Kind::kInteger, "128", "tokens", "block size", 1},
                     {"repr", Kind::kInteger, "4", "tokens",
                      "representatives of a block per query head", 1},
                     {"local", Kind::kInteger, "0", "tokens",
                      "size of the window; 0: half of the budget"},
                     {"topk", Kind::kInteger, "0", "blocks",
                      "blocks that a step reads; 0: the rest of the budget, rounded up"},
                     {"exc", Kind::kInteger, "512", "tokens",
                      "prompt rows that select blocks together; at most the size of the window", 1},
                     {"chunk", Kind::kInteger, "0", "tokens",
                      "first tokens of a prompt that a ratio refers to: the size of the first "
                      "chunk in the official code; 0: all but the last token"},
                     {"perhead", Kind::kFlag, "false", "", "separate selections per query head"}},
      .make =
          [](const Parameters& p) {
            const int local = p.integer("local"), window = std::max(kLeastWindow, local);
            if (local == 0 || p.integer("topk") == 0)
              check_room("infllm", p.budget("budget"), window,
                         fmt::format("a window of {}", window));
            Policies out;
            out.selection =
                std::make_unique<InfLlm>(InfLlm::Settings{.budget = p.budget("budget"),
                                                          .sinks = p.integer("init"),
                                                          .block = p.integer("block"),
                                                          .local = p.integer("local"),
                                                          .topk = p.integer("topk"),
                                                          .representatives = p.integer("repr"),
                                                          .rows = p.integer("exc"),
                                                          .chunk = p.integer("chunk"),
                                                          .by_head = p.flag("perhead")});
            return out;
          },
      .placement = {{"placement", "host"}, {"cache_rule", "demand-lru"}, {"cache_tokens", "4096"}},
      .compared_as = {{"init", "sinks"}, {"chunk", ""}}};
}

}  // namespace turnbench
