// A model whose layers are distributed over several backends has the same results as on one, with
// each backend in its own memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "conversation.h"
#include "guarded_backend.h"
#include "inference/engine/memory_estimate.h"
#include "inference/engine/sampler.h"
#include "test_policies.h"
#include "tests/message_of.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

using namespace test;

/// The largest stage of the best division, found by trying all.
std::int64_t lightest(std::span<const std::int64_t> weights, std::size_t count) {
  if (count == 1) return std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::int64_t best = INT64_MAX, first = 0;
  for (std::size_t n = 1; n + count - 1 <= weights.size(); ++n) {
    first += weights[n - 1];
    best = std::min(best, std::max(first, lightest(weights.subspan(n), count - 1)));
  }
  return best;
}

std::vector<std::int64_t> weights_of(const Stages& stages, std::span<const std::int64_t> weights) {
  std::vector<std::int64_t> out(stages.count());
  for (std::size_t l = 0; l < weights.size(); ++l)
    out[stages.stage_of(static_cast<int>(l))] += weights[l];
  return out;
}

TEST(Stages, MinimiseTheHeaviestStage) {
  std::mt19937_64 random(1);
  for (std::size_t layers = 1; layers <= 9; ++layers) {
    for (std::size_t count = 1; count <= layers; ++count) {
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<std::int64_t> weights(layers);
        for (std::int64_t& w : weights) w = 1 + static_cast<std::int64_t>(random() % 9);
        const Stages stages(weights, count);
        ASSERT_EQ(stages.count(), count);
        EXPECT_EQ(stages.first_layer(0), 0);
        EXPECT_EQ(stages.first_layer(count), static_cast<int>(layers));
        for (std::size_t s = 0; s < count; ++s)
          EXPECT_LT(stages.first_layer(s), stages.first_layer(s + 1));
        const auto sums = weights_of(stages, weights);
        EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), lightest(weights, count));
      }
    }
  }
}

TEST(Stages, DivideEqualLayersEvenly) {
  for (std::size_t layers : {1u, 7u, 10u, 32u, 80u}) {
    const std::vector<std::int64_t> weights(layers, 3);
    for (std::size_t count = 1; count <= std::min<std::size_t>(layers, 8); ++count) {
      const auto sums = weights_of(Stages(weights, count), weights);
      const auto [least, most] = std::minmax_element(sums.begin(), sums.end());
      EXPECT_LE(*most - *least, 3) << layers << " " << count;
    }
  }
}

/// Llama 3 with three layers and a tied table, or Mistral with five random layers and two tables.
Checkpoint checkpoint_of(const std::string& name) {
  if (name == "tied") return small_checkpoint("llama3");
  Checkpoint out = small_checkpoint("mistral");
  out.tensors.reset();
  out.config.layers = 5;
  out.config.sliding_window.assign(5, out.config.sliding_window[0]);
  return out;
}

/// A model over `stages` backends that check accesses to their memory.
struct Pipeline {
  Pipeline(const std::string& name, std::size_t stages, Engine::Options options = {})
      : territories(std::make_shared<Territories>()),
        backends(guarded(stages)),
        model(checkpoint_of(name), pointers(), DType::kF32, Math::kF32),
        engine(model, pointers(), options) {}

  std::vector<std::unique_ptr<GuardedBackend>> guarded(std::size_t stages) const {
    std::vector<std::unique_ptr<GuardedBackend>> out;
    for (auto& backend : test::make_backends(static_cast<int>(stages), 2)) {
      out.push_back(std::make_unique<GuardedBackend>(std::move(backend), territories,
                                                     static_cast<int>(out.size())));
    }
    return out;
  }
  std::vector<Backend*> pointers() const {
    std::vector<Backend*> out;
    for (const auto& backend : backends) out.push_back(backend.get());
    return out;
  }

  std::shared_ptr<Territories> territories;
  std::vector<std::unique_ptr<GuardedBackend>> backends;
  Model model;
  Engine engine;
};

/// Tokens of a prompt: more than a page.
const int kPrompt = is_emulated() ? 70 : 150;

/// All observable results of sequences: logits, greedy tokens, cached data, counters.
struct StagesTrace {
  std::vector<Logits> logits;
  std::vector<int> tokens;
  std::vector<std::vector<float>> cached;
  std::vector<double> counters;

  void add(std::vector<Logits> more) {
    for (Logits& l : more) {
      EXPECT_TRUE(all_finite(l));
      tokens.push_back(argmax(l));
      logits.push_back(std::move(l));
    }
  }
  void add(const Sequence& s) {
    cached.push_back(cached_rows(s));
    const Counters& c = s.counters;
    counters.insert(counters.end(), {c.attended_tokens, c.prefill_pairs, c.prefill_pairs_dense,
                                     static_cast<double>(c.ledger.total().bytes()),
                                     static_cast<double>(s.next_position)});
  }
};

void expect_equal(const StagesTrace& a, const StagesTrace& b) {
  EXPECT_TRUE(a.logits == b.logits);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_TRUE(a.cached == b.cached);
  EXPECT_EQ(a.counters, b.counters);
}

/// The policies of cast(), and policies that use the other statistics.
std::vector<Policies> everyone() {
  std::vector<Policies> out = cast();
  out.push_back(evicting<KeepByColumns>(25));
  out.push_back(evicting<KeepByColumns>(25, ColumnRule{.gumbel = true, .temperature = 2}));
  return out;
}

std::vector<Sequence> sequences_of(const Engine& engine, std::vector<Policies> policies) {
  std::vector<Sequence> out;
  for (Policies& p : policies) out.push_back(engine.make_sequence(std::move(p)));
  return out;
}

/// Feeds each sequence the greedy token of its last logits, all in one batch, `steps` times.
void answer(Engine& engine, std::vector<Sequence>& sequences, int steps, StagesTrace& trace) {
  for (int step = 0; step < steps; ++step) {
    const std::vector<int> next(trace.tokens.end() - static_cast<std::ptrdiff_t>(sequences.size()),
                                trace.tokens.end());
    std::vector<Pass> passes;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      passes.push_back(
          {.sequence = &sequences[i], .tokens = {&next[i], 1}, .kind = Pass::Kind::kDecode});
    }
    trace.add(engine.forward(passes));
  }
}

/// Two turns of sequences of different lengths and policies, prefilled in one batch of chunks.
StagesTrace two_turns(Engine& engine) {
  StagesTrace trace;
  std::vector<Policies> policies = everyone();
  policies.emplace_back().prefill = std::make_unique<ComputeLines>();
  std::vector<Sequence> sequences = sequences_of(engine, std::move(policies));
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<std::vector<int>> tokens;
    std::vector<Pass> passes;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      tokens.push_back(synthetic_tokens((turn == 0 ? kPrompt : 20) + static_cast<int>(i), i + 1));
    for (std::size_t i = 0; i < sequences.size(); ++i)
      passes.push_back({.sequence = &sequences[i], .tokens = tokens[i], .prompt_end = true});
    trace.add(engine.prefill(passes));
    answer(engine, sequences, is_emulated() ? 1 : 2, trace);
  }
  for (const Sequence& s : sequences) trace.add(s);
  return trace;
}

StagesTrace forks(Engine& engine) {
  StagesTrace trace;
  std::vector<Sequence> sequences = sequences_of(engine, everyone());
  std::vector<Sequence*> pointers;
  for (Sequence& s : sequences) pointers.push_back(&s);
  Conversation prefix(engine, {}, 40, true);
  const Logits last = prefix.turn_with_forks(synthetic_tokens(kPrompt, 1), pointers);
  trace.add(std::vector(sequences.size(), last));
  answer(engine, sequences, 2, trace);
  for (const Sequence& s : sequences) trace.add(s);
  trace.add(prefix.sequence);
  return trace;
}

StagesTrace filled(Engine& engine) {
  StagesTrace trace;
  std::vector<Sequence> sequences = sequences_of(engine, everyone());
  for (Sequence& s : sequences) engine.fill_random_kv(s, synthetic_tokens(kPrompt, 1), {}, 7);
  trace.tokens.assign(sequences.size(), 9);
  answer(engine, sequences, 2, trace);
  for (const Sequence& s : sequences) trace.add(s);
  return trace;
}

class StagesOf : public testing::TestWithParam<std::string> {
 protected:
  /// Calls `run` on one backend, on two and on three; with emulation on one and on two, or with
  /// five layers on three.
  template <typename Run>
  void expect_the_same(const Run& run, Engine::Options options = {}) const {
    Pipeline whole(GetParam(), 1, options);
    const StagesTrace want = run(whole.engine);
    for (std::size_t stages : {2, 3}) {
      if (is_emulated() && (stages == 2) != (GetParam() == "tied")) continue;
      SCOPED_TRACE(fmt::format("{} stages", stages));
      Pipeline pipeline(GetParam(), stages, options);
      expect_equal(run(pipeline.engine), want);
      EXPECT_EQ(pipeline.engine.memory().kv_bytes(), whole.engine.memory().kv_bytes());
    }
  }
};

TEST_P(StagesOf, ComputeTheSame) {
  expect_the_same(two_turns, {.prefill_chunk = 64, .max_rows = 200});
}

TEST_P(StagesOf, ComputeTheSameInSixteenBits) {
  if (is_emulated()) GTEST_SKIP() << "the kernels' own tests have these types";
  expect_the_same(two_turns, {.kv_dtype = DType::kBF16});
}

TEST_P(StagesOf, ServeFollowers) {
  expect_the_same(forks, {.prefill_chunk = 64});
}

TEST_P(StagesOf, AreFilled) {
  expect_the_same(filled);
}

TEST_P(StagesOf, HoldOnlyTheirLayers) {
  std::size_t alone = 0;
  for (std::size_t count : {1, 2, 3}) {
    Pipeline p(GetParam(), count);
    const Stages& stages = p.model.stages();
    ASSERT_EQ(stages.count(), count);
    std::size_t total = 0;
    for (std::size_t s = 0; s < count; ++s) {
      const GuardedBackend& backend = *p.backends[s];
      EXPECT_EQ(p.model.stage_weight_bytes(s),
                backend.matrix_bytes() + p.territories->bytes_of(static_cast<int>(s)));
      EXPECT_GT(p.model.stage_weight_bytes(s), p.model.layer(0).gate_up->bytes());
      total += p.model.stage_weight_bytes(s);
    }
    EXPECT_EQ(p.model.weight_bytes(), total);
    if (count == 1) alone = total;
    const bool copied = count > 1 && p.model.config().tied_embeddings;
    EXPECT_EQ(total, alone + (copied ? p.model.lm_head().bytes() : 0))
        << "a tied table at both ends";

    for (bool pre_rope_keys : {false, true}) {
      Conversation c(p.engine, {}, 0, pre_rope_keys);
      c.turn(synthetic_tokens(100, 1));
      for (int l = 0; l < p.model.config().layers; ++l) {
        for (const KvHeadCache& set : c.sequence.sets(l)) {
          EXPECT_EQ(set.layout().pre_rope_keys, pre_rope_keys);
          for (const std::byte* page : set.page_data())
            EXPECT_EQ(p.territories->owner_of(page), static_cast<int>(stages.stage_of(l)));
        }
      }
      EXPECT_EQ(p.engine.memory().kv_bytes(), c.sequence.page_bytes());
    }
    EXPECT_EQ(p.engine.memory().kv_bytes(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, StagesOf, testing::Values("tied", "untied"), parameter_name);

TEST(Stages, AreNoMoreThanLayers) {
  const auto backends = test::make_backends(4, 1);
  const std::string message = message_of(
      [&] { Model(checkpoint_of("tied"), pointers_to(backends), DType::kF32, Math::kF32); });
  EXPECT_NE(message.find("found 3 layers to spread over 4 devices"), std::string::npos) << message;
}

TEST(Stages, HaveABackendEachInTheEngine) {
  Pipeline p("tied", 2);
  EXPECT_THROW(Engine(p.model, *p.backends[0], {}), Error);
}

// The limit applies to all stages: a prompt that fits on one stage does not fit on two, which need
// activations twice.
TEST(Stages, CountAgainstTheMemoryLimit) {
  const std::vector<int> prompt = synthetic_tokens(100, 1);
  Pipeline one("untied", 1), two("untied", 2);
  const PassSize size{.rows = 100, .sequences = 1, .total_context = 100, .longest_context = 100};
  const ModelConfig& c = one.model.config();
  const std::size_t scratch = one.backends[0]->scratch_bytes(c, size);
  ASSERT_LT(workspace_bytes_of(c, size, scratch, 1), workspace_bytes_of(c, size, scratch, 2));
  const auto limit_of = [&](const Pipeline& p) {
    return p.model.weight_bytes() +
           kv_bytes_of({c.head_dim, DType::kF32, false}, c.layers, c.kv_heads, 100) +
           workspace_bytes_of(c, size, scratch, p.model.stages().count());
  };
  for (const Pipeline* p : {&one, &two}) {
    for (std::size_t missing : {0, 1}) {
      Engine engine(p->model, p->pointers(), {.memory_limit = limit_of(*p) - missing});
      Conversation conversation(engine, {});
      if (missing == 0) {
        EXPECT_NO_THROW(conversation.turn(prompt));
      } else {
        EXPECT_THROW(conversation.turn(prompt), Error);
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
