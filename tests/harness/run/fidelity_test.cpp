// Fidelity, compared with its definition in double precision, and its requirements: full attention
// equals itself exactly, forced decoding equals free decoding, and other cells have no effect.

#include "harness/run/fidelity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "common/error.h"
#include "tests/harness/run/small_world.h"
#include "tests/methods/plain_methods.h"
#include "tests/methods/settings.h"

namespace turnbench {
namespace {

using namespace test;

/// The definition, for logits of any precision.
template <typename Logits>
FidelityValues by_definition(const Logits& full, const Logits& method, int token) {
  const auto log_softmax = [](const Logits& logits) {
    long double sum = 0;
    for (auto x : logits) sum += std::exp(static_cast<long double>(x));
    std::vector<long double> out;
    for (auto x : logits) out.push_back(static_cast<long double>(x) - std::log(sum));
    return out;
  };
  const std::vector<long double> p = log_softmax(full), q = log_softmax(method);
  long double kl = 0;
  std::size_t best_p = 0, best_q = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    kl += std::exp(p[i]) * (p[i] - q[i]);
    if (p[i] > p[best_p]) best_p = i;
    if (q[i] > q[best_q]) best_q = i;
  }
  const auto at = static_cast<std::size_t>(token);
  return {static_cast<double>(kl), best_p == best_q ? 1.0 : 0.0, static_cast<double>(q[at] - p[at]),
          static_cast<double>(-q[at])};
}

void expect_near(const FidelityValues& got, const FidelityValues& want, double most) {
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], most) << kFidelityMetrics[i];
}

TEST(FullPrediction, EqualsTheDefinition) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const float scale : {0.01f, 1.f, 8.f}) {
    std::vector<float> full, method;
    for (int i = 0; i < 300; ++i) {
      full.push_back(scale * normal(random));
      method.push_back(full.back() + 0.3f * scale * normal(random));
    }
    for (const int token : {0, 17, 299}) {
      expect_near(FullPrediction(full).compare(method, token), by_definition(full, method, token),
                  1e-12);
      const FidelityValues same = FullPrediction(full).compare(full, token);
      EXPECT_EQ(same[0], 0);
      EXPECT_EQ(same[1], 1);
      EXPECT_EQ(same[2], 0);
      EXPECT_NEAR(same[3], by_definition(full, full, token)[3], 1e-12);
    }
  }
}

// Two tokens: the odds are 3 : 1 for full attention and 1 : 3 for the method.
TEST(FullPrediction, WorkedExample) {
  const std::vector<float> full = {std::log(3.f), 0}, method = {0, std::log(3.f)};
  const FidelityValues got = FullPrediction(full).compare(method, 0);
  expect_near(got, {0.5 * std::log(3.0), 0, -std::log(3.0), std::log(4.0)}, 1e-7);
}

TEST(FullPrediction, HandlesLargeLogitsAndNaN) {
  // Beyond the range of exp, also for tokens of probability 0.
  const std::vector<float> full = {1000, -1000, 999}, method = {999, 1000, -1000};
  const FidelityValues got = FullPrediction(full).compare(method, 1);
  for (double value : got) EXPECT_TRUE(std::isfinite(value));
  EXPECT_NEAR(got[2], 2000, 1);
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> broken = {none, 0, 1};
  EXPECT_THROW(FullPrediction{broken}, Error);
  EXPECT_THROW(FullPrediction(full).compare(broken, 0), Error);
}

// Free decoding and forced decoding along the same tokens, alone or with others, with any number of
// threads: every logit of every step.
TEST(DecodeForced, EqualsFreeDecodingBitwise) {
  const SmallWorld world;
  const Dialogue dialogue =
      make_tiny_dialogues(TinyTask::kList, {.turns = 1, .length = 130, .count = 1, .seed = 3})[0];
  Prompt prompt;
  prompt.add_turn(world.renderer.render(dialogue, 0, 0));
  std::vector<Method> methods;
  for (const MethodInfo& info : all_methods())
    methods.push_back(Method::parse(spec_of(info, small_values(info))));
  methods.push_back(Method::parse("streamingllm:budget=24,pos=shift"));
  methods.push_back(
      Method::parse("oracle:budget=24,sinks=2,placement=host,cache_tokens=32,cache_block=8"));
  constexpr std::size_t kTokens = 20;
  for (int threads : {1, 2}) {
    const auto backend = make_cpu_backend(threads);
    Engine engine(world.model, *backend, {});
    const DialogueView view{prompt.tokens,
                            prompt.spans,
                            0,
                            5,
                            [&](int token) { return world.planned.tokenizer.token_text(token); },
                            static_cast<int>(kTokens)};
    std::vector<ForcedSequence> forced;
    std::vector<std::vector<int>> answers(methods.size());
    std::vector<std::vector<std::vector<float>>> free(methods.size());  // method, step
    for (std::size_t m = 0; m < methods.size(); ++m) {
      Sequence sequence = engine.make_sequence(methods[m].make());
      const Pass pass{
          .sequence = &sequence, .tokens = prompt.tokens, .dialogue = &view, .prompt_end = true};
      std::vector<float> logits = engine.prefill({&pass, 1})[0];
      forced.push_back({sequence.fork(), logits, &view, true, {}});
      Sampler sampler(/*temperature=*/2, /*seed=*/m);
      for (std::size_t step = 0; step < kTokens; ++step) {
        free[m].push_back(logits);
        answers[m].push_back(sampler.sample(logits));
        const Pass next{.sequence = &sequence,
                        .tokens = std::span(answers[m]).last(1),
                        .kind = Pass::Kind::kDecode,
                        .dialogue = &view};
        logits = engine.forward({&next, 1})[0];
      }
      answers[m].resize(kTokens - m % 3);  // some end before others
      forced[m].answer = answers[m];
    }
    std::size_t compared = 0;
    const std::size_t read = decode_forced(engine, forced, [&](std::size_t token) {
      for (std::size_t m = 0; m < methods.size(); ++m) {
        if (token >= answers[m].size()) continue;
        ASSERT_EQ(forced[m].logits, free[m][token]) << methods[m].label() << ", token " << token;
        ++compared;
      }
    });
    EXPECT_EQ(compared, read + methods.size()) << "the last token of each is not read";
  }
}

using Scores = std::map<std::tuple<std::string, std::string, int, std::string>, double>;
Scores scores_of(const UnitResult& result) {
  Scores out;
  for (const ScoreValue& s : result.scores) {
    EXPECT_EQ(s.postprocess, "none");
    EXPECT_TRUE(out.emplace(std::tuple(s.cell, s.dialogue, s.turn, s.metric), s.value).second)
        << "a score twice";
  }
  return out;
}

std::vector<Dialogue> dialogues_for_fidelity(std::size_t count, int length, int turns) {
  std::vector<Dialogue> out = make_tiny_dialogues(
      TinyTask::kList, {.turns = turns, .length = length, .count = count, .seed = 3});
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = with_questions_at(out[i], i % 2 == 0 ? Position::kEnd : Position::kBegin);
  return out;
}

constexpr Along kAlongs[] = {Along::kFull, Along::kGold};

TEST(Fidelity, IsZeroForFullAndSmallForLargeBudgets) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_for_fidelity(2, 130, 2);
  Cells cells;
  for (const char* spec : {"full", "full-eager", "snapkv:budget=100000",
                           "minference+h2o:budget=1.0", "streamingllm:budget=24"})
    cells.add(spec);
  for (const Along along : kAlongs) {
    const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 12, .fidelity = along};
    const Scores scores = scores_of(
        world.run({{&dialogues[0], cells.cells}, {&dialogues[1], cells.cells}}, decoding));
    EXPECT_EQ(scores.size(), cells.cells.size() * 2 * 2 * kFidelityMetrics.size());
    double changed = 0;
    for (const auto& [key, value] : scores) {
      const auto& [cell, dialogue, turn, metric] = key;
      SCOPED_TRACE(cell + ", " + dialogue + ", " + metric);
      if (metric == "answer_nll") {
        EXPECT_GT(value, 0);
        continue;
      }
      const double same = metric == "agreement" ? 1 : 0;
      if (cell.starts_with("full")) {
        EXPECT_EQ(value, same);
      } else if (cell.starts_with("snapkv")) {
        EXPECT_NEAR(value, same, 1e-4);
      } else if (cell.starts_with("streamingllm")) {
        changed += std::abs(value - same);
      }
      EXPECT_GE(metric == "kl" ? value : 0, 0);
    }
    EXPECT_GT(changed, 1);
  }
}

// A cell alone has the same results as among others, in any order, with any number of threads and
// chunks; and answers, counters and all other results are the same as without fidelity.
TEST(Fidelity, DoesNotDependOnTheBatch) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_for_fidelity(2, 60, 2);
  Cells cells;
  for (const char* spec :
       {"snapkv:budget=24,window=4", "full", "loopserve:alpha=0.8,budget=24,n_d=2",
        "streamingllm:budget=24,pos=shift", "minference+h2o:budget=24",
        "infllm:budget=24,init=2,block=4", "round:lw=1,granularity=token,strategy=mean"})
    cells.add(spec);
  std::vector<Unit> units;
  for (const Dialogue& d : dialogues) units.push_back({&d, cells.cells});
  // At a temperature, answers differ, and so do the prompts of later turns.
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4, .temperature = 3, .seed = 4};
  const auto plain = by_key(world.run(units, decoding).records);
  for (const Along along : kAlongs) {
    decoding.fidelity = along;
    const UnitResult together = world.run(units, decoding);
    EXPECT_TRUE(by_key(together.records) == plain);
    const Scores want = scores_of(together);
    EXPECT_EQ(want.size(), plain.size() * kFidelityMetrics.size());
    EXPECT_EQ(scores_of(world.run(units, decoding, 3)), want);
    Scores alone, reversed;
    if (along == Along::kGold) continue;  // which needs no answer of another cell
    for (std::size_t u = 0; u < units.size(); ++u) {
      Unit unit = units[u];
      for (std::size_t c = u; c < unit.cells.size(); c += units.size()) {
        const UnitResult one = world.run({{unit.dialogue, {unit.cells[c]}}}, decoding);
        for (const auto& [key, result] : by_key(one.records))
          EXPECT_TRUE(result == plain.at(key)) << unit.cells[c].key;
        alone.merge(scores_of(one));
      }
      std::reverse(unit.cells.begin(), unit.cells.end());
      reversed.merge(scores_of(world.run({unit}, decoding, 2, {.prefill_chunk = 50})));
    }
    EXPECT_EQ(reversed, want);
    EXPECT_EQ(alone.size(), want.size() / 2) << "every cell, of one dialogue";
    for (const auto& [key, score] : alone) EXPECT_EQ(score, want.at(key)) << std::get<0>(key);
  }
}

// Along its own greedy answer, full attention agrees with itself at every token.  The agreement of
// a method is therefore the share of the answer that the method would also give, each token after
// the same previous ones.  The additional decoding is one answer for each branch.
TEST(Fidelity, CostsOneAdditionalAnswerPerBranch) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_for_fidelity(1, 130, 1);
  const Method full = Method::parse("full"), snapkv = Method::parse("snapkv:budget=24,window=4");
  const std::vector<UnitCell> both = {{"full", &full}, {"snapkv", &snapkv}};
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 6};
  const UnitResult plain = world.run({{&dialogues[0], both}}, decoding);
  decoding.fidelity = Along::kFull;
  const UnitResult measured = world.run({{&dialogues[0], both}}, decoding);
  EXPECT_EQ(measured.prefilled_tokens, plain.prefilled_tokens);
  const Result answer = by_key(plain.records).at({"full", dialogues[0].id, 0});
  const auto given = static_cast<std::int64_t>(answer.answer_tokens.size()) + answer.stopped;
  EXPECT_EQ(measured.decoded_tokens, plain.decoded_tokens + 2 * (given - 1));
}

TEST(Fidelity, HasNoValueWithoutAGoldAnswer) {
  const SmallWorld world;
  std::vector<Dialogue> dialogues = dialogues_for_fidelity(1, 90, 2);
  dialogues[0].turns[0].references.clear();
  dialogues[0].turns[0].gold.clear();
  dialogues[0].turns[1].has_gold = false;  // its reference describes the request
  Cells cells;
  cells.add("snapkv:budget=24,window=4");
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 6, .fidelity = Along::kGold};
  const UnitResult result = world.run({{&dialogues[0], cells.cells}}, decoding);
  EXPECT_EQ(result.records.size(), cells.cells.size() * 2);
  for (const Record& r : result.records) EXPECT_EQ(r.status, Record::Status::kOk) << r.error;
  EXPECT_TRUE(result.scores.empty());
}

/// Logits of a decoder in double precision for each token of `answer` after `prompt`.
std::vector<Row> plain_logits(const PlainDecoder& decoder, const PlainMethod& method,
                              const std::vector<int>& prompt, const std::vector<int>& answer,
                              double& closest) {
  std::vector<PlainSets> cache(static_cast<std::size_t>(decoder.config.layers),
                               PlainSets(static_cast<std::size_t>(decoder.config.kv_heads)));
  std::vector<int> tokens;
  int step = 0;
  const auto read = [&](std::span<const int> said, bool evict) {
    const int first = static_cast<int>(tokens.size());
    tokens.insert(tokens.end(), said.begin(), said.end());
    return decoder.forward(cache, said, first,
                           [&](int layer, PlainSets& sets, const Attention& attention) {
                             if (!evict || !method.keep) return;
                             const std::vector<Slots> kept =
                                 method.keep({layer, decoder.config.layers, sets, attention, tokens,
                                              static_cast<int>(prompt.size()), step, closest});
                             PlainSets next;
                             for (std::size_t i = 0; i < kept.size(); ++i)
                               next.push_back(sets[i * sets.size() / kept.size()].kept(kept[i]));
                             if (!kept.empty()) sets = std::move(next);
                           });
  };
  std::vector<Row> out = {read(prompt, true)};
  for (std::size_t i = 0; i + 1 < answer.size(); ++i) {
    ++step;
    out.push_back(read({&answer[i], 1}, method.steps));
  }
  return out;
}

// Whole dialogues on the embedded model: prompts, answers, eviction and attention computed again in
// double precision.  The kept tokens depend only on positions, because many scores of this model
// round to 0 in float32, and the two computations would select differently.
TEST(Fidelity, EqualsADoublePrecisionDecoder) {
  const SmallWorld world;
  const PlainDecoder decoder("tiny");
  const std::vector<Dialogue> dialogues = dialogues_for_fidelity(1, 30, 2);
  const Dialogue& dialogue = dialogues[0];
  const std::map<std::string, PlainMethod> plain = {
      {"full", {}}, {"streamingllm:budget=24,sinks=3", plain_streaming(24, 3)}};
  std::deque<Method> methods;
  std::vector<UnitCell> cells;
  for (const auto& [spec, method] : plain) {
    cells.push_back(
        {spec, &methods.emplace_back(Method::parse(spec)), History::kReprefill, Answers::kGold});
  }
  for (const Along along : kAlongs) {
    const UnitResult result = world.run(
        {{&dialogue, cells}}, {.max_prompt_tokens = 4000, .max_new_tokens = 5, .fidelity = along});
    const Scores scores = scores_of(result);
    const auto records = by_key(result.records);
    Prompt prompt;
    const int turns = along == Along::kFull ? 1 : 2;  // each takes a long time
    for (int turn = 0; turn < turns; ++turn) {
      const auto at = static_cast<std::size_t>(turn);
      if (turn > 0) prompt.add_answer(0, world.renderer.gold_answer_tokens(dialogue.turns[0]));
      prompt.add_turn(world.renderer.render(dialogue, turn, 2000));
      std::vector<int> answer = world.renderer.gold_answer_tokens(dialogue.turns[at]);
      if (along == Along::kFull) {
        const Result& full = records.at({"full", dialogue.id, turn});
        answer = full.answer_tokens;
        if (full.stopped) answer.push_back(world.renderer.stop_tokens().at(0));
      }
      double closest = 1;
      const std::vector<Row> full = plain_logits(decoder, {}, prompt.tokens, answer, closest);
      for (const auto& [spec, method] : plain) {
        SCOPED_TRACE(spec + ", along " + std::string(name_of(along)) + ", turn " +
                     std::to_string(turn));
        const std::vector<Row> own =
            method.keep ? plain_logits(decoder, method, prompt.tokens, answer, closest) : full;
        FidelityMeans want;
        for (std::size_t i = 0; i < answer.size(); ++i)
          want.add(by_definition(full[i], own[i], answer[i]));
        FidelityValues got{};
        for (std::size_t i = 0; i < got.size(); ++i)
          got[i] = scores.at({spec, dialogue.id, turn, std::string(kFidelityMetrics[i])});
        expect_near(got, want.values(), 2e-3);
      }
      EXPECT_GT(closest, 1e-5) << "too close a choice for float32: take another dialogue";
    }
  }
}

}  // namespace
}  // namespace turnbench
