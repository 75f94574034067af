// EpiCache, compared with its official code and with references in double precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_layer.h"
#include "made_steps.h"
#include "methods/method.h"
#include "methods/parts/episode_scores.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;

/// A dialogue whose tokens are numbered from 0 on; token i has the text texts[i].
struct Text {
  std::vector<std::string> texts;
  std::vector<int> tokens;
  std::vector<Span> spans;
  DialogueView view;

  explicit Text(std::vector<std::string> all) : texts(std::move(all)) {
    for (std::size_t i = 0; i < texts.size(); ++i) tokens.push_back(static_cast<int>(i));
    spans = {{SpanKind::kContext, 0, 0, static_cast<std::int32_t>(texts.size())}};
    view.tokens = view.prompt = tokens;
    view.token_text = [this](int token) { return texts[token]; };
    update();
  }
  Text(const Text&) = delete;
  void update() { view.spans = view.prompt_spans = spans; }
};

std::vector<Ints> ranges(const std::vector<Utterance>& all) {
  std::vector<Ints> out;
  for (const Utterance& u : all) out.push_back({u.begin, u.end});
  return out;
}

TEST(EpiCache, UtterancesAreLines) {
  Text text({"A", ":", " hi", "\n", "\n", "  \n", "B", ":", " so\n", "end"});
  EXPECT_EQ(ranges(utterances(text.view)), (std::vector<Ints>{{0, 4}, {6, 9}, {9, 10}}));
}

TEST(EpiCache, UtterancesAreThoseOfContextsAndEarlierTurns) {
  Text text(std::vector<std::string>(30, "a"));
  text.view.turn = 1;
  text.spans = {{SpanKind::kMarkup, 0, 0, 2},        {SpanKind::kInstruction, 0, 2, 4},
                {SpanKind::kContext, 0, 4, 10},      {SpanKind::kQuestion, 0, 10, 12},
                {SpanKind::kCue, 0, 12, 13},         {SpanKind::kAnswer, 0, 13, 15},
                {SpanKind::kInstruction, 1, 15, 17}, {SpanKind::kContext, 1, 17, 20},
                {SpanKind::kQuestion, 1, 20, 25},    {SpanKind::kContext, 1, 25, 29},
                {SpanKind::kMarkup, 1, 29, 30}};
  text.update();
  EXPECT_EQ(ranges(utterances(text.view)),
            (std::vector<Ints>{{4, 10}, {10, 12}, {13, 15}, {17, 20}, {25, 29}}));
}

// A block of a prompt ends before the prompt does, but the episodes are those of the whole text.
TEST(EpiCache, UtterancesIncludeTextThatIsNotComputedYet) {
  Text text({"a\n", "b\n", "c\n"});
  text.view.tokens = std::span(text.tokens).first(1);
  text.view.spans = {};
  EXPECT_EQ(utterances(text.view).size(), 3u);
}

TEST(EpiCache, LongLinesAreDividedIntoSentencesAndParts) {
  std::vector<std::string> texts(400, "a");
  texts[9] = ".";
  texts[49] = "!";
  texts[399] = "\n";
  Text text(texts);
  EXPECT_EQ(ranges(utterances(text.view)),
            (std::vector<Ints>{{0, 10}, {10, 50}, {50, 178}, {178, 306}, {306, 400}}));
  text.view.token_text = nullptr;
  EXPECT_EQ(ranges(utterances(text.view)),
            (std::vector<Ints>{{0, 128}, {128, 256}, {256, 384}, {384, 400}}));
}

TEST(EpiCache, TheEmbeddingOfAWindowIsTheMeanOfItsTokens) {
  Text text({"a", "b\n", "c\n", "d", "e", "f\n"});
  const std::vector<std::vector<float>> rows = {{3, 0}, {1, 2}, {0, 2}, {0, -5}, {0, 1}, {1, 0}};
  text.view.embedding = [&](int token) { return rows[token]; };
  const auto episodes = find_episodes(text.view, {.episodes = 2, .utterances = 2, .medoids = 1});
  ASSERT_EQ(episodes.size(), 2u);
  std::vector<std::vector<float>> centroids;
  for (const Episode& e : episodes) {
    ASSERT_EQ(e.medoids.size(), 1u);
    centroids.push_back(e.centroid);
  }
  std::sort(centroids.begin(), centroids.end());
  const auto sqrt = [](double x) { return static_cast<float>(std::sqrt(x)); };
  EXPECT_FLOAT_EQ(centroids[0][0], 1 / sqrt(17));  // (0, -5) + (0, 1) + (1, 0)
  EXPECT_FLOAT_EQ(centroids[0][1], -4 / sqrt(17));
  EXPECT_FLOAT_EQ(centroids[1][0], 1 / sqrt(2));  // (3, 0) + (1, 2) + (0, 2)
  EXPECT_FLOAT_EQ(centroids[1][1], 1 / sqrt(2));
}

TEST(EpiCache, FindsTheEpisodesOfTheOfficialCode) {
  for (const Json& c : test::golden_of("epicache").at("clusters")) {
    SCOPED_TRACE(c["seed"].get<int>());
    const auto dim = c["dim"].get<std::size_t>(), count = c["windows"].get<std::size_t>();
    const auto blobs = c["blobs"].get<std::size_t>();
    Random random(c["seed"].get<std::uint64_t>());
    const auto number = [&] { return (static_cast<double>(random.next() >> 52) - 2048) / 1024; };
    std::vector<double> centres(blobs * dim);
    for (double& x : centres) x = number();
    std::vector<std::vector<float>> rows(count + 1);  // the last one is the question
    for (std::vector<float>& row : rows) {
      const bool question = &row == &rows.back();
      const double* centre = question ? nullptr : &centres[random.below(blobs) * dim];
      for (std::size_t i = 0; i < dim; ++i) {
        row.push_back(static_cast<float>(question ? number() : centre[i] + 0.4 * number()));
      }
    }
    Text text(std::vector<std::string>(count, "a\n"));
    text.view.embedding = [&](int token) { return rows[token]; };
    const std::vector<int> question = {static_cast<int>(count)};
    text.view.question = question;
    const EpisodeSettings settings{
        .episodes = static_cast<int>(blobs), .utterances = 1, .medoids = c["medoids"].get<int>()};
    std::vector<Ints> found;
    const std::vector<Episode> episodes = find_episodes(text.view, settings);
    for (const Episode& e : episodes) {
      Ints& medoids = found.emplace_back();
      for (const auto& window : e.medoids) medoids.push_back(window.at(0).begin);
    }
    EXPECT_EQ(found.at(match_episode(text.view, episodes)), c["question_medoids"].get<Ints>());
    std::sort(found.begin(), found.end());
    std::vector<Ints> want;
    for (const Json& e : c["episodes"]) want.push_back(e["medoids"].get<Ints>());
    EXPECT_EQ(found, want);
  }
}

TEST(EpiCache, ThereAreNoMoreEpisodesThanWindows) {
  Text text({"a\n", "b\n", "a\n"});
  text.view.embedding = [](int token) { return std::vector<float>{token == 1 ? 1.0f : 0.0f, 1}; };
  EXPECT_EQ(find_episodes(text.view, {.episodes = 9, .utterances = 1, .medoids = 1}).size(), 3u);
  EXPECT_EQ(find_episodes(text.view, {.episodes = 9, .utterances = 4, .medoids = 1}).size(), 1u);
  Text blank({" ", "\n"});
  EXPECT_TRUE(find_episodes(blank.view, {}).empty());
  EXPECT_EQ(match_episode(blank.view, {}), 0u);
}

TEST(EpiCache, PassesAskForTheFactsOfTheQuestionsEpisode) {
  Text text({"a\n", "b\n", "c\n", "d\n", "e\n", "f\n"});
  text.view.embedding = [](int token) {
    return token % 2 == 0 ? std::vector<float>{1, 0.1f} : std::vector<float>{0.1f, 1};
  };
  text.view.encode = [](std::string_view given) {
    return std::vector<int>{1000 + static_cast<int>(given.size())};
  };
  text.view.cue = [] { return std::vector<int>{2000, 2001}; };
  EpisodeScores scores({.episodes = 2, .utterances = 1, .medoids = 2});
  for (const int question : {0, 1}) {
    const std::vector<int> tokens = {question};
    text.view.question = tokens;
    const auto passes = scores.begin(text.view);
    ASSERT_EQ(passes.size(), 1u);
    EXPECT_EQ(passes[0], (std::vector<int>{1225, 2000, 2001, question, 1001, question + 2, 1001}));
  }
}

/// A layer of a golden case whose sets have the tokens of the case, and its scores.
struct Scored {
  explicit Scored(const Json& c)
      : layer(c, c["heads"].get<int>(), c["kv_heads"].get<int>()),
        tokens(static_cast<std::size_t>(c["n"].get<int>() - c["rows"].get<int>()), 1),
        scores({.episodes = 1}) {
    const int cached = static_cast<int>(tokens.size());
    for (std::size_t set = 0; set < layer.sets.size(); ++set) {
      Ints slots(static_cast<std::size_t>(cached));
      for (int i = 0; i < cached; ++i) slots[i] = i;
      if (c.contains("positions")) slots = c["positions"][set].get<Ints>();
      positions.push_back(slots);
      for (int i = cached; i < layer.n; ++i) slots.push_back(i);
      layer.sets[set].keep(slots);
    }
    layer.set_rows(c["rows"]);
    layer.dialogue.tokens = tokens;
    layer.dialogue.embedding = [](int) { return std::vector<float>{1}; };
    scores.begin(layer.dialogue);
    scores.score(layer.view(), 0);
  }

  /// The positions that a method keeps, set by set.
  std::vector<Ints> kept(const std::string& spec) {
    LayerView view = layer.view();
    view.scoring = &scores;
    const KeepSets kept = Method::parse(spec).make().eviction->after_prefill(view);
    std::vector<Ints> out;
    for (std::size_t set = 0; set < kept.slots.size(); ++set) {
      Ints& own = out.emplace_back();
      for (const std::int32_t slot : kept.slots[set]) own.push_back(positions[set][slot]);
    }
    return out;
  }

  test::GoldenLayer layer;
  std::vector<int> tokens;
  std::vector<Ints> positions;  ///< of the cached tokens, set by set
  EpisodeScores scores;
};

TEST(EpiCache, KeepsTheTokensOfTheOfficialCode) {
  for (const Json& c : test::golden_of("epicache").at("cases")) {
    SCOPED_TRACE(c["seed"].get<int>());
    Scored scored(c);
    const std::vector<float>& first = scored.scores.scores().at(0).at(0);
    for (std::size_t i = 0; i < c["scores"].size(); ++i)
      EXPECT_NEAR(first.at(i), c["scores"][i].get<double>(), 1e-6) << i;
    const std::string budget = "epicache:budget=" + std::to_string(c["budget"].get<int>());
    EXPECT_EQ(scored.kept(budget), c["adaptive"].get<std::vector<Ints>>());
    if (c.contains("uniform")) {
      EXPECT_EQ(scored.kept(budget + ",heads=uniform"), c["uniform"].get<std::vector<Ints>>());
    }
  }
}

// The patched prompt itself takes part in the attention, but not in the scores.
TEST(EpiCache, ScoresAreProbabilitiesOverCachedTokens) {
  const Json shape = {{"seed", 9},      {"n", 70},    {"rows", 8},
                      {"head_dim", 16}, {"heads", 4}, {"kv_heads", 2}};
  Scored scored(shape);
  for (std::size_t set = 0; set < 2; ++set) {
    for (int j = 0; j < 62; ++j) {
      double most = 0;
      for (int head = 0; head < 2; ++head) {
        const int h = static_cast<int>(set) * 2 + head;
        for (int i = 62; i < 70; ++i) {
          double all = 0;
          for (int k = 0; k < 62; ++k) all += scored.layer.probability(h, i, k);
          most = std::max(most, scored.layer.probability(h, i, j) / all);
        }
      }
      EXPECT_NEAR(scored.scores.scores()[0][set][j], most, 1e-6);
    }
  }
}

TEST(EpiCache, KeepsAllTokensWithinTheBudget) {
  const Json shape = {{"seed", 9},      {"n", 70},    {"rows", 8},
                      {"head_dim", 16}, {"heads", 4}, {"kv_heads", 2}};
  Scored scored(shape);
  for (const char* heads : {"adaptive", "uniform"}) {
    for (const Ints& kept : scored.kept(std::string("epicache:budget=62,heads=") + heads))
      EXPECT_EQ(kept.size(), 62u);
  }
}

TEST(EpiCache, ComputesNoPassForPromptsWithinTheBudget) {
  test::Machine machine("llama3");
  const auto pairs = [&](const std::string& spec) {
    test::Conversation c(machine.engine, Method::parse(spec).make());
    c.turn(test::synthetic_tokens(100, 1));
    return c.sequence.counters.prefill_pairs;
  };
  for (const std::string method : {"epicache", "kvzip"}) {
    EXPECT_EQ(pairs(method + ":budget=100"), pairs("full")) << method;
    EXPECT_EQ(pairs(method + ":budget=100%"), pairs("full")) << method;
    EXPECT_GT(pairs(method + ":budget=99"), pairs("full")) << method;
  }
}

TEST(EpiCache, RefusesAShareOfNoTokens) {
  test::Machine machine("llama3");
  test::Conversation c(machine.engine, Method::parse("epicache:budget=0.5%").make());
  EXPECT_EQ(test::message_of([&] { c.turn(test::synthetic_tokens(150, 1)); }),
            "epicache: found a budget of 0 tokens of 150, expected at least 1");
}

TEST(EpiCache, HeadsWithoutTokensCanDecode) {
  test::Machine machine("llama3");
  const ModelShape& shape = machine.engine.shape();
  std::size_t empty = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    test::Conversation c(machine.engine, Method::parse("epicache:budget=1").make());
    c.turn(test::synthetic_tokens(150, seed));
    std::size_t all = 0;
    for (int l = 0; l < shape.layers; ++l) {
      for (const KvHeadCache& set : c.sequence.sets(l)) {
        all += static_cast<std::size_t>(set.size());
        empty += set.size() == 0;
      }
    }
    EXPECT_EQ(all, static_cast<std::size_t>(shape.layers * shape.kv_heads));
    for (const int tokens : {1, 30, 2}) {
      c.answer(tokens);
      ASSERT_TRUE(test::all_finite(c.turn(test::synthetic_tokens(tokens, seed))));
    }
  }
  EXPECT_GT(empty, 0u);
}

}  // namespace
}  // namespace turnbench
