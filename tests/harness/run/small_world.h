#pragma once

// The embedded model with its tokenizer and short dialogues, and runs of units as by the driver.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "datasets/tiny_qa.h"
#include "harness/experiment/plan.h"
#include "harness/run/unit.h"
#include "inference/engine/engine.h"
#include "methods/method.h"

namespace turnbench::test {

struct SmallWorld {
  SmallWorld()
      : planned(resolve_model({.name = "tiny", .path = "tiny"}, {}, "")),
        loader(make_cpu_backend(1)),
        model(planned.checkpoint, *loader, DType::kF32, Math::kF32),
        renderer(planned.tokenizer, planned.chat_template, "", {}) {}

  UnitResult run(const std::vector<Unit>& units, const Decoding& decoding, int threads = 1,
                 Engine::Options options = {}) const {
    const auto backend = make_cpu_backend(threads);
    Engine engine(model, *backend, options);
    UnitResult out = run_units(engine, renderer, decoding, units);
    EXPECT_EQ(out.batch_error, "") << "no error is hidden by running cells alone";
    return out;
  }

  ResolvedModel planned;
  std::unique_ptr<Backend> loader;
  Model model;
  PromptRenderer renderer;
};

constexpr Decoding kFourTokens{.max_prompt_tokens = 4000, .max_new_tokens = 4};

/// A dialogue with the question at this place among each turn's paragraphs.
inline Dialogue small_dialogue_at(Position position, int turns = 2) {
  return with_questions_at(
      make_tiny_dialogues(TinyTask::kFact,
                          {.turns = turns, .length = 65 * turns, .count = 1, .seed = 3})[0],
      position);
}

/// A record's key, and the record without its timings.
using RecordKey = std::tuple<std::string, std::string, int>;
struct Result {
  Record::Status status;
  std::string error, prompt_hash, answer;
  int prompt_tokens, truncated_tokens;
  std::vector<int> answer_tokens;
  bool stopped;
  std::map<std::string, double> counters;
  bool operator==(const Result&) const = default;
};

inline std::map<RecordKey, Result> by_key(const std::vector<Record>& records) {
  std::map<RecordKey, Result> out;
  for (const Record& r : records) {
    Result result{r.status,           r.error,         r.prompt_hash, r.answer, r.prompt_tokens,
                  r.truncated_tokens, r.answer_tokens, r.stopped,     {}};
    for (const auto& [name, value] : r.counters) result.counters[name] = value;
    out.emplace(RecordKey{r.cell, r.dialogue, r.turn}, std::move(result));
  }
  return out;
}

/// Methods that outlive their cells, each with every history and answers mode.
class Cells {
 public:
  void add(const std::string& spec) {
    const Method& method = methods_.emplace_back(Method::parse(spec));
    for (History history : {History::kReprefill, History::kCompressOnce, History::kRecompress}) {
      for (Answers answers : {Answers::kOwn, Answers::kGold}) {
        cells.push_back(
            {spec + " " + std::string(name_of(history)) + " " + std::string(name_of(answers)),
             &method, history, answers});
      }
    }
  }
  std::vector<UnitCell> cells;

 private:
  std::deque<Method> methods_;
};

/// The greedy answer, of up to four tokens, after a prompt with these logits.  step(token): the
/// logits after a token.
template <typename Step>
std::vector<int> greedy_answer(const SmallWorld& world, std::vector<float> logits,
                               const Step& step) {
  std::vector<int> out;
  const std::vector<int>& stops = world.renderer.stop_tokens();
  while (std::ssize(out) < kFourTokens.max_new_tokens) {
    const auto best =
        static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (std::find(stops.begin(), stops.end(), best) != stops.end()) break;
    out.push_back(best);
    logits = step(std::span(out).last(1));
  }
  return out;
}

/// Expects the results of cells that run together also from each cell alone, alone with times, and
/// with fidelity.  Returns them.
inline std::map<RecordKey, Result> expect_independence_of_the_batch(
    const SmallWorld& world, const Dialogue& dialogue, const std::vector<UnitCell>& cells) {
  Decoding fidelity = kFourTokens;
  fidelity.fidelity = Along::kFull;
  const auto together = by_key(world.run({{&dialogue, cells}}, kFourTokens).records),
             measured = by_key(world.run({{&dialogue, cells}}, fidelity).records);
  Decoding isolated = kFourTokens;
  isolated.isolated = true;
  for (const UnitCell& cell : cells) {
    const auto alone = by_key(world.run({{&dialogue, {cell}}}, kFourTokens).records),
               timed = by_key(world.run({{&dialogue, {cell}}}, isolated).records);
    for (int turn = 0; turn < std::ssize(dialogue.turns); ++turn) {
      const RecordKey key{cell.key, dialogue.id, turn};
      const Result& want = together.at(key);
      EXPECT_EQ(want.error, "") << cell.key;
      EXPECT_TRUE(alone.at(key) == want) << cell.key << ", turn " << turn;
      EXPECT_TRUE(measured.at(key) == want) << cell.key << ", turn " << turn;
      if (turn > 0 && cell.answers == Answers::kOwn) continue;  // stop tokens end no timed answer
      const std::vector<int>& got = timed.at(key).answer_tokens;
      EXPECT_TRUE(want.answer_tokens.size() <= got.size() &&
                  std::equal(want.answer_tokens.begin(), want.answer_tokens.end(), got.begin()))
          << cell.key << ", turn " << turn;
    }
  }
  return together;
}

}  // namespace turnbench::test
