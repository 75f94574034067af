// SparQ, compared with a reference in double precision, exact top-k and full attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tests/inference/conversation.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/steps.h"

namespace turnbench {
namespace {

using test::Conversation;
using test::Logits;
using test::Machine;
using test::Steps;
using Ints = std::vector<std::int32_t>;

/// Steps 1 and 2 of the method: l[h][j] of the query heads of a set.
std::vector<std::vector<double>> estimates(const Steps& layer, int set, int r) {
  const int dim = layer.shape.head_dim, group = layer.shape.group();
  std::vector<double> sums(static_cast<std::size_t>(dim));
  for (int g = 0; g < group; ++g) {
    for (int d = 0; d < dim; ++d) sums[d] += std::abs(double{layer.query(set * group + g)[d]});
  }
  const Ints dims = test::best(sums, r);
  std::vector<std::vector<double>> out;
  for (int g = 0; g < group; ++g) {
    const float* q = layer.query(set * group + g);
    double chosen = 0, whole = 0;
    for (int d : dims) chosen += std::abs(double{q[d]});
    for (int d = 0; d < dim; ++d) whole += std::abs(double{q[d]});
    std::vector<double>& row = out.emplace_back();
    for (int j = 0; j < layer.n; ++j) {
      double dot = 0;
      for (int d : dims) dot += double{q[d]} * layer.key(static_cast<std::size_t>(set), j)[d];
      row.push_back(dot / std::sqrt(dim * chosen / whole));
    }
  }
  return out;
}

void make_probabilities(std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  for (double& y : x) y = std::exp(y - top);
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& y : x) y /= sum;
}

std::vector<float> floats_at(Backend& backend, const float* data, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  backend.memory()->copy_floats(data, out.data(), out.size());
  return out;
}

TEST(SparQ, EqualsAPlainReference) {
  constexpr int kPrompt = 300, kSteps = 5, kDim = 24;
  for (const int group : {1, 4}) {
    for (const int r : {1, 5, 24, 100}) {
      for (const bool of_softmax : {false, true}) {
        for (const int sinks : {0, 8}) {
          Steps layer(2, group, kDim, kPrompt, kPrompt + kSteps, 3);
          const auto policy =
              layer.policy(fmt::format("sparq:budget={},r={},agg={},sinks={},mean_v=on", 48 + sinks,
                                       r, of_softmax ? "softmax" : "logits", sinks));
          for (int step = 0; step < kSteps; ++step) {
            layer.step();
            SCOPED_TRACE(fmt::format("group {}, r {}, {}, {} sinks, step {}", group, r, of_softmax,
                                     sinks, step));
            const int n = layer.n, window = n - 1 - 12;
            const Selection got = policy->select(layer.view(3));
            ASSERT_EQ(got.slots.size(), 2u);
            ASSERT_EQ(got.blend.vectors.rows, 2);
            const std::vector<float> weights =
                floats_at(*layer.backend, got.blend.weights, 2 * group);
            for (int s = 0; s < 2; ++s) {
              const Ints& slots = got.slots[s];
              auto heads = estimates(layer, s, std::min(r, kDim));
              std::vector<double> summed(static_cast<std::size_t>(n));
              for (std::size_t g = 0; g < heads.size(); ++g) {
                std::vector<double> mass = heads[g];
                make_probabilities(mass);
                double alpha = 0;
                for (const std::int32_t j : slots) alpha += mass[j];
                EXPECT_NEAR(weights[static_cast<std::size_t>(s * group) + g], alpha, 1e-5);
                for (std::size_t j = 0; j < summed.size(); ++j)
                  summed[j] += of_softmax ? mass[j] : heads[g][j];
              }
              for (int j = 0; j < sinks; ++j) summed[j] = 1e9;
              for (int j = window; j < n; ++j) summed[j] = 1e9;
              EXPECT_TRUE(test::same_by_score(slots, test::best(summed, sinks + 48 + 1), summed,
                                              of_softmax ? 1e-6 : 1e-4));
              const std::vector<float> mean =
                  floats_at(*layer.backend, got.blend.vectors.row(s), kDim);
              for (int d = 0; d < kDim; ++d) {
                double sum = 0;
                for (int j = 0; j < n; ++j)
                  sum += double{layer.value(static_cast<std::size_t>(s), j)[d]};
                EXPECT_NEAR(mean[d], sum / n, 1e-6);
              }
            }
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// The budget of 0.3 tokens has room for no candidate: the sinks and the current token are read.
TEST(SparQ, BlendsIfItReadsNoCandidate) {
  Steps layer(2, 2, 24, 300, 301, 3);
  const auto policy = layer.policy("sparq:budget=0.001,r=5,sinks=8,mean_v=on");
  layer.step();
  const Selection got = policy->select(layer.view(3));
  ASSERT_EQ(got.slots.size(), 2u);
  const std::vector<float> weights = floats_at(*layer.backend, got.blend.weights, 4);
  for (int s = 0; s < 2; ++s) {
    EXPECT_EQ(got.slots[s], (Ints{0, 1, 2, 3, 4, 5, 6, 7, 300}));
    auto heads = estimates(layer, s, 5);
    for (std::size_t g = 0; g < heads.size(); ++g) {
      make_probabilities(heads[g]);
      double alpha = 0;
      for (const std::int32_t j : got.slots[s]) alpha += heads[g][j];
      EXPECT_NEAR(weights[static_cast<std::size_t>(s * 2) + g], alpha, 1e-5);
    }
  }
}

// The example of the specification; its third token is the current one here.
TEST(SparQ, WorkedExample) {
  Steps layer(1, 1, 4, 3, 4, 1);
  const float keys[][4] = {{1, 0, 0, 0}, {0, 4, 0, 0}, {-1, 0, 2, 2}, {.5, -2, 1, 1}},
              values[] = {1, 2, 4, 3}, q[] = {3, -1, .5, .5};
  for (int j = 0; j < 4; ++j) {
    std::copy_n(keys[j], 4, layer.keys[0].begin() + 4 * j);
    std::fill_n(layer.values[0].begin() + 4 * j, 4, values[j]);
    if (j < 3) test::write_rows(layer.sets[0], j, layer.key(0, j), layer.value(0, j), nullptr);
  }
  std::copy_n(q, 4, layer.queries.begin() + 12);
  for (const bool mean : {false, true}) {
    layer.sets[0].truncate(3);
    layer.n = 3;
    layer.generated = 0;
    layer.memo = {};
    const auto policy =
        layer.policy(fmt::format("sparq:budget=1,r=1,local=0,mean_v={}", mean ? "on" : "off"));
    layer.step();
    const Selection s = policy->select(layer.view(3));
    ASSERT_EQ(s.slots, (std::vector<Ints>{{0, 3}}));
    Buffer out(4 * sizeof(float), layer.backend->memory());
    const MatrixView<float> row(out.as<float>(), 1, 4);
    AttentionJob job;
    job.keys = layer.sets.data();
    job.q = layer.view().queries;
    job.positions = layer.positions.data() + 3;
    job.out = row;
    job.slots = s.slots.data();
    layer.backend->attend(0.5f, {&job, 1});
    ASSERT_EQ(s.blend.weights != nullptr, mean);
    if (mean) {
      EXPECT_NEAR(floats_at(*layer.backend, s.blend.weights, 1)[0], 0.893183, 1e-6);
      const BlendJob blending{row, s.blend.weights, s.blend.vectors.data};
      layer.backend->blend({&blending, 1});
    }
    for (const float x : floats_at(*layer.backend, out.as<float>(), 4))
      EXPECT_NEAR(x, mean ? 2.373487 : 2.358357, 1e-5);
  }
}

// Logits (10, 0, 8) and (0, 9, 8) of two heads: their sum is greatest for the last token, that of
// the probabilities for the first.
TEST(SparQ, SumsLogitsOrProbabilities) {
  Steps layer(1, 2, 4, 3, 4, 1);
  for (int j = 0; j < 4; ++j) {
    for (int d = 0; d < 4; ++d) layer.keys[0][4 * j + d] = j == d ? 1.0f : 0.0f;
    if (j < 3) test::write_rows(layer.sets[0], j, layer.key(0, j), nullptr, nullptr);
  }
  const float q[] = {20, 0, 16, 0, 0, 18, 16, 0};
  std::copy_n(q, 8, layer.queries.begin() + 24);
  const auto logits = layer.policy("sparq:budget=1,local=0"),
             probabilities = layer.policy("sparq:budget=1,local=0,agg=softmax");
  layer.step();
  EXPECT_EQ(logits->select(layer.view(3)).slots, (std::vector<Ints>{{2, 3}}));
  EXPECT_EQ(probabilities->select(layer.view(3)).slots, (std::vector<Ints>{{0, 3}}));
}

TEST(SparQ, AllDimensionsAreExactTopK) {
  Steps layer(2, 1, 32, 300, 310, 9);
  const auto policy = layer.policy("sparq:budget=40,local=0,r=32");
  for (int i = 0; i < 10; ++i) {
    layer.step();
    const Selection s = policy->select(layer.view(3));
    for (int h = 0; h < 2; ++h) {
      std::vector<double> scores;
      for (int j = 0; j < layer.n; ++j) scores.push_back(layer.probability(h, layer.n - 1, j));
      scores.back() = 2;
      EXPECT_TRUE(test::same_by_score(s.slots[h], test::best(scores, 41), scores, 1e-7));
    }
  }
}

// int(10000 / 5) + 32 tokens and the current one; half of those without sinks are recent.
TEST(SparQ, CountsAsPqCacheDoes) {
  Steps layer(1, 2, 8, 10000, 10001, 3);
  const auto policy = layer.policy("sparq:budget=0.2,sinks=32,local=0.5,r=1,mean_v=off");
  layer.step();
  const Selection s = policy->select(layer.view(3));
  ASSERT_EQ(s.slots[0].size(), 2033u);
  EXPECT_EQ(s.slots[0][31], 31);
  EXPECT_EQ(s.slots[0][2033 - 1001], 9000);
  EXPECT_EQ(s.blend.weights, nullptr);
  const DeviceNeeds needs = demand_at(*policy, layer.view(3));
  EXPECT_EQ(needs.pinned_tokens, 1);
  EXPECT_EQ(needs.step_tokens, 2032);
}

TEST(SparQ, ReadsEverythingThatFits) {
  Steps layer(2, 2, 16, 100, 120, 5);
  const auto policy = layer.policy("sparq:budget=110,mean_v=on");
  for (int i = 0; i < 15; ++i) {
    layer.step();
    const Selection s = policy->select(layer.view(3));
    EXPECT_EQ(s.all(), layer.n <= 111) << layer.n;
    EXPECT_EQ(s.blend.weights == nullptr, layer.n <= 111) << layer.n;
  }
}

// As in its paper for models whose query heads share keys.
TEST(SparQ, BlendsByDefaultWithoutGroups) {
  for (const int group : {1, 2}) {
    Steps layer(2, group, 16, 200, 201, 5);
    const auto policy = layer.policy("sparq");
    layer.step();
    EXPECT_EQ(policy->select(layer.view(3)).blend.weights != nullptr, group == 1);
  }
}

// Data of the prompt are computed once for all budgets; a fork computes those of its answer.
TEST(SparQ, SharesThePromptsIndex) {
  Steps layer(2, 2, 16, 165, 190, 5);
  const auto one = layer.policy("sparq:budget=48,r=4,mean_v=on");
  for (KvHeadCache& set : layer.sets) {  // which are not read again
    const std::vector<float> zeros(16);
    for (int j = 0; j < 165; ++j) test::write_rows(set, j, zeros.data(), zeros.data(), nullptr);
  }
  const auto other = layer.policy("sparq:budget=60,r=16,mean_v=on");
  for (int i = 0; i < 25; ++i) {
    layer.step();
    const auto fork = one->clone();
    const Selection s = one->select(layer.view(3)), t = fork->select(layer.view(3)),
                    u = other->select(layer.view(3));
    EXPECT_EQ(s.slots, t.slots);
    EXPECT_EQ(floats_at(*layer.backend, s.blend.weights, 4),
              floats_at(*layer.backend, t.blend.weights, 4));
    for (const Selection* x : {&t, &u}) {
      EXPECT_EQ(floats_at(*layer.backend, s.blend.vectors.data, 32),
                floats_at(*layer.backend, x->blend.vectors.data, 32));
    }
  }
}

std::vector<Logits> two_turns_of_sparq(Conversation& c) {
  std::vector<Logits> out = {c.turn(test::synthetic_tokens(150, 1))};
  for (int token : test::synthetic_tokens(20, 2)) out.push_back(c.answer(token));
  out.push_back(c.turn(test::synthetic_tokens(20, 3)));
  for (int token : test::synthetic_tokens(6, 4)) out.push_back(c.answer(token));
  return out;
}

TEST(SparQ, GivesTheSameFromHostMemory) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (test::is_emulated() && dtype == DType::kF32) continue;
    Engine::Options options;
    options.kv_dtype = dtype;
    Machine machine("llama3", 2, options);
    for (const char* settings : {"mean_v=on", "mean_v=off,sinks=4,local=0.5,agg=softmax"}) {
      const std::string spec = fmt::format("sparq:budget=24,r=3,{}", settings);
      Conversation whole(machine.engine, Method::parse(spec).make());
      const std::vector<Logits> want = two_turns_of_sparq(whole);
      for (const char* cache : {"", ",cache_tokens=32,cache_block=8"}) {
        Conversation offloaded(machine.engine,
                               Method::parse(spec + ",placement=host" + cache).make());
        EXPECT_TRUE(two_turns_of_sparq(offloaded) == want) << settings << cache;
        // Three elements of each cached key, for each step of both answers.
        const Ledger& ledger = offloaded.sequence.counters.ledger;
        const ModelShape& shape = machine.engine.shape();
        std::int64_t keys = 0;
        for (int n = 151; n <= 170; ++n) keys += n;
        for (int n = 191; n <= 196; ++n) keys += n;
        const LedgerEntry total = ledger.total();
        EXPECT_EQ(total.index_bytes, 3 * keys * shape.layers * shape.kv_heads *
                                         static_cast<std::int64_t>(size_of(dtype)));
        EXPECT_EQ(total.index_bits, 8 * total.index_bytes);
      }
    }
  }
}

// A prompt within the budget stays on the device; its answer grows beyond the budget there.
TEST(SparQ, SelectsInALayerThatStaysOnTheDevice) {
  Engine::Options options;
  options.kv_dtype = DType::kBF16;
  Machine machine("llama3", 2, options);
  const std::string spec = "sparq:budget=156,r=3";
  Conversation whole(machine.engine, Method::parse(spec).make()),
      host(machine.engine, Method::parse(spec + ",placement=host").make());
  EXPECT_TRUE(two_turns_of_sparq(host) == two_turns_of_sparq(whole));
  EXPECT_LT(host.sequence.counters.mean_attended(), 165) << "it selects";
}

// Tokens that are evicted while decoding are removed with their keys and values.
TEST(SparQ, FollowsEvictionsWhileDecoding) {
  Steps layer(2, 2, 16, 100, 112, 5);
  const std::string spec = "sparq:budget=40,r=4,mean_v=on";
  const auto policy = layer.policy(spec);
  for (int i = 0; i < 12; ++i) {
    if (i > 0) layer.evict(7 * i);
    layer.memo = {};
    const auto fresh = layer.policy(spec);
    layer.step();
    const Selection got = policy->select(layer.view(3));
    const int generated = std::exchange(layer.generated, 1);
    const Selection want = fresh->select(layer.view(3));
    layer.generated = generated;
    EXPECT_EQ(got.slots, want.slots) << i;
    EXPECT_EQ(floats_at(*layer.backend, got.blend.weights, 4),
              floats_at(*layer.backend, want.blend.weights, 4));
    EXPECT_EQ(floats_at(*layer.backend, got.blend.vectors.data, 32),
              floats_at(*layer.backend, want.blend.vectors.data, 32));
  }
}

TEST(SparQ, ContinuesAfterTruncation) {
  Machine machine("llama3");
  Conversation c(machine.engine, Method::parse("sparq:budget=24,r=4,mean_v=on").make());
  c.turn(test::synthetic_tokens(150, 1));
  std::vector<Logits> first, again;
  for (int token : test::synthetic_tokens(20, 2)) first.push_back(c.answer(token));
  c.sequence.truncate(150);
  for (int token : test::synthetic_tokens(20, 5)) c.answer(token);
  c.sequence.truncate(150);
  for (int token : test::synthetic_tokens(20, 2)) again.push_back(c.answer(token));
  EXPECT_TRUE(first == again);
}

// In a batch with a sequence that reads the same tokens: only the first sequence's attention is
// blended.
TEST(SparQ, BlendsOnlyItsOwnAttention) {
  struct BlendAll : SelectionPolicy {
    explicit BlendAll(std::vector<float> weights) : weights(std::move(weights)) {}
    std::unique_ptr<SelectionPolicy> clone() const override { return nullptr; }
    Selection select(const LayerView& view) override {
      const auto& memory = view.backend->memory();
      const std::size_t width = view.sets.size() * static_cast<std::size_t>(view.shape.head_dim);
      data = Buffer((weights.size() + width) * sizeof(float), memory);
      vectors.clear();
      for (std::size_t i = 0; i < width; ++i)
        vectors.push_back(static_cast<float>(i % 7) - static_cast<float>(view.layer));
      memory->copy_floats(weights.data(), data.as<float>(), weights.size());
      float* at = data.as<float>() + weights.size();
      memory->copy_floats(vectors.data(), at, width);
      return {{},
              {data.as<float>(), {at, std::ssize(view.sets), std::int64_t{view.shape.head_dim}}}};
    }
    std::vector<float> weights, vectors;
    Buffer data;
  };
  Machine machine("llama3");
  const ModelShape& shape = machine.engine.shape();
  std::vector<float> weights;
  for (int h = 0; h < shape.heads; ++h) weights.push_back(0.125f * static_cast<float>(h + 1));
  auto policy = std::make_unique<BlendAll>(weights);
  const BlendAll& told = *policy;
  Policies policies;
  policies.selection = std::move(policy);
  Conversation plain(machine.engine, Policies{}), alone(machine.engine, Policies{}),
      blended(machine.engine, std::move(policies));
  const std::vector<int> prompt = test::synthetic_tokens(80, 1);
  for (Conversation* c : {&plain, &alone, &blended}) c->turn(prompt);
  const int token = 7;
  std::vector<Pass> passes;
  for (Conversation* c : {&plain, &blended}) {
    passes.push_back(
        {.sequence = &c->sequence, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode});
  }
  passes[1].follows = 0;
  struct ExpectBlends : LayerObserver {
    ExpectBlends(const ModelShape& shape, const BlendAll& told) : shape(shape), told(told) {}
    void outputs(const AttentionOutputs& out) override {
      ++layers;
      for (int h = 0; h < shape.heads; ++h) {
        const double weight = double{told.weights[h]};
        for (int d = 0; d < shape.head_dim; ++d) {
          const std::int64_t at = std::int64_t{h} * shape.head_dim + d;
          const float vector = told.vectors[h / shape.group() * shape.head_dim + d];
          ASSERT_NEAR(out.own(0, at), weight * out.followed(0, at) + (1 - weight) * vector, 1e-5);
        }
      }
    }
    const ModelShape& shape;
    const BlendAll& told;
    int layers = 0;
  } observer(shape, told);
  passes[1].observer = &observer;
  const std::vector<Logits> logits = machine.engine.forward(passes);
  EXPECT_EQ(observer.layers, shape.layers);
  EXPECT_TRUE(logits[0] == alone.answer(token) ||
              (test::is_emulated() && test::distance(logits[0], alone.answer(token)) <= 1e-4));
}

}  // namespace
}  // namespace turnbench
