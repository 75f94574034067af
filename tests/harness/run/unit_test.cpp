// Sharing changes costs, never results: a cell alone, and the same cell among all others.

#include "harness/run/unit.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "tests/harness/run/small_world.h"
#include "tests/methods/settings.h"

namespace turnbench {
namespace {

using namespace test;

std::vector<Dialogue> short_dialogues(std::size_t count, int length = 130, int turns = 3) {
  std::vector<Dialogue> out = make_tiny_dialogues(
      TinyTask::kList, {.turns = turns, .length = length, .count = count, .seed = 3});
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = with_questions_at(out[i], i % 2 == 0 ? Position::kBegin : Position::kEnd);
  return out;
}

void add_all_methods(Cells& cells) {
  for (const MethodInfo& info : all_methods()) cells.add(spec_of(info, small_values(info)));
}

/// The results of every cell when it runs alone, one dialogue at a time; adds to the `prefilled`
/// tokens.
std::map<RecordKey, Result> run_alone(const SmallWorld& world,
                                      const std::vector<Dialogue>& dialogues, const Cells& cells,
                                      const Decoding& decoding, std::int64_t* prefilled) {
  std::map<RecordKey, Result> out;
  for (const Dialogue& dialogue : dialogues) {
    for (const UnitCell& cell : cells.cells) {
      const UnitResult one = world.run({{&dialogue, {cell}}}, decoding);
      out.merge(by_key(one.records));
      *prefilled += one.prefilled_tokens;
    }
  }
  return out;
}

struct ThrowAtPromptEnds : EvictionPolicy {
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<ThrowAtPromptEnds>(*this);
  }
  KeepSets after_prefill(const LayerView&) override { throw std::logic_error("it is wrong"); }
};

/// Throws in the first call of it or a clone.
struct ThrowOnce : EvictionPolicy {
  explicit ThrowOnce(std::shared_ptr<bool> has_thrown) : has_thrown_(std::move(has_thrown)) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<ThrowOnce>(*this);
  }
  KeepSets after_prefill(const LayerView&) override {
    if (!std::exchange(*has_thrown_, true)) throw std::logic_error("it is wrong");
    return {};
  }

 private:
  std::shared_ptr<bool> has_thrown_;
};

void expect_equal(const std::map<RecordKey, Result>& got, const std::map<RecordKey, Result>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [key, result] : want) {
    const auto& [cell, dialogue, turn] = key;
    SCOPED_TRACE(cell + ", " + dialogue + ", turn " + std::to_string(turn));
    ASSERT_TRUE(got.contains(key));
    const Result& other = got.at(key);
    EXPECT_EQ(other.error, result.error);
    EXPECT_EQ(other.prompt_hash, result.prompt_hash);
    EXPECT_EQ(other.answer_tokens, result.answer_tokens);
    EXPECT_EQ(other.counters, result.counters);
    EXPECT_TRUE(other == result);
  }
}

// Policies of other authors may throw other types: their own records fail, and no others.
TEST(Unit, ExceptionsOfOtherTypesFailTheirRecords) {
  const SmallWorld world;
  MethodInfo info;
  info.name = "throws";
  info.make = [](const Parameters&) {
    return Policies{.eviction = std::make_unique<ThrowAtPromptEnds>()};
  };
  const Method throwing = Method::of(info), full = Method::parse("full");
  const std::vector<Dialogue> dialogues = short_dialogues(1);
  const UnitResult result = world.run({{&dialogues[0], {{"a", &full}, {"b", &throwing}}}},
                                      {.max_prompt_tokens = 8000, .max_new_tokens = 2});
  ASSERT_EQ(result.records.size(), 6u);
  for (const Record& record : result.records) {
    EXPECT_EQ(record.status, record.cell == "a" ? Record::Status::kOk : Record::Status::kError);
    EXPECT_EQ(record.error, record.cell == "a" ? "" : "it is wrong");
  }
}

// An error of cells that ran together, and of none of them alone, is not lost.
TEST(Unit, ErrorsOfBatchesAreReported) {
  const SmallWorld world;
  MethodInfo info;
  info.name = "throws";
  const auto has_thrown = std::make_shared<bool>(false);
  info.make = [&](const Parameters&) {
    return Policies{.eviction = std::make_unique<ThrowOnce>(has_thrown)};
  };
  const Method throwing = Method::of(info), full = Method::parse("full");
  const std::vector<Dialogue> dialogues = short_dialogues(2);
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  const std::vector<UnitCell> cells = {{"a", &full}, {"b", &throwing}};
  const auto run = [&] {
    return run_units(engine, world.renderer, {.max_prompt_tokens = 8000, .max_new_tokens = 2},
                     {{&dialogues[0], cells}, {&dialogues[1], cells}});
  };
  const UnitResult first = run(), second = run();
  EXPECT_EQ(first.batch_error, "it is wrong");
  EXPECT_EQ(second.batch_error, "");
  EXPECT_EQ(by_key(first.records), by_key(second.records));
  for (const Record& record : first.records) EXPECT_EQ(record.status, Record::Status::kOk);
}

TEST(Offloading, OfCachesWithoutTokensEqualsTheDevice) {
  const SmallWorld world;
  const Dialogue dialogue = short_dialogues(1, 70, 0)[0];
  const std::string spec = "keyformer:budget=1,gran=query_head";
  Cells cells;
  cells.add(spec);
  cells.add(spec + ",placement=host");
  const auto records =
      by_key(world.run({{&dialogue, cells.cells}}, {.max_prompt_tokens = 4000, .max_new_tokens = 4})
                 .records);
  const std::size_t half = cells.cells.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const Result& want = records.at({cells.cells[i].key, dialogue.id, 0});
    EXPECT_EQ(want.error, "");
    EXPECT_EQ(records.at({cells.cells[half + i].key, dialogue.id, 0}).answer_tokens,
              want.answer_tokens);
  }
}

TEST(Sharing, NeverChangesAResult) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(2, 70, 0);
  Cells cells;
  add_all_methods(cells);
  // A window longer than all others, positions that shift, a host tier.
  cells.add("snapkv:budget=80,window=64");
  cells.add("streamingllm:budget=24,pos=shift");
  cells.add("oracle:budget=24,sinks=2,placement=host,cache_tokens=32,cache_block=8");
  // At a high temperature every bit of the logits affects the draws; greedy answers would hide
  // differences.
  const Decoding decoding{
      .max_prompt_tokens = 4000, .max_new_tokens = 5, .temperature = 4, .seed = 4};
  std::int64_t alone = 0;
  std::map<RecordKey, Result> want;  // of every cell, in one of the dialogues
  for (std::size_t d = 0; d < dialogues.size(); ++d) {
    Cells some;
    for (std::size_t c = d; c < cells.cells.size(); c += dialogues.size())
      some.cells.push_back(cells.cells[c]);
    want.merge(run_alone(world, {dialogues[d]}, some, decoding, &alone));
  }
  std::size_t answered = 0;
  for (const auto& [key, result] : want) {
    EXPECT_EQ(result.status, Record::Status::kOk) << std::get<0>(key) << ": " << result.error;
    answered += !result.answer_tokens.empty();
  }
  EXPECT_GT(answered, want.size() / 2) << "answers that are empty would prove nothing";

  std::vector<Unit> units;
  for (const Dialogue& d : dialogues) units.push_back({&d, cells.cells});
  const UnitResult shared = world.run(units, decoding, 4);
  const auto all = by_key(shared.records);
  EXPECT_EQ(all.size(), want.size() * dialogues.size());
  auto compared = all;
  std::erase_if(compared, [&](const auto& entry) { return !want.contains(entry.first); });
  expect_equal(compared, want);
  EXPECT_LT(shared.prefilled_tokens, alone * 4 / 3) << "an error made every cell run alone";
  // In another order, one dialogue at a time, in small chunks.
  std::map<RecordKey, Result> reversed;
  for (Unit& unit : units) {
    std::reverse(unit.cells.begin(), unit.cells.end());
    reversed.merge(by_key(world.run({unit}, decoding, 2, {.prefill_chunk = 50}).records));
  }
  expect_equal(reversed, all);
}

// An isolated cell prefills the whole dialogue at each turn, but plans only the turn's own rows:
// the earlier rows keep the plans of their turns.
TEST(Sharing, TimedCellsHaveTheSameResults) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(2);
  Cells all;
  const std::string lines = "loopserve-prefill:alpha=0.8,samples=16,mask=line";
  for (const char* spec :
       {"full", "loopserve:alpha=0.8,budget=24,n_d=4", "a-shape:n_init=2,n_local=16", "minference",
        "infllm:budget=24,init=2,block=4", "round:lw=1,granularity=token,strategy=mean"})
    all.add(spec);
  for (const char* with : {"", "+h2o:budget=24"}) all.add(lines + with);
  // In a shared run an answer ends at a stop token; in a timed run it continues.  Gold answers keep
  // the dialogues the same.
  std::vector<UnitCell> cells;
  for (const UnitCell& c : all.cells) {
    if (c.answers == Answers::kGold && c.history == History::kReprefill) cells.push_back(c);
  }
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 6, .temperature = 4, .seed = 4};
  const auto shared =
      by_key(world.run({{&dialogues[0], cells}, {&dialogues[1], cells}}, decoding).records);
  decoding.isolated = true;
  for (const Dialogue& dialogue : dialogues) {
    for (const UnitCell& cell : cells) {
      const UnitResult timed = world.run({{&dialogue, {cell}}}, decoding);
      std::int64_t prompts = 0;
      for (const auto& [key, got] : by_key(timed.records)) {
        SCOPED_TRACE(cell.key + ", " + dialogue.id + ", turn " + std::to_string(std::get<2>(key)));
        const Result& want = shared.at(key);
        EXPECT_EQ(got.error, "");
        EXPECT_EQ(got.prompt_hash, want.prompt_hash);
        ASSERT_LE(want.answer_tokens.size(), got.answer_tokens.size());
        EXPECT_EQ(std::vector(got.answer_tokens.begin(),
                              got.answer_tokens.begin() + std::ssize(want.answer_tokens)),
                  want.answer_tokens);
        EXPECT_EQ(got.counters.at("prefill_pairs_share"), want.counters.at("prefill_pairs_share"));
        EXPECT_EQ(got.counters.at("kv_tokens"), want.counters.at("kv_tokens"));
        if (cell.key.starts_with(lines)) {
          EXPECT_LT(want.counters.at("prefill_pairs_share"), 0.9);
        }
        prompts += got.prompt_tokens;
      }
      EXPECT_EQ(timed.prefilled_tokens, prompts) << cell.key << ": from the first token each time";
    }
  }
}

// Ten methods cost one prefill, and with gold answers later turns continue from it.
TEST(Sharing, SavesPrefills) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(1);
  Cells cells;
  for (const char* spec : {"full", "snapkv:budget=24,window=4", "streamingllm:budget=24", "oracle"})
    cells.add(spec);
  std::vector<UnitCell> gold;
  for (const UnitCell& c : cells.cells) {
    if (c.answers == Answers::kGold && c.history == History::kReprefill) gold.push_back(c);
  }
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4};
  const UnitResult shared = world.run({{&dialogues[0], gold}}, decoding);
  EXPECT_EQ(shared.records.size(), 12u);
  // Every token of the dialogue is computed once.
  EXPECT_EQ(shared.prefilled_tokens, shared.records.back().prompt_tokens);
}

// Cells of one method with equal caches decode once.
TEST(Sharing, SavesDecodeSteps) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(1);
  Cells cells;
  cells.add("quest:budget=24");
  std::vector<UnitCell> gold;
  for (const UnitCell& c : cells.cells) {
    if (c.answers == Answers::kGold) gold.push_back(c);
  }
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4};
  const UnitResult shared = world.run({{&dialogues[0], gold}}, decoding);
  std::map<History, std::vector<std::int64_t>> alone;  // tokens decoded in each turn
  for (const UnitCell& cell : gold) {
    for (const Record& r : shared.records) {
      if (r.cell != cell.key) continue;
      // The last token of an answer is not decoded, unless the answer was stopped.
      alone[cell.history].push_back(std::ssize(r.answer_tokens) - (r.stopped ? 0 : 1));
    }
  }
  const auto sum = [&](History history, std::size_t from) {
    const std::vector<std::int64_t>& turns = alone.at(history);
    return std::accumulate(turns.begin() + static_cast<std::ptrdiff_t>(from), turns.end(),
                           std::int64_t{0});
  };
  ASSERT_GT(sum(History::kReprefill, 0), 0);
  EXPECT_EQ(shared.decoded_tokens, sum(History::kReprefill, 0) + sum(History::kRecompress, 1));
}

// Copies of caches in host memory, and fidelity along the copied answers.
TEST(Sharing, CopiesOffloadedCaches) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(1, 70);
  Cells cells;
  for (const char* name : {"oracle", "quest", "infllm", "pqcache", "shadowkv", "clusterkv"}) {
    const MethodInfo& info = find_method(name, "test");
    Values values = small_values(info);
    values["placement"] = "host";
    cells.add(spec_of(info, values));
  }
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 6, .temperature = 4, .seed = 4};
  for (const bool measures : {false, true}) {
    if (measures) decoding.fidelity = Along::kFull;
    using Values = std::map<std::tuple<std::string, int, std::string>, double>;
    Values got_values, want_values;
    const auto add = [](const UnitResult& result, Values& values) {
      for (const ScoreValue& s : result.scores) values[{s.cell, s.turn, s.metric}] = s.value;
    };
    const UnitResult shared = world.run({{&dialogues[0], cells.cells}}, decoding);
    add(shared, got_values);
    std::map<RecordKey, Result> want;
    for (const UnitCell& cell : cells.cells) {
      const UnitResult one = world.run({{&dialogues[0], {cell}}}, decoding);
      want.merge(by_key(one.records));
      add(one, want_values);
    }
    for (const auto& [key, result] : want) EXPECT_EQ(result.error, "") << std::get<0>(key);
    expect_equal(by_key(shared.records), want);
    EXPECT_EQ(got_values, want_values);
    EXPECT_EQ(got_values.empty(), !measures);
  }
}

/// Two turns of the given numbers of tokens with the plain template; their gold answers are empty.
Dialogue dialogue_of(const PromptRenderer& renderer, int first, int second) {
  const auto turn_of = [](int marks) {
    Turn turn;
    turn.question = std::string(static_cast<std::size_t>(marks), '?');
    return turn;
  };
  Dialogue d;
  d.id = "worked";
  d.turns = {turn_of(1), turn_of(1)};
  const auto grow = [&](std::size_t turn, int tokens) {
    for (int marks = 1; marks < 20; ++marks) {
      d.turns[turn] = turn_of(marks);
      if (static_cast<int>(renderer.render(d, static_cast<int>(turn), 0).tokens.size()) == tokens)
        return true;
    }
    return false;
  };
  EXPECT_TRUE(grow(0, first));
  EXPECT_TRUE(grow(1, second));
  EXPECT_TRUE(renderer.gold_answer_tokens(d.turns[0]).empty());
  return d;
}

// SnapKV with B = 4 and w = 1; a first turn of 6 tokens, a second one of 3.  reprefill keeps 4 of
// 9, compress_once holds 7, recompress keeps 4 of 7; the dialogue is 9 tokens long in all three
// cases.
TEST(Unit, WorkedExampleOfTheHistories) {
  const SmallWorld world;
  const ChatTemplate none = find_chat_template("none");
  const PromptRenderer plain(world.planned.tokenizer, none, "", {});
  const Dialogue dialogue = dialogue_of(plain, 6, 3);
  Cells cells;
  cells.add("snapkv:budget=4,window=1");
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  const auto records =
      by_key(run_units(engine, plain, {.max_prompt_tokens = 100, .max_new_tokens = 1},
                       {{&dialogue, cells.cells}})
                 .records);
  for (const UnitCell& cell : cells.cells) {
    if (cell.answers != Answers::kGold) continue;
    const Result &first = records.at({cell.key, "worked", 0}),
                 &second = records.at({cell.key, "worked", 1});
    EXPECT_EQ(first.prompt_tokens, 6);
    EXPECT_EQ(second.prompt_tokens, 9);
    EXPECT_EQ(first.counters.at("kv_tokens"), 4) << cell.key;
    EXPECT_EQ(second.counters.at("kv_tokens"), cell.history == History::kCompressOnce ? 7 : 4)
        << cell.key;
    // Three rows attend to 4 cached tokens and to themselves: 12 + 6 pairs, of 18 + 6 in the whole
    // dialogue.
    EXPECT_EQ(first.counters.at("prefill_pairs_share"), 1) << cell.key;
    EXPECT_EQ(second.counters.at("prefill_pairs_share"),
              cell.history == History::kReprefill ? 1 : 18. / 24)
        << cell.key;
  }
}

// In the official runners, Keyformer's temperature increases until the answer's length limit.
TEST(Unit, KeyformersTemperatureRisesUntilTheAnswersLimit) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(2);
  Cells cells;
  for (const char* t_max : {"", ",t_max=12", ",t_max=1"})
    cells.add(std::string("keyformer:budget=24,recent=6,noise=false,tau_end=30") + t_max);
  std::vector<Unit> units;
  for (const Dialogue& d : dialogues) units.push_back({&d, cells.cells});
  const auto records = by_key(
      world
          .run(units,
               {.max_prompt_tokens = 4000, .max_new_tokens = 12, .temperature = 4, .seed = 4})
          .records);
  std::size_t of_another = 0;
  for (std::size_t c = 0; c < cells.cells.size() / 3; ++c) {
    for (const Dialogue& d : dialogues) {
      for (int turn = 0; turn < static_cast<int>(d.turns.size()); ++turn) {
        const auto result = [&](std::size_t spec) {
          return records.at({cells.cells[spec * cells.cells.size() / 3 + c].key, d.id, turn});
        };
        EXPECT_EQ(result(0).status, Record::Status::kOk);
        EXPECT_EQ(result(0).answer_tokens, result(1).answer_tokens);
        of_another += result(0).answer_tokens != result(2).answer_tokens;
      }
    }
  }
  EXPECT_GT(of_another, 0u) << "the temperature changes nothing here";
}

// Concurrent units end one after the other, so that each can be stored at its end.
TEST(Unit, EachIsDeliveredWhenItEnds) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(12);
  Cells cells;
  cells.add("full");
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  std::size_t begun = 0, ended = 0, at_once = 0;
  std::vector<std::size_t> begun_when_ended;
  std::vector<Record> records;
  run_units(engine, world.renderer, {.max_prompt_tokens = 4000, .max_new_tokens = 8},
            {[&]() -> std::optional<Unit> {
              at_once = std::max(at_once, begun - ended);
              if (begun == dialogues.size()) return std::nullopt;
              return Unit{&dialogues[begun++], cells.cells};
            }},
            [&](const Unit& unit, UnitResult result) {
              ++ended;
              begun_when_ended.push_back(begun);
              for (const Record& r : result.records) EXPECT_EQ(r.dialogue, unit.dialogue->id);
              EXPECT_EQ(result.records.size(), cells.cells.size() * unit.dialogue->turns.size());
              records.insert(records.end(), result.records.begin(), result.records.end());
            });
  ASSERT_EQ(begun_when_ended.size(), dialogues.size());
  EXPECT_LE(begun_when_ended[0], kMaxConcurrentUnits + 1) << "one more is known, and waits";
  EXPECT_LT(begun_when_ended[3], dialogues.size()) << "not all at the end";
  EXPECT_GE(at_once, 2u) << "several fill the decode steps";
  EXPECT_LE(at_once, kMaxConcurrentUnits + 1);
  std::vector<Unit> units;
  for (const Dialogue& dialogue : dialogues) units.push_back({&dialogue, cells.cells});
  expect_equal(by_key(records),
               by_key(world.run(units, {.max_prompt_tokens = 4000, .max_new_tokens = 8}).records));
}

// A source may answer late: a unit is requested while others run, and awaited when it is due.
TEST(Unit, TheNextOneIsRequestedWhileOthersRun) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(6);
  Cells cells;
  cells.add("full");
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 8};
  struct Run {
    std::vector<std::size_t> ended_when_begun;
    std::vector<Record> records;
    std::size_t requests = 0;
  };
  const auto run = [&](bool is_late) {
    const auto backend = make_cpu_backend(1);
    Engine engine(world.model, *backend, {});
    Run out;
    std::size_t ended = 0;
    run_units(engine, world.renderer, decoding,
              {[&]() -> std::optional<Unit> {
                 const std::size_t begun = out.ended_when_begun.size();
                 if (begun == dialogues.size()) return std::nullopt;
                 out.ended_when_begun.push_back(ended);
                 return Unit{&dialogues[begun], cells.cells};
               },
               [&] {
                 ++out.requests;
                 return !is_late;
               }},
              [&](const Unit&, UnitResult result) {
                ++ended;
                out.records.insert(out.records.end(), result.records.begin(), result.records.end());
              });
    EXPECT_EQ(ended, dialogues.size());
    return out;
  };
  const Run late = run(true), early = run(false);
  EXPECT_GT(late.requests, 2 * dialogues.size()) << "again in each step until it is due";
  EXPECT_EQ(early.requests, dialogues.size() + 1);
  EXPECT_LT(late.ended_when_begun[3], 3u) << "several run at the same time";
  expect_equal(by_key(late.records), by_key(early.records));
}

// With compress_once nothing is evicted after the first prompt, even by methods that evict while
// decoding: all later tokens are cached.
TEST(Unit, CompressOnceEvictsOnce) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(2);
  Cells cells;
  for (const char* spec : {"streamingllm:budget=24", "streamingllm:budget=24,pos=shift",
                           "h2o:budget=24", "tova:budget=24", "keyformer:budget=24"})
    cells.add(spec);
  const auto got = by_key(world
                              .run({{&dialogues[0], cells.cells}, {&dialogues[1], cells.cells}},
                                   {.max_prompt_tokens = 4000, .max_new_tokens = 6})
                              .records);
  std::size_t answered = 0;
  for (const UnitCell& cell : cells.cells) {
    if (cell.history != History::kCompressOnce) continue;
    for (const Dialogue& dialogue : dialogues) {
      const Result& first = got.at({cell.key, dialogue.id, 0});
      EXPECT_EQ(first.error, "");
      EXPECT_LE(first.counters.at("kv_tokens"), 24) << cell.key;
      for (int turn : {1, 2}) {
        const Result& later = got.at({cell.key, dialogue.id, turn});
        EXPECT_EQ(later.counters.at("kv_tokens"),
                  first.counters.at("kv_tokens") + later.prompt_tokens - first.prompt_tokens)
            << cell.key << ", turn " << turn;
      }
      answered += first.answer_tokens.size() > 1;
    }
  }
  EXPECT_GT(answered, 10u) << "answers of one token would prove nothing";
}

TEST(Unit, SplitsIntoItsCells) {
  const std::vector<Dialogue> dialogues = short_dialogues(1);
  Cells cells;
  cells.add("full");
  const Unit unit{&dialogues[0], cells.cells, 2, 3};
  const std::vector<Unit> parts = unit.split();
  ASSERT_EQ(parts.size(), cells.cells.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].dialogue, unit.dialogue);
    EXPECT_EQ(parts[i].model, 2u);
    EXPECT_EQ(parts[i].dataset, 3u);
    ASSERT_EQ(parts[i].cells.size(), 1u);
    EXPECT_EQ(parts[i].cells[0].key, cells.cells[i].key);
    EXPECT_EQ(parts[i].last_part, i + 1 == parts.size());
  }
  EXPECT_TRUE(parts.back().split().front().last_part);
  EXPECT_FALSE(parts.front().split().front().last_part);
}

// A failed cell is recorded with its reason, in all its turns; the other results do not change.
TEST(Unit, FailuresAffectOneCellOnly) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(2);
  Cells good, all;
  for (Cells* cells : {&good, &all}) {
    cells->add("full");
    if (cells == &all)
      cells->add("snapkv:budget=0.01,window=8");  // a ratio of 1%: less than the window
    cells->add("snapkv:budget=24,window=4");
  }
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4};
  std::int64_t prefilled = 0;
  const auto want = run_alone(world, dialogues, good, decoding, &prefilled);
  const auto got =
      by_key(world.run({{&dialogues[0], all.cells}, {&dialogues[1], all.cells}}, decoding).records);
  EXPECT_EQ(got.size(), want.size() * 3 / 2);
  std::map<RecordKey, Result> others;
  for (const auto& [key, result] : got) {
    if (!std::get<0>(key).starts_with("snapkv:budget=0.01")) {
      others.emplace(key, result);
      continue;
    }
    EXPECT_EQ(result.status, Record::Status::kError);
    EXPECT_NE(result.error.find("expected more than the window of 8"), std::string::npos)
        << result.error;
    EXPECT_TRUE(result.answer_tokens.empty());
  }
  expect_equal(others, want);
}

// A unit that does not fit in memory runs in parts that fit.
TEST(Unit, RunsInPartsThatFitInMemory) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = short_dialogues(3, 700);
  Cells cells;
  for (int budget = 300; budget < 316; ++budget)
    cells.add("snapkv:budget=" + std::to_string(budget));
  std::vector<UnitCell> gold;
  for (const UnitCell& c : cells.cells) {
    if (c.answers == Answers::kGold && c.history == History::kReprefill) gold.push_back(c);
  }
  std::vector<Unit> units;
  for (const Dialogue& d : dialogues) units.push_back({&d, gold});
  const Decoding decoding{.max_prompt_tokens = 8000, .max_new_tokens = 2};
  const UnitResult want = world.run(units, decoding);
  for (const Record& r : want.records) ASSERT_EQ(r.status, Record::Status::kOk) << r.error;
  Engine::Options options;
  options.memory_limit = world.model.weight_bytes() + (12u << 20);  // for some of the cells
  const UnitResult got = world.run(units, decoding, 1, options);
  expect_equal(by_key(got.records), by_key(want.records));
  // Each part prefills its dialogue once.
  EXPECT_GT(got.prefilled_tokens, want.prefilled_tokens);
  EXPECT_LT(got.prefilled_tokens, std::ssize(gold) / 2 * want.prefilled_tokens);
}

// A dialogue that does not fit is recorded as out of memory; a shorter dialogue still runs.
TEST(Unit, MemoryLimitAppliesPerCell) {
  const SmallWorld world;
  std::vector<Dialogue> dialogues = short_dialogues(1, 60);
  dialogues.push_back(short_dialogues(2, 1500)[1]);
  Cells cells;
  cells.add("full");
  cells.add("full-eager");
  const Decoding decoding{.max_prompt_tokens = 8000, .max_new_tokens = 2};
  const auto backend = make_cpu_backend(1);
  Engine::Options options;
  options.memory_limit = world.model.weight_bytes() + (24u << 20);
  Engine engine(world.model, *backend, options);
  const auto got = by_key(run_units(engine, world.renderer, decoding,
                                    {{&dialogues[0], cells.cells}, {&dialogues[1], cells.cells}})
                              .records);
  EXPECT_EQ(got.size(), 2u * 12 * 3);
  for (const auto& [key, result] : got) {
    const bool eager = std::get<0>(key).starts_with("full-eager"),
               large = std::get<1>(key) == dialogues[1].id;
    if (large && eager) {
      EXPECT_EQ(result.status, Record::Status::kOutOfMemory) << std::get<0>(key);
      EXPECT_NE(result.error.find("limit"), std::string::npos) << result.error;
    }
    if (!large || !eager) {
      EXPECT_EQ(result.status, Record::Status::kOk) << std::get<0>(key) << result.error;
    }
  }
  EXPECT_EQ(engine.memory().kv_bytes(), 0u) << "nothing is left behind";
}

}  // namespace
}  // namespace turnbench
