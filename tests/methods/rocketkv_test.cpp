// RocketKV, compared with its official code and with a reference in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/methods/made_steps.h"

namespace turnbench {
namespace {

using test::MadeSteps;
using test::Steps;
using Ints = std::vector<std::int32_t>;

std::vector<Json> golden_cases(const std::string& kind) {
  std::vector<Json> out;
  for (const Json& c : test::golden_of("rocketkv").at("cases")) {
    if (c.at("kind") == kind) out.push_back(c);
  }
  return out;
}

TEST(RocketKv, KeepsTheTokensOfTheOfficialCode) {
  for (const Json& c : golden_cases("eviction")) {
    MadeSteps layer(c);
    layer.set_rows(layer.n);
    const auto spec =
        fmt::format("rocketkv:budget=64,kept={},window={},kernel={}", c["kept"].get<int>(),
                    c["window"].get<int>(), c["kernel"].get<int>());
    const KeepSets kept = Method::parse(spec).make().eviction->after_prefill(layer.view());
    EXPECT_EQ(kept.slots, c["slots"].get<std::vector<Ints>>()) << spec;
  }
}

TEST(RocketKv, ReadsThePagesOfTheOfficialCode) {
  for (const Json& c : golden_cases("selection")) {
    MadeSteps layer(c);
    const auto spec =
        fmt::format("rocketkv:budget={},kept=1000,page={},r={}", 2 * c["read"].get<int>(),
                    c["page"].get<int>(), c["r"].get<int>());
    const auto policy = layer.policy(spec);
    std::size_t compared = 0;
    for (int i = 0; i < c["steps"].get<int>(); ++i) {
      layer.step();
      const Selection got = policy->select(layer.view(3));
      if (compared == c["slots"].size() || c["slots"][compared][0] != layer.n) continue;
      for (std::size_t s = 0; s < layer.sets.size(); ++s) {
        Ints want = c["slots"][compared][1][s].get<Ints>();
        if (want.back() != layer.n - 1) want.push_back(layer.n - 1);  // is always read here
        EXPECT_EQ(got.slots[s], want) << spec << ", " << layer.n << " tokens, set " << s;
      }
      ++compared;
    }
    EXPECT_EQ(compared, c["slots"].size());
  }
}

// A budget gives the same stages as their values in the official code.
TEST(RocketKv, DividesABudgetLikeTheOfficialCode) {
  for (const Json& c : golden_cases("rule")) {
    const int prompt = c["prompt"], page = c["page"], dim = 64, kept = c["kept"];
    const auto budget =
        fmt::format("rocketkv:budget={},answer={}", c["budget"].get<int>(), c["answer"].get<int>());
    PromptSize size;
    size.shape = {4, 2, 1, dim};
    size.tokens = std::min(prompt, kept);
    size.prompt_tokens = prompt;
    EXPECT_EQ(Method::parse(budget).make().selection->demand(size, nullptr).step_tokens,
              (c["read"].get<int>() + page - 1) / page * page)
        << budget;
    if (prompt > 10000) continue;  // the rest computes the whole layer
    Steps layer(1, 2, dim, prompt, prompt + 3, 5);
    const auto values = fmt::format("rocketkv:budget={},answer={},kept={},page={},r={}",
                                    2 * c["read"].get<int>(), c["answer"].get<int>(), kept, page,
                                    static_cast<int>(dim * page / c["ratio"].get<double>()));
    SCOPED_TRACE(budget);
    const auto by_rule = layer.policy(budget), by_values = layer.policy(values);
    for (int i = 0; i < 3; ++i) {
      layer.step();
      const Selection got = by_rule->select(layer.view(3));
      EXPECT_EQ(got.slots, by_values->select(layer.view(3)).slots);
      const int read = static_cast<int>(got.slots[0].size()), half = c["read"];
      EXPECT_GE(read, half);
      EXPECT_LE(read, half + page);
    }
    Steps prompt_only(1, 2, dim, prompt, prompt, 5);
    prompt_only.set_rows(300);
    if (kept > 32) {
      EXPECT_EQ(Method::parse(budget)
                    .make()
                    .eviction->after_prefill(prompt_only.view())
                    .slots.front()
                    .size(),
                static_cast<std::size_t>(kept));
    }
  }
}

/// The score of each page for the query heads of a set: the mean probability over heads.
std::vector<double> page_scores(const Steps& layer, std::size_t set, int page, int dims) {
  const int group = layer.shape.group(), dim = layer.shape.head_dim,
            pages = (layer.n + page - 1) / page, first = static_cast<int>(set) * group;
  std::vector<double> size(static_cast<std::size_t>(dim)), sum(size.size());
  for (int h = 0; h < group; ++h) {
    for (int d = 0; d < dim; ++d) {
      size[d] += std::abs(layer.query(first + h)[d]);
      sum[d] += layer.query(first + h)[d];
    }
  }
  const Ints read = test::best(size, dims);
  std::vector<double> out(static_cast<std::size_t>(pages));
  for (int h = 0; h < group; ++h) {
    const float* q = layer.query(first + h);
    double part = 0, whole = 0;
    for (const std::int32_t d : read) part += std::abs(q[d]);
    for (int d = 0; d < dim; ++d) whole += std::abs(q[d]);
    std::vector<double> scores;
    for (int p = 0; p < pages; ++p) {
      double score = 0;
      for (const std::int32_t d : read) {
        double low = INFINITY, high = -INFINITY;
        for (int j = p * page; j < std::min(layer.n, (p + 1) * page); ++j) {
          low = std::min<double>(low, layer.key(set, j)[d]);
          high = std::max<double>(high, layer.key(set, j)[d]);
        }
        score += q[d] * (sum[d] > 0 ? high : low);
      }
      scores.push_back(std::exp(score / std::sqrt(dim * part / whole)));
    }
    const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
    for (int p = 0; p < pages; ++p) out[p] += scores[p] / total / group;
  }
  return out;
}

TEST(RocketKv, ReadsTheBestPages) {
  for (const int group : {1, 4}) {
    for (const int page : {1, 4, 7}) {
      Steps layer(2, group, 24, 160, 200, 3);
      const auto policy =
          layer.policy(fmt::format("rocketkv:budget=80,kept=1000,page={},r=9", page));
      const int pages = (40 + page - 1) / page;
      for (int step = 0; step < 40; ++step) {
        layer.step();
        const Selection got = policy->select(layer.view(3));
        ASSERT_EQ(got.slots.size(), 2u);
        for (std::size_t s = 0; s < 2; ++s) {
          Ints read;
          for (const std::int32_t slot : got.slots[s]) {
            if (read.empty() || read.back() != slot / page) read.push_back(slot / page);
          }
          const std::vector<double> scores = page_scores(layer, s, page, 9);
          const Ints want = test::best(scores, pages);
          if (std::ssize(read) > pages) read.pop_back();  // that of the current token
          EXPECT_TRUE(test::same_by_score(read, want, scores, 1e-5))
              << "group " << group << ", pages of " << page << ", step " << step;
          EXPECT_EQ(got.slots[s].back(), layer.n - 1);
        }
      }
    }
  }
}

// In dimension 0, the minima of the pages are -3, 1, -9 and 0, the maxima 3, 1, -9 and 0.  The sum
// of the queries of both heads determines which of them both heads read.
TEST(RocketKv, WorkedExample) {
  Steps layer(1, 2, 2, 6, 7, 1);
  const float keys[][2] = {{3, 0}, {-3, 0}, {1, 0}, {1, 0}, {-9, 0}, {-9, 0}};
  for (int j = 0; j < 6; ++j) test::write_rows(layer.sets[0], j, keys[j], nullptr, nullptr);
  std::fill_n(layer.keys[0].begin() + 12, 2, 0.0f);
  const auto policy = layer.policy("rocketkv:budget=4,answer=1,kept=100,page=2,r=1");
  layer.step();
  const auto select = [&](float first, float second) {
    float* q = layer.queries.data() + 6 * 4;
    q[0] = first, q[1] = 0, q[2] = second, q[3] = 0;
    return policy->select(layer.view(3)).slots[0];
  };
  EXPECT_EQ(select(2, 1), (Ints{0, 1, 6}));
  // Maxima: the second head alone would choose the third page, with a smaller probability.
  EXPECT_EQ(select(40, -1), (Ints{0, 1, 6}));
  // Minima: -40 times that of the third page is the largest score.
  EXPECT_EQ(select(1, -40), (Ints{4, 5, 6}));
}

TEST(RocketKv, ABudgetOfThePromptReadsEverything) {
  for (const char* budget : {"100%", "200"}) {
    Steps layer(1, 2, 16, 200, 202, 5);
    const auto policy = layer.policy(fmt::format("rocketkv:budget={}", budget));
    layer.step();
    EXPECT_TRUE(policy->select(layer.view(3)).all());
    EXPECT_TRUE(demand_at(*policy, layer.view(3)).everything);
  }
  Steps layer(1, 2, 16, 200, 202, 5);
  const auto policy = layer.policy("rocketkv:budget=199");
  layer.step();
  EXPECT_FALSE(policy->select(layer.view(3)).all());
}

TEST(RocketKv, RefusesAnEvenKernelAndATooSmallStage) {
  const auto message = [](const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([] { (void)Method::parse("rocketkv:kernel=4").make(); }),
            "method: rocketkv: kernel: found 4, expected an odd number");
  EXPECT_EQ(message([] { (void)Method::parse("rocketkv:kept=32").make(); }),
            "method: rocketkv: kept: found 32, expected more than the window of 32");
  Steps layer(1, 1, 16, 300, 300, 1);
  layer.set_rows(300);
  EXPECT_EQ(message([&] {
              (void)Method::parse("rocketkv:budget=20,answer=1,window=100")
                  .make()
                  .eviction->after_prefill(layer.view());
            }),
            "rocketkv: found 91 of 300 prompt tokens to be kept, as budget and answer require, "
            "expected more than the window of 100");
}

// The page size follows from the tokens that a prompt has.
TEST(RocketKv, KeepsAtMostThePrompt) {
  Steps layer(1, 2, 16, 200, 203, 5);
  const auto more = layer.policy("rocketkv:budget=40,answer=8,kept=5000"),
             all = layer.policy("rocketkv:budget=40,answer=8,kept=200");
  for (int i = 0; i < 3; ++i) {
    layer.step();
    EXPECT_EQ(more->select(layer.view(3)).slots, all->select(layer.view(3)).slots);
  }
}

}  // namespace
}  // namespace turnbench
