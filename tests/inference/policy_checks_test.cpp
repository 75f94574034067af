// Policies that violate a requirement of policy.h: the engine refuses their results with a message
// of one line.

#include <gtest/gtest.h>

#include <functional>

#include "common/error.h"
#include "conversation.h"
#include "test_policies.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;
using Lists = std::vector<Ints>;

/// Keeps the given slots, valid or not: after the prompt, or after each step of the answer.
struct KeepGivenSlots : EvictionPolicy {
  KeepGivenSlots(Lists lists, bool decoding, bool shift)
      : lists(std::move(lists)), decoding(decoding), shift(shift) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepGivenSlots>(*this);
  }
  bool shifts_positions() const override { return shift; }
  bool keeps_unequal_sets() const override { return says_unequal; }
  bool evicts_in_answers() const override { return decoding; }
  KeepSets after_prefill(const LayerView& view) override { return told(!decoding, view); }
  KeepSets after_decode(const LayerView& view) override { return told(decoding, view); }
  KeepSets told(bool now, const LayerView& view) const {
    return now && view.layer == 1 ? KeepSets{lists} : KeepSets{};
  }
  Lists lists;
  bool decoding, shift;
  bool says_unequal = true;
};

struct ReadGivenSlots : SelectionPolicy {
  explicit ReadGivenSlots(Lists lists) : lists(std::move(lists)) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadGivenSlots>(*this);
  }
  Selection select(const LayerView&) override { return {lists}; }
  Lists lists;
};

struct ComputeGivenPatterns : PrefillPolicy {
  explicit ComputeGivenPatterns(std::vector<HeadPattern> patterns)
      : patterns(std::move(patterns)) {}
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<ComputeGivenPatterns>(*this);
  }
  std::vector<HeadPattern> plan(const LayerView&) override { return patterns; }
  std::vector<HeadPattern> patterns;
};

/// Two sets of four query heads in each layer; prompts of 70 tokens.
class PolicyChecks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(machine_.engine.shape().heads, 8);
    ASSERT_EQ(machine_.engine.shape().kv_heads, 2);
  }

  /// The engine's error message for a prompt and one token of an answer with these policies.
  std::string error_of(Policies policies) {
    policies.method = "given-policy";
    return message_of(
        [&] {
          Conversation c(machine_.engine, std::move(policies));
          c.turn(synthetic_tokens(70, 1));
          c.answer(5);
        },
        ErrorKind::kRuntime);
  }
  std::string keep_error(const Lists& lists, bool decoding = false, bool shift = false) {
    return error_of(evicting<KeepGivenSlots>(lists, decoding, shift));
  }
  std::string read_error(const Lists& lists) {
    return error_of(selecting(std::make_unique<ReadGivenSlots>(lists)));
  }
  /// One pattern applies to every head.
  std::string compute_error(const HeadPattern& pattern, std::size_t heads = 8) {
    Policies policies;
    policies.prefill =
        std::make_unique<ComputeGivenPatterns>(std::vector<HeadPattern>(heads, pattern));
    return error_of(std::move(policies));
  }

  Machine machine_{"llama3"};
};

TEST_F(PolicyChecks, KeptSlots) {
  const Ints good = {0, 1, 69};
  EXPECT_EQ(keep_error({good, good}), "no error");
  EXPECT_EQ(keep_error({good, {3}}), "no error") << "sets may differ in size";
  EXPECT_EQ(keep_error(Lists(8, good)), "no error") << "a set for each query head";
  const std::string lists = "given-policy: eviction at layer 1: found ",
                    one_each =
                        " lists of slots, expected one for each of 2 sets or of 8 query heads";
  for (std::size_t count : {1, 3, 16})
    EXPECT_EQ(keep_error(Lists(count, good)), lists + std::to_string(count) + one_each);
  const std::string second = "given-policy: eviction at layer 1, list 1: found slot ",
                    range = ", expected ascending slots from 0 to 69";
  EXPECT_EQ(keep_error({good, {5, 5}}), second + "5 after 5" + range);
  EXPECT_EQ(keep_error({good, {0, 7, 3}}), second + "3 after 7" + range);
  EXPECT_EQ(keep_error({good, {-1, 0}}), second + "-1" + range);
  EXPECT_EQ(keep_error({good, {69, 70}}), second + "70 after 69" + range);
  EXPECT_EQ(keep_error({good, {0, 72}}, true),
            second + "72 after 0, expected ascending slots from 0 to 70")
      << "after a step of the answer";
}

TEST_F(PolicyChecks, RejectUndeclaredEvictions) {
  auto unequal = std::make_unique<KeepGivenSlots>(Lists{{0, 1, 69}, {3}}, false, false);
  unequal->says_unequal = false;
  Policies policies;
  policies.eviction = std::move(unequal);
  EXPECT_EQ(
      error_of(std::move(policies)),
      "given-policy: eviction at layer 1: found sets of 3 and 1 tokens, expected equally many, as "
      "keeps_unequal_sets declares");
}

// The requirements of a selection on the eviction are checked when the policies are combined,
// before any token is computed.
TEST_F(PolicyChecks, RejectEvictionsIncompatibleWithTheSelection) {
  struct NeedsMuch : ReadGivenSlots {
    NeedsMuch(bool equal, bool whole) : ReadGivenSlots({}), equal(equal), whole(whole) {}
    std::unique_ptr<SelectionPolicy> clone() const override {
      return std::make_unique<NeedsMuch>(*this);
    }
    SelectionTraits traits() const override {
      return {.needs_equal_sets = equal, .needs_whole_answers = whole};
    }
    bool equal, whole;
  };
  const auto together = [](bool equal, bool whole, bool decoding) {
    auto eviction = std::make_unique<KeepGivenSlots>(Lists{}, decoding, false);
    Policies out;
    out.eviction = std::move(eviction);
    out.selection = std::make_unique<NeedsMuch>(equal, whole);
    out.method = "given-policy";
    return out;
  };
  const std::vector<int> prompt = synthetic_tokens(70, 1);
  Conversation unequal(machine_.engine, together(true, false, false));
  EXPECT_EQ(message_of([&] { unequal.turn(prompt); }),
            "given-policy: found an eviction whose heads keep unequal numbers of tokens, expected "
            "equally many in all KV sets of a layer, which the selection needs");
  EXPECT_TRUE(unequal.sequence.tokens.empty());
  Conversation fork_of(machine_.engine, {});
  Sequence fork = machine_.engine.make_sequence(together(true, false, false));
  EXPECT_THROW(fork_of.turn_with_forks(prompt, {&fork}), Error);
  Conversation whole(machine_.engine, together(false, true, true));
  whole.turn(prompt);
  const std::string refused =
      "given-policy: found an eviction while decoding, expected none, or history compress_once: "
      "the "
      "selection needs whole answers";
  EXPECT_EQ(message_of([&] { whole.answer(5); }), refused);
  EXPECT_EQ(whole.sequence.tokens.size(), prompt.size());
  whole.answer(5, /*evict=*/false);
  EXPECT_EQ(whole.sequence.tokens.size(), prompt.size() + 1);
}

TEST_F(PolicyChecks, ShiftedSetsHaveEqualSizes) {
  EXPECT_EQ(
      keep_error({{0, 1}, {0, 1}}, false, true),
      "given-policy: eviction at layer 1: found a set of 2 tokens, expected 70 as in every other "
      "set of every layer, because positions shift");
}

TEST_F(PolicyChecks, SlotsRead) {
  const Ints good = {0, 1, 70};
  EXPECT_EQ(read_error({good, good}), "no error");
  EXPECT_EQ(read_error(Lists(8, good)), "no error");
  EXPECT_EQ(
      read_error({good}),
      "given-policy: selection at layer 0: found 1 lists of slots, expected one for each of 2 sets "
      "or of 8 query heads");
  const std::string first = "given-policy: selection at layer 0, list 0: found ",
                    range = ", expected ascending slots from 0 to 70",
                    current = " last, expected the current token's slot 70";
  EXPECT_EQ(read_error({{0, 0, 70}, good}), first + "slot 0 after 0" + range);
  EXPECT_EQ(read_error({{70, 4}, good}), first + "slot 4 after 70" + range);
  EXPECT_EQ(read_error({{-20, 70}, good}), first + "slot -20" + range);
  EXPECT_EQ(read_error({{70, 71}, good}), first + "slot 71 after 70" + range);
  EXPECT_EQ(read_error({{0, 69}, good}), first + "slot 69" + current);
  EXPECT_EQ(read_error({{}, good}), first + "no slot" + current);
}

/// Reads everything, or given slots; pins the given ranges, which may depend on the number of
/// tokens.
struct PinGivenRanges : ReadGivenSlots {
  using Ranges = std::function<std::vector<SlotRange>(int tokens)>;
  explicit PinGivenRanges(Ranges ranges, SelectionTraits traits = {}, Lists lists = {})
      : ReadGivenSlots(std::move(lists)), ranges(std::move(ranges)), given(traits) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<PinGivenRanges>(*this);
  }
  SelectionTraits traits() const override { return given; }
  DeviceNeeds demand(const PromptSize&, const LayerView*) const override {
    return {.pinned_tokens = 80, .step_tokens = 200};
  }
  std::vector<SlotRange> pinned(int, int, int tokens) const override { return ranges(tokens); }
  Ranges ranges;
  SelectionTraits given;
};

TEST_F(PolicyChecks, PinnedRanges) {
  const auto error_with = [&](const PinGivenRanges::Ranges& ranges, SelectionTraits traits = {}) {
    Policies policies = selecting(std::make_unique<PinGivenRanges>(ranges, traits));
    policies.placement.host = true;
    return error_of(std::move(policies));
  };
  const std::string start = "given-policy: selection at layer 0: found pinned slots ",
                    newest = ", expected them to end with the newest token, slot 69";
  for (const SelectionTraits& traits :
       {SelectionTraits{}, SelectionTraits{.reads_pinned_only = true}}) {
    EXPECT_EQ(error_with([](int) { return std::vector<SlotRange>(); }, traits),
              start + "of KV set 0 up to none" + newest);
    EXPECT_EQ(error_with(
                  [](int) {
                    return std::vector<SlotRange>{{0, 2}};
                  },
                  traits),
              start + "of KV set 0 up to 1" + newest);
    EXPECT_EQ(error_with(
                  [](int n) {
                    return std::vector<SlotRange>{{0, 2}, {n - 1, n + 3}};
                  },
                  traits),
              start + "of KV set 0 up to 72" + newest);
    EXPECT_EQ(error_with(
                  [](int n) {
                    return std::vector<SlotRange>{{3, 4}, {2, n}};
                  },
                  traits),
              start + "2 to 70 of KV set 0, expected them from 4 on");
  }
  EXPECT_EQ(error_with([](int n) {
              return std::vector<SlotRange>{{0, 2}, {n - 1, n}};
            }),
            "no error");
}

// On the device, the result would not show it; with keys in host memory, the device has, and
// attention reads, all pinned tokens.
TEST_F(PolicyChecks, ReadsOfPinnedTokensOnly) {
  const auto ends = [](int n) { return std::vector<SlotRange>{{0, 2}, {3, 4}, {n - 1, n}}; };
  const auto read = [&](const Ints& list) {
    return error_of(selecting(std::make_unique<PinGivenRanges>(
        ends, SelectionTraits{.reads_pinned_only = true}, Lists{list, {0, 1, 3, 70}})));
  };
  const std::string first = "given-policy: selection at layer 0, list 0: found ",
                    declared = ", as reads_pinned_only declares";
  EXPECT_EQ(read({0, 1, 3, 70}), "no error");
  EXPECT_EQ(read({0, 2, 3, 70}), first + "slot 2, expected pinned ones" + declared);
  EXPECT_EQ(read({0, 1, 3, 50, 70}), first + "slot 50, expected pinned ones" + declared);
  EXPECT_EQ(read({0, 3, 70}), first + "3 slots, expected all 4 pinned ones" + declared);
  EXPECT_EQ(error_of(selecting(std::make_unique<PinGivenRanges>(
                ends, SelectionTraits{.reads_pinned_only = true}))),
            "given-policy: selection at layer 0: found all 71 slots of KV set 0, expected the 4 "
            "pinned ones" +
                declared);
}

TEST_F(PolicyChecks, TraitsAgree) {
  const auto error_with = [&](SelectionTraits traits) {
    const auto newest = [](int n) { return std::vector<SlotRange>{{n - 1, n}}; };
    return error_of(selecting(std::make_unique<PinGivenRanges>(newest, traits)));
  };
  EXPECT_EQ(error_with({.window = -1}), "given-policy: window: found -1, expected at least 0");
  EXPECT_EQ(
      error_with({.max_distance = 8}),
      "given-policy: traits: found max_distance without pre_rope_keys, expected both: distances "
      "are clamped in scores of keys before RoPE");
}

TEST_F(PolicyChecks, EveryPolicyHasACopy) {
  struct NoCopy : ReadGivenSlots {
    NoCopy() : ReadGivenSlots({}) {}
    std::unique_ptr<SelectionPolicy> clone() const override { return nullptr; }
  };
  Policies policies = selecting(std::make_unique<NoCopy>());
  policies.method = "given-policy";
  EXPECT_EQ(message_of([&] { (void)policies.clone(); }, ErrorKind::kRuntime),
            "given-policy: clone: found null, expected a copy of the policy");
}

TEST_F(PolicyChecks, CheckBlendedVectors) {
  struct BlendAsTold : SelectionPolicy {
    explicit BlendAsTold(const Blend& blend) : blend(blend) {}
    std::unique_ptr<SelectionPolicy> clone() const override {
      return std::make_unique<BlendAsTold>(*this);
    }
    Selection select(const LayerView&) override { return {{}, blend}; }
    Blend blend;
  };
  const std::int64_t dim = machine_.engine.shape().head_dim;
  Buffer data(static_cast<std::size_t>(3 * dim) * sizeof(float), machine_.backend->memory());
  const std::vector<float> halves(static_cast<std::size_t>(3 * dim), 0.5f);
  machine_.backend->memory()->copy_floats(halves.data(), data.as<float>(), halves.size());
  const float* x = data.as<float>();
  const auto blend_error = [&](const Blend& blend) {
    return error_of(selecting(std::make_unique<BlendAsTold>(blend)));
  };
  EXPECT_EQ(blend_error({x, {x, 2, dim}}), "no error");
  const std::string found = "given-policy: selection at layer 0: found ",
                    expected = fmt::format(" elements to blend with, expected 2 of {}", dim);
  EXPECT_EQ(blend_error({x, {x, 3, dim}}), found + fmt::format("3 vectors of {}", dim) + expected);
  EXPECT_EQ(blend_error({x, {x, 2, 1}}), found + "2 vectors of 1" + expected);
  EXPECT_EQ(blend_error({x, {}}), found + "0 vectors of 0" + expected);
}

TEST_F(PolicyChecks, Patterns) {
  using Kind = HeadPattern::Kind;
  EXPECT_EQ(compute_error({}), "no error");
  EXPECT_EQ(
      compute_error({}, 2),
      "given-policy: prefill at layer 0: found 2 patterns, expected one for each of 8 query heads");
  const std::string head = "given-policy: prefill at layer 0, head 0";
  HeadPattern band;
  band.kind = Kind::kBand;
  band.sinks = 1;
  band.local = -3;
  EXPECT_EQ(
      compute_error(band),
      head + ": found a band of 1 sinks, -3 local keys and 0 dense rows, expected none below 0");
  const auto lines = [&](Ints columns, Ints offsets) {
    HeadPattern p;
    p.kind = Kind::kVerticalSlash;
    p.columns = std::move(columns);
    p.offsets = std::move(offsets);
    return compute_error(p);
  };
  EXPECT_EQ(lines({0, 69}, {0, 69}), "no error");
  EXPECT_EQ(lines({0, 70}, {0}), head +
                                     ": found column 70 after 0, expected ascending columns from "
                                     "0 to 69");
  EXPECT_EQ(lines({-1}, {0}), head + ": found column -1, expected ascending columns from 0 to 69");
  EXPECT_EQ(lines({}, {0, 3, 3}), head +
                                      ": found offset 3 after 3, expected ascending offsets from "
                                      "0 to 69");
  const auto blocks = [&](int size, int rows, Lists lists) {
    HeadPattern p;
    p.kind = Kind::kBlocks;
    p.block_size = size;
    p.block_rows = rows;
    p.blocks = std::move(lists);
    return compute_error(p);
  };
  EXPECT_EQ(blocks(32, 64, {{0, 1}, {0, 2}}), "no error");
  EXPECT_EQ(blocks(32, 64, {{0, 1}}),
            head + ": found 1 lists of key blocks, expected 2 for 70 rows");
  EXPECT_EQ(blocks(0, 64, {{0}, {0}}), head +
                                           ": found blocks of 0 keys and 64 rows, expected at "
                                           "least 1 key and a multiple of 64 rows");
  EXPECT_EQ(blocks(32, 100, {{0}, {0}}), head +
                                             ": found blocks of 32 keys and 100 rows, expected at "
                                             "least 1 key and a multiple of 64 rows");
  EXPECT_EQ(
      blocks(32, 64, {{0, 1}, {2, 1}}),
      head + ", list 1: found key block 1 after 2, expected ascending key blocks from 0 to 2");
  EXPECT_EQ(
      blocks(32, 64, {{0, 1}, {0, 3}}),
      head + ", list 1: found key block 3 after 0, expected ascending key blocks from 0 to 2");
}

TEST_F(PolicyChecks, PoliciesWithoutAName) {
  Conversation c(machine_.engine, evicting<KeepGivenSlots>(Lists{{1, 0}, {0}}, false, false));
  EXPECT_EQ(message_of([&] { c.turn(synthetic_tokens(70, 1)); }, ErrorKind::kRuntime),
            "policy: eviction at layer 1, list 0: found slot 0 after 1, expected ascending slots "
            "from 0 to 69");
}

}  // namespace
}  // namespace turnbench
