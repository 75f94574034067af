// The engine with policies: shared prefills, eviction, selection, positions, statistics. The
// policies are defined in the tests, so their decisions are known.

#include <gtest/gtest.h>

#include "common/error.h"
#include "conversation.h"
#include "reference.h"
#include "test_policies.h"
#include "tests/backends/backend.h"
#include "tests/inference/set_rows.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

using namespace test;
/// Reads the listed positions and all positions from `from` on.
struct ReadPositions : SelectionPolicy {
  ReadPositions(Ints positions, int from) : positions(std::move(positions)), from(from) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadPositions>(*this);
  }
  Selection select(const LayerView& view) override {
    Ints list = positions;
    for (int j = from; j < view.sets[0].size(); ++j) list.push_back(j);
    return {std::vector<Ints>(view.sets.size(), list)};
  }
  Ints positions;
  int from;
};

class EnginePolicies : public testing::TestWithParam<std::string> {
 protected:
  EnginePolicies() : machine_(GetParam()) {}
  Machine machine_;
  const std::vector<int> prompt_ = synthetic_tokens(150, 1),
                         answer_ = synthetic_tokens(is_emulated() ? 5 : 12, 2),
                         question_ = synthetic_tokens(is_emulated() ? 3 : 21, 3);
};

void expect_same_state(const Sequence& a, const Sequence& b, std::size_t who) {
  EXPECT_EQ(kept_sizes(a), kept_sizes(b)) << who;
  EXPECT_TRUE(cached_rows(a) == cached_rows(b)) << who;
  EXPECT_EQ(a.tokens, b.tokens) << who;
  EXPECT_EQ(a.next_position, b.next_position) << who;
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens) << who;
  EXPECT_EQ(a.generated, b.generated) << who;
  EXPECT_EQ(a.logical_bytes(), b.logical_bytes()) << who;
  EXPECT_EQ(a.counters.attended_tokens, b.counters.attended_tokens) << who;
  EXPECT_EQ(a.counters.attentions, b.counters.attentions) << who;
  EXPECT_EQ(a.counters.prefill_pairs, b.counters.prefill_pairs) << who;
  EXPECT_TRUE(a.counters.ledger.total() == b.counters.ledger.total()) << who;
}

// One prefill for all, and each decodes as it would alone, in one batch with any others.  Sequences
// leave the batch one after the other, so that every mixture of caches is tested.
TEST_P(EnginePolicies, FollowersEqualSequencesAlone) {
  const std::size_t count = cast().size();
  Conversation prefix(machine_.engine, {}, 40, true);
  std::vector<Sequence> forks;
  for (Policies& p : cast()) forks.push_back(machine_.engine.make_sequence(std::move(p)));
  std::vector<Sequence*> pointers;
  for (Sequence& s : forks) pointers.push_back(&s);
  const Logits first = prefix.turn_with_forks(prompt_, pointers);
  EXPECT_EQ(kept_sizes(prefix.sequence)[0][0], 150) << "the shared prefix keeps everything";

  std::vector<Conversation> alone;
  std::vector<Policies> policies = cast();
  for (std::size_t i = 0; i < count; ++i) {
    alone.emplace_back(machine_.engine, std::move(policies[i]));
    EXPECT_TRUE(alone[i].turn(prompt_) == first) << i;
    expect_same_state(forks[i], alone[i].sequence, i);
  }
  for (std::size_t step = 0; step < answer_.size(); ++step) {
    // Sequence 4, with shifted positions, stops first.
    std::vector<Pass> passes;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t last = i == 4 ? 3 : answer_.size();
      if (step >= last) continue;
      passes.push_back(
          {.sequence = &forks[i], .tokens = {&answer_[step], 1}, .kind = Pass::Kind::kDecode});
      who.push_back(i);
    }
    const auto got = machine_.engine.forward(passes);
    for (std::size_t k = 0; k < who.size(); ++k)
      ASSERT_TRUE(got[k] == alone[who[k]].answer(answer_[step])) << who[k] << " step " << step;
  }
  for (std::size_t i = 0; i < count; ++i) expect_same_state(forks[i], alone[i].sequence, i);
}

/// Keeps all tokens; counts the results that it computes and those that it takes from the memo.
struct CountBuilds : EvictionPolicy {
  explicit CountBuilds(std::shared_ptr<int> built) : built(std::move(built)) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<CountBuilds>(*this);
  }
  KeepSets after_prefill(const LayerView& view) override {
    shared_result<int>(view.memo, "a number", [&] {
      ++*built;
      return std::make_shared<int>(view.layer);
    });
    return {};
  }
  std::shared_ptr<int> built;
};

// What eviction policies compute on the cache of the prompt is computed once for each layer.
TEST_P(EnginePolicies, EvictionsShareResults) {
  const auto built = std::make_shared<int>(0);
  Conversation prefix(machine_.engine, {});
  std::vector<Sequence> forks;
  for (int i = 0; i < 3; ++i) {
    Policies policies;
    policies.eviction = std::make_unique<CountBuilds>(built);
    forks.push_back(machine_.engine.make_sequence(std::move(policies)));
  }
  prefix.turn_with_forks(prompt_, {&forks[0], &forks[1], &forks[2]});
  EXPECT_EQ(*built, forks[0].shape().layers);
}

TEST_P(EnginePolicies, ForksAreIndependent) {
  for (std::size_t i = 0; i < cast().size(); ++i) {
    Conversation original(machine_.engine, std::move(cast()[i]));
    original.turn(prompt_);
    original.answer(answer_[0]);
    const std::vector<float> before = cached_rows(original.sequence);
    Conversation fork = original.fork();
    for (int token : question_) fork.answer(token);
    fork.turn(question_);
    EXPECT_TRUE(cached_rows(original.sequence) == before) << i;
    Conversation again(machine_.engine, std::move(cast()[i]));
    again.turn(prompt_);
    again.answer(answer_[0]);
    EXPECT_TRUE(original.answer(answer_[1]) == again.answer(answer_[1])) << i;
    expect_same_state(original.sequence, again.sequence, i);
  }
}

// Consecutive turns equal one long prompt if nothing is evicted.
TEST_P(EnginePolicies, TurnsContinueThePrefill) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  std::vector<int> all = prompt_;
  all.insert(all.end(), answer_.begin(), answer_.end());
  all.insert(all.end(), question_.begin(), question_.end());
  Conversation whole(machine_.engine, {}, 16), turns(machine_.engine, {}, 16);
  const Logits want = whole.turn(all);
  turns.turn(prompt_);
  for (int token : answer_) turns.answer(token);
  EXPECT_TRUE(turns.turn(question_) == want);
  EXPECT_TRUE(cached_rows(turns.sequence) == cached_rows(whole.sequence));
}

// The chunks of a long prompt have no effect: eviction gets the whole prompt at its end.
TEST_P(EnginePolicies, ResultsDoNotDependOnChunks) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  for (std::size_t i = 0; i < cast().size(); ++i) {
    Conversation want(machine_.engine, std::move(cast()[i]));
    const Logits logits = want.turn(prompt_);
    for (int chunk : {1, 13, 64, 149}) {
      Engine engine(machine_.model, *machine_.backend, {.prefill_chunk = chunk, .max_rows = 100});
      Conversation got(engine, std::move(cast()[i]));
      EXPECT_TRUE(got.turn(prompt_) == logits) << i << " " << chunk;
      EXPECT_TRUE(cached_rows(got.sequence) == cached_rows(want.sequence)) << i << " " << chunk;
    }
  }
}

// For attention, an evicted token equals a token that is never read.
TEST_P(EnginePolicies, EvictionEqualsNotReading) {
  const Ints kept = {0, 1, 2, 30, 31, 70, 71, 72, 100, 148, 149};
  Conversation lost(machine_.engine, evicting<KeepList>(kept)),
      unread(machine_.engine, selecting(std::make_unique<ReadPositions>(kept, 150)));
  EXPECT_TRUE(lost.turn(prompt_) == unread.turn(prompt_));
  for (int token : answer_) EXPECT_LE(distance(lost.answer(token), unread.answer(token)), 1e-5);
  EXPECT_EQ(lost.sequence.next_position, 150 + std::ssize(answer_));
  EXPECT_EQ(lost.sequence.counters.attended_tokens, unread.sequence.counters.attended_tokens);
  // The next turn, appended as a whole to the kept tokens, equals the turn read token by token.
  const Logits turn = lost.turn(question_, false);
  Logits last;
  for (int token : question_) last = unread.answer(token);
  EXPECT_LE(distance(turn, last), 1e-5);
}

// One kept set for each query head: as many sets as heads; with equal lists, the same attention.
TEST_P(EnginePolicies, SetsPerQueryHead) {
  const Ints kept = {0, 5, 6, 7, 80, 81, 149};
  const int group = machine_.engine.shape().group();
  Conversation per_kv(machine_.engine, evicting<KeepList>(kept)),
      per_query(machine_.engine, evicting<KeepList>(kept, false, group));
  per_kv.turn(prompt_);
  per_query.turn(prompt_);
  EXPECT_EQ(per_query.sequence.sets(0).size(),
            static_cast<std::size_t>(machine_.engine.shape().heads));
  EXPECT_EQ(per_query.sequence.logical_bytes(),
            per_kv.sequence.logical_bytes() * static_cast<std::size_t>(group));
  for (int token : answer_)
    EXPECT_LE(distance(per_query.answer(token), per_kv.answer(token)), 1e-5);
  const Logits a = per_kv.turn(question_, false), b = per_query.turn(question_, false);
  EXPECT_LE(distance(b, a), 1e-5);
}

/// Records the statistics of a prompt's last row, for each set of each layer.
struct NoteMasses : SelectionPolicy {
  struct Note {
    int tokens;
    double mass;
  };
  explicit NoteMasses(std::vector<Note>* notes) : notes(notes) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<NoteMasses>(*this);
  }
  SelectionTraits traits() const override { return {.window = 1}; }
  void after_prefill(const LayerView& view) override {
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      const int n = view.sets[i].size(), head = static_cast<int>(i) * view.heads_per_set();
      Note note{n, 0};
      for (float p : view.stats.window_mass(1).head(head, n)) note.mass += static_cast<double>(p);
      notes->push_back(note);
    }
  }
  Selection select(const LayerView&) override { return {}; }
  std::vector<Note>* notes;
};

// A selection policy gets the tokens that the eviction policy has kept, and their statistics: a
// row's attention over them sums to 1.
TEST_P(EnginePolicies, SelectionSeesRemainingTokens) {
  const int group = machine_.engine.shape().group();
  for (int lists : {1, group}) {
    std::vector<NoteMasses::Note> notes;
    Policies both = evicting<KeepList>(Ints{0, 5, 80, 149}, false, lists);
    both.selection = std::make_unique<NoteMasses>(&notes);
    Conversation c(machine_.engine, std::move(both));
    c.turn(prompt_);
    const ModelShape& shape = machine_.engine.shape();
    EXPECT_EQ(notes.size(), static_cast<std::size_t>(shape.layers * shape.kv_heads * lists));
    for (const auto& note : notes) {
      EXPECT_EQ(note.tokens, 4);
      EXPECT_NEAR(note.mass, 1, 1e-5);
    }
  }
}

/// Query head h reads slots h, 20 + h, and the current one.
struct ReadByHead : SelectionPolicy {
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadByHead>(*this);
  }
  Selection select(const LayerView& view) override {
    Selection out;
    for (int h = 0; h < view.shape.heads; ++h)
      out.slots.push_back({h, 20 + h, view.sets[0].size() - 1});
    return out;
  }
};

/// The keys that the rows `first`, `first` + 1, ... before `end` may read: every `step`-th token,
/// some directly before the rows, and the rows.
Ints sparse_list(int first, int end, int step) {
  Ints out;
  for (int j = 0; j < end; ++j) {
    if (j % step == 0 || j >= first - 20) out.push_back(j);
  }
  return out;
}

/// Reads such a list, also in blocks of a prompt.
struct ReadInBlocks : SelectionPolicy, PromptSelection {
  ReadInBlocks(int step, int at_once, int distance = 0, bool in_prefill = true)
      : step(step), at_once(at_once), distance(distance), in_prefill(in_prefill) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadInBlocks>(*this);
  }
  SelectionTraits traits() const override {
    return {.pre_rope_keys = distance > 0, .max_distance = distance};
  }
  bool selects_in_prefill() const override { return in_prefill; }
  int query_block_rows(const LayerView&) override { return at_once; }
  Selection select(const LayerView& view) override {
    EXPECT_EQ(view.far_queries.data != nullptr, distance > 0);
    EXPECT_LE(view.rows, at_once);
    return {std::vector<Ints>(
        view.sets.size(), sparse_list(view.first_position, view.first_position + view.rows, step))};
  }
  void after_attention(const LayerView& view, MatrixView<const float> lse) override {
    EXPECT_EQ(lse.rows, view.rows);
    EXPECT_EQ(lse.columns, view.shape.heads);
    seen.resize(static_cast<std::size_t>(view.shape.layers));
    int& next = seen[view.layer];
    EXPECT_EQ(view.first_position, next);
    next += view.rows;
  }
  int step, at_once, distance;
  bool in_prefill;
  std::vector<int> seen;  // tokens, by layer
};

/// Computes such lists for every 64 rows of a first prompt.
struct ComputeLists : PrefillPolicy {
  explicit ComputeLists(int step) : step(step) {}
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<ComputeLists>(*this);
  }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    HeadPattern p;
    p.kind = HeadPattern::Kind::kBlocks;
    p.block_size = 1;
    p.block_rows = 64;
    for (int first = 0; first < view.rows; first += 64)
      p.blocks.push_back(sparse_list(first, std::min(first + 64, view.rows), step));
    return std::vector<HeadPattern>(static_cast<std::size_t>(view.shape.heads), p);
  }
  int step;
};

// A selection in a prompt has the results of a pattern with the same keys.  It also applies to the
// answer and to later turns, alone or as a fork of a shared prefix.
TEST_P(EnginePolicies, SelectionsInPrompts) {
  Policies lists = selecting(std::make_unique<ReadInBlocks>(3, 64, 0, false));
  lists.prefill = std::make_unique<ComputeLists>(3);
  Conversation want(machine_.engine, std::move(lists));
  const auto policies = [] { return selecting(std::make_unique<ReadInBlocks>(3, 64)); };
  Conversation got(machine_.engine, policies());
  Conversation prefix(machine_.engine, policies().prefill_part());
  Sequence forked = machine_.engine.make_sequence(policies());
  const Logits first = want.turn(prompt_);
  EXPECT_LE(distance(got.turn(prompt_), first), 1e-5);
  EXPECT_LE(distance(prefix.turn_with_forks(prompt_, {&forked}), first), 1e-5);
  EXPECT_EQ(got.sequence.counters.prefill_pairs, forked.counters.prefill_pairs);
  EXPECT_EQ(got.sequence.counters.prefill_pairs_dense, want.sequence.counters.prefill_pairs_dense);
  EXPECT_LT(got.sequence.counters.prefill_pairs, got.sequence.counters.prefill_pairs_dense);
  Conversation fork(machine_.engine, std::move(forked));
  fork.spans = prefix.spans;
  for (int token : answer_) {
    const Logits next = got.answer(token);
    EXPECT_LE(distance(next, want.answer(token)), 1e-5);
    EXPECT_TRUE(fork.answer(token) == next);
  }
  EXPECT_TRUE(fork.turn(question_) == got.turn(question_));
}

// Tokens beyond the greatest distance are placed at this distance.  At the first step, without the
// second token, this equals a cache in which the later tokens moved up by one position.
TEST_P(EnginePolicies, TokensBeyondTheGreatestDistance) {
  struct ReadFar : ReadInBlocks {
    explicit ReadFar(int distance) : ReadInBlocks(1, 1, distance, false) {}
    std::unique_ptr<SelectionPolicy> clone() const override {
      return std::make_unique<ReadFar>(*this);
    }
    Selection select(const LayerView& view) override {
      Selection out = ReadInBlocks::select(view);
      for (Ints& list : out.slots) list.erase(list.begin() + 1);
      return out;
    }
  };
  const int n = static_cast<int>(prompt_.size());
  Ints others = all_slots(n);
  others.erase(others.begin() + 1);
  Conversation moved(machine_.engine, evicting<KeepList>(others, true));
  moved.turn(prompt_);
  const Logits want = moved.answer(answer_[0]);
  for (const bool host : {false, true}) {
    Policies policies = selecting(std::make_unique<ReadFar>(n - 1));
    if (host) policies.placement = {.host = true, .cache_tokens = 16, .cache_block = 8};
    Conversation far(machine_.engine, std::move(policies));
    far.turn(prompt_);
    EXPECT_LE(distance(far.answer(answer_[0]), want), 1e-5) << host;
  }
}

// For any blocks, and as decode steps, which have separate kernels.
void expect_greatest_distance_in_prompts(Machine& machine, std::span<const int> prompt) {
  const auto policies = [&](int at_once) {
    return selecting(std::make_unique<ReadInBlocks>(1, at_once, 30));
  };
  Conversation rows(machine.engine, policies(1000)), full(machine.engine, {});
  const Logits want = rows.turn(prompt);
  EXPECT_GT(distance(full.turn(prompt), want), 1e-4) << "it is felt";
  for (const int at_once : {1, 20, 64}) {
    Conversation blocks(machine.engine, policies(at_once));
    EXPECT_LE(distance(blocks.turn(prompt), want), 1e-5) << at_once;
  }
  Conversation steps(machine.engine, policies(1000));
  Logits last = steps.turn(prompt.first(1));
  for (std::size_t i = 1; i < prompt.size(); ++i) last = steps.answer(prompt[i]);
  EXPECT_LE(distance(last, want), 1e-5);
}

TEST_P(EnginePolicies, TheGreatestDistanceInPrompts) {
  expect_greatest_distance_in_prompts(
      machine_, std::span(prompt_).first(is_emulated() ? 50 : prompt_.size()));
}

// If heads select separately, the tokens read are the union of their selections for each KV head: a
// token that several heads read counts once.
TEST_P(EnginePolicies, ReadsOfQueryHeadsAreCounted) {
  Conversation c(machine_.engine, selecting(std::make_unique<ReadByHead>()));
  c.turn(prompt_);
  c.answer(answer_[0]);
  EXPECT_EQ(c.sequence.counters.mean_attended(), 2 * machine_.engine.shape().group() + 1);
}

// Shifted positions: the kept tokens equal a cache of keys that were rotated to their new
// positions.
TEST_P(EnginePolicies, ShiftedPositionsEqualAFreshCache) {
  const Ints kept = {0, 1, 40, 41, 42, 99, 149};
  Conversation shifted(machine_.engine, evicting<KeepList>(kept, true)),
      whole(machine_.engine, {}, 0, true);
  shifted.turn(prompt_);
  whole.turn(prompt_);
  EXPECT_EQ(shifted.sequence.next_position, 7);
  const ModelConfig& c = machine_.model.config();
  const std::vector<float>& frequencies = machine_.model.rope_frequencies();
  const int half = c.head_dim / 2;
  Conversation fresh(machine_.engine, {});
  std::vector<float> raw(static_cast<std::size_t>(c.head_dim)), value = raw, key = raw;
  for (int l = 0; l < c.layers; ++l) {
    for (std::size_t s = 0; s < static_cast<std::size_t>(c.kv_heads); ++s) {
      for (int j = 0; j < 7; ++j) {
        const KvHeadCache& from = whole.sequence.sets(l)[s];
        test::read_row(from, KvRow::kPreRopeKey, kept[j], raw.data());
        test::read_row(from, KvRow::kValue, kept[j], value.data());
        for (int d = 0; d < half; ++d) {
          const auto i = static_cast<std::size_t>(d), k = static_cast<std::size_t>(d + half);
          const double angle = j * static_cast<double>(frequencies[i]);
          const double cos = std::cos(angle) * c.rope.attention_factor,
                       sin = std::sin(angle) * c.rope.attention_factor;
          key[i] = static_cast<float>(raw[i] * cos - raw[k] * sin);
          key[k] = static_cast<float>(raw[k] * cos + raw[i] * sin);
        }
        append_row(fresh.sequence.sets(l)[s], key.data(), value.data(), nullptr, j);
      }
    }
  }
  fresh.sequence.next_position = 7;
  for (int token : answer_) EXPECT_LE(distance(shifted.answer(token), fresh.answer(token)), 1e-5);
  EXPECT_EQ(shifted.sequence.next_position, 7 + std::ssize(answer_));
  EXPECT_LE(distance(shifted.turn(question_, false), fresh.turn(question_)), 1e-5);
}

TEST_P(EnginePolicies, TruncationRestoresEarlierState) {
  Conversation straight(machine_.engine, {}, 16), back(machine_.engine, {}, 16);
  straight.turn(prompt_);
  back.turn(prompt_);
  for (int token : question_) back.answer(token);
  back.sequence.truncate(150);
  EXPECT_EQ(back.sequence.tokens, prompt_);
  EXPECT_TRUE(cached_rows(back.sequence) == cached_rows(straight.sequence));
  EXPECT_TRUE(back.turn(answer_) == straight.turn(answer_));
  // To the middle of a prompt, inside a page.
  back.sequence.truncate(71);
  Conversation shorter(machine_.engine, {}, 16);
  shorter.turn(std::span(prompt_).first(71));
  EXPECT_TRUE(cached_rows(back.sequence) == cached_rows(shorter.sequence));
}

INSTANTIATE_TEST_SUITE_P(Models, EnginePolicies,
                         testing::Values("llama3", "qwen2", "llama2", "qwen2-yarn"),
                         parameter_name);

TEST(Engine, TheGreatestDistanceUnderASlidingWindow) {
  if (is_emulated()) GTEST_SKIP() << "nothing of the kernels' own";
  Machine machine("mistral");
  ASSERT_EQ(machine.model.config().sliding_window[0], 48);
  expect_greatest_distance_in_prompts(machine, synthetic_tokens(150, 1));
}

// The position of the next token does not depend on evictions.
TEST(Engine, PositionsContinueAfterEviction) {
  Machine machine("llama3");
  const std::vector<int> six = synthetic_tokens(6, 1), three = synthetic_tokens(3, 2);
  for (const bool recompress : {false, true}) {
    Conversation c(machine.engine, evicting<KeepList>(Ints{0, 2, 4, 5}));
    c.turn(six);
    EXPECT_EQ(kept_sizes(c.sequence)[0], (std::vector<int>{4, 4}));
    c.turn(three, recompress);
    EXPECT_EQ(kept_sizes(c.sequence)[0],
              recompress ? (std::vector<int>{4, 4}) : (std::vector<int>{7, 7}));
    EXPECT_EQ(c.sequence.next_position, 9);
  }
}

// A run that does not fit is refused before any change; smaller ones still run.
TEST(Engine, RejectsInputsBeyondLimits) {
  Machine machine("llama3");
  const std::size_t weights = machine.model.weight_bytes();
  Engine engine(machine.model, *machine.backend, {.memory_limit = weights + (2u << 20)});
  Conversation c(engine, {});
  const std::vector<int> long_prompt = synthetic_tokens(500, 1), prompt = synthetic_tokens(20, 1);
  const Logits first = c.turn(prompt);
  Engine small(machine.model, *machine.backend, {.memory_limit = weights + 1000});
  Conversation refused(small, {});
  try {
    refused.turn(long_prompt);
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kMemory);
    EXPECT_NE(std::string(e.what()).find("limit"), std::string::npos);
  }
  EXPECT_TRUE(refused.sequence.tokens.empty());
  EXPECT_EQ(small.memory().kv_bytes(), 0u);
  EXPECT_TRUE(Conversation(engine, {}).turn(prompt) == first);
}

TEST(Engine, RefusesUnknownTokens) {
  Machine machine("llama3");
  for (int token : {-1, 128}) {
    Conversation c(machine.engine, {});
    const std::vector<int> tokens = {5, token};
    EXPECT_THROW(c.turn(tokens), Error);
    EXPECT_TRUE(c.sequence.tokens.empty());
  }
}

}  // namespace
}  // namespace turnbench
