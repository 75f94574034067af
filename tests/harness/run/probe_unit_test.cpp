// Probes on the embedded model: their input is the computation of full attention, alone or with
// others.

#include "harness/run/probe_unit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/run/small_world.h"

namespace turnbench {
namespace {

using namespace test;

/// Probes that outlive their cells; a cell's key is its spec.
class ProbeCells {
 public:
  explicit ProbeCells(const std::vector<std::string>& specs) {
    for (const std::string& spec : specs)
      cells.push_back({spec, &probes_.emplace_back(ProbeSpec::parse(spec))});
  }
  std::vector<ProbeCell> cells;

 private:
  std::deque<ProbeSpec> probes_;
};

const std::vector<std::string> kAll = {"coverage:eta=0.1",
                                       "coverage:eta=0.3,layer=1,head=0",
                                       "segment-overlap:eta=0.2",
                                       "segment-overlap:eta=0.2,of=shared",
                                       "token-overlap:window=8",
                                       "window-overlap:window=4,index=-2",
                                       "window-overlap:window=4,index=0",
                                       "block-overlap:blocks=2",
                                       "fragmentation:block=5",
                                       "redundancy:block=5,budget=20",
                                       "block-sizes:budget=40,size=2",
                                       "top-mass:budget=5%,row=0.5",
                                       "line-overlap:eta=0.2",
                                       "line-overlap:eta=0.2,self=false",
                                       "output-error:phase=prefill,method=minference",
                                       "output-error:method=snapkv:budget=24,window=4",
                                       "output-error:layer=2,method=snapkv:budget=24,window=4"};

std::vector<Dialogue> dialogues_of(std::size_t count, int turns) {
  return make_tiny_dialogues(TinyTask::kList,
                             {.turns = turns, .length = 90, .count = count, .seed = 3});
}

std::vector<const Dialogue*> all_of(const std::vector<Dialogue>& dialogues) {
  std::vector<const Dialogue*> out;
  for (const Dialogue& d : dialogues) out.push_back(&d);
  return out;
}

constexpr Decoding kDecoding{.max_prompt_tokens = 4000, .max_new_tokens = 8};

UnitResult run(const SmallWorld& world, const ProbeUnit& unit, int threads = 1,
               Engine::Options options = {}, const Decoding& decoding = kDecoding) {
  const auto backend = make_cpu_backend(threads);
  Engine engine(world.model, *backend, options);
  UnitResult out = run_probes(engine, world.renderer, decoding, unit);
  EXPECT_EQ(engine.memory().kv_bytes(), 0u) << "nothing is left behind";
  return out;
}

/// Value of each record, or its error.
std::map<RecordKey, std::pair<double, std::string>> values(const UnitResult& result) {
  std::map<RecordKey, std::pair<double, std::string>> out;
  for (const Record& r : result.records) out[{r.cell, r.dialogue, r.turn}] = {-1, r.error};
  for (const ScoreValue& s : result.scores) out.at({s.cell, s.dialogue, s.turn}).first = s.value;
  EXPECT_EQ(out.size(), result.records.size()) << "a record twice";
  return out;
}

TEST(Probes, SharingChangesOnlyTheCost) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_of(3, 2);
  const ProbeCells probes(kAll);
  for (const Answers answers : {Answers::kOwn, Answers::kGold}) {
    const ProbeUnit unit{all_of(dialogues), probes.cells, answers};
    const UnitResult shared = run(world, unit);
    const auto want = values(shared);
    EXPECT_EQ(want.size(), kAll.size() * 3 * 2);
    std::size_t measured = 0;
    for (const auto& [key, value] : want) {
      EXPECT_LE(value.first, 1) << std::get<0>(key);
      measured += value.first >= 0;
    }
    EXPECT_GT(measured, want.size() * 3 / 4);
    // Every turn is prefilled once; the answers' rows are additional, with the prompt's last one.
    std::int64_t prompts = 0, rows = 0;
    for (const Record& r : shared.records) {
      if (r.cell == "token-overlap:window=8") {
        prompts += r.prompt_tokens;
        rows += r.answer_tokens.empty() ? 0 : static_cast<std::int64_t>(r.answer_tokens.size()) + 1;
      }
    }
    EXPECT_EQ(shared.prefilled_tokens, prompts + rows);
    for (int threads : {2, 4}) EXPECT_EQ(values(run(world, unit, threads)), want);
    EXPECT_EQ(values(run(world, unit, 1, {.prefill_chunk = 16})), want);
    // Alone, and with one dialogue at a time.
    for (const ProbeCell& cell : probes.cells) {
      if (cell.probe->info().compares_dialogues) {
        for (const auto& [key, value] : values(run(world, {all_of(dialogues), {cell}, answers})))
          EXPECT_EQ(value, want.at(key)) << cell.key;
        continue;
      }
      for (const Dialogue& d : dialogues) {
        for (const auto& [key, value] : values(run(world, {{&d}, {cell}, answers})))
          EXPECT_EQ(value, want.at(key)) << cell.key;
      }
    }
  }
}

// The answer of the probes is the answer of `full`, at any temperature.
TEST(Probes, ObserveTheAnswerOfFullAttention) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_of(2, 3);
  const ProbeCells probes({"token-overlap:window=8", "fragmentation"});
  const Method full = Method::parse("full");
  for (const double temperature : {0.0, 2.0}) {
    Decoding decoding = kDecoding;
    decoding.temperature = temperature;
    for (const Answers answers : {Answers::kOwn, Answers::kGold}) {
      const UnitResult got =
          run(world, {all_of(dialogues), probes.cells, answers}, 1, {}, decoding);
      std::vector<Unit> units;
      for (const Dialogue& d : dialogues)
        units.push_back({&d, {{"full", &full, History::kReprefill, answers}}});
      const auto want = by_key(world.run(units, decoding).records);
      int compared = 0;
      for (const Record& r : got.records) {
        const Result& same = want.at({"full", r.dialogue, r.turn});
        EXPECT_EQ(r.prompt_hash, same.prompt_hash);
        if (r.cell == "fragmentation") {
          EXPECT_TRUE(r.answer_tokens.empty()) << "it sees the text alone";
          continue;
        }
        EXPECT_EQ(r.answer_tokens, same.answer_tokens);
        EXPECT_EQ(r.answer, same.answer);
        EXPECT_EQ(r.stopped, same.stopped);
        compared += !r.answer_tokens.empty();
      }
      EXPECT_GT(compared, 0);
    }
  }
}

/// Records whole attention matrices, which the probes must not do.
struct Matrices : PrefillPolicy {
  struct Head {
    std::int32_t first_row;
    std::vector<std::vector<double>> rows;
  };
  explicit Matrices(std::vector<Head>* heads) : heads(heads) {}
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<Matrices>(*this);
  }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    for (int h = 0; h < view.shape.heads; ++h) {
      Head& head = heads->emplace_back(Head{view.first_position, {}});
      for (int r = 0; r < view.rows; ++r) {
        std::vector<float> cells;
        view.stats.probabilities(h, std::span(&r, 1), cells);
        head.rows.emplace_back(cells.begin(), cells.begin() + view.first_position + r + 1);
      }
    }
    return {};
  }
  std::vector<Head>* heads;
};

// The complete computation of two figures, repeated from matrices of one prefill of prompt and
// answer.
TEST(Probes, EqualASinglePrefill) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_of(1, 1);
  const ProbeCells probes({"token-overlap:budget=0.1,window=8", "coverage:eta=0.1"});
  const UnitResult got = run(world, {all_of(dialogues), probes.cells});
  ASSERT_EQ(got.scores.size(), 2u);
  const Record& record = got.records[0];
  std::vector<int> tokens = world.renderer.render(dialogues[0], 0, 0).tokens;
  const std::size_t n = tokens.size();
  ASSERT_EQ(static_cast<std::size_t>(record.prompt_tokens), n);
  ASSERT_GT(record.answer_tokens.size(), 2u);
  tokens.insert(tokens.end(), record.answer_tokens.begin(), record.answer_tokens.end());

  std::vector<Matrices::Head> heads;
  const auto backend = make_cpu_backend(2);
  Engine engine(world.model, *backend, {});
  Policies policies;
  policies.prefill = std::make_unique<Matrices>(&heads);
  Sequence sequence = engine.make_sequence(std::move(policies));
  const Pass pass{.sequence = &sequence, .tokens = tokens, .prompt_end = true};
  engine.prefill({&pass, 1});

  const auto best_by = [&](std::size_t first, std::size_t last) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t j = 0; j < n; ++j) order.emplace_back(0, j);
    for (const Matrices::Head& head : heads) {
      for (std::size_t i = first; i < last; ++i) {
        for (std::size_t j = 0; j < std::min(n, i + 1); ++j) order[j].first -= head.rows[i][j];
      }
    }
    std::sort(order.begin(), order.end());
    std::set<std::size_t> out;
    for (std::size_t i = 0; i < n / 10; ++i) out.insert(order[i].second);
    return out;
  };
  const auto guess = best_by(n - 8, n), truth = best_by(n, tokens.size());
  double both = 0;
  for (std::size_t j : guess) both += truth.contains(j);
  EXPECT_NEAR(got.scores[0].value, both / static_cast<double>(guess.size()), 1e-9);
  EXPECT_GT(both, 0);

  double coverage = 0;
  for (const Matrices::Head& head : heads) {
    // In float32, like the sums of the statistics: in peaked heads many lines have nearly the same
    // mass.
    std::vector<std::pair<float, std::size_t>> lines;
    for (std::size_t l = 0; l < 2 * n; ++l) lines.emplace_back(0.0f, l);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        lines[j].first -= static_cast<float>(head.rows[i][j]);
        lines[n + i - j].first -= static_cast<float>(head.rows[i][j]);
      }
    }
    std::sort(lines.begin(), lines.end());
    std::vector<char> chosen(2 * n);
    for (std::size_t l = 0; l < 2 * n / 10; ++l) chosen[lines[l].second] = 1;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        if (chosen[j] != 0 || chosen[n + i - j] != 0) sum += head.rows[i][j];
      }
    }
    coverage += sum / static_cast<double>(n);
  }
  EXPECT_NEAR(got.scores[1].value, coverage / static_cast<double>(heads.size()), 1e-6);
}

TEST(Probes, FailuresAffectOneProbeOnly) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_of(2, 2);
  const ProbeCells good({"coverage", "fragmentation"}),
      all({"coverage", "coverage:layer=99", "fragmentation"});
  const auto want = values(run(world, {all_of(dialogues), good.cells}));
  const UnitResult got = run(world, {all_of(dialogues), all.cells});
  EXPECT_EQ(got.records.size(), want.size() * 3 / 2);
  for (const Record& r : got.records) {
    if (r.cell != "coverage:layer=99") continue;
    EXPECT_EQ(r.status, Record::Status::kError);
    EXPECT_NE(r.error.find("layer: found 99, expected at most"), std::string::npos) << r.error;
  }
  for (const auto& [key, value] : values(got)) {
    if (want.contains(key)) {
      EXPECT_EQ(value, want.at(key));
    }
  }
  // A prompt that does not fit is out of memory; the text alone still has a value.
  const std::vector<Dialogue> large =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 1, .length = 1500, .count = 1, .seed = 3});
  Engine::Options tight;
  tight.memory_limit = world.model.weight_bytes() + (1u << 20);
  for (const Record& r : run(world, {all_of(large), good.cells}, 1, tight).records) {
    EXPECT_EQ(r.status, r.cell == "coverage" ? Record::Status::kOutOfMemory : Record::Status::kOk)
        << r.error;
  }
}

TEST(Probes, ShortAnswersHaveNoValue) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = dialogues_of(1, 1);
  const ProbeCells probes({"window-overlap:window=4,index=50", "line-overlap:self=false"});
  const UnitResult got = run(world, {all_of(dialogues), probes.cells});
  EXPECT_TRUE(got.scores.empty());
  for (const Record& r : got.records) {
    EXPECT_EQ(r.status, Record::Status::kNoValue);
    EXPECT_FALSE(r.error.empty());
  }
}

}  // namespace
}  // namespace turnbench
