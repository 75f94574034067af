// What every method owes, asked of every entry of the registry, in its small settings and in each
// value of its choices and flags.  A new method is tested by being registered.  Its parameters are
// set by name, from the tables of settings.h: a new kind of parameter needs a line there.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text.h"
#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/methods/constant_values.h"
#include "tests/methods/settings.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

using namespace test;
using ParameterKind = ParameterInfo::Kind;

/// Tokens of the prompt: more than a page, and much more than the small settings keep or read.
const int kPrompt = is_emulated() ? 80 : 200;

/// Logits of a prompt and of the answer fed after it.
std::vector<Logits> run(Conversation& c, std::span<const int> prompt, std::span<const int> answer) {
  std::vector<Logits> out = {c.turn(prompt)};
  for (int token : answer) out.push_back(c.answer(token));
  return out;
}

std::vector<Logits> run(Engine& engine, const Method& method, std::span<const int> prompt,
                        std::span<const int> answer) {
  Conversation c(engine, method.make());
  return run(c, prompt, answer);
}

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  Conformance() : info_(find_method(GetParam(), "test")) {}

  /// The method in small settings, and once more for each other value of a choice or a flag.
  std::vector<Values> variants() const {
    std::vector<Values> out = {small_values(info_)};
    if (is_emulated()) return out;
    for (const ParameterInfo& p : info_.parameters) {
      std::vector<std::string> values;
      if (p.kind == ParameterKind::kChoice) values = split(p.unit, "|");
      if (p.kind == ParameterKind::kFlag) values = {"true", "false"};
      if (p.kind == ParameterKind::kLayers)
        values.assign(std::begin(kLayerRules), std::end(kLayerRules));
      for (const std::string& value : values) {
        if (value == p.fallback) continue;
        out.push_back(out[0]);
        out.back()[std::string(p.name)] = value;
      }
    }
    return out;
  }

  /// test(method, its values) for each variant.
  template <typename Test>
  void for_each_variant(const Test& test) const {
    for (const Values& values : variants()) {
      const std::string spec = spec_of(info_, values);
      SCOPED_TRACE(spec);
      test(Method::parse(spec), values);
    }
  }

  static void TearDownTestSuite() { machines_.clear(); }
  /// A model of tests/data/models, made once for all tests.
  static Machine& machine_of(const std::string& model, int threads = 2,
                             Engine::Options options = {}) {
    const auto key = std::tuple(model, threads, options.prefill_chunk);
    return machines_.try_emplace(key, model, threads, options).first->second;
  }

  /// run() of prompt and answer, which several tests compare with, computed once for a model.
  const std::vector<Logits>& alone(Machine& machine, const Method& method) const {
    static std::map<std::pair<std::string, std::string>, std::vector<Logits>> runs;
    std::vector<Logits>& out = runs[{machine.name, method.canonical()}];
    if (out.empty()) out = run(machine.engine, method, prompt_, answer_);
    return out;
  }

  static inline std::map<std::tuple<std::string, int, int>, Machine> machines_;
  MethodInfo info_;
  const std::vector<int> prompt_ = made_up_tokens(kPrompt, 1),
                         answer_ = made_up_tokens(is_emulated() ? 3 : 24, 2),
                         question_ = made_up_tokens(40, 3);
};

/// Largest distance of two runs.
float distance(const std::vector<Logits>& a, const std::vector<Logits>& b) {
  float worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const float d = test::distance(a[i], b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/// Equal bits, on backends that promise them for any split into passes; else nearly equal.
bool agree(const Machine& machine, const Logits& a, const Logits& b) {
  return machine.backend->rows_are_independent() ? a == b : test::distance(a, b) <= 1e-4;
}

bool agree(const Machine& machine, const std::vector<Logits>& a, const std::vector<Logits>& b) {
  return machine.backend->rows_are_independent() ? a == b : distance(a, b) <= 1e-4;
}

TEST_P(Conformance, ItsCanonicalNameIsItself) {
  for_each_variant([](const Method& method, const Values&) {
    EXPECT_EQ(Method::parse(method.canonical()).canonical(), method.canonical());
    const Policies p = method.make();
    EXPECT_EQ(method.prefill_key().empty(), !p.has_sparse_prefill());
  });
}

// With a budget of everything (or its sparsity off) a method is full attention.
TEST_P(Conformance, OffIsFullAttention) {
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
      const auto got = run(machine.engine, Method::parse(spec), prompt_, answer_);
      EXPECT_LE(distance(got, want), 1e-5) << model << " " << spec;
    }
  }
}

// In its small settings a method does something: the tests here are not about full attention.
TEST_P(Conformance, SmallSettingsAreFelt) {
  const Method method = Method::parse(spec_of(info_, small_values(info_)));
  const Policies p = method.make();
  if (!p.prefill && !p.eviction && !p.selection) GTEST_SKIP() << info_.name << " decides nothing";
  Machine& machine = machine_of("llama3");
  const float first = distance(alone(machine, method), alone(machine, Method::parse("full")));
  const auto later_turns = [&](const Method& of) {  // for methods that choose among earlier ones
    Conversation c(machine.engine, of.make());
    std::vector<Logits> out;
    for (int turn = 0; turn < 3; ++turn) {
      for (Logits& logits : run(c, question_, std::span(answer_).first(2)))
        out.push_back(std::move(logits));
    }
    return out;
  };
  EXPECT_TRUE(first > 1e-4 ||
              distance(later_turns(method), later_turns(Method::parse("full"))) > 1e-4)
      << method.label() << ": equals full attention on " << kPrompt
      << " tokens; add smaller settings of its parameters to kSmall of settings.h";
}

// If all values are equal, attention gives that value, whatever is kept, read or computed.
TEST_P(Conformance, ConstantValuesComeOut) {
  const ConstantValues model;
  Machine machine(model.path());
  const auto want = run(machine.engine, Method::parse("full"), prompt_, answer_);
  for_each_variant([&](const Method& method, const Values&) {
    EXPECT_LE(distance(run(machine.engine, method, prompt_, answer_), want), 1e-5);
  });
}

// Twice the same, with any number of threads, in chunks of any size, to the bit.
TEST_P(Conformance, IsDeterministic) {
  Machine& two = machine_of("llama3");
  Machine& three = machine_of("llama3", 3);
  Machine& chunks = machine_of("llama3", 1, {.prefill_chunk = 37});
  for_each_variant([&](const Method& method, const Values&) {
    const std::vector<Logits>& want = alone(two, method);
    for (const Logits& logits : want) ASSERT_TRUE(all_finite(logits));
    EXPECT_TRUE(run(two.engine, method, prompt_, answer_) == want) << "a second time";
    EXPECT_TRUE(run(three.engine, method, prompt_, answer_) == want) << "with three threads";
    EXPECT_TRUE(agree(chunks, run(chunks.engine, method, prompt_, answer_), want))
        << "in chunks of 37 rows";
  });
}

// A prompt that was prefilled in two parts (an earlier turn's shared prefix, and the rest) gives
// what one prefill gives.  (A sparse prefill plans each part by itself.)
TEST_P(Conformance, SplitPrefillsAgree) {
  Machine& machine = machine_of("llama3");
  for_each_variant([&](const Method& method, const Values&) {
    if (method.make().has_sparse_prefill()) return;
    const std::vector<Logits>& want = alone(machine, method);
    Conversation prefix(machine.engine, Policies{}, 64, true);
    Sequence earlier = machine.engine.make_sequence(method.make());
    prefix.turn_with_forks(std::span(prompt_).first(static_cast<std::size_t>(kPrompt * 2 / 3)),
                           {&earlier});
    Sequence fork = machine.engine.make_sequence(method.make());
    const Logits first = prefix.turn_with_forks(
        std::span(prompt_).subspan(static_cast<std::size_t>(kPrompt * 2 / 3)), {&fork});
    EXPECT_TRUE(agree(machine, first, want[0]));
    Conversation rest(machine.engine, std::move(fork));
    rest.spans = prefix.spans;
    for (std::size_t i = 0; i < answer_.size(); ++i)
      ASSERT_TRUE(agree(machine, rest.answer(answer_[i]), want[i + 1])) << "step " << i;
  });
}

// As one fork among others of a shared prefix that remembers more than the method asks for.
TEST_P(Conformance, FollowersEqualSequencesAlone) {
  Machine& machine = machine_of("llama3");
  for_each_variant([&](const Method& method, const Values&) {
    Conversation alone(machine.engine, method.make());
    const auto want = run(alone, prompt_, answer_);
    Conversation prefix(machine.engine, method.make().prefill_part(), 64, true);
    Sequence full = machine.engine.make_sequence({}),
             fork = machine.engine.make_sequence(method.make());
    EXPECT_TRUE(agree(machine, prefix.turn_with_forks(prompt_, {&full, &fork}), want[0]));
    Conversation rest(machine.engine, std::move(fork));
    rest.spans = prefix.spans;
    for (std::size_t i = 0; i < answer_.size(); ++i)
      ASSERT_TRUE(agree(machine, rest.answer(answer_[i]), want[i + 1])) << "step " << i;
    EXPECT_EQ(kept_sizes(rest.sequence), kept_sizes(alone.sequence));
    EXPECT_EQ(rest.sequence.counters.attended_tokens, alone.sequence.counters.attended_tokens);
    EXPECT_EQ(rest.sequence.counters.prefill_pairs, alone.sequence.counters.prefill_pairs);
  });
}

// A fork goes on as the original does, and disturbs it in nothing.
TEST_P(Conformance, ForksAreIndependent) {
  Machine& machine = machine_of("llama3");
  for_each_variant([&](const Method& method, const Values&) {
    const std::vector<Logits>& want = alone(machine, method);
    const std::size_t begun = answer_.size() / 3;
    Conversation original(machine.engine, method.make());
    run(original, prompt_, std::span(answer_).first(begun));
    Conversation fork = original.fork(), astray = original.fork();
    for (std::size_t i = begun; i < answer_.size(); ++i) {
      astray.answer(question_[i]);
      ASSERT_TRUE(fork.answer(answer_[i]) == want[i + 1]) << "fork, step " << i;
      ASSERT_TRUE(original.answer(answer_[i]) == want[i + 1]) << "original, step " << i;
    }
  });
}

// Different dialogues in one batch: each as if it were alone.
TEST_P(Conformance, CompanyDoesNotMatter) {
  Machine& machine = machine_of("llama3");
  const std::size_t count = is_emulated() ? 3 : 8, steps = is_emulated() ? 2 : 8;
  const int shortest = is_emulated() ? 30 : 60, longer = is_emulated() ? 15 : 23;
  for_each_variant([&](const Method& method, const Values&) {
    std::vector<Conversation> talks;
    std::vector<std::vector<Logits>> want;
    std::vector<std::vector<int>> prompts;
    for (std::size_t i = 0; i < count; ++i) {
      prompts.push_back(made_up_tokens(shortest + longer * static_cast<int>(i), i));
      want.push_back(run(machine.engine, method, prompts[i], std::span(answer_).first(steps)));
      talks.emplace_back(machine.engine, method.make());
    }
    std::vector<DialogueView> views(count);
    std::vector<Pass> passes;
    for (std::size_t i = 0; i < count; ++i) {
      views[i] = talks[i].begin_turn(prompts[i]);
      passes.push_back(talks[i].prefill_pass(prompts[i], views[i]));
    }
    std::vector<Logits> got = machine.engine.prefill(passes);
    for (std::size_t step = 0; step <= steps; ++step) {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(agree(machine, got[i], want[i][step])) << i << " " << step;
      if (step == steps) break;
      std::vector<std::vector<int>> said(count);
      for (std::size_t i = 0; i < count; ++i) {
        said[i] = talks[i].sequence.tokens;
        said[i].push_back(answer_[step]);
        views[i].tokens = said[i];
        passes[i].tokens = {&answer_[step], 1};
        passes[i].kind = Pass::Kind::kDecode;
        passes[i].prompt_end = false;
      }
      got = machine.engine.forward(passes);
    }
  });
}

// A prompt of one token, and later turns that are shorter than any window.
TEST_P(Conformance, ShortTurns) {
  Machine& machine = machine_of("llama3");
  const auto prompt = std::span(prompt_).first(1),
             answer = std::span(answer_).first(is_emulated() ? 1 : 2);
  for_each_variant([&](const Method& method, const Values&) {
    const auto want = run(machine.engine, Method::parse("full"), prompt, answer);
    EXPECT_LE(distance(run(machine.engine, method, prompt, answer), want), 1e-5);
    Conversation c(machine.engine, method.make());
    run(c, prompt_, answer);
    for (int length : {1, 2, kWindow - 1, kWindow + 1}) {
      for (const Logits& logits :
           run(c, std::span(question_).first(static_cast<std::size_t>(length)), answer))
        ASSERT_TRUE(all_finite(logits)) << length;
    }
  });
}

// What is kept or read is what was asked for, as a number and as a share of the prompt.
TEST_P(Conformance, AchievesItsBudget) {
  if (!has_budget(info_)) GTEST_SKIP() << info_.name << " has no parameter \"budget\"";
  Machine& machine = machine_of("llama3");
  for (Values values : variants()) {
    for (const auto& [budget, tokens] : {std::pair("24", kBudget), std::pair("0.2", kPrompt / 5)}) {
      values["budget"] = budget;
      const std::string spec = spec_of(info_, values);
      Conversation c(machine.engine, Method::parse(spec).make());
      c.turn(prompt_);
      double kept = tokens + compensation(values, tokens, kPrompt) - counts_the_current(info_);
      for (const ParameterInfo& p : info_.parameters) {
        if (!find(kBudgetFactors, p)) continue;
        const auto given = values.find(std::string(p.name));
        kept *= std::stod(given == values.end() ? std::string(p.fallback) : given->second);
      }
      const bool is_share = tokens != kBudget;
      const double sinks = is_share && values.contains("sinks") ? std::stod(values["sinks"]) : 0;
      const Policies policies = Method::parse(spec).make();
      if (policies.eviction) {
        double tolerance = rounds(values) ? 1 : 1e-9;  // a token of each set
        if (keeps_sinks_on_top(info_)) tolerance += sinks;
        EXPECT_NEAR(c.sequence.cache.mean_tokens(), std::min<double>(kept, kPrompt), tolerance)
            << spec;
      } else {
        EXPECT_EQ(c.sequence.cache.mean_tokens(), kPrompt) << spec << " evicts nothing";
      }
      if (policies.has_sparse_prefill()) {
        EXPECT_LE(c.sequence.counters.prefill_pairs, c.sequence.counters.prefill_pairs_dense);
      }
      if (!policies.selection || policies.eviction) continue;
      for (int token : answer_) c.answer(token);
      // The current token may be free, and an interval lets the set grow until the next selection.
      // A share is one of the dialogue so far, without its sinks, which are read on top.
      const double interval = values.contains("n_d") ? std::stod(values["n_d"]) : 1;
      // So are first tokens, and those on their way from a window to a block.
      const double on_top =
          values.contains("init") ? std::stod(values["init"]) + std::stod(values["block"]) : 0;
      double of_answer = is_share ? 0.2 * static_cast<double>(answer_.size()) : 0;
      if (values.contains("retain_generated")) of_answer = static_cast<double>(answer_.size());
      of_answer += read_on_top(values, static_cast<int>(answer_.size()));
      // What is read of a KV head's set is the union over the heads that choose for themselves.
      const bool by_head = chooses_by_query_head(Method::parse(spec));
      const double lists = by_head ? machine.engine.shape().group() : 1;
      EXPECT_LE(c.sequence.counters.mean_attended(),
                (tokens + of_answer + sinks + on_top + interval) * lists)
          << spec;
      EXPECT_GE(c.sequence.counters.mean_attended(), 1) << spec;
    }
  }
}

// A budget that is too small is refused with a message, or works: nothing in between.
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

// Prompts that are shorter than every window and all that is always kept: a method refuses its
// budget with a message, or it works, in its small settings and in its own; all of a prompt is all.
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
          ASSERT_TRUE(all_finite(c.turn(std::span(prompt_).first(length))));
          if (budget != "1") {
            const bool makes_room = budget == "100%" && counts_the_current(info_);
            EXPECT_EQ(c.sequence.cache.mean_tokens(),
                      static_cast<double>(length - (makes_room ? 1 : 0)));
          }
          for (int token : std::span(answer_).first(is_emulated() ? 1 : 8))
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

// compress_once appends later turns in full; recompress comes back to the budget.
TEST_P(Conformance, LaterTurns) {
  Machine& machine = machine_of("llama3");
  const auto answer = std::span(answer_).first(is_emulated() ? 1 : 5);
  for_each_variant([&](const Method& method, const Values&) {
    for (const bool recompress : {false, true}) {
      Conversation c(machine.engine, method.make());
      c.turn(prompt_);
      const double first = c.sequence.cache.mean_tokens();
      for (int token : answer) ASSERT_TRUE(all_finite(c.answer(token, recompress)));
      const double before = c.sequence.cache.mean_tokens();
      if (!recompress) {
        EXPECT_EQ(before, first + static_cast<double>(answer.size()));
      }
      for (int turn = 0; turn < 2; ++turn) {
        ASSERT_TRUE(all_finite(c.turn(question_, recompress)));
        for (int token : answer) ASSERT_TRUE(all_finite(c.answer(token, recompress)));
      }
      const double after = c.sequence.cache.mean_tokens(),
                   added = 2.0 * static_cast<double>(question_.size() + answer.size());
      if (!recompress || !method.make().eviction) {
        EXPECT_EQ(after, before + added);
      } else {
        EXPECT_LT(after, before + added);
      }
    }
  });
}

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const MethodInfo& info : all_methods()) out.emplace_back(info.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(all_names()), parameter_name);

}  // namespace
}  // namespace turnbench
