// Keys and values in host memory: for any contents of the device, the results are bit-identical to
// those of a cache on the device, and the ledger counts the bytes of the copies.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "common/error.h"
#include "inference/engine/engine.h"
#include "tests/inference/conversation.h"
#include "tests/inference/test_policies.h"
#include "tests/message_of.h"

namespace turnbench::test {
namespace {

/// Reads sinks, a local window, the current token, and `chosen` other tokens that depend on the
/// step, the layer and the list, with some overlap from step to step.
struct ReadDrawn : SelectionPolicy {
  ReadDrawn(int chosen, int lists_per_set) : chosen(chosen), lists_per_set(lists_per_set) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadDrawn>(*this);
  }
  DeviceNeeds demand(const PromptSize&, const LayerView*) const override {
    return {.pinned_tokens = kSinks + kLocal + 1,
            .step_tokens = lists_per_set * chosen,
            .first = kSinks,
            .lists_per_set = lists_per_set};
  }
  std::vector<SlotRange> pinned(int, int, int tokens) const override {
    return {{0, kSinks}, {tokens - kLocal - 1, tokens}};
  }
  Selection select(const LayerView& view) override {
    Selection out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      for (int l = 0; l < lists_per_set; ++l) {
        std::mt19937 random(static_cast<unsigned>(view.generated / 2 + 100 * view.layer) +
                            static_cast<unsigned>(1000 * s) + static_cast<unsigned>(7 * l));
        std::set<std::int32_t> list;
        while (static_cast<int>(list.size()) < chosen)
          list.insert(kSinks +
                      static_cast<int>(random() % static_cast<unsigned>(n - kSinks - kLocal - 1)));
        for (int i = 0; i < kSinks; ++i) list.insert(i);
        for (int i = n - kLocal - 1; i < n; ++i) list.insert(i);
        out.slots.emplace_back(list.begin(), list.end());
      }
    }
    return out;
  }
  static constexpr int kSinks = 3, kLocal = 10;
  int chosen, lists_per_set;
};

Policies reading(int chosen, const Placement& placement, int lists_per_set = 1) {
  Policies out = selecting(std::make_unique<ReadDrawn>(chosen, lists_per_set));
  out.placement = placement;
  return out;
}

/// Two turns with answers; the logits of each step.
std::vector<Logits> two_turns(Conversation& c) {
  std::vector<Logits> out;
  out.push_back(c.turn(synthetic_tokens(90, 1)));
  for (int token : synthetic_tokens(12, 2)) out.push_back(c.answer(token));
  out.push_back(c.turn(synthetic_tokens(40, 3)));
  for (int token : synthetic_tokens(6, 4)) out.push_back(c.answer(token));
  return out;
}

using Rule = Residency::Rule;

std::vector<Placement> placements() {
  if (is_emulated()) return {{true, Rule::kLfu, 8, 4, 1}, {true, Rule::kPrevious, 20, 1}};
  std::vector<Placement> out;
  for (const Rule rule : {Rule::kLru, Rule::kLfu}) {
    for (const int tokens : {0, 8, 32}) {
      for (const int inserted : {1, 32})
        out.push_back({true, rule, tokens, tokens == 8 ? 4 : 8, inserted});
    }
  }
  out.push_back({true, Rule::kDemandLru, 200, 8});
  out.push_back({true, Rule::kPrevious, 0, 1});
  out.push_back({true, Rule::kPrevious, 20, 1});
  return out;
}

class Offload : public testing::TestWithParam<std::string> {};

TEST_P(Offload, BitsDoNotDependOnWhatIsOnTheDevice) {
  Machine machine(GetParam());
  for (const int lists : {1, machine.engine.shape().group()}) {
    Conversation whole(machine.engine, reading(20, {}, lists));
    const std::vector<Logits> want = two_turns(whole);
    EXPECT_EQ(whole.sequence.counters.ledger.total().bytes(), 0);
    for (const Placement& placement : placements()) {
      for (const int chunk : {2048, 33}) {
        Engine::Options options;
        options.prefill_chunk = chunk;
        Engine engine(machine.model, *machine.backend, options);
        Conversation offloaded(engine, reading(20, placement, lists));
        const auto what = std::tuple(static_cast<int>(placement.rule), placement.cache_tokens,
                                     placement.insert_blocks, chunk, lists);
        EXPECT_TRUE(two_turns(offloaded) == want) << testing::PrintToString(what);
        EXPECT_TRUE(cached_rows(offloaded.sequence) == cached_rows(whole.sequence))
            << testing::PrintToString(what);
        if (is_emulated()) break;
      }
    }
  }
}

// A policy that reads or pins more than its DeviceNeeds, in addition to the answer, is refused
// under every rule.
TEST_P(Offload, RejectsMoreTokensThanDeclared) {
  struct Promises : ReadDrawn {
    Promises(int step, int pin) : ReadDrawn(20, 1), step(step), pin(pin) {}
    std::unique_ptr<SelectionPolicy> clone() const override {
      return std::make_unique<Promises>(*this);
    }
    DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
      DeviceNeeds out = ReadDrawn::demand(size, known);
      out.step_tokens = step;
      return out;
    }
    std::vector<SlotRange> pinned(int layer, int set, int tokens) const override {
      std::vector<SlotRange> out = ReadDrawn::pinned(layer, set, tokens);
      if (tokens > 90) out.back().begin -= pin;  // in steps
      return out;
    }
    int step, pin;
  };
  Machine machine(GetParam());
  const auto said = [&](const Placement& placement, int step, int pin) {
    auto promises = std::make_unique<Promises>(step, pin);
    Policies policies = selecting(std::move(promises));
    policies.placement = placement;
    policies.method = "made-up";
    Conversation c(machine.engine, std::move(policies));
    c.turn(synthetic_tokens(90, 1));
    return message_of([&] { c.answer(5); }, ErrorKind::kRuntime);
  };
  for (const Placement& placement :
       {Placement{true, Rule::kLru, 16, 8}, Placement{true, Rule::kPrevious, 0, 1}}) {
    EXPECT_EQ(said(placement, 20, 0), "no error");
    EXPECT_EQ(
        said(placement, 4, 0),
        "made-up: selection at layer 0: found 34 selected tokens of a KV set, expected at most "
        "the 18 of DeviceNeeds and 1 of the answer");
    EXPECT_EQ(said(placement, 20, 5),
              "made-up: selection at layer 0: found 19 pinned tokens of a KV set, expected at most "
              "the 14 of DeviceNeeds and 1 of the answer");
  }
}

TEST_P(Offload, LedgerCountsRequiredTransfers) {
  Machine machine(GetParam());
  Conversation c(machine.engine, reading(20, {true, Rule::kLru, 0, 8}));
  two_turns(c);
  const ModelShape& shape = machine.engine.shape();
  const std::int64_t row =
      2 * static_cast<std::int64_t>(c.sequence.sets(0)[0].layout().row_bytes(KvRow::kKey));
  const std::int64_t sets = shape.kv_heads;
  const Ledger& ledger = c.sequence.counters.ledger;
  // Prefill of both turns, and 18 steps.
  ASSERT_EQ(ledger.steps(), 19u);
  for (int l = 0; l < shape.layers; ++l) {
    const LedgerEntry& prefill = ledger.at(0, l);
    EXPECT_EQ(prefill.writeback_bytes, sets * 90 * row);
    EXPECT_EQ(prefill.prefill_bytes, 0);
    for (std::size_t s = 1; s < ledger.steps(); ++s) {
      const LedgerEntry& step = ledger.at(s, l);
      // The second turn's prefill is in the entry of the last step before it.
      const bool is_last = s == 12;
      EXPECT_EQ(step.writeback_bytes, sets * row * (is_last ? 41 : 1)) << s;
      EXPECT_EQ(step.prefill_bytes, is_last ? sets * 102 * row : 0) << s;
      EXPECT_EQ(step.kv_fetch_bytes, sets * 20 * row) << s;
      EXPECT_EQ(step.misses, sets * 20);
      EXPECT_EQ(step.hits, 0);
      EXPECT_EQ(step.cache_fill_bytes, 0);
    }
  }
}

// Steps that read the same tokens as the previous step hit them.
TEST_P(Offload, PreviousStepsTokensAreHits) {
  Machine machine(GetParam());
  Conversation c(machine.engine, reading(20, {true, Rule::kPrevious, 0, 1}));
  c.turn(synthetic_tokens(90, 1));
  for (int token : synthetic_tokens(4, 2)) c.answer(token);
  // Steps 2 and 3 draw the same numbers, and n has grown by one.
  const Ledger& ledger = c.sequence.counters.ledger;
  std::int64_t hits = 0;
  for (std::size_t s = 1; s <= 4; ++s) {
    const LedgerEntry& step = ledger.at(s, 0);
    EXPECT_EQ(step.hits + step.misses, 20 * machine.engine.shape().kv_heads);
    hits += step.hits;
  }
  EXPECT_GT(hits, 10 * machine.engine.shape().kv_heads);
}

// A method that selects nothing reads all tokens from the host, also beyond its initial room on the
// device.
TEST_P(Offload, ReadsEverything) {
  Machine machine(GetParam());
  Policies host;
  host.placement = {true, Rule::kLru, 16, 8};
  Conversation whole(machine.engine, {}), offloaded(machine.engine, std::move(host));
  EXPECT_TRUE(two_turns(whole) == two_turns(offloaded));
  if (is_emulated()) return;
  const std::size_t at_first = offloaded.sequence.resident_kv_bytes();
  EXPECT_EQ(offloaded.sequence.added_kv_bytes(), 0u);
  for (int token : synthetic_tokens(2100, 7))
    ASSERT_TRUE(whole.answer(token) == offloaded.answer(token));
  EXPECT_GT(offloaded.sequence.added_kv_bytes(), 0u);
  EXPECT_EQ(offloaded.sequence.resident_kv_bytes(), at_first + offloaded.sequence.added_kv_bytes());
}

/// Pins its answers, for which it declared no room.
struct PinAnswers : ReadDrawn {
  using ReadDrawn::ReadDrawn;
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<PinAnswers>(*this);
  }
  void after_prefill(const LayerView& view) override { prompt = view.sets[0].size(); }
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    DeviceNeeds out = ReadDrawn::demand(size, known);
    out.per_list = true;
    return out;
  }
  std::vector<SlotRange> pinned(int, int, int tokens) const override {
    return {{0, kSinks}, {prompt - kLocal - 1, tokens}};
  }
  int prompt = 0;
};

// Working sets grow with the pinned tokens, also those of forks and those with slots per list.
TEST_P(Offload, PinnedTokensMayGrow) {
  Machine machine(GetParam());
  const int lists = machine.engine.shape().group(), steps = is_emulated() ? 4 : 60;
  const std::vector<int> answer = synthetic_tokens(steps, 2);
  const auto begun = [&](const Placement& placement) {
    Policies policies = selecting(std::make_unique<PinAnswers>(20, lists));
    policies.placement = placement;
    Conversation out(machine.engine, std::move(policies));
    out.turn(synthetic_tokens(90, 1));
    return out;
  };
  for (const Placement& placement :
       {Placement{true, Rule::kLfu, 32, 8}, Placement{true, Rule::kPrevious, 0, 1}}) {
    Conversation whole = begun({}), offloaded = begun(placement);
    const auto& layer = *offloaded.sequence.at(0).kv.working_set();
    EXPECT_EQ(layer.options().per_list, placement.rule == Rule::kPrevious);
    if (layer.options().per_list) {
      EXPECT_EQ(layer.options().cache_tokens, 20);
    }
    Conversation fork = offloaded.fork();
    for (const int token : answer) {
      const Logits want = whole.answer(token);
      ASSERT_TRUE(offloaded.answer(token) == want);
      ASSERT_TRUE(fork.answer(token) == want);
    }
    const int pinned = ReadDrawn::kSinks + ReadDrawn::kLocal + 1 + steps;
    EXPECT_GE(offloaded.sequence.at(0).kv.working_set()->options().pinned_tokens, pinned);
    EXPECT_TRUE(cached_rows(offloaded.sequence) == cached_rows(whole.sequence));
  }
}

// Sequences that continue from one prompt share its copy in host memory, and each of them has the
// same results as alone.
// Pre-RoPE keys that the prompt has for other sequences are not copied.
TEST_P(Offload, ForksShareTheHostCopy) {
  for (const bool pre_rope_keys : {false, true}) {
    Machine machine(GetParam());
    const std::vector<Placement> all = placements();
    Conversation prefix(machine.engine, {}, 0, pre_rope_keys);
    std::vector<Sequence> forks;
    std::vector<Sequence*> pointers;
    for (const Placement& p : all) forks.push_back(machine.engine.make_sequence(reading(20, p)));
    for (Sequence& s : forks) pointers.push_back(&s);
    const std::vector<int> prompt = synthetic_tokens(90, 1), answer = synthetic_tokens(5, 2);
    prefix.turn_with_forks(prompt, pointers);
    std::size_t bytes = 0;  // of one copy
    for (int l = 0; l < prefix.sequence.shape().layers; ++l) {
      for (const KvHeadCache& set : prefix.sequence.sets(l)) bytes += set.bytes();
    }
    if (pre_rope_keys) {
      EXPECT_LT(machine.engine.memory().host_kv_bytes(), bytes);
    } else {
      EXPECT_EQ(machine.engine.memory().host_kv_bytes(), bytes);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      Conversation fork(machine.engine, std::move(forks[i]));
      Conversation alone(machine.engine, reading(20, all[i]));
      alone.turn(prompt);
      for (int token : answer) EXPECT_TRUE(fork.answer(token) == alone.answer(token)) << i;
      EXPECT_TRUE(fork.sequence.counters.ledger.total() == alone.sequence.counters.ledger.total());
      EXPECT_TRUE(cached_rows(fork.sequence) == cached_rows(alone.sequence)) << i;
    }
  }
}

// The device holds at most the working sets and, in a prefill, one layer, as its allocator shows.
TEST_P(Offload, StaysWithinTheDevice) {
  if (is_emulated()) return;
  Machine machine(GetParam());
  const ModelShape& shape = machine.engine.shape();
  const std::size_t page =
      PageLayout{shape.head_dim, DType::kF32}.bytes() * static_cast<std::size_t>(shape.kv_heads);
  const auto pages = [](int tokens) {
    return static_cast<std::size_t>((tokens + kPageTokens - 1) / kPageTokens);
  };
  const int prompt = 2000, working = 3 + 10 + 1 + 64 + 128;  // pinned, cached, step buffer
  const std::size_t layers = static_cast<std::size_t>(shape.layers);
  Engine::Options options;
  options.prefill_chunk = 100;
  options.kv_limit = (pages(prompt + 100) + layers * pages(working)) * page;
  ASSERT_LT(options.kv_limit, layers * pages(prompt) * page) << "less than the whole cache";
  const Placement placement{true, Rule::kLfu, 64, 16};
  Engine engine(machine.model, *machine.backend, options);
  Conversation c(engine, reading(128, placement)), whole(machine.engine, reading(128, {}));
  const std::vector<int> tokens = synthetic_tokens(prompt, 1);
  EXPECT_TRUE(c.turn(tokens) == whole.turn(tokens));
  for (int token : synthetic_tokens(20, 2)) EXPECT_TRUE(c.answer(token) == whole.answer(token));
  EXPECT_LE(engine.memory().peak_kv_bytes(), options.kv_limit);
  EXPECT_LE(engine.memory().kv_bytes(), layers * pages(working) * page);
  EXPECT_GE(engine.memory().host_kv_bytes(), layers * pages(prompt) * page);

  options.kv_limit -= layers * pages(working) * page + page;
  Engine small(machine.model, *machine.backend, options);
  Conversation refused(small, reading(128, placement));
  EXPECT_THROW(refused.turn(tokens), Error);
}

// The same for 64K tokens: the device never holds more than one layer of them and the working sets.
TEST(OffloadAtLength, SixtyFourThousandTokensStayWithinTheDevice) {
  if (is_emulated()) return;
  Machine machine("llama3");
  const ModelShape& shape = machine.engine.shape();
  constexpr std::size_t kPrompt = 64 << 10, kChosen = 512, kCached = 4096;
  const std::size_t page =
      PageLayout{shape.head_dim, DType::kF32}.bytes() * static_cast<std::size_t>(shape.kv_heads);
  const std::size_t layers = static_cast<std::size_t>(shape.layers), prompt = kPrompt / kPageTokens,
                    working = (ReadDrawn::kSinks + ReadDrawn::kLocal + 1 + kCached + kChosen) /
                                  kPageTokens +
                              1;
  Engine::Options options;
  options.kv_limit = (prompt + layers * working) * page;
  ASSERT_LT(options.kv_limit, layers * prompt * page * 2 / 3);
  Engine engine(machine.model, *machine.backend, options);
  const auto filled = [&](Engine& e, const Placement& placement) {
    Conversation c(e, reading(kChosen, placement));
    e.fill_random_kv(c.sequence, synthetic_tokens(kPrompt, 1), {}, 3);
    return c;
  };
  Conversation c = filled(engine, {true, Rule::kLfu, kCached, 128}),
               whole = filled(machine.engine, {});
  EXPECT_EQ(engine.memory().kv_bytes(), layers * working * page);
  for (int token : synthetic_tokens(6, 2)) EXPECT_TRUE(c.answer(token) == whole.answer(token));
  EXPECT_EQ(engine.memory().kv_bytes(), layers * working * page);
  EXPECT_LE(engine.memory().peak_kv_bytes(), options.kv_limit);
  EXPECT_GE(engine.memory().host_kv_bytes(), layers * prompt * page);

  options.kv_limit -= page;  // one page less in each set
  Engine small(machine.model, *machine.backend, options);
  EXPECT_THROW(filled(small, {true, Rule::kLfu, kCached, 128}), Error);
}

INSTANTIATE_TEST_SUITE_P(Models, Offload, testing::Values("llama3", "qwen2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace turnbench::test
