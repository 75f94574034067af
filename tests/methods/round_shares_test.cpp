// A turn's attention to the earlier rounds, compared with a decoder in double precision.

#include "methods/actions/round_shares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/random.h"
#include "inference/backend/backend.h"
#include "methods/actions/watershed.h"
#include "tests/methods/plain_decoder.h"

namespace turnbench::test {
namespace {

const std::string kModel = TURNBENCH_SOURCE_DIR "/tests/data/models/llama3";

/// Rounds of 9, 17 and 5 tokens after two tokens of markup, a question of 6 tokens, an answer of 4.
TokenizedDialogue synthetic_dialogue(int vocab) {
  TokenizedDialogue out;
  Random random(7);
  const auto add = [&](SpanKind kind, int turn, int tokens) {
    const auto begin = static_cast<std::int32_t>(out.tokens.size());
    for (int i = 0; i < tokens; ++i)
      out.tokens.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(vocab))));
    out.spans.push_back({kind, turn, begin, static_cast<std::int32_t>(out.tokens.size())});
  };
  add(SpanKind::kMarkup, 0, 2);
  add(SpanKind::kQuestion, 0, 5);
  add(SpanKind::kAnswer, 0, 4);
  add(SpanKind::kMarkup, 1, 1);
  add(SpanKind::kContext, 1, 6);
  add(SpanKind::kQuestion, 1, 3);
  add(SpanKind::kAnswer, 1, 7);
  add(SpanKind::kQuestion, 2, 3);
  add(SpanKind::kAnswer, 2, 2);
  add(SpanKind::kMarkup, 3, 1);
  add(SpanKind::kQuestion, 3, 4);
  add(SpanKind::kCue, 3, 1);
  add(SpanKind::kAnswer, 3, 4);
  out.turn = 3;
  out.history_tokens = 33;
  out.prompt_tokens = 39;
  return out;
}

void expect_shares_near(const std::vector<std::vector<double>>& got, const std::vector<Row>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t l = 0; l < want.size(); ++l) {
    ASSERT_EQ(got[l].size(), want[l].size());
    for (std::size_t m = 0; m < want[l].size(); ++m) EXPECT_NEAR(got[l][m], want[l][m], 2e-6) << l;
  }
}

TEST(RoundShares, EqualsADoublePrecisionDecoder) {
  const PlainDecoder decoder(kModel);
  const TokenizedDialogue dialogue = synthetic_dialogue(decoder.config.vocab);
  const std::size_t bounds[] = {2, 11, 28, 33};  // of rounds; the last is the begin of the question
  const std::size_t question_end = 39, end = dialogue.tokens.size();
  ASSERT_EQ(end, 43u);
  ASSERT_EQ(dialogue.history_tokens, bounds[3]);
  ASSERT_EQ(dialogue.prompt_tokens, question_end);

  std::vector<Row> question, last, answer;
  const auto shares = [&](const Attention& attention, std::size_t first, std::size_t behind) {
    Row mass(3, 0);
    double sum = 0;
    for (const auto& head : attention) {
      for (std::size_t i = first; i < behind; ++i) {
        for (std::size_t m = 0; m < 3; ++m) {
          for (std::size_t j = bounds[m]; j < bounds[m + 1]; ++j) {
            mass[m] += head[i][j];
            sum += head[i][j];
          }
        }
      }
    }
    for (double& x : mass) x /= sum;
    return mass;
  };
  std::vector<PlainSets> cache(static_cast<std::size_t>(decoder.config.layers),
                               PlainSets(static_cast<std::size_t>(decoder.config.kv_heads)));
  decoder.forward(cache, dialogue.tokens, 0, [&](int, PlainSets&, const Attention& attention) {
    question.push_back(shares(attention, bounds[3], question_end));
    last.push_back(shares(attention, question_end - 1, question_end));
    answer.push_back(shares(attention, question_end, end));
  });

  const auto backend = make_cpu_backend(1);
  const Checkpoint checkpoint = Checkpoint::open(kModel);
  const Model model(checkpoint, *backend, DType::kF32, Math::kF32);
  Engine engine(model, *backend, {});
  const RoundShares got = measure_round_shares(engine, dialogue);
  expect_shares_near(got.question, question);
  expect_shares_near(got.last, last);
  expect_shares_near(got.answer, answer);
  EXPECT_GT(std::abs(question[0][0] - last[0][0]), 1e-3) << "they differ";

  // D(l), implemented a second time.
  const std::vector<double> divergences = layer_divergences(got.question);
  ASSERT_EQ(divergences.size() + 1, question.size());
  for (std::size_t l = 0; l < divergences.size(); ++l) {
    double sum = 0;
    for (std::size_t j = l + 1; j < question.size(); ++j) {
      for (std::size_t m = 0; m < 3; ++m)
        sum += question[l][m] * std::log(question[l][m] / question[j][m]);
    }
    EXPECT_NEAR(divergences[l], sum / static_cast<double>(question.size() - 1 - l), 1e-5);
  }
}

}  // namespace
}  // namespace turnbench::test
