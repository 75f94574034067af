// Quest, compared with a reference in double precision, exact top-k and full attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

/// For each page with tokens [begin, end), the largest possible product of the query with a key
/// within the bounds of its dimensions.
double page_bound(const Steps& layer, int head, int begin, int end) {
  const auto set = static_cast<std::size_t>(head / layer.shape.group());
  double sum = 0;
  for (int d = 0; d < layer.shape.head_dim; ++d) {
    double low = INFINITY, high = -INFINITY;
    for (int j = begin; j < end; ++j) {
      low = std::min<double>(low, layer.key(set, j)[d]);
      high = std::max<double>(high, layer.key(set, j)[d]);
    }
    const double q = layer.query(head)[d];
    sum += std::max(q * low, q * high);
  }
  return sum;
}

struct Rule {
  int page, read;  ///< tokens, pages
  bool competes, retains;
};

/// Checks that a query head reads the `read` best pages as a whole, and the other tokens that it
/// reads.
void expect_best_pages(const Steps& layer, int head, const Rule& rule, const Ints& got) {
  const int tokens = rule.retains ? layer.prompt_tokens : layer.n,
            pages = (tokens + rule.page - 1) / rule.page;
  std::vector<double> bounds;
  for (int p = 0; p < pages; ++p) {
    bounds.push_back(page_bound(layer, head, p * rule.page, std::min(tokens, (p + 1) * rule.page)));
  }
  if (!rule.competes) bounds.back() = 1e9;
  const Ints best = test::best(bounds, rule.read);
  Ints read;  // the pages that are read as a whole
  for (int p = 0; p < pages; ++p) {
    int count = 0;
    const int begin = p * rule.page, end = std::min(tokens, begin + rule.page);
    for (int j = begin; j < end; ++j) count += std::binary_search(got.begin(), got.end(), j);
    if (count == end - begin) {
      read.push_back(p);
    } else {
      const bool has_current = end == layer.n;
      ASSERT_EQ(count, has_current ? 1 : 0) << "part of page " << p;
    }
  }
  // The current token may be in a page that was not selected.
  if (rule.competes && !rule.retains && (pages - 1) * rule.page == layer.n - 1 &&
      std::ssize(read) > std::ssize(best) && read.back() == pages - 1)
    read.pop_back();
  EXPECT_TRUE(test::same_by_score(read, best, bounds, 1e-4));
  for (int j = tokens; j < layer.n; ++j)
    EXPECT_TRUE(std::binary_search(got.begin(), got.end(), j)) << "generated token " << j;
  EXPECT_EQ(got.back(), layer.n - 1);
}

TEST(Quest, ReadsThePagesWithTheHighestBounds) {
  for (const int group : {1, 4}) {
    for (const int page : {1, 7, 16}) {
      for (const bool competes : {false, true}) {
        for (const bool retains : {false, true}) {
          for (const int prompt : {160, 171}) {
            Steps layer(2, group, 24, prompt, prompt + 40, 3);
            const auto policy =
                layer.policy(fmt::format("quest:budget=0.3,page={},last={},retain_generated={}",
                                         page, competes ? "compete" : "always", retains));
            const Rule rule{page, std::max(3, static_cast<int>(0.3 * prompt) / page), competes,
                            retains};
            for (int step = 0; step < 40; ++step) {
              layer.step();
              SCOPED_TRACE(fmt::format("group {}, page {}, {}, {}, {} + {}", group, page, competes,
                                       retains, prompt, step + 1));
              const Selection s = policy->select(layer.view(3));
              ASSERT_EQ(s.slots.size(), static_cast<std::size_t>(2 * group));
              for (int h = 0; h < 2 * group; ++h) expect_best_pages(layer, h, rule, s.slots[h]);
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Keys (1, 0), (0, 1), (2, -1) form a page whose bound for the query (1, -2) is 4, which is also
// the score of its last key.  The next page has a bound of 5, but no key with a score above 1.
TEST(Quest, WorkedExample) {
  Steps layer(1, 1, 2, 12, 13, 1);
  const float keys[][2] = {{1, 0}, {0, 1}, {2, -1}, {1, 0},  {1, 0},  {-3, -2},
                           {0, 0}, {0, 0}, {0, 0},  {-1, 1}, {-1, 1}, {-1, 1}};
  for (int j = 0; j < 12; ++j) {
    test::write_rows(layer.sets[0], j, keys[j], nullptr, nullptr);
    std::copy_n(keys[j], 2, layer.keys[0].begin() + 2 * j);
  }
  const auto policy = layer.policy("quest:budget=9,page=3");
  layer.step();
  layer.queries[24] = 1;
  layer.queries[25] = -2;
  EXPECT_EQ(page_bound(layer, 0, 0, 3), 4);
  EXPECT_EQ(page_bound(layer, 0, 3, 6), 5);
  EXPECT_EQ(policy->select(layer.view(3)).slots[0], (Ints{0, 1, 2, 3, 4, 5, 12}));
  // Two pages would suffice for 6 tokens, but Quest reads three; of 12 tokens, also the zeros.
  EXPECT_EQ(layer.policy("quest:budget=6,page=3")->select(layer.view(3)).slots[0],
            (Ints{0, 1, 2, 3, 4, 5, 12}));
  EXPECT_EQ(layer.policy("quest:budget=12,page=3")->select(layer.view(3)).slots[0],
            (Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 12}));
}

TEST(Quest, PagesOfOneTokenAreExactTopK) {
  Steps layer(2, 1, 32, 300, 310, 9);
  const auto quest = layer.policy("quest:budget=41,page=1");
  const auto competing = layer.policy("quest:budget=40,page=1,last=compete");
  for (int i = 0; i < 10; ++i) {
    layer.step();
    const Selection a = quest->select(layer.view(3)), b = competing->select(layer.view(3));
    for (int h = 0; h < 2; ++h) {
      std::vector<double> scores;
      for (int j = 0; j < layer.n; ++j) {
        scores.push_back(0);
        for (int d = 0; d < 32; ++d)
          scores.back() += double{layer.query(h)[d]} * layer.key(static_cast<std::size_t>(h), j)[d];
      }
      Ints with_current = test::best(scores, 40);
      if (with_current.back() != layer.n - 1) with_current.push_back(layer.n - 1);
      EXPECT_EQ(b.slots[h], with_current);
      scores.back() = 1e9;
      EXPECT_EQ(a.slots[h], test::best(scores, 41));
    }
  }
}

TEST(Quest, ReadsEverythingThatFits) {
  Steps layer(2, 2, 16, 100, 120, 5);
  const auto all_pages = layer.policy("quest:budget=112");       // 7 pages
  const auto tokens = layer.policy("quest:budget=103,page=64");  // at least 3 pages, and 103
  const auto least = layer.policy("quest:budget=1,page=35");     // 3 pages
  const auto prompt = layer.policy("quest:budget=100%,retain_generated=true");
  for (int i = 0; i < 15; ++i) {
    layer.step();
    EXPECT_EQ(all_pages->select(layer.view(3)).all(), layer.n <= 112) << layer.n;
    EXPECT_TRUE(tokens->select(layer.view(3)).all()) << layer.n;
    EXPECT_EQ(least->select(layer.view(3)).all(), layer.n <= 105) << layer.n;
    EXPECT_TRUE(prompt->select(layer.view(3)).all()) << layer.n;
  }
}

TEST(Quest, FirstLayersReadEverything) {
  Steps layer(1, 2, 16, 200, 201, 5);
  const auto two = layer.policy("quest:budget=48");
  two->after_prefill(layer.view(0));
  two->after_prefill(layer.view(1));
  two->after_prefill(layer.view(2));
  layer.step();
  for (int l = 0; l < 4; ++l) EXPECT_EQ(two->select(layer.view(l)).all(), l < 2) << l;
  EXPECT_TRUE(demand_at(*two, layer.view(1)).everything);
  EXPECT_FALSE(demand_at(*two, layer.view(2)).everything);
}

// Bounds of the prompt are computed once for all budgets; a fork computes those of its answer.
TEST(Quest, SharesThePromptsIndex) {
  Steps layer(2, 2, 16, 165, 190, 5);
  const auto one = layer.policy("quest:budget=48");
  for (KvHeadCache& set : layer.sets) {  // which are not read again
    const std::vector<float> zeros(16);
    for (int j = 0; j < 160; ++j) test::write_rows(set, j, zeros.data(), nullptr, nullptr);
  }
  const auto other = layer.policy("quest:budget=80,last=compete");
  for (int i = 0; i < 25; ++i) {
    layer.step();
    const Selection s = one->select(layer.view(3)), t = other->select(layer.view(3));
    EXPECT_EQ(one->clone()->select(layer.view(3)).slots, s.slots);
    for (int h = 0; h < 4; ++h) {
      expect_best_pages(layer, h, {16, 3, false, false}, s.slots[h]);
      expect_best_pages(layer, h, {16, 5, true, false}, t.slots[h]);
    }
  }
}

std::vector<Logits> two_turns_of_quest(Conversation& c) {
  std::vector<Logits> out = {c.turn(test::synthetic_tokens(150, 1))};
  for (int token : test::synthetic_tokens(20, 2)) out.push_back(c.answer(token));
  out.push_back(c.turn(test::synthetic_tokens(20, 3)));
  for (int token : test::synthetic_tokens(6, 4)) out.push_back(c.answer(token));
  return out;
}

// Also with 16 bits; an index that outgrows its device memory gets more memory.
TEST(Quest, GivesTheSameFromHostMemory) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (test::is_emulated() && dtype == DType::kF32) continue;
    Engine::Options options;
    options.kv_dtype = dtype;
    Machine machine("llama3", 2, options);
    for (const char* settings : {"", ",retain_generated=true", ",last=compete"}) {
      const std::string spec = fmt::format("quest:budget=24,page=4,dense_layers=1{}", settings);
      Conversation whole(machine.engine, Method::parse(spec).make());
      const std::vector<Logits> want = two_turns_of_quest(whole);
      for (const char* cache :
           {"", ",cache_tokens=32,cache_block=8", ",cache_rule=previous,cache_block=1"}) {
        Conversation offloaded(machine.engine,
                               Method::parse(spec + ",placement=host" + cache).make());
        EXPECT_TRUE(two_turns_of_quest(offloaded) == want) << settings << cache;
        EXPECT_EQ(offloaded.sequence.counters.attended_tokens,
                  whole.sequence.counters.attended_tokens);
      }
    }
  }
}

// Tokens that are evicted while decoding are removed from their pages.
TEST(Quest, FollowsEvictionsWhileDecoding) {
  Steps layer(2, 2, 16, 100, 112, 5);
  const std::string spec = "quest:budget=24,page=4";
  const auto policy = layer.policy(spec);
  for (int i = 0; i < 12; ++i) {
    if (i > 0) layer.evict(7 * i);
    layer.memo = {};
    const auto fresh = layer.policy(spec);
    layer.step();
    const Selection got = policy->select(layer.view(3));
    const int generated = std::exchange(layer.generated, 1);
    EXPECT_EQ(got.slots, fresh->select(layer.view(3)).slots) << i;
    layer.generated = generated;
  }
  Machine machine("llama3");
  Conversation c(machine.engine,
                 Method::parse("tova:budget=60+quest:budget=24,page=1,dense_layers=0,"
                               "retain_generated=true")
                     .make());
  c.turn(test::synthetic_tokens(150, 1));
  for (int token : test::synthetic_tokens(20, 2)) ASSERT_TRUE(test::all_finite(c.answer(token)));
}

TEST(Quest, ContinuesAfterTruncation) {
  Machine machine("llama3");
  Conversation c(machine.engine, Method::parse("quest:budget=24,page=4,dense_layers=0").make());
  const std::vector<int> prompt = test::synthetic_tokens(150, 1);
  c.turn(prompt);
  std::vector<Logits> first, again;
  for (int token : test::synthetic_tokens(20, 2)) first.push_back(c.answer(token));
  c.sequence.truncate(150);
  for (int token : test::synthetic_tokens(20, 5)) c.answer(token);
  c.sequence.truncate(150);
  for (int token : test::synthetic_tokens(20, 2)) again.push_back(c.answer(token));
  EXPECT_TRUE(first == again);
}

}  // namespace
}  // namespace turnbench
