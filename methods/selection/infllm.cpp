#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"
#include "methods/parts/window_blocks.h"

namespace turnbench {
namespace {

constexpr int kLeastWindow = 2;               // tokens
constexpr std::int32_t kCachedAnswer = 1024;  // answer tokens for which the device cache has room
constexpr int kUsualCache = 32;               // blocks
constexpr double kLargeCache = 1ll << 30;     // bytes of additional blocks if a step reads more

class InfLlm : public Cloned<InfLlm, SelectionPolicy>, public PromptSelection {
 public:
  struct Settings {
    Budget budget;
    int sinks, block, local, topk, representatives, rows, chunk;
    bool by_head;
  };
  explicit InfLlm(const Settings& s)
      : s_(s), layers_(WindowBlocks({s.sinks, s.block, s.representatives})) {}

  SelectionTraits traits() const override {
    return {.pre_rope_keys = true, .needs_every_pass = true, .max_distance = sizes_.local - 1};
  }

  /// Sizes and query blocks depend on the prompt.
  bool reuses_cached_prompt() const override { return false; }

  /// The last row of a prompt is a block of its own, like the rows of an answer.
  int query_block_rows(const LayerView& view) override {
    WindowBlocks& layer = ready(view);
    layer.add_remembered(view, sizes_.local);
    return view.rows > 1 ? std::min(sizes_.rows, view.rows - 1) : 1;
  }

  /// For a cache that was filled without this policy's prefill: builds blocks without masses.
  void after_prefill(const LayerView& view) override {
    WindowBlocks& layer = ready(view);
    if (layer.tokens() < view.sets.front().size()) {
      layer.grow(view.sets.front().size(), view.shape.heads);
      layer.take_blocks(view, sizes_.local);
    }
  }

  /// The index: representatives with room for twice as many, masses, and the keys and values of a
  /// window.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    // Later turns use the sizes of the first one.
    const Sizes sizes = sizes_.local > 0 ? sizes_ : sizes_for(size.prompt_tokens);
    const Sizes index = sizes_for(size.prompt_tokens);
    const auto held = [&](int window) {
      return std::min(window, size.prompt_tokens + kCachedAnswer);
    };
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
    return {.pinned_tokens = s_.sinks + held(sizes.local) + s_.block + 1,
            .step_tokens = static_cast<std::int32_t>(blocks * s_.block),
            .first = s_.sinks,
            .block = s_.block,
            .lists_per_set = s_.by_head ? size.heads_per_set() : 1,
            .keys = KeyRows::kPreRope,
            .index_bytes =
                WindowBlocks::bytes(size, s_.block, held(index.local) + index.rows + s_.block)};
  }

  /// Sinks, and all tokens outside blocks.
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    const WindowBlocks& l = layers_[layer];
    if (l.blocks() == 0) return {{0, tokens}};
    if (l.sinks() == 0) return {{l.first_loose(), tokens}};
    return {{0, l.sinks()}, {l.first_loose(), tokens}};
  }

  /// Products of the mean far query with the representatives -> the best blocks.
  Selection select(const LayerView& view) override {
    const WindowBlocks& layer = ready(view);
    const std::int32_t end = view.first_position + view.rows;
    if (layer.tokens() != view.first_position || !view.sets.front().is_contiguous()) {
      throw input_error(
          "infllm: found a step at position {} of layer {}, expected {}: it needs all tokens in "
          "order",
          view.first_position, view.layer, layer.tokens());
    }
    if (end <= sizes_.local) return {};
    Selection out;
    for (const std::vector<std::int32_t>& blocks : layer.best(view, sizes_.topk, s_.by_head))
      out.slots.push_back(slots(layer, blocks, end));
    if (!s_.by_head) out.slots.resize(view.sets.size(), out.slots.front());
    return out;
  }

  void after_attention(const LayerView& view, MatrixView<const float> lse) override {
    WindowBlocks& layer = ready(view);
    const std::int32_t tokens = view.first_position + view.rows;
    layer.grow(tokens, view.shape.heads);
    if (view.generated == 0) {
      layer.add_rows(view, lse, sizes_.local);
    } else {
      layer.remember_row(view, lse);
      const bool leaves = tokens - layer.first_loose() - s_.block >= sizes_.local;
      if (leaves || layer.remembers_enough()) layer.add_remembered(view, sizes_.local);
    }
    layer.take_blocks(view, sizes_.local);
  }

 private:
  /// Sizes derived from the budget at the first prompt of a cache.
  struct Sizes {
    int local = 0, topk = 0, rows = 0;
  };

  WindowBlocks& ready(const LayerView& view) {
    if (sizes_.local == 0) sizes_ = sizes_for(view.prompt_tokens);
    return layers_[view.layer];
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

  std::vector<std::int32_t> slots(const WindowBlocks& layer, std::span<const std::int32_t> blocks,
                                  std::int32_t end) const {
    std::vector<std::int32_t> out = all_slots(layer.sinks());
    for (const std::int32_t block : blocks)
      out = with_tail(std::move(out), layer.first_of(block), layer.first_of(block + 1));
    return with_tail(std::move(out), layer.first_loose(), end);
  }

  Settings s_;
  Sizes sizes_;
  PerLayer<WindowBlocks> layers_;
};

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
          "not used if local and topk are given; sinks, and tokens that have left the window and "
          "do not form a block yet, are not counted; a ratio refers to the prompt without its "
          "sinks and its last token: to each turn's prompt with history=reprefill, otherwise to "
          "the first one",
      .deviations =
          "half of the budget is the window, as in PQCache's comparison; the setting of InfLLM's "
          "paper is local=4096,topk=16,exc=512; representatives are selected by the attention that "
          "a token received within the window, as in the official code; a group of prompt rows "
          "selects blocks by its mean query; a block is formed when all of its tokens have left "
          "the window; tokens outside the window are read as if all were local - 1 tokens away; "
          "tokens that leave the window within a block of prompt rows count once (official code: "
          "they are read twice); RoPE is scaled as in the model (official code: plain RoPE only); "
          "a layer is on the device while its part of the prompt is computed, and its blocks are "
          "transferred to the host afterwards; the device cache replaces the least recently read "
          "block (demand-lru; the official lru-s is not implemented); the last token of a prompt "
          "selects blocks alone, as a token of the answer does (also in the official code); ties "
          "go to the earlier block and the earlier token; attention is summed in float32, so sums "
          "that differ by less than its rounding error have no defined order",
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
                      "prompt rows, without the last one, that select blocks together; at most the "
                      "size of the window",
                      1},
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
            return Policies{.selection = std::make_unique<InfLlm>(
                                InfLlm::Settings{.budget = p.budget("budget"),
                                                 .sinks = p.integer("init"),
                                                 .block = p.integer("block"),
                                                 .local = p.integer("local"),
                                                 .topk = p.integer("topk"),
                                                 .representatives = p.integer("repr"),
                                                 .rows = p.integer("exc"),
                                                 .chunk = p.integer("chunk"),
                                                 .by_head = p.flag("perhead")})};
          },
      .placement = {{"placement", "host"}, {"cache_rule", "demand-lru"}, {"cache_tokens", "4096"}},
      .compared_as = {{"init", "sinks"}, {"chunk", ""}}};
}

}  // namespace turnbench
