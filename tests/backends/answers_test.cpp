// The model tiny answers dialogues of its own tasks greedily on the backend of this program and on
// the CPU, under every method of the registry: the same tokens.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

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
/// Share of the largest logit; below it the two best tokens are a tie that rounding may decide.
constexpr float kTie = 1e-5f;

/// What every run needs of the model and its dialogues.
struct Questions {
  Questions() : renderer(tokenizer, chat, "", {}) {
    // Enough words that every task has room for its facts and every method something to leave out.
    const std::size_t each = test::is_emulated() ? 1 : 50;
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

/// The answers of one dialogue, and how far ahead of the second-best token each of theirs was, as
/// a share of the largest logit.
struct Answers {
  std::vector<int> tokens;
  std::vector<float> leads;
};

float lead(const std::vector<float>& logits, int best) {
  float second = -INFINITY, largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<int>(i) != best) second = std::max(second, logits[i]);
    largest = std::max(largest, std::abs(logits[i]));
  }
  return (logits[static_cast<std::size_t>(best)] - second) / largest;
}

/// One dialogue on its way.
struct Talk {
  const Dialogue* dialogue;
  Sequence sequence;
  Prompt prompt = {};
  std::vector<int> answer = {};
  bool finished = false;
  DialogueView view = {};
  Answers answers = {};

  /// Takes the best token; the answer ends at a stop token or its limit.
  void draw(const Questions& q, const std::vector<float>& logits, int turn) {
    const int token = argmax(logits);
    answers.tokens.push_back(token);
    answers.leads.push_back(lead(logits, token));
    const std::vector<int>& stops = q.renderer.stop_tokens();
    const int limit = dialogue->turns[static_cast<std::size_t>(turn)].max_new_tokens;
    finished = std::find(stops.begin(), stops.end(), token) != stops.end();
    if (!finished) answer.push_back(token);
    finished = finished || static_cast<int>(answer.size()) >= limit;
  }
  /// What the sequence has not read of the prompt and the answer.
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
    t.view = {{}, t.prompt.spans, turn, 1, [&](int token) { return q.renderer.token_text(token); }};
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

std::vector<Answers> answers_on(Backend& backend, const Questions& q, const Method& method) {
  const Model model(Checkpoint::open("tiny"), backend, DType::kF32);
  Engine engine(model, backend, {});
  std::vector<Answers> out;
  for (std::size_t first = 0; first < q.dialogues.size(); first += kAtOnce) {
    std::vector<Talk> talks;
    for (std::size_t i = first; i < std::min(first + kAtOnce, q.dialogues.size()); ++i)
      talks.push_back({&q.dialogues[i], engine.make_sequence(method.make())});
    for (int turn = 0; turn < kTurns; ++turn) ask(engine, q, talks, turn);
    for (Talk& t : talks) out.push_back(std::move(t.answers));
  }
  return out;
}

class GreedyAnswers : public testing::TestWithParam<std::string> {};

TEST_P(GreedyAnswers, AreTheCpus) {
  static const Questions questions;
  const MethodInfo& info = find_method(GetParam(), "test");
  const Method method = Method::parse(test::spec_of(info, test::small_values(info)));
  const auto here = test::make_backend(2), cpu = make_cpu_backend(2);
  const std::vector<Answers> got = answers_on(*here, questions, method),
                             want = answers_on(*cpu, questions, method);
  ASSERT_EQ(got.size(), want.size());
  int ties = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].tokens == want[i].tokens) continue;
    const auto [mine, theirs] = std::mismatch(got[i].tokens.begin(), got[i].tokens.end(),
                                              want[i].tokens.begin(), want[i].tokens.end());
    const auto at = static_cast<std::size_t>(theirs - want[i].tokens.begin());
    const float ahead = want[i].leads.at(at);
    ties += ahead <= kTie;
    EXPECT_LE(ahead, kTie) << "dialogue " << i << ", token " << at << " of "
                           << want[i].tokens.size()
                           << ": the CPU's leads by this share of the largest logit";
  }
  if (ties > 0) std::cout << method.label() << ": " << ties << " answers part at a tie\n";
  RecordProperty("dialogues", static_cast<int>(got.size()));
  RecordProperty("parted_at_ties", ties);
}

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const MethodInfo& info : all_methods()) out.emplace_back(info.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, GreedyAnswers, testing::ValuesIn(all_names()), test::parameter_name);

}  // namespace
}  // namespace turnbench
