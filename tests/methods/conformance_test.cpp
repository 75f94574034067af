// The requirements for every method, checked for every entry of the registry, with small settings
// and with each value of its choices and flags.  Registering a new method is enough to test it.
// Its parameters are set by name, from the tables of settings.h: a new kind of parameter needs a
// line there.  Checks that need only policies are in conformance.h.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/error.h"
#include "common/text.h"
#include "methods/method.h"
#include "tests/methods/conformance.h"
#include "tests/methods/constant_values.h"
#include "tests/methods/settings.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

using namespace test;
using ParameterKind = ParameterInfo::Kind;

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { checks_ = std::make_unique<ConformanceChecks>(); }
  static void TearDownTestSuite() { checks_.reset(); }
  void SetUp() override {
    const bool encodes = Method::parse(std::string(info_.name)).policies().codec != nullptr;
    if (is_emulated() && encodes) GTEST_SKIP() << "codecs need the CPU backend";
  }

  /// Tolerance of the logits if all tokens are cached.  A codec rounds keys and values, to 8 bits
  /// or less.
  static constexpr double kExact = 1e-5;
  static double tolerance(const Method& method) {
    constexpr int kDims = 64;
    if (!method.policies().codec) return kExact;
    const CacheCodec& codec = *method.policies().codec;
    const std::size_t bytes =
        std::min(codec.row_bytes(KvRow::kKey, kDims), codec.row_bytes(KvRow::kValue, kDims));
    const int bits =
        std::min(static_cast<int>(bytes * 8 / kDims), 11);  // float16: a mantissa of 11
    return 0.05 * std::pow(2.5, 8 - bits);
  }

  /// The method with small settings, and once for each other value of a choice or a flag.
  std::vector<Values> variants() const {
    std::vector<Values> out = {small_values(info_)};
    if (is_emulated()) return out;
    for (const ParameterInfo& p : info_.parameters) {
      std::vector<std::string> values;
      if (p.kind == ParameterKind::kChoice || p.kind == ParameterKind::kScorer)
        values = split(unit_or_values(p), "|");
      if (p.kind == ParameterKind::kFlag) values = {"true", "false"};
      if (p.kind == ParameterKind::kLayers)
        values.assign(std::begin(kLayerRules), std::end(kLayerRules));
      for (const std::string& value : values) {
        if (value == p.fallback) continue;
        Values changed = out[0];
        changed[std::string(p.name)] = value;
        out.push_back(effective(info_, changed));
      }
    }
    return out;
  }

  /// Calls test(method, its values) for each variant.
  template <typename Test>
  void for_each_variant(const Test& test) const {
    for (const Values& values : variants()) {
      const std::string spec = spec_of(info_, values);
      SCOPED_TRACE(spec);
      test(Method::parse(spec), values);
    }
  }

  /// Each variant passes a check.
  void expect_all_pass(ConformanceChecks::Check check) const {
    for_each_variant([&](const Method& method, const Values&) {
      EXPECT_EQ(checks_->finding(check, Candidate(method)), "");
    });
  }

  static Machine& machine_of(const std::string& model) { return checks_->machine_of(model); }
  static const std::vector<Logits>& alone(Machine& machine, const Method& method) {
    return checks_->alone(machine, Candidate(method));
  }
  static std::vector<Logits> run(Engine& engine, const Method& method, std::span<const int> prompt,
                                 std::span<const int> answer) {
    return logits_of(engine, method.make(), prompt, answer);
  }

  static inline std::unique_ptr<ConformanceChecks> checks_;
  const MethodInfo info_ = find_method(GetParam(), "test");
  const std::span<const int> prompt_ = checks_->prompt(), answer_ = checks_->answer(),
                             question_ = checks_->question();
  const int prompt_tokens_ = static_cast<int>(prompt_.size());
};

TEST_P(Conformance, CanonicalNameParsesToItself) {
  for_each_variant([](const Method& method, const Values&) {
    EXPECT_EQ(Method::parse(method.canonical()).canonical(), method.canonical());
    const Policies p = method.make();
    EXPECT_EQ(method.prefill_key().empty(), !p.has_sparse_prefill() && !p.row_codec());
  });
}

// With a budget of all tokens (or without its sparsity) a method is full attention.
TEST_P(Conformance, FullBudgetEqualsFullAttention) {
  bool can_be_off = false;
  for (const ParameterInfo& p : info_.parameters) can_be_off |= find(kOff, p) != nullptr;
  const Policies policies = Method::parse(std::string(info_.name)).make();
  ASSERT_TRUE(can_be_off || (!policies.prefill && !policies.eviction && !policies.selection))
      << info_.name
      << ": none of its parameters is in kOff of settings.h; add the one that switches it off";
  for (const char* model : {"llama3", "qwen2"}) {  // groups of 4; one KV head
    if (is_emulated() && model == std::string_view("llama3")) continue;
    Machine& machine = machine_of(model);
    const std::vector<Logits>& want = alone(machine, Method::parse("full"));
    for (Values values : variants()) {
      for (const ParameterInfo& p : info_.parameters) {
        if (const Setting* s = find(kOff, p)) values[std::string(p.name)] = s->value;
      }
      const std::string spec = spec_of(info_, values);
      const Method method = Method::parse(spec);
      const auto got = run(machine.engine, method, prompt_, answer_);
      EXPECT_LE(distance(got, want), can_be_off ? kExact : tolerance(method))
          << model << " " << spec;
    }
  }
}

// With small settings a method has an effect: the tests here do not only test full attention.
TEST_P(Conformance, SmallSettingsChangeTheLogits) {
  const Method method = Method::parse(spec_of(info_, small_values(info_)));
  const Policies p = method.make();
  if (!p.prefill && !p.eviction && !p.selection && !p.codec)
    GTEST_SKIP() << info_.name << " decides nothing";
  Machine& machine = machine_of("llama3");
  const float first = distance(alone(machine, method), alone(machine, Method::parse("full")));
  const auto later_turns = [&](const Method& of) {  // for methods that select among earlier turns
    Conversation c(machine.engine, of.make());
    std::vector<Logits> out;
    for (int turn = 0; turn < 3; ++turn) {
      for (Logits& logits : logits_of(c, question_, answer_.first(2)))
        out.push_back(std::move(logits));
    }
    return out;
  };
  EXPECT_TRUE(first > 1e-4 ||
              distance(later_turns(method), later_turns(Method::parse("full"))) > 1e-4)
      << method.label() << ": equals full attention on " << prompt_tokens_
      << " tokens; add smaller settings of its parameters to kSmall of settings.h";
}

// If all values are equal, attention returns this value, regardless of the tokens that are kept,
// read or computed.
TEST_P(Conformance, ConstantValuesComeOut) {
  const ConstantValues model;
  Machine machine(model.path());
  const auto want = run(machine.engine, Method::parse("full"), prompt_, answer_);
  for_each_variant([&](const Method& method, const Values&) {
    EXPECT_LE(distance(run(machine.engine, method, prompt_, answer_), want), tolerance(method));
  });
}

TEST_P(Conformance, IsDeterministic) {
  expect_all_pass(&ConformanceChecks::is_deterministic);
}

TEST_P(Conformance, SplitPrefillsAgree) {
  expect_all_pass(&ConformanceChecks::split_prefills_agree);
}

TEST_P(Conformance, FollowersEqualSequencesAlone) {
  expect_all_pass(&ConformanceChecks::followers_equal_sequences_alone);
}

TEST_P(Conformance, ForksAreIndependent) {
  expect_all_pass(&ConformanceChecks::forks_are_independent);
}

TEST_P(Conformance, ResultsDoNotDependOnTheBatch) {
  expect_all_pass(&ConformanceChecks::batches_change_nothing);
}

TEST_P(Conformance, LaterTurns) {
  expect_all_pass(&ConformanceChecks::later_turns);
}

TEST_P(Conformance, PlacementsAgree) {
  expect_all_pass(&ConformanceChecks::placements_agree);
}

TEST_P(Conformance, KeepsToDeviceMemory) {
  expect_all_pass(&ConformanceChecks::keeps_to_device_memory);
}

// Methods that do not guarantee it are listed in kIndicesOfPrompts of settings.h, because they fail
// the check.
TEST_P(Conformance, StepsExtendTheIndex) {
  std::size_t promising = 0, failing = 0;
  for_each_variant([&](const Method& method, const Values& values) {
    const std::string finding =
        checks_->finding(&ConformanceChecks::steps_extend_the_index, Candidate(method));
    if (index_of_prompt(info_, values).empty()) {
      EXPECT_EQ(finding, "");
      ++promising;
    } else {
      failing += finding.empty() ? 0 : 1;
    }
  });
  // The emulation's answers are too short for some methods to fail.
  EXPECT_TRUE(promising == variants().size() || failing > 0 || is_emulated())
      << info_.name << ": is in kIndicesOfPrompts of settings.h and passes";
}

// A prompt of one token, and later turns that are shorter than any window.
TEST_P(Conformance, ShortTurns) {
  Machine& machine = machine_of("llama3");
  const auto prompt = prompt_.first(1), answer = answer_.first(is_emulated() ? 1 : 2);
  for_each_variant([&](const Method& method, const Values&) {
    const auto want = run(machine.engine, Method::parse("full"), prompt, answer);
    EXPECT_LE(distance(run(machine.engine, method, prompt, answer), want), tolerance(method));
    Conversation c(machine.engine, method.make());
    logits_of(c, prompt_, answer);
    for (int length : {1, 2, kWindow - 1, kWindow + 1}) {
      for (const Logits& logits :
           logits_of(c, question_.first(static_cast<std::size_t>(length)), answer))
        ASSERT_TRUE(all_finite(logits)) << length;
    }
  });
}

// The number of kept or read tokens matches the budget, as a number and as a share of the prompt.
TEST_P(Conformance, AchievesItsBudget) {
  if (!has_budget(info_)) GTEST_SKIP() << info_.name << " has no parameter \"budget\"";
  Machine& machine = machine_of("llama3");
  for (Values values : variants()) {
    for (const auto& [budget, tokens] :
         {std::pair("24", kBudget), std::pair("0.2", prompt_tokens_ / 5)}) {
      values["budget"] = budget;
      const std::string spec = spec_of(info_, values);
      Conversation c(machine.engine, Method::parse(spec).make());
      c.turn(prompt_);
      double kept =
          tokens + compensation(values, tokens, prompt_tokens_) - counts_the_current(info_);
      for (const ParameterInfo& p : info_.parameters) {
        if (!find(kBudgetFactors, p)) continue;
        const auto given = values.find(std::string(p.name));
        kept *= std::stod(given == values.end() ? std::string(p.fallback) : given->second);
      }
      const bool is_share = tokens != kBudget;
      const double sinks = is_share && values.contains("sinks") ? std::stod(values["sinks"]) : 0;
      const Policies policies = Method::parse(spec).make();
      const bool is_traffic = info_.budget_traits.is_traffic;
      if (is_traffic) {
        EXPECT_GT(c.sequence.mean_tokens(), tokens / 2) << spec;
      } else if (policies.eviction) {
        double tolerance = rounds(values) ? 1 : 1e-9;  // a token of each set
        if (info_.budget_traits.sinks_on_top) tolerance += sinks;
        EXPECT_NEAR(c.sequence.mean_tokens(), std::min<double>(kept, prompt_tokens_), tolerance)
            << spec;
      } else {
        EXPECT_EQ(c.sequence.mean_tokens(), prompt_tokens_) << spec << " evicts nothing";
      }
      if (policies.has_sparse_prefill()) {
        EXPECT_LE(c.sequence.counters.prefill_pairs, c.sequence.counters.prefill_pairs_dense);
      }
      if (!policies.selection || (policies.eviction && !is_traffic)) continue;
      for (int token : answer_) c.answer(token);
      if (is_traffic) {
        const int half = tokens / 2;
        EXPECT_LE(c.sequence.counters.mean_attended(), half + std::stod(values["page"]) + 1)
            << spec;
      }
      // The current token may be additional, and with an interval the set grows until the next
      // selection. A ratio budget refers to the dialogue so far without its sinks, which are
      // additional.
      const double interval = values.contains("n_d") ? std::stod(values["n_d"]) : 1;
      // The same holds for first tokens, and for tokens between the window and a block.
      const double on_top =
          values.contains("init") ? std::stod(values["init"]) + std::stod(values["block"]) : 0;
      double of_answer = is_share ? 0.2 * static_cast<double>(answer_.size()) : 0;
      if (values.contains("retain_generated")) of_answer = static_cast<double>(answer_.size());
      of_answer += read_on_top(info_, values, static_cast<int>(answer_.size()));
      // The tokens read of a KV head's set are the union over the heads that select separately.
      const bool by_head = chooses_by_query_head(Method::parse(spec));
      const double lists = by_head ? machine.engine.shape().group() : 1;
      const double layers = machine.engine.shape().layers, dense = dense_layers(info_),
                   all = prompt_tokens_ + static_cast<double>(answer_.size()),
                   read = (tokens + of_answer + sinks + on_top + interval) * lists;
      EXPECT_LE(c.sequence.counters.mean_attended(),
                (dense * all + (layers - dense) * read) / layers)
          << spec;
      EXPECT_GE(c.sequence.counters.mean_attended(), 1) << spec;
    }
  }
}

// A budget that is too small is refused with a message, or works.
TEST_P(Conformance, TinyBudgetsAreRefusedOrWork) {
  if (!has_budget(info_)) GTEST_SKIP() << info_.name << " has no parameter \"budget\"";
  Machine& machine = machine_of("llama3");
  const auto budgets =
      is_emulated() ? std::vector{"1", "0.03"} : std::vector{"1", "2", "5", "0.001", "0.03"};
  for (Values values : variants()) {
    for (const char* budget : budgets) {
      values["budget"] = budget;
      const std::string spec = spec_of(info_, values);
      try {
        for (const Logits& logits : run(machine.engine, Method::parse(spec), prompt_, answer_))
          ASSERT_TRUE(all_finite(logits)) << spec;
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::kInput) << spec;
        EXPECT_NE(std::string(e.what()).find("expected"), std::string::npos) << e.what();
      }
    }
  }
}

// Prompts that are shorter than every window and than the tokens that are always kept.  A method
// refuses its budget with a message, or it works, with small settings and with its defaults; a
// budget of the whole prompt covers the whole prompt.
TEST_P(Conformance, ShortPromptsAtAnyBudget) {
  Machine& machine = machine_of("llama3");
  const std::vector<std::string> budgets =
      has_budget(info_) ? std::vector<std::string>{"100%", "1", "24"} : std::vector{std::string()};
  std::vector<Values> settings = variants();
  settings.emplace_back();
  const std::vector<std::size_t> lengths =
      is_emulated() ? std::vector<std::size_t>{1, 5} : std::vector<std::size_t>{1, 2, 3, 5};
  for (Values values : settings) {
    for (const std::string& budget : budgets) {
      if (!budget.empty()) values["budget"] = budget;
      const std::string spec = spec_of(info_, values);
      std::size_t worked = 0;
      for (std::size_t length : lengths) {
        SCOPED_TRACE(spec + " on " + std::to_string(length) + " tokens");
        try {
          Conversation c(machine.engine, Method::parse(spec).make());
          ASSERT_TRUE(all_finite(c.turn(prompt_.first(length))));
          if (budget != "1") {
            const bool makes_room = budget == "100%" && info_.budget_traits.counts_current;
            EXPECT_EQ(c.sequence.mean_tokens(), static_cast<double>(length - (makes_room ? 1 : 0)));
          }
          for (int token : answer_.first(is_emulated() ? 1 : 8))
            ASSERT_TRUE(all_finite(c.answer(token)));
          ++worked;
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::kInput) << e.what();
          EXPECT_NE(std::string(e.what()).find("expected"), std::string::npos) << e.what();
        }
      }
      if (budget.empty()) {
        EXPECT_EQ(worked, lengths.size()) << spec;
      }
    }
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const MethodInfo& info : all_methods()) out.emplace_back(info.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(all_names()), parameter_name);

}  // namespace
}  // namespace turnbench
