#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "inference/engine/memory_estimate.h"
#include "methods/method.h"
#include "methods/parts/placement_thresholds.h"
#include "methods/parts/retrieval_head.h"
#include "methods/parts/step_tokens.h"

namespace turnbench {
namespace {

/// First tokens that a head with these settings always selects.
int first_tokens(const RetrievalHeadSettings& head) {
  return head.previous_features ? 1 : 0;
}

class SpeContext : public Cloned<SpeContext, SelectionPolicy>,
                   public StepRetrieval,
                   public SelectsAhead,
                   public OffloadsDuringDecode {
 public:
  struct Settings {
    Budget budget;
    int sinks;   ///< first tokens, always read
    bool batch;  ///< one set of tokens for all KV heads
    RetrievalHeadSettings head;
    double memory;  ///< bytes for keys and values; 0: all layers are in host memory
    int requests;   ///< concurrent sequences that share the memory
    PlacementMemory::Formula formula;
    bool ahead;  ///< the transfers of all layers start before the first layer
  };
  explicit SpeContext(Settings s) : s_(std::move(s)) {}

  /// With previous features, the head reads hidden states of all tokens.
  SelectionTraits traits() const override {
    return {.needs_every_pass = s_.head.previous_features};
  }
  LayerRange known_after(int layer, const ModelShape& shape) const override {
    return s_.ahead && layer < 0 ? LayerRange{0, shape.layers} : LayerRange{};
  }
  std::unique_ptr<Retriever> make_retriever() const override {
    return make_retrieval_head(s_.head);
  }
  MethodResource resource(const ModelConfig& config, DType weights) const override {
    return {s_.head.key(), head_bytes(s_.head, config, weights)};
  }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    DeviceNeeds out = needs_at(size, size.tokens);
    out.index_bytes = index_bytes(size);
    return out;
  }
  /// Algorithm 2 includes the step's token in the length that it tests.
  DeviceNeeds demand_while_decoding(const PromptSize& size) const override {
    return needs_at(size, size.tokens + 1);
  }
  bool may_offload() const override { return s_.memory > 0; }

  /// The head's weights, maximum over those that belong to a KV head -> the best tokens, for all
  /// layers.
  void begin_step(const StepView& step) override {
    const auto tokens = static_cast<int>(step.pass.tokens.size());
    if (step.position != tokens - 1) {
      throw input_error(
          "specontext: found it with a method that shifts positions, expected one that keeps them");
    }
    const int most = budget(step.prompt_tokens);
    if (tokens <= most) return;
    if (s_.memory > 0) check_memory(step.pass, most);
    const MatrixView<const float> weights =
        step.retriever.weights(step.pass, s_.batch ? 1 : step.pass.config.kv_heads);
    std::vector<std::span<const float>> rows;
    for (std::int64_t i = 0; i < weights.rows; ++i)
      rows.emplace_back(weights.row(i), static_cast<std::size_t>(weights.columns));
    step_ = {step.position, best_tokens(step.pass.backend, rows, most, s_.sinks)};
  }

  Selection select(const LayerView& view) override {
    return read_in_layer(view, step_, budget(view.prompt_tokens));
  }

 private:
  /// Bytes of the head's keys, whose pages also have room for values.
  std::size_t index_bytes(const PromptSize& size) const {
    if (size.layer > 0) return 0;
    const auto& own = s_.head.checkpoint;
    const int sets = own ? own->shape().kv_heads : size.shape.kv_heads,
              dim = own ? own->shape().head_dim : size.shape.head_dim;
    return kv_bytes_of({dim, size.dtype, false}, 1, sets, size.prompt_tokens);
  }

  /// With a memory limit, as many of the last layers as necessary are offloaded at sequence length
  /// `length` (S of algorithm 2).
  DeviceNeeds needs_at(const PromptSize& size, std::int64_t length) const {
    const int most = budget(size.prompt_tokens);
    DeviceNeeds out = needs_of_steps(size, most);
    if (s_.memory > 0) {
      const int on_host = layers_on_host(thresholds(size.shape, size.dtype, most), length);
      out.everything |= size.layer < size.shape.layers - on_host;
    }
    return out;
  }

  std::vector<std::int64_t> thresholds(const ModelShape& shape, DType dtype, int most) const {
    return placement_thresholds({.bytes = s_.memory,
                                 .layers = shape.layers,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .group = shape.group(),
                                 .requests = s_.requests,
                                 .budget = most,
                                 .element = static_cast<int>(size_of(dtype)),
                                 .formula = s_.formula});
  }

  /// Refuses a step whose tokens do not fit even with all layers in host memory.
  void check_memory(const RetrieverPass& pass, int most) const {
    const ModelConfig& c = pass.config;
    const std::int64_t last =
        thresholds({c.layers, c.heads, c.kv_heads, c.head_dim}, pass.key_dtype, most).back();
    const std::int64_t before = std::ssize(pass.tokens) - 1;
    if (before < last) return;
    throw memory_error(
        "specontext: found {} tokens before a step and {} GB of device memory, which have room for "
        "{} with all layers in host memory: expected more memory or fewer tokens",
        before, s_.memory / 1e9, std::max<std::int64_t>(0, last - 1));
  }

  int budget(int prompt_tokens) const {
    return step_budget(s_.budget.tokens(prompt_tokens), std::max(s_.sinks, first_tokens(s_.head)));
  }

  Settings s_;
  StepTokens step_;  ///< of the current step
};

}  // namespace

MethodAction retrieval_head_dialogues();

/// SpeContext (Xu et al., 2025): before each step, the queries and keys of a draft model's layer
/// select the tokens that all layers read (sections 4 and 5.2); only tokens that the previous step
/// did not read are transferred.
MethodInfo specontext() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "specontext",
      .summary =
          "reads, in all layers, tokens that the attention of a draft model selects before the "
          "step",
      .paper =
          "Xu et al., SpeContext: Enabling Efficient Long-context Reasoning with Speculative "
          "Context Sparsity in LLMs, 2025",
      .budget_unit =
          "tokens read per KV head and step, the current token and generated ones included",
      .deviations =
          "there is no published code, so everything follows the paper; the paper does not state "
          "the input of the head besides the embedding: feat=none omits the columns of the draft's "
          "hidden states, for which the draft was not trained; feat=prev gives each token's row "
          "the feature that the draft computes from the model's hidden states of the previous "
          "token, counts the row's weight for its own token, and always reads the first token, "
          "which counts in the budget; YaRN's betas are 32 and 1, its factor is n_max / n_orig, at "
          "least 1; a KV head ranks tokens by the maximum of the attention weights (after softmax) "
          "of its share of the draft's heads, or by its one head if the draft has fewer; the "
          "current token counts in the budget; memory=0 offloads all layers; otherwise layers are "
          "offloaded one by one, the last first, when the length of the prompt, or the tokens of a "
          "step including its own, reach their thresholds; formula=printed is the paper's "
          "algorithm 1, whose budget term lacks a factor of 4; memory is that for keys and values "
          "only, since the paper's 1.3 times the weights is constant; while a prompt is computed, "
          "the tokens of all layers pass through the device; the first step after each prompt "
          "loads all tokens that it reads; none of this applies with placement=device; with an "
          "eviction, a layer reads the selected tokens that it has kept; head=tiny was trained to "
          "predict the model's distribution and, which is not in the paper, to imitate the mean "
          "attention of the model's layers; head=random is a control, not a retriever: random "
          "weights of the model's own sizes, for feat=prev of layers 0, the middle one and the "
          "last if the model has fewer than seven; ties go to the earlier token",
      .parameters =
          {{"budget", Kind::kBudget, "2048", "tokens or share", "tokens read per step"},
           {"head", Kind::kDraft, "random", "random",
            "directory of an EAGLE-3 draft of the model; tiny: the trained one of the embedded "
            "model, for feat=prev; or random: random weights, a control"},
           {"feat", Kind::kChoice, "none", "none|prev",
            "hidden states that the head reads besides embeddings: none, or those of the previous "
            "token"},
           {"level", Kind::kChoice, "head", "head|batch",
            "separate tokens per KV head, or the same for all"},
           {"n_max", Kind::kInteger, "32768", "tokens",
            "number of positions to which the head is extended", 1},
           {"n_orig", Kind::kInteger, "2048", "tokens",
            "number of positions that the draft was trained on", 1},
           {"memory", Kind::kNumber, "0", "1e9 bytes",
            "device memory for keys and values: that of the device minus 1.3 times the weights of "
            "model and head; the last layers are offloaded when tokens no longer fit; 0: all "
            "layers are offloaded"},
           {"requests", Kind::kInteger, "1", "sequences", "sequences that share this memory", 1},
           sinks_parameter(),
           {"ahead", Kind::kFlag, "true", "",
            "start the transfers of all layers before the first layer; false: each when its layer "
            "starts"},
           {"formula", Kind::kChoice, "corrected", "corrected|printed|exact",
            "thresholds at which layers are offloaded: the paper's formula with its missing "
            "factor, as printed, or with the actual memory of the head and of the buffer for a "
            "group's keys"}},
      .make =
          [](const Parameters& p) {
            using Formula = PlacementMemory::Formula;
            SpeContext::Settings s{.budget = p.budget("budget"),
                                   .sinks = checked_sinks("specontext", p),
                                   .batch = p.choice("level") == "batch",
                                   .head = {},
                                   .memory = 1e9 * p.number("memory"),
                                   .requests = p.integer("requests"),
                                   .formula = p.choice("formula") == "printed" ? Formula::kPrinted
                                              : p.choice("formula") == "exact"
                                                  ? Formula::kExact
                                                  : Formula::kCorrected,
                                   .ahead = p.flag("ahead")};
            s.head.checkpoint = p.draft("head");
            s.head.name = p.values().find("head")->second;
            s.head.previous_features = p.choice("feat") == "prev";
            check_room("specontext", s.budget, first_tokens(s.head),
                       "the first token, which feat=prev always reads");
            s.head.longest = p.integer("n_max");
            s.head.original = p.integer("n_orig");
            return Policies{.selection = std::make_unique<SpeContext>(std::move(s))};
          },
      .placement = {{"placement", "host"}, {"cache_block", "1"}, {"cache_rule", "previous"}},
      .actions = {retrieval_head_dialogues}};
}

}  // namespace turnbench
