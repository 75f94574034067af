// The input of a retriever from the engine: every pass, the hidden states that it requests, and in
// a shared prefill those that the forks need.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using StateRows = std::vector<std::vector<float>>;

/// Records all its input, and weighs tokens by their ids.
struct Spy : Retriever {
  std::unique_ptr<Retriever> clone() const override { return std::make_unique<Spy>(*this); }
  const std::string& key() const override { return name; }
  bool reads_layer(const ModelConfig&, int layer) const override { return layer != 1; }
  void begin_pass(const RetrieverPass& pass) override {
    tokens.assign(pass.tokens.begin(), pass.tokens.end());
    for (std::size_t t = seen; t < tokens.size(); ++t) {
      std::vector<float>& row = embeddings.emplace_back(pass.config.hidden);
      pass.embedding.read_row(tokens[t], row.data());
    }
    seen = tokens.size();
    if (keys == nullptr) keys = std::make_unique<KvHeadCache>(pass.key_pool(8));
    const std::vector<float> key(8, 1.0f);
    while (keys->size() < static_cast<int>(seen))
      keys->append(key.data(), key.data(), nullptr, keys->size());
  }
  void enter_layer(const RetrieverPass& pass, int layer, MatrixView<const float> hidden) override {
    pass.backend.memory()->synchronize();
    ASSERT_EQ(hidden.rows, pass.rows);
    if (asked) asked_before[layer] = *asked;
    for (std::int64_t r = 0; r < hidden.rows; ++r)
      states[layer].emplace_back(hidden.row(r), hidden.row(r) + hidden.columns);
  }
  MatrixView<const float> weights(const RetrieverPass& pass, int lists) override {
    std::vector<float> all;
    for (int i = 0; i < lists; ++i) all.insert(all.end(), pass.tokens.begin(), pass.tokens.end());
    float* out = pass.scratch.get(all.size());
    pass.backend.memory()->copy_floats(all.data(), out, all.size());
    return {out, lists, std::ssize(pass.tokens)};
  }
  void truncate(std::int32_t count) override {
    seen = static_cast<std::size_t>(count);
    keys->truncate(count);
  }
  std::size_t key_bytes() const override { return keys ? keys->bytes() : 0; }

  Spy() = default;
  Spy(const Spy& other)
      : name(other.name),
        tokens(other.tokens),
        seen(other.seen),
        embeddings(other.embeddings),
        states(other.states),
        asked(other.asked),
        keys(other.keys ? std::make_unique<KvHeadCache>(*other.keys) : nullptr) {}

  std::string name = "spy";
  std::vector<int> tokens;
  std::size_t seen = 0;
  StateRows embeddings;
  std::map<int, StateRows> states;  // by layer
  std::shared_ptr<int> asked;       // selections by the policy so far
  std::map<int, int> asked_before;  // their number when hidden states last entered a layer
  std::unique_ptr<KvHeadCache> keys;
};

/// Reads the current token and the earlier tokens with more than half of the maximum weight.
struct ReadHeavy : SelectionPolicy, StepRetrieval {
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadHeavy>(*this);
  }
  std::unique_ptr<Retriever> make_retriever() const override { return std::make_unique<Spy>(); }
  MethodResource resource(const ModelConfig&, DType) const override { return {"spy", 1 << 20}; }
  void begin_step(const StepView& step) override {
    steps.push_back(step.position);
    prompts.push_back(step.prompt_tokens);
    const std::vector<float> weights =
        test::rows_on_host(step.pass.backend, step.retriever.weights(step.pass, 1)).front();
    slots.clear();
    for (std::size_t j = 0; j + 1 < weights.size(); ++j) {
      if (weights[j] > 64) slots.push_back(static_cast<std::int32_t>(j));
    }
    slots.push_back(step.position);
  }
  Selection select(const LayerView& view) override {
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), slots)};
  }
  std::vector<std::int32_t> steps, prompts, slots;
};

/// The same, for policies that select ahead for the layers after `after`.  Counts the selections.
struct ReadAhead : ReadHeavy, SelectsAhead {
  explicit ReadAhead(int after) : after(after) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadAhead>(*this);
  }
  std::unique_ptr<Retriever> make_retriever() const override {
    auto out = std::make_unique<Spy>();
    out->asked = asked;
    return out;
  }
  LayerRange known_after(int layer, const ModelShape& shape) const override {
    return layer == after ? LayerRange{after + 1, shape.layers} : LayerRange{};
  }
  Selection select(const LayerView& view) override {
    ++*asked;
    return ReadHeavy::select(view);
  }
  int after;
  std::shared_ptr<int> asked = std::make_shared<int>(0);
};

/// The same with prompts that go through each layer in chunks.
struct ReadByLayers : ReadHeavy, PromptSelection {
  bool chunkable() const override { return true; }
};

Policies spied() {
  Policies out;
  out.selection = std::make_unique<ReadHeavy>();
  return out;
}

const Spy& spy_of(const Sequence& s) {
  return dynamic_cast<const Spy&>(*s.retriever);
}

const std::vector<int> kShownPrompt = test::synthetic_tokens(100, 1),
                       kShownLater = test::synthetic_tokens(30, 4),
                       kFedAnswer = test::synthetic_tokens(4, 2);

TEST(Retriever, SeesTokensAndHiddenStates) {
  test::Machine machine("llama3"), chunks("llama3", 2, {.prefill_chunk = 37});
  const int layers = machine.engine.shape().layers;
  std::vector<std::unique_ptr<test::Conversation>> talks;
  for (test::Machine* m : {&machine, &chunks}) {
    test::Conversation& c =
        *talks.emplace_back(std::make_unique<test::Conversation>(m->engine, spied()));
    c.turn(kShownPrompt);
    for (const int token : kFedAnswer) c.answer(token);
    const Spy& spy = spy_of(c.sequence);
    EXPECT_EQ(spy.tokens, c.sequence.tokens);
    EXPECT_EQ(spy.embeddings.size(), spy.tokens.size());
    ASSERT_EQ(spy.states.size(), static_cast<std::size_t>(layers - 1));
    EXPECT_EQ(spy.states.at(0), spy.embeddings) << "what enters the first layer";
    for (const auto& [layer, rows] : spy.states) EXPECT_EQ(rows.size(), spy.tokens.size());
    const auto& policy = dynamic_cast<const ReadHeavy&>(*c.sequence.policies.selection);
    EXPECT_EQ(policy.steps, (std::vector<std::int32_t>{100, 101, 102, 103}));
    EXPECT_EQ(policy.prompts, std::vector<std::int32_t>(4, 100));
  }
  if (!machine.backend->rows_are_independent()) return;
  EXPECT_EQ(spy_of(talks[0]->sequence).states, spy_of(talks[1]->sequence).states);
}

// The states that enter a layer are the output of a model that ends before the layer.
TEST(Retriever, HiddenStatesAreThoseBetweenLayers) {
  if (test::is_emulated()) GTEST_SKIP() << "a model of two layers";
  test::Machine machine("llama3");
  const std::unique_ptr<Backend> backend = test::make_backend(2);
  const Model model(test::small_checkpoint("llama3", 2), *backend, DType::kF32, Math::kF32);
  Engine engine(model, *backend, {});
  test::Conversation c(machine.engine, spied()), shorter(engine, {});
  c.turn(kShownPrompt);
  const test::Logits want = shorter.turn(kShownPrompt);
  const std::vector<float>& last = spy_of(c.sequence).states.at(2).back();
  const ModelConfig& config = model.config();
  std::vector<float> normed(last.size()), logits(static_cast<std::size_t>(config.vocab));
  const std::int64_t hidden = config.hidden;
  backend->rms_norm(MatrixView<const float>(last.data(), 1, hidden), model.final_norm().data(),
                    config.norm_eps, MatrixView<float>(normed.data(), 1, hidden));
  backend->linear(MatrixView<const float>(normed.data(), 1, hidden), model.lm_head(), nullptr,
                  MatrixView<float>(logits.data(), 1, config.vocab));
  EXPECT_LE(test::distance(logits, want), 1e-6);
}

// The retriever is on the first stage, whichever stages have the layers that it reads.
TEST(Retriever, SeesHiddenStatesOfAllStages) {
  test::Machine machine("llama3");
  const auto first = test::make_backend(2), second = test::make_backend(2);
  const std::array<Backend*, 2> both = {first.get(), second.get()};
  const Model model(test::small_checkpoint("llama3", machine.engine.shape().layers), both,
                    DType::kF32, Math::kF32);
  Engine engine(model, both, {});
  test::Conversation one(machine.engine, spied()), two(engine, spied());
  for (test::Conversation* c : {&one, &two}) {
    c->turn(kShownPrompt);
    c->answer(kFedAnswer[0]);
  }
  ASSERT_EQ(spy_of(two.sequence).states.size(), spy_of(one.sequence).states.size());
  EXPECT_EQ(spy_of(two.sequence).states, spy_of(one.sequence).states);
}

TEST(Retriever, ForksOfASharedPrefillContinueItsState) {
  test::Machine machine("llama3");
  test::Conversation alone(machine.engine, spied()), prefix(machine.engine, {}, 8);
  alone.turn(kShownPrompt);
  Sequence earlier = machine.engine.make_sequence(spied());
  prefix.turn_with_forks(kShownPrompt, {&earlier});
  EXPECT_EQ(prefix.sequence.retriever, nullptr);
  ASSERT_EQ(prefix.sequence.fork_retrievers.size(), 1u);
  test::Conversation next(machine.engine, prefix.sequence.fork());
  next.spans = prefix.spans;
  Sequence fork = machine.engine.make_sequence(spied()), full = machine.engine.make_sequence({});
  next.turn_with_forks(kShownLater, {&full, &fork});
  EXPECT_EQ(full.retriever, nullptr);
  EXPECT_EQ(spy_of(earlier).states, spy_of(alone.sequence).states);
  alone.turn(kShownLater);
  EXPECT_EQ(spy_of(fork).tokens, alone.sequence.tokens);
  if (machine.backend->rows_are_independent()) {
    EXPECT_EQ(spy_of(fork).states, spy_of(alone.sequence).states);
  }
  test::Conversation rest(machine.engine, std::move(fork));
  rest.spans = next.spans;
  for (const int token : kFedAnswer)
    EXPECT_LE(test::distance(rest.answer(token), alone.answer(token)), 1e-5);
  EXPECT_EQ(spy_of(rest.sequence).seen, 134u);
  rest.sequence.truncate(130);
  EXPECT_EQ(spy_of(rest.sequence).seen, 130u);
}

TEST(Retriever, OffloadedLayersAreRequestedBeforeTheFirstLayer) {
  test::Machine machine("llama3");
  const int layers = machine.engine.shape().layers;
  const auto run = [&](std::optional<int> after, bool host) {
    Policies p = spied();
    if (after) p.selection = std::make_unique<ReadAhead>(*after);
    p.placement = {.host = host, .rule = Residency::Rule::kPrevious, .cache_block = 1};
    test::Conversation c(machine.engine, std::move(p));
    std::vector<test::Logits> out = {c.turn(kShownPrompt)};
    for (const int token : kFedAnswer) out.push_back(c.answer(token));
    for (const int token : kFedAnswer) out.push_back(c.answer(token));
    const auto steps = static_cast<int>(2 * kFedAnswer.size());
    if (after) {
      const Spy& spy = spy_of(c.sequence);
      EXPECT_EQ(*spy.asked, steps * layers);
      for (const auto& [layer, asked] : spy.asked_before) {
        const bool all = host && *after < layer;
        EXPECT_EQ(asked, all ? steps * layers : (steps - 1) * layers + layer) << layer;
      }
    }
    return std::pair(out, c.sequence.counters.ledger.total());
  };
  const auto in_turn = run(std::nullopt, true);
  EXPECT_GT(in_turn.second.kv_fetch_bytes, 0);
  for (const int after : {-1, 0}) {
    const auto ahead = run(after, true), device = run(after, false);
    EXPECT_TRUE(in_turn.first == ahead.first);
    EXPECT_TRUE(device.first == ahead.first);
    EXPECT_EQ(in_turn.second, ahead.second);
  }
}

/// The same for the newest tokens, which are in blocks that are not full.
struct ReadNewestAhead : ReadAhead {
  ReadNewestAhead() : ReadAhead(-1) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadNewestAhead>(*this);
  }
  Selection select(const LayerView& view) override {
    std::vector<std::int32_t> newest(20);
    std::iota(newest.begin(), newest.end(), view.sets.front().size() - 20);
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), newest)};
  }
};

// The host receives a step's token after those copies: blocks that are not full are copied without
// it.
TEST(Retriever, BlocksRequestedAheadGrowWithTheAnswer) {
  test::Machine machine("llama3");
  const auto run = [&](std::optional<Residency::Rule> rule) {
    Policies p = spied();
    p.selection = std::make_unique<ReadNewestAhead>();
    if (rule) p.placement = {.host = true, .rule = *rule, .cache_tokens = 400, .cache_block = 16};
    test::Conversation c(machine.engine, std::move(p));
    std::vector<test::Logits> out = {c.turn(kShownPrompt)};
    for (int token = 0; token < 40; ++token) out.push_back(c.answer(token + 3));
    return out;
  };
  const auto device = run(std::nullopt);
  for (const Residency::Rule rule : {Residency::Rule::kDemandLru, Residency::Rule::kPrevious,
                                     Residency::Rule::kLru, Residency::Rule::kLfu})
    EXPECT_TRUE(run(rule) == device) << static_cast<int>(rule);
}

/// Declares one token, but also reads the answer, without pinning it.
struct ReadAnswerAhead : ReadAhead {
  ReadAnswerAhead() : ReadAhead(0) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadAnswerAhead>(*this);
  }
  DeviceNeeds demand(const PromptSize&, const LayerView*) const override {
    return {.step_tokens = 1};
  }
  Selection select(const LayerView& view) override {
    std::vector<std::int32_t> read(static_cast<std::size_t>(1 + view.generated));
    std::iota(read.begin() + 1, read.end(), view.sets.front().size() - view.generated);
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), read)};
  }
};

// The row of the step's token was assigned in the former working set.
TEST(Retriever, RejectsSelectionsAheadThatOutgrowTheirWorkingSet) {
  test::Machine machine("llama3");
  Policies p = spied();
  p.selection = std::make_unique<ReadAnswerAhead>();
  p.placement = {.host = true, .rule = Residency::Rule::kPrevious, .cache_block = 1};
  test::Conversation c(machine.engine, std::move(p));
  c.turn(kShownPrompt);
  const std::string message = test::message_of(
      [&] {
        for (int token = 0; token < 10; ++token) c.answer(token + 3);
      },
      ErrorKind::kRuntime);
  EXPECT_NE(message.find("layer 1: found a selection made ahead that reads more tokens"),
            std::string::npos)
      << message;
}

TEST(Retriever, RejectsPromptsComputedLayerByLayer) {
  test::Machine machine("llama3", 2, {.prefill_chunk = 37});
  Policies p;
  p.selection = std::make_unique<ReadByLayers>();
  test::Conversation c(machine.engine, std::move(p));
  EXPECT_EQ(test::message_of([&] { c.turn(kShownPrompt); }, ErrorKind::kRuntime),
            "engine: found a method with a retriever and with prompts that are computed layer by "
            "layer, expected one of the two");
}

TEST(Retriever, IsIncludedInMemory) {
  test::Machine machine("llama3"), plain("llama3");
  test::Conversation c(machine.engine, spied()), other(plain.engine, {});
  c.turn(kShownPrompt);
  other.turn(kShownPrompt);
  const std::size_t pages = 2 * PageLayout{8, DType::kF32, false}.bytes();
  EXPECT_EQ(machine.engine.memory().kv_bytes() - plain.engine.memory().kv_bytes(), pages);
  EXPECT_EQ(machine.engine.memory().peak_kv_bytes() - plain.engine.memory().peak_kv_bytes(), pages);
  EXPECT_EQ(c.sequence.kv_bytes() - other.sequence.kv_bytes(), pages);
  // The retriever's memory counts against the limit.
  const std::size_t limit = machine.model.weight_bytes() + (std::size_t{24} << 20);
  const auto fits = [&](std::size_t most, Policies policies) {
    Engine engine(machine.model, *machine.backend, {.memory_limit = most});
    test::Conversation limited(engine, std::move(policies));
    try {
      limited.turn(kShownPrompt);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kMemory);
      return false;
    }
    return true;
  };
  std::size_t least = 0;
  for (std::size_t most = limit; most > 0 && fits(most, {}); most -= 64 << 10) least = most;
  EXPECT_FALSE(fits(least + (64 << 10), spied()));
  EXPECT_TRUE(fits(least + (std::size_t{2} << 20), spied()));
}

}  // namespace
}  // namespace turnbench
