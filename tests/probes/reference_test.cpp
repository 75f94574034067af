// Compares every probe of attention with its definition on whole matrices in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "methods/parts/segments.h"
#include "observe.h"

namespace turnbench {
namespace {

using namespace test;

using Line = std::pair<char, int>;  // 'v' and a column, or 's' and an offset
using Lines = std::set<Line>;

/// The floor(eta x lines) heaviest lines over rows [first, last) and columns [0, columns).
Lines heaviest(Layer& layer, int head, int first, int last, int columns, double eta) {
  std::vector<double> vertical(static_cast<std::size_t>(columns)),
      slash(static_cast<std::size_t>(last));
  for (int i = first; i < last; ++i) {
    for (int j = 0; j <= std::min(i, columns - 1); ++j) {
      vertical[j] += layer.probability(head, i, j);
      slash[i - j] += layer.probability(head, i, j);
    }
  }
  std::vector<std::pair<double, Line>> order;
  for (int j = 0; j < columns; ++j) order.emplace_back(-vertical[j], Line{'v', j});
  for (int o = 0; o < last; ++o) order.emplace_back(-slash[o], Line{'s', o});
  std::sort(order.begin(), order.end());
  Lines out;
  const auto count = static_cast<std::size_t>(eta * static_cast<double>(order.size()) + 1e-9);
  for (std::size_t i = 0; i < count; ++i) out.insert(order[i].second);
  return out;
}

double shared(const Lines& a, const Lines& b) {
  return static_cast<double>(
      std::count_if(a.begin(), a.end(), [&](const Line& l) { return b.contains(l); }));
}

double covered(Layer& layer, int head, double eta) {
  const Lines chosen = heaviest(layer, head, 0, layer.n, layer.n, eta);
  double sum = 0;
  for (int i = 0; i < layer.n; ++i) {
    for (int j = 0; j <= i; ++j) {
      if (chosen.contains({'v', j}) || chosen.contains({'s', i - j}))
        sum += layer.probability(head, i, j);
    }
  }
  return sum / layer.n;
}

/// Mean over all heads of all layers.
template <typename Value>
double mean_of(const Layers& layers, const Value& value) {
  double sum = 0;
  int count = 0;
  for (const auto& layer : layers) {
    for (int h = 0; h < layer->shape.heads; ++h, ++count) sum += value(*layer, h);
  }
  return sum / count;
}

/// The best tokens of the prompt over rows [first, last), by the sum over all heads and layers.
std::set<int> best_tokens(const Layers& layers, int n, int first, int last, double share) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  for (const auto& layer : layers) {
    for (int h = 0; h < layer->shape.heads; ++h) {
      for (int i = first; i < last; ++i) {
        for (int j = 0; j < n; ++j) sums[j] += layer->probability(h, i, j);
      }
    }
  }
  const Ints chosen = best(sums, static_cast<int>(share * n));
  return {chosen.begin(), chosen.end()};
}

double in_common(const std::set<int>& a, const std::set<int>& b) {
  const auto both = std::count_if(a.begin(), a.end(), [&](int x) { return b.contains(x); });
  return static_cast<double>(both) / static_cast<double>(a.size());
}

struct Shape {
  int layers, kv_heads, group, n;
};

class Reference : public testing::TestWithParam<Shape> {
 protected:
  Shown shown(int answered = 0, std::uint64_t seed = 1) const {
    const Shape s = GetParam();
    return Shown::random(s.layers, s.kv_heads, s.group, s.n, answered,
                         seed * 100 + static_cast<std::uint64_t>(s.n));
  }
};

TEST_P(Reference, Coverage) {
  Shown s = shown();
  for (double eta : {0.1, 0.25, 0.5, 0.9}) {
    EXPECT_NEAR(value(fmt::format("coverage:eta={}", eta), s),
                mean_of(s.prompt, [&](Layer& l, int h) { return covered(l, h, eta); }), 1e-5)
        << eta;
  }
  // Percentiles over the heads.
  std::vector<double> heads;
  for (const auto& layer : s.prompt) {
    for (int h = 0; h < layer->shape.heads; ++h) heads.push_back(covered(*layer, h, 0.25));
  }
  std::sort(heads.begin(), heads.end());
  EXPECT_NEAR(value("coverage:eta=0.25,over=p0", s), heads.front(), 1e-5);
  EXPECT_NEAR(value("coverage:eta=0.25,over=p100", s), heads.back(), 1e-5);
  EXPECT_NEAR(value("coverage:eta=0.25,over=p50", s), heads[(heads.size() - 1) / 2], 1e-5);
  Layer& last = *s.prompt.back();
  EXPECT_NEAR(value(fmt::format("coverage:eta=0.25,layer={},head={}", s.prompt.size() - 1,
                                last.shape.heads - 1),
                    s),
              covered(last, last.shape.heads - 1, 0.25), 1e-5);
}

TEST_P(Reference, LineOverlap) {
  // Three prompts, one of them longer than the others.
  const Shape shape = GetParam();
  std::vector<Shown> prompts;
  for (std::uint64_t i = 0; i < 3; ++i) {
    prompts.push_back(Shown::random(shape.layers, shape.kv_heads, shape.group,
                                    shape.n + (i == 2 ? 70 : 0), 0, 50 + i));
  }
  for (double eta : {0.1, 0.3}) {
    const auto with = ProbeSpec::parse(fmt::format("line-overlap:eta={}", eta)).make(),
               without =
                   ProbeSpec::parse(fmt::format("line-overlap:eta={},self=false", eta)).make();
    for (Shown& s : prompts) {
      show(*with, s);
      show(*without, s);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        if (j == i) continue;
        double heads = 0;
        int count = 0;
        for (std::size_t l = 0; l < prompts[i].prompt.size(); ++l) {
          Layer &a = *prompts[i].prompt[l], &b = *prompts[j].prompt[l];
          for (int h = 0; h < a.shape.heads; ++h, ++count) {
            const Lines x = heaviest(a, h, 0, a.n, a.n, eta), y = heaviest(b, h, 0, b.n, b.n, eta);
            const double both = shared(x, y);
            heads += both / (static_cast<double>(x.size() + y.size()) - both);
          }
        }
        sum += heads / count;
      }
      EXPECT_NEAR(without->results()[i].value, sum / 2, 1e-12);
      EXPECT_NEAR(with->results()[i].value, (sum + 1) / 3, 1e-12);
    }
  }
}

TEST_P(Reference, SegmentOverlap) {
  Shown s = shown();
  for (double split : {0.5, 0.3}) {
    const int cut = static_cast<int>(split * GetParam().n), n = GetParam().n;
    for (double eta : {0.1, 0.3}) {
      double all = 0, restricted = 0;
      int count = 0;
      for (const auto& layer : s.prompt) {
        for (int h = 0; h < layer->shape.heads; ++h, ++count) {
          const Lines first = heaviest(*layer, h, 0, cut, cut, eta),
                      second = heaviest(*layer, h, cut, n, n, eta);
          Lines within;
          for (const Line& line : second) {
            if (line.second < cut) within.insert(line);
          }
          all += shared(first, second) / static_cast<double>(second.size());
          if (!within.empty())
            restricted += shared(first, second) / static_cast<double>(within.size());
        }
      }
      const std::string spec = fmt::format("segment-overlap:eta={},split={}", eta, split);
      EXPECT_NEAR(value(spec, s), all / count, 1e-12) << spec;
      EXPECT_NEAR(value(spec + ",of=shared", s), restricted / count, 1e-12) << spec;
    }
  }
}

TEST_P(Reference, TokenOverlap) {
  const int n = GetParam().n, answered = 21;
  Shown s = shown(answered);
  for (double share : {0.1, 0.15, 0.5}) {
    const std::set<int> truth = best_tokens(s.answer, n, n, n + answered, share);
    for (int window : {1, 16, 1000}) {
      EXPECT_NEAR(value(fmt::format("token-overlap:budget={},window={}", share, window), s),
                  in_common(best_tokens(s.prompt, n, std::max(0, n - window), n, share), truth),
                  1e-12);
    }
    for (int index : {-3, -1, 0, 2}) {
      const int begin = n + index * 8, end = std::min(begin + 8, n + answered);
      EXPECT_NEAR(
          value(fmt::format("window-overlap:budget={},window=8,index={}", share, index), s),
          in_common(best_tokens(index < 0 ? s.prompt : s.answer, n, begin, end, share), truth),
          1e-12)
          << index;
    }
    // 21 tokens in 4 blocks of 5, 5, 5 and 6 tokens.
    const std::vector<int> borders = {n, n + 5, n + 10, n + 15, n + 21};
    const auto block = [&](int b) {
      const auto at = static_cast<std::size_t>(b);
      return best_tokens(s.answer, n, borders[at], borders[at + 1], share);
    };
    for (int distance : {1, 2, 3}) {
      double sum = 0;
      for (int b = 0; b + distance < 4; ++b) {
        const double pair = in_common(block(b), block(b + distance));
        sum += pair;
        EXPECT_NEAR(value(fmt::format("block-overlap:budget={},blocks=4,first={},distance={}",
                                      share, b, distance),
                          s),
                    pair, 1e-12);
      }
      EXPECT_NEAR(
          value(fmt::format("block-overlap:budget={},blocks=4,distance={}", share, distance), s),
          sum / (4 - distance), 1e-12);
    }
  }
}

TEST_P(Reference, Redundancy) {
  const int n = GetParam().n, window = 8, m = n - window;
  Shown s = shown();
  for (int block : {2, 7}) {
    for (int budget : {5, 12}) {
      double lost = 0, outside = 0;
      for (const auto& layer : s.prompt) {
        const std::vector<double> scores = summed(*layer, 0, layer->shape.heads, m, m);
        const Ints top = best(scores, budget);
        // The heaviest blocks in order; the last block gives its best tokens.
        std::vector<std::pair<double, int>> blocks;
        for (int begin = 0; begin < m; begin += block) {
          double sum = 0;
          for (int j = begin; j < std::min(begin + block, m); ++j) sum += scores[j];
          blocks.emplace_back(-sum, begin);
        }
        std::sort(blocks.begin(), blocks.end());
        std::set<int> kept;
        for (const auto& [weight, begin] : blocks) {
          std::vector<std::pair<double, int>> members;
          for (int j = begin; j < std::min(begin + block, m); ++j)
            members.emplace_back(-scores[j], j);
          std::sort(members.begin(), members.end());
          for (const auto& [score, j] : members) {
            if (static_cast<int>(kept.size()) < budget) kept.insert(j);
          }
        }
        double mass = 0, most = 0, strangers = budget;
        for (int j : kept) mass += scores[j];
        for (int j : top) {
          most += scores[j];
          strangers -= kept.contains(j);
        }
        lost += 1 - mass / most;
        outside += strangers / budget;
      }
      const std::string spec = fmt::format("redundancy:block={},budget={}", block, budget);
      const auto layers = static_cast<double>(s.prompt.size());
      EXPECT_NEAR(value(spec, s), lost / layers, 1e-5) << spec;
      EXPECT_NEAR(value(spec + ",by=tokens", s), outside / layers, 1e-12) << spec;
    }
  }
}

// The histogram describes what the method keeps: blocks of these sizes give exactly its tokens.
TEST_P(Reference, BlockSizesEqualSaBlocks) {
  Shown s = shown();
  s.text = [](int token) {
    return std::string(token % 7 == 6 ? " x." : token % 11 == 5 ? "," : " y");
  };
  double total = 0, by_tokens = 0;
  for (int size = 1; size <= 10; ++size) {
    total += value(fmt::format("block-sizes:budget=30,size={}", size), s);
    by_tokens += value(fmt::format("block-sizes:budget=30,by=tokens,size={}", size), s);
  }
  EXPECT_NEAR(total, 1, 1e-12);
  EXPECT_NEAR(by_tokens, 1, 1e-12);
  EXPECT_EQ(value("block-sizes:budget=30,block_max=1,size=1", s), 1);
  EXPECT_EQ(value("block-sizes:budget=30,block_max=1,size=2", s), 0);
  // With tau = 0, every segment takes the largest block size that its budget allows.
  std::map<int, double> want;
  double segments = 0;
  for (const auto& layer : s.prompt) {
    layer->dialogue = s.view();
    const Ints slots = kept("sablock:budget=30,tau=0", *layer)[0];
    std::map<int, int> budgets;
    const std::vector<int> of = turnbench::segments(s.view(), Cut::kClause, "test");
    for (std::int32_t j : slots) {
      if (j < layer->n - 8) ++budgets[of[j]];
    }
    for (const auto& [segment, count] : budgets) ++want[std::min(count, 10)], ++segments;
  }
  for (int size = 1; size <= 10; ++size) {
    EXPECT_NEAR(value(fmt::format("block-sizes:budget=30,tau=0,size={}", size), s),
                want[size] / segments, 1e-12)
        << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reference,
                         testing::Values(Shape{1, 1, 1, 40}, Shape{3, 2, 1, 64}, Shape{2, 2, 3, 65},
                                         Shape{2, 1, 4, 150}),
                         [](const auto& info) { return fmt::format("{}", info.param.n); });

}  // namespace
}  // namespace turnbench
