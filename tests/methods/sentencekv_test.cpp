// SentenceKV: worked examples, the order of steps of the official code, and a dense reference.

#include <gtest/gtest.h>

#include "common/error.h"
#include "prescribed.h"
#include "tests/inference/set_rows.h"

namespace turnbench {
namespace {

using namespace test;

/// One decode step of a policy over the `n` cached tokens of a layer, the last of which is new.
Selection step(const Policies& p, Layer& layer) {
  return p.selection->select(layer.view());
}

// Section 15: nearness 1.0 and 0.2, sentences of five, room for seven: 5 + 2.  Slot 2, directly
// after the first tokens, is not retrieved.
TEST(SentenceKv, WorkedExample) {
  const Policies p = Method::parse(
                         "sentencekv:budget=11,window=1,sinks=2,recent=2,"
                         "semantic_factor=8,length_threshold=0")
                         .make();
  Layer prompt(1, 1, 8, 18, 18, 1);
  // Keys of the sentences {2..6} and {7..11} along the first axis, the other keys far away.
  const auto place = [](Layer& layer) {
    for (int j = 0; j < layer.n; ++j) {
      std::vector<float> key(8, 0);
      key[0] = j >= 2 && j <= 6 ? .2f : j >= 7 && j <= 11 ? 1.0f : -1.0f;
      test::write_rows(layer.sets[0], j, key.data(), nullptr, nullptr);
    }
  };
  place(prompt);
  std::vector<int> tokens;
  tell(prompt, tokens, {1, 6, 11});
  p.selection->after_prefill(prompt.view());
  Layer next(1, 1, 8, 19, 1, 1);
  place(next);
  tell(next, tokens, {1, 6, 11});
  std::fill(next.queries.begin(), next.queries.end(), 0.0f);
  next.queries[18 * 8] = 1;
  EXPECT_EQ(step(p, next).slots[0], (Ints{0, 1, 3, 4, 7, 8, 9, 10, 11, 17, 18}));
}

// The step that ends a sentence and the one that begins the next read the whole pool; a finished
// sentence can be retrieved.
TEST(SentenceKv, SentencesOfTheAnswer) {
  const Policies p = Method::parse("sentencekv:budget=40,window=8,sinks=8,recent=8").make();
  std::vector<int> tokens;
  Layer prompt(2, 4, 64, 100, 100, 3);
  tell(prompt, tokens, {9, 30, 31, 60, 99});
  p.selection->after_prefill(prompt.view());
  std::vector<int> said(tokens);
  for (int o = 1; o <= 40; ++o) {
    Layer layer(2, 4, 64, 100 + o, 1, 3);
    const bool ends = o % 10 == 0;
    said.push_back(ends);
    layer.dialogue.tokens = said;
    layer.dialogue.token_text = prompt.dialogue.token_text;
    layer.generated = o;
    const Selection got = step(p, layer);
    for (const Ints& set : got.slots) {
      EXPECT_TRUE(std::is_sorted(set.begin(), set.end()));
      EXPECT_EQ(set.back(), 100 + o - 1);
      EXPECT_EQ(static_cast<int>(set.size()), ends || o % 10 == 1 ? 100 + o : 40) << o;
      for (int j = 0; j < 8; ++j) EXPECT_TRUE(std::binary_search(set.begin(), set.end(), j));
    }
  }
}

/// A reference of the retrieved tokens: sentences by the dot product of mean query and mean key.
TEST(SentenceKv, EqualsTheDenseReference) {
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      const int n = 400;
      std::vector<int> tokens, ends;
      std::mt19937 random(5);
      for (int j = 0; j < n; ++j) {
        if (random() % 12 == 0) ends.push_back(j);
      }
      const Policies p = Method::parse("sentencekv:budget=120,length_threshold=0").make();
      Layer layer(2, group, head_dim, n + 1, 1, 21);
      tell(layer, tokens, ends);
      {  // the prompt is all tokens of the layer except the last one
        std::vector<KvHeadCache> sets = layer.sets;
        for (KvHeadCache& set : sets) set.truncate(n);
        LayerView view{0, layer.shape, sets, *layer.stats, layer.dialogue, 0, n, n, 0};
        view.backend = layer.backend.get();
        p.selection->after_prefill(view);
      }
      const Selection got = step(p, layer);
      std::vector<Ints> sentences(1);
      for (int j = 0; j < n; ++j) {
        sentences.back().push_back(j);
        if (tokens[j] == 1 && j + 1 < n) sentences.emplace_back();
      }
      for (int s = 0; s < 2; ++s) {
        std::vector<double> nearness;
        for (const Ints& sentence : sentences) {
          double dot = 0;
          for (int d = 0; d < head_dim; ++d) {
            double q = 0, k = 0;
            for (int h = s * group; h < (s + 1) * group; ++h)
              q += static_cast<double>(layer.queries[(n * 2 * group + h) * head_dim + d]);
            for (int j : sentence)
              k += static_cast<double>(layer.keys[s][static_cast<std::size_t>(j * head_dim + d)]);
            dot += q / group * k / static_cast<double>(sentence.size());
          }
          nearness.push_back(dot);
        }
        std::set<std::int32_t> want;
        for (int j = 0; j < 32; ++j) want.insert(j), want.insert(n - j);
        const int never = 32;  // directly after the first tokens
        while (want.size() < 120) {
          const auto at = std::max_element(nearness.begin(), nearness.end());
          for (int j : sentences[at - nearness.begin()]) {
            if (want.size() < 120 && j != never) want.insert(j);
          }
          *at = -INFINITY;
        }
        EXPECT_EQ(got.slots[s], Ints(want.begin(), want.end()));
      }
    }
  }
}

/// The tokens that the steps of an answer read in one set of one head; the prompt has `prompt`
/// tokens without a mark, and the answer has a full stop where `answer` has one.
std::vector<Ints> read_while_saying(const std::string& spec, int prompt,
                                    const std::string& answer) {
  const Policies p = Method::parse(spec).make();
  std::vector<Ints> out;
  std::vector<int> said(static_cast<std::size_t>(prompt), 0);
  const auto tokens_of = [&](Layer& layer) {
    layer.dialogue.tokens = said;
    layer.dialogue.token_text = [](int token) { return std::string(token == 1 ? "." : "a"); };
  };
  Layer first(1, 1, 8, prompt, prompt, 1);
  tokens_of(first);
  p.selection->after_prefill(first.view());
  for (char c : answer) {
    said.push_back(c == '.');
    Layer layer(1, 1, 8, static_cast<int>(said.size()), 1, 1);
    tokens_of(layer);
    out.push_back(step(p, layer).slots[0]);
  }
  return out;
}

// Twenty tokens and "aaa.aaa" with B = 8, two first and two recent tokens: the official code
// appends the token, ends the sentence if it is a full stop, and reads everything while the
// sentence has at most one token.  The tokens retrieved from the pool, which is one sentence, begin
// after slot 2.
TEST(SentenceKv, FullStopsEndTheSentenceBeforeTheStepSelects) {
  const auto all = [](int n) {
    Ints out;
    for (int j = 0; j < n; ++j) out.push_back(j);
    return out;
  };
  const std::vector<Ints> got = read_while_saying(
      "sentencekv:budget=8,window=1,sinks=2,recent=2,semantic_factor=8", 20, "aaa.aaa");
  ASSERT_EQ(got.size(), 7u);
  EXPECT_EQ(got[0], all(21)) << "one token";
  EXPECT_EQ(got[1], (Ints{0, 1, 3, 4, 5, 6, 20, 21}));
  EXPECT_EQ(got[2], (Ints{0, 1, 3, 4, 5, 6, 21, 22}));
  EXPECT_EQ(got[3], all(24)) << "the full stop: no token";
  EXPECT_EQ(got[4], all(25)) << "one token";
  for (std::size_t i : {5, 6}) {
    const int n = 21 + static_cast<int>(i);
    EXPECT_EQ(got[i].size(), 8u);
    EXPECT_EQ(got[i].back(), n - 1);
    EXPECT_FALSE(std::binary_search(got[i].begin(), got[i].end(), 2));
  }
}

// For every length of the prompt, the read slots are in the set, ascending and unique: the first 32
// and the last 32, which cover a short set, and between them the rest of the budget.
TEST(SentenceKv, AllOfAShortPrompt) {
  for (int prompt : {1, 2, 10, 31, 32, 33, 50, 63, 64, 65, 70, 100}) {
    const std::vector<Ints> got = read_while_saying("sentencekv:budget=100%", prompt, "aaa.aaaaaa");
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(std::to_string(prompt) + " tokens, step " + std::to_string(i));
      const int n = prompt + 1 + static_cast<int>(i);
      std::set<int> forced;
      for (int j = 0; j < 32; ++j) {
        if (j < n) forced.insert({j, n - 1 - j});
      }
      EXPECT_TRUE(std::includes(got[i].begin(), got[i].end(), forced.begin(), forced.end()));
      EXPECT_EQ(std::set<int>(got[i].begin(), got[i].end()).size(), got[i].size());
      EXPECT_TRUE(std::is_sorted(got[i].begin(), got[i].end()));
      EXPECT_EQ(got[i].front(), 0);
      EXPECT_EQ(got[i].back(), n - 1);
      const bool whole = i == 0 || i == 3 || i == 4;
      const int most = whole ? n : std::max(prompt, static_cast<int>(forced.size()));
      EXPECT_EQ(static_cast<int>(got[i].size()), std::min(n, most));
    }
  }
}

// Rows of the official index: 41 sentences in a pool of 800 tokens have room for max(100, 2 * 19 +
// 50) tokens each.  Only the first 100 tokens of a sentence of 400 can be retrieved.
TEST(SentenceKv, LongSentencesAreCutAsInTheOfficialIndex) {
  constexpr int n = 800;
  std::vector<int> ends, tokens;
  for (int j = 9; j < n; j += j == 199 ? 400 : 10) ends.push_back(j);
  ASSERT_EQ(ends.size(), 41u);
  const auto place = [](Layer& layer) {  // the long sentence is the nearest one
    for (int j = 0; j < layer.n; ++j) {
      std::vector<float> key(8, 0);
      key[0] = j >= 200 && j < 600 ? 1.0f : -1.0f;
      test::write_rows(layer.sets[0], j, key.data(), nullptr, nullptr);
    }
  };
  const auto range = [](Ints& to, int begin, int end) {
    for (int j = begin; j < end; ++j) to.push_back(j);
  };
  Ints cut = {0, 1}, whole = {0, 1};  // 296 tokens are retrieved
  range(cut, 3, 3 + 196);
  range(cut, 200, 300);
  range(cut, n - 1, n + 1);
  range(whole, 200, 496);
  range(whole, n - 1, n + 1);
  for (const auto& [rule, want] : {std::pair("cut", cut), std::pair("whole", whole)}) {
    const Policies p = Method::parse(std::string("sentencekv:budget=300,window=1,sinks=2,recent=2,"
                                                 "semantic_factor=8,length_threshold=0,long=") +
                                     rule)
                           .make();
    Layer prompt(1, 1, 8, n, n, 1);
    place(prompt);
    tell(prompt, tokens, ends);
    p.selection->after_prefill(prompt.view());
    Layer next(1, 1, 8, n + 1, 1, 1);
    place(next);
    std::vector<int> said;
    tell(next, said, ends);
    std::fill(next.queries.begin(), next.queries.end(), 0.0f);
    next.queries[n * 8] = 1;
    EXPECT_EQ(step(p, next).slots[0], want) << rule;
  }
}

// A generated sentence that is longer than a row, here of 170 tokens, cannot be retrieved at all.
TEST(SentenceKv, LongGeneratedSentencesAreLostAsInTheOfficialIndex) {
  const std::string spec =
      "sentencekv:budget=230,window=1,sinks=2,recent=2,semantic_factor=8,long=";
  const auto last_of = [&](const char* rule, int sentence) {
    return read_while_saying(spec + rule, 60, std::string(sentence - 1, 'a') + ".aa").back();
  };
  const auto retrieved = [](int end, int n) {  // of all tokens except the slot after the first two
    Ints out = {0, 1};
    for (int j = 3; j < end; ++j) out.push_back(j);
    for (int j = n - 2; j < n; ++j) out.push_back(j);
    return out;
  };
  // In 60 tokens without a mark: max(100, 2 * 60 + 50) = 170.
  EXPECT_EQ(last_of("cut", 171), retrieved(60, 233));
  EXPECT_EQ(last_of("whole", 171).size(), 230u);
  EXPECT_EQ(last_of("cut", 170), last_of("whole", 170));
  EXPECT_EQ(last_of("cut", 170).size(), 230u);
}

TEST(SentenceKv, PoolAndBudgets) {
  Layer layer(2, 2, 64, 1000, 1000, 3);
  EXPECT_EQ(kept("sentencekv:budget=100", layer)[0].size(), 300u);
  EXPECT_EQ(kept("sentencekv:budget=100", layer), kept("snapkv:budget=300", layer));
  EXPECT_EQ(kept("sentencekv:budget=0.1", layer)[0].size(), 300u);
  EXPECT_EQ(kept("sentencekv:budget=400", layer)[0].size(), 1000u);
  EXPECT_EQ(kept("sentencekv:budget=1000000000", layer)[0].size(), 1000u) << "the largest budget";
  EXPECT_THROW(Method::parse("sentencekv:budget=63"), Error);
}

}  // namespace
}  // namespace turnbench
