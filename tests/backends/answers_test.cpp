// Dialogues of the built-in tasks are answered greedily on the CPU with the model `tiny`, under
// every method of the registry and with weights, keys and values of every type.  The backend of
// this program then reads the same tokens (teacher forcing).  At every step its best next token
// must be the one of the CPU, unless the two are nearly tied.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <tuple>

#include "datasets/tiny_qa.h"
#include "harness/run/prompt.h"
#include "inference/engine/engine.h"
#include "inference/engine/sampler.h"
#include "inference/model/embedded_model.h"
#include "tests/backends/backend.h"
#include "tests/methods/settings.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

constexpr int kTurns = 2, kAtOnce = 20;

/// The differences that rounding may cause.
struct Tolerance {
  /// If another token is best on this backend, the CPU's token may lead by at most this share of
  /// the largest logit on the CPU.
  float tie;
  /// Maximum percentage of tokens that may differ in this way; one more is allowed.
  int percent;
};

/// Float32 backends differ only in the order of sums.  With 16 bits, a device also rounds the rows
/// of products and the queries and probabilities of prompts; the CPU does not.  Methods may then
/// select other tokens, which changes the logits much more: the emulated GPU differs in up to 1 of
/// 35 tokens, at leads of up to 0.14 for bf16 and 0.003 for f16.
Tolerance tolerance_of(DType dtype) {
  return dtype == DType::kF32   ? Tolerance{1e-5F, 0}
         : dtype == DType::kF16 ? Tolerance{0.03F, 3}
                                : Tolerance{0.25F, 5};
}

/// The inputs of every run: tokenizer, chat template and dialogues.
struct Questions {
  explicit Questions(DType dtype) : renderer(tokenizer, chat, "", {}) {
    // Long enough that every task has room for its facts and every method drops some tokens.
    const std::size_t each = test::is_emulated() ? 1 : dtype == DType::kF32 ? 50 : 5;
    const TinyOptions options{.turns = kTurns, .length = 240, .count = each, .seed = 5};
    for (TinyTask task : {TinyTask::kFact, TinyTask::kHop, TinyTask::kLabel, TinyTask::kList}) {
      if (test::is_emulated() && task != TinyTask::kHop) continue;
      for (Dialogue& d : make_tiny_dialogues(task, options)) dialogues.push_back(std::move(d));
    }
  }
  Tokenizer tokenizer =
      Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(), "tiny");
  ChatTemplate chat = find_chat_template("tiny");
  PromptRenderer renderer;
  std::vector<Dialogue> dialogues;
};

/// The best tokens of the answers of one dialogue, and the logits [vocab] from which they were
/// chosen.
struct Answers {
  std::vector<int> tokens;
  std::vector<std::vector<float>> logits;
};

/// Lead of token `best` over `other`, as a share of the largest logit.
float lead(const std::vector<float>& logits, int best, int other) {
  float largest = 0;
  for (const float x : logits) largest = std::max(largest, std::abs(x));
  return (logits[best] - logits[other]) / largest;
}

/// The state of one dialogue while it is answered.
struct Talk {
  const Dialogue* dialogue;
  Sequence sequence;
  const Answers* forced;  ///< the answers to read instead of the best tokens; null: none
  Prompt prompt = {};
  std::vector<int> answer = {};
  bool finished = false;
  DialogueView view = {};
  Answers answers = {};

  /// Appends the best or the forced token.  The answer ends at a stop token or at its limit.
  void draw(const Questions& q, const std::vector<float>& logits, int turn) {
    const std::size_t step = answers.tokens.size();
    answers.tokens.push_back(argmax(logits));
    if (forced == nullptr) answers.logits.push_back(logits);
    const int token = forced != nullptr ? forced->tokens.at(step) : answers.tokens.back();
    const std::vector<int>& stops = q.renderer.stop_tokens();
    const int limit = dialogue->turns[turn].max_new_tokens;
    finished = std::find(stops.begin(), stops.end(), token) != stops.end();
    if (!finished) answer.push_back(token);
    finished = finished || static_cast<int>(answer.size()) >= limit;
  }
  /// The tokens of the prompt and the answer that the sequence has not read.
  std::vector<int> unread() const {
    std::vector<int> all = prompt.tokens;
    all.insert(all.end(), answer.begin(), answer.end());
    return {all.begin() + static_cast<std::ptrdiff_t>(sequence.tokens.size()), all.end()};
  }
};

void ask(Engine& engine, const Questions& q, std::vector<Talk>& talks, int turn) {
  for (Talk& t : talks) {
    if (turn > 0) t.prompt.add_answer(turn - 1, t.answer);
    t.prompt.add_turn(q.renderer.render(*t.dialogue, turn, 0));
    t.answer.clear();
    t.view = {{},
              t.prompt.spans,
              turn,
              1,
              [&](int token) { return q.tokenizer.token_text(token); },
              t.dialogue->turns[turn].max_new_tokens};
  }
  for (bool prefill = true;; prefill = false) {
    std::vector<Talk*> going;
    for (Talk& t : talks) {
      if (prefill || !t.finished) going.push_back(&t);
    }
    if (going.empty()) return;
    std::vector<std::vector<int>> tokens;
    for (const Talk* t : going) tokens.push_back(t->unread());
    std::vector<Pass> passes;
    for (std::size_t i = 0; i < going.size(); ++i) {
      passes.push_back({.sequence = &going[i]->sequence,
                        .tokens = tokens[i],
                        .kind = prefill ? Pass::Kind::kPrefill : Pass::Kind::kDecode,
                        .dialogue = &going[i]->view,
                        .prompt_end = prefill});
    }
    const auto logits = prefill ? engine.prefill(passes) : engine.forward(passes);
    for (std::size_t i = 0; i < going.size(); ++i) going[i]->draw(q, logits[i], turn);
  }
}

/// forced: the answers to follow, one for each dialogue; empty: the best tokens.
std::vector<Answers> answers_on(Backend& backend, const Questions& q, const Method& method,
                                DType dtype, const std::vector<Answers>& forced = {}) {
  const Model model(Checkpoint::open("tiny"), backend, dtype, Math::kF32);
  Engine engine(model, backend, {.kv_dtype = dtype});
  std::vector<Answers> out;
  for (std::size_t first = 0; first < q.dialogues.size(); first += kAtOnce) {
    std::vector<Talk> talks;
    for (std::size_t i = first; i < std::min(first + kAtOnce, q.dialogues.size()); ++i) {
      talks.push_back({&q.dialogues[i], engine.make_sequence(method.make()),
                       forced.empty() ? nullptr : &forced[i]});
    }
    for (int turn = 0; turn < kTurns; ++turn) ask(engine, q, talks, turn);
    for (Talk& t : talks) out.push_back(std::move(t.answers));
  }
  return out;
}

class GreedyAnswers : public testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(GreedyAnswers, EqualTheCpus) {
  const auto& [name, dtype] = GetParam();
  const Questions questions(dtype);
  const MethodInfo& info = find_method(name, "test");
  const Method method = Method::parse(test::spec_of(info, test::small_values(info)));
  const auto here = test::make_backend(2), cpu = make_cpu_backend(2);
  const std::vector<Answers> want = answers_on(*cpu, questions, method, dtype),
                             got = answers_on(*here, questions, method, dtype, want);
  const Tolerance tolerance = tolerance_of(dtype);
  ASSERT_EQ(got.size(), want.size());
  int tokens = 0, ties = 0;
  float widest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].tokens.size(), want[i].tokens.size()) << "dialogue " << i;
    for (std::size_t at = 0; at < want[i].tokens.size(); ++at) {
      const int best = want[i].tokens[at], other = got[i].tokens[at];
      ++tokens;
      if (other == best) continue;
      ++ties;
      const float ahead = lead(want[i].logits[at], best, other);
      widest = std::max(widest, ahead);
      EXPECT_LE(ahead, tolerance.tie)
          << "dialogue " << i << ", token " << at << " of " << want[i].tokens.size()
          << ": the CPU's leads by this share of the largest logit";
    }
  }
  EXPECT_GT(tokens, 0);
  EXPECT_LE(ties, 1 + tokens * tolerance.percent / 100) << "of " << tokens << " tokens";
  if (ties > 0) {
    std::cout << method.label() << ", " << name_of(dtype) << ": " << ties << " of " << tokens
              << " tokens differ at a tie, the widest of " << widest << "\n";
  }
  RecordProperty("tokens", tokens);
  RecordProperty("ties", ties);
}

/// All methods that run on a GPU, that is, without cache codecs.
std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const MethodInfo& info : all_methods()) {
    if (!Method::parse(std::string(info.name)).policies().codec) out.emplace_back(info.name);
  }
  return out;
}

using MethodAndType = testing::TestParamInfo<std::tuple<std::string, DType>>;

std::string name_of_case(const MethodAndType& info) {
  const auto& [method, dtype] = info.param;
  return test::parameter_name({method, info.index}) + "_" + std::string(name_of(dtype));
}

/// One method of each kind if kernels are emulated, otherwise all methods.
std::vector<std::string> names_in_16_bits() {
  if (!test::is_emulated()) return all_names();
  return {"full", "snapkv", "h2o", "quest", "minference"};
}

INSTANTIATE_TEST_SUITE_P(All, GreedyAnswers,
                         testing::Combine(testing::ValuesIn(all_names()),
                                          testing::Values(DType::kF32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(In16Bits, GreedyAnswers,
                         testing::Combine(testing::ValuesIn(names_in_16_bits()),
                                          testing::Values(DType::kF16, DType::kBF16)),
                         name_of_case);

}  // namespace
}  // namespace turnbench
