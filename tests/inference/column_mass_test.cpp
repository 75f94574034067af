// Column masses as the engine accumulates them: chunk by chunk, and in a shared prefix turn by
// turn.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "common/error.h"
#include "inference/engine/engine.h"
#include "tests/backends/backend.h"

namespace turnbench {
namespace {

const ColumnRule kPlain, kNoisy{.gumbel = true}, kWarm{.gumbel = true, .temperature = 1.5};

/// Records its input, and optionally keeps the first half of every set.
class ColumnRecorder : public EvictionPolicy {
 public:
  struct Notes {
    std::map<std::pair<int, double>, std::vector<float>> mass;  // of layer and rule, all heads
    int rows = 0;
    std::size_t tokens = 0;
    int decoded = 0;
  };
  ColumnRecorder(std::shared_ptr<Notes> notes, bool halve)
      : notes_(std::move(notes)), halve_(halve) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<ColumnRecorder>(*this);
  }
  std::vector<ColumnRule> columns() const override { return {kPlain, kNoisy, kWarm}; }

  KeepSets after_prefill(const LayerView& view) override {
    const int n = view.sets[0].size();
    for (const ColumnRule& rule : columns()) {
      const ColumnMass& mass = view.stats.column_mass(rule);
      auto& note = notes_->mass[{view.layer, rule.gumbel ? rule.temperature : 0}];
      note.clear();
      for (int h = 0; h < view.shape.heads; ++h) {
        const auto row = mass.scores.head(h, n);
        note.insert(note.end(), row.begin(), row.end());
      }
      notes_->rows = mass.rows;
    }
    notes_->tokens = view.dialogue.tokens.size();
    if (!halve_) return {};
    std::vector<std::int32_t> half;
    for (int j = 0; j < n / 2; ++j) half.push_back(j);
    return {{view.sets.size(), half}};
  }

  bool evicts_in_answers() const override { return true; }
  KeepSets after_decode(const LayerView& view) override {
    notes_->decoded = view.dialogue.tokens.back();
    EXPECT_EQ(view.stats.column_mass(kPlain).rows, 1);
    return {};
  }

 private:
  std::shared_ptr<Notes> notes_;
  bool halve_;
};

class GatheredMass : public testing::Test {
 protected:
  static constexpr const char* kModel = TURNBENCH_SOURCE_DIR "/tests/data/models/llama3";

  struct Machine {
    explicit Machine(int threads = 2, int chunk = 2048)
        : backend(test::make_backend(threads)),
          model(Checkpoint::open(kModel), *backend, DType::kF32, Math::kF32),
          engine(model, *backend, {.prefill_chunk = chunk}) {}
    std::unique_ptr<Backend> backend;
    Model model;
    Engine engine;
  };

  static std::vector<int> tokens(int count) {
    std::vector<int> out;
    for (int i = 0; i < count; ++i) out.push_back(3 + i * 37 % 101);
    return out;
  }

  Policies recording(bool halve = false) {
    notes_ = std::make_shared<ColumnRecorder::Notes>();
    Policies out;
    out.eviction = std::make_unique<ColumnRecorder>(notes_, halve);
    return out;
  }

  static void prefill(Engine& engine, Sequence& sequence, std::span<const int> tokens,
                      std::vector<Sequence*> forks = {}) {
    DialogueView dialogue;
    dialogue.seed = 5;
    const Pass pass{.sequence = &sequence,
                    .tokens = tokens,
                    .dialogue = &dialogue,
                    .prompt_end = true,
                    .forks = std::move(forks)};
    engine.prefill({&pass, 1});
  }

  std::shared_ptr<ColumnRecorder::Notes> notes_;
};

TEST_F(GatheredMass, DoesNotDependOnChunksAndThreads) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = tokens(150);
  Machine whole;
  Sequence first = whole.engine.make_sequence(recording());
  prefill(whole.engine, first, prompt);
  const ColumnRecorder::Notes want = *notes_;
  EXPECT_EQ(want.rows, 150);
  EXPECT_EQ(want.tokens, 150u);
  for (const auto& [key, mass] : want.mass) {
    double sum = 0;
    for (float x : mass) sum += x;
    EXPECT_NEAR(sum, 150.0 * whole.engine.shape().heads, 0.01);
  }
  for (int threads : {1, 3}) {
    for (int chunk : {1, 7, 64, 149}) {
      Machine machine(threads, chunk);
      Sequence s = machine.engine.make_sequence(recording());
      prefill(machine.engine, s, prompt);
      EXPECT_EQ(notes_->rows, 150);
      EXPECT_EQ(notes_->mass, want.mass) << threads << " " << chunk;
    }
  }
}

// Forks of a shared prefix get the rows of the whole dialogue, as if it had been prefilled again.
TEST_F(GatheredMass, SharedPrefixCountsEveryTurn) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = tokens(150);
  Machine machine(2, 40);
  Sequence alone = machine.engine.make_sequence(recording());
  prefill(machine.engine, alone, prompt);
  const auto want = notes_->mass;
  Sequence prefix = machine.engine.make_sequence({});
  Sequence early = machine.engine.make_sequence(recording(true));
  prefill(machine.engine, prefix, std::span(prompt).first(90), {&early});
  EXPECT_EQ(early.sets(0)[0].size(), 45);
  Sequence next = prefix.fork(), late = machine.engine.make_sequence(recording(true));
  prefill(machine.engine, next, std::span(prompt).subspan(90), {&late});
  EXPECT_EQ(notes_->mass, want);
}

TEST_F(GatheredMass, SharedPrefixMustDeclareItsForks) {
  const std::vector<int> prompt = tokens(100);
  Machine machine;
  Sequence prefix = machine.engine.make_sequence({});
  prefill(machine.engine, prefix, std::span(prompt).first(50));
  Sequence late = machine.engine.make_sequence(recording());
  EXPECT_THROW(prefill(machine.engine, prefix, std::span(prompt).subspan(50), {&late}), Error);
}

// A sequence that evicts counts only the rows of the turn, over kept and new tokens.
TEST_F(GatheredMass, EvictionRestartsTheCount) {
  const std::vector<int> prompt = tokens(100);
  Machine machine(2, 30);
  Sequence s = machine.engine.make_sequence(recording(true));
  prefill(machine.engine, s, std::span(prompt).first(60));
  EXPECT_EQ(notes_->rows, 60);
  const int token = 9;
  const Pass next{.sequence = &s, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
  machine.engine.forward({&next, 1});
  EXPECT_EQ(notes_->decoded, 9);
  prefill(machine.engine, s, std::span(prompt).subspan(60));
  EXPECT_EQ(notes_->rows, 40);
  EXPECT_EQ(notes_->mass.at({0, 0.0}).size() / static_cast<std::size_t>(s.shape().heads), 71u);
}

}  // namespace
}  // namespace turnbench
