// KVzip, compared with a reference in double precision.  kvpress_test.cpp compares it with kvpress.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "methods/parts/reconstruction_scores.h"
#include "prescribed.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

TEST(KvZip, RepeatsChunksBehindInstructions) {
  std::vector<int> tokens;
  for (int i = 0; i < 45; ++i) tokens.push_back(i);
  const std::vector<Span> spans = {{SpanKind::kMarkup, 0, 0, 6}, {SpanKind::kContext, 0, 6, 45}};
  DialogueView dialogue;
  dialogue.tokens = tokens;
  dialogue.spans = spans;
  dialogue.encode = [](std::string_view text) {
    return std::vector<int>{1000 + static_cast<int>(text.size())};
  };
  dialogue.cue = [] { return std::vector<int>{2000, 2001}; };
  ReconstructionScores scores({.chunk = 20, .sinks = 4});
  const auto passes = scores.begin(dialogue);
  ASSERT_EQ(passes.size(), 2u);
  std::vector<int> first = {1000 + 38, 2000, 2001}, second = {1000 + 64};
  for (int i = 6; i < 26; ++i) first.push_back(i);
  for (int i = 18; i < 26; ++i) second.push_back(i);
  second.insert(second.end(), {2000, 2001});
  for (int i = 26; i < 45; ++i) second.push_back(i);
  EXPECT_EQ(passes[0], first);
  EXPECT_EQ(passes[1], second);
}

/// The score of each token of a chunk, a maximum over the rows of the pass and the query heads of
/// the set; row i of the layer attends to the sinks, to the chunk and to the rows up to i.
std::vector<double> reference(const Layer& layer, int set, int prompt, int begin, int end,
                              int sinks) {
  const int d = layer.shape.head_dim, group = layer.shape.group();
  std::vector<double> out(static_cast<std::size_t>(end - begin), 0);
  for (int h = set * group; h < (set + 1) * group; ++h) {
    for (int row = prompt; row < layer.n; ++row) {
      std::vector<double> weights;
      double sum = 0;
      for (int j = 0; j <= row; ++j) {
        const bool reads = j < std::min(sinks, begin) || (j >= begin && j < end) || j >= prompt;
        double logit = 0;
        for (int i = 0; i < d; ++i) {
          logit += static_cast<double>(layer.queries[(row * layer.shape.heads + h) * d + i]) *
                   static_cast<double>(layer.keys[set][j * d + i]);
        }
        weights.push_back(reads ? std::exp(logit / std::sqrt(d)) : 0);
        sum += weights.back();
      }
      for (int j = begin; j < end; ++j) out[j - begin] = std::max(out[j - begin], weights[j] / sum);
    }
  }
  return out;
}

TEST(KvZip, ScoresAreLargestProbabilities) {
  constexpr int kPrompt = 50, kChunk = 20, kSinks = 3;
  const std::vector<int> tokens(kPrompt, 1);
  DialogueView dialogue;
  dialogue.tokens = tokens;
  ReconstructionScores scores({.chunk = kChunk, .sinks = kSinks});
  ASSERT_EQ(scores.begin(dialogue).size(), 3u);
  std::vector<std::vector<double>> want(2);
  for (int pass = 0; pass < 3; ++pass) {
    Layer layer(2, 3, 64, kPrompt + 11, 11, 7 + static_cast<std::uint64_t>(pass));
    scores.score(layer.view(0), static_cast<std::size_t>(pass));
    const int begin = kChunk * pass, end = std::min(kPrompt, begin + kChunk);
    for (int set = 0; set < 2; ++set) {
      for (const double x : reference(layer, set, kPrompt, begin, end, kSinks))
        want[set].push_back(x);
    }
  }
  for (int set = 0; set < 2; ++set) {
    const std::vector<float>& got = scores.scores()[0][set];
    ASSERT_EQ(got.size(), want[set].size());
    for (int j = 0; j < kPrompt; ++j) {
      if (j < kSinks) {
        EXPECT_EQ(got[j], 2 + kSinks - j);
      } else {
        EXPECT_NEAR(got[j], want[set][j], 1e-5) << set << " " << j;
      }
    }
  }
}

// The budget is a mean over all layers and KV heads.
TEST(KvZip, KeepsTheBestOfAllLayers) {
  Machine machine("llama3");
  const std::vector<int> prompt = synthetic_tokens(150, 1);
  for (const int chunk : {2048, 40}) {
    Conversation c(machine.engine,
                   Method::parse(fmt::format("kvzip:budget=30,sinks=2,chunk={}", chunk)).make());
    c.turn(prompt);
    std::size_t all = 0;
    std::vector<int> sizes;
    for (int l = 0; l < machine.engine.shape().layers; ++l) {
      for (const KvHeadCache& set : c.sequence.sets(l)) {
        EXPECT_EQ(set.position(1), 1);
        sizes.push_back(set.size());
        all += static_cast<std::size_t>(set.size());
      }
    }
    EXPECT_EQ(all, 30 * sizes.size());
    EXPECT_NE(*std::min_element(sizes.begin(), sizes.end()),
              *std::max_element(sizes.begin(), sizes.end()));
  }
}

TEST(KvZip, ScoringDoesNotDependOnTheChunksOfItsPasses) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = synthetic_tokens(150, 1), answer = synthetic_tokens(3, 2);
  std::vector<Logits> want;
  for (const int rows : {2048, 64, 7}) {
    Engine::Options options;
    options.prefill_chunk = rows;
    Machine machine("llama3", 2, options);
    Conversation c(machine.engine, Method::parse("kvzip:budget=30,chunk=100").make());
    std::vector<Logits> got = {c.turn(prompt)};
    for (const int token : answer) got.push_back(c.answer(token));
    if (want.empty()) want = got;
    EXPECT_TRUE(got == want) << rows;
  }
}

TEST(KvZip, RefusesBudgetsWithoutRoom) {
  EXPECT_NE(message_of([] { Method::parse("kvzip:budget=4"); }).find("expected a larger budget"),
            std::string::npos);
  Machine machine("llama3");
  Conversation c(machine.engine, Method::parse("kvzip:budget=0.02").make());
  EXPECT_NE(message_of([&] {
              c.turn(synthetic_tokens(150, 1));
            }).find("found a budget of 3 tokens of 150, expected more than the 4 sinks"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
