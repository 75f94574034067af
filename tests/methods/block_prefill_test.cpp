// FlexPrefill and CritiPrefill, compared with plain references.

#include <numeric>

#include "methods/parts/scores.h"
#include "prefill_reference.h"

namespace turnbench {
namespace {

using namespace test;
using Doubles = std::vector<double>;

/// Row `i` of head h's queries, or key i of its set, as doubles.
Doubles query(const Layer& layer, int h, int i) {
  const float* q = layer.queries.data() + (i * layer.shape.heads + h) * layer.shape.head_dim;
  return {q, q + layer.shape.head_dim};
}
Doubles key(const Layer& layer, int h, int j) {
  const float* k = layer.keys[h / layer.shape.group()].data() + j * layer.shape.head_dim;
  return {k, k + layer.shape.head_dim};
}

double dot(const Doubles& a, const Doubles& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Doubles softmax(Doubles x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  for (double& v : x) v /= sum;
  return x;
}

template <typename Vector>  // mean of vector(i) for i in [begin, end)
Doubles mean(int begin, int end, const Vector& vector) {
  Doubles out(vector(begin).size());
  for (int i = begin; i < end; ++i) {
    const Doubles v = vector(i);
    for (std::size_t d = 0; d < v.size(); ++d) out[d] += v[d] / (end - begin);
  }
  return out;
}

// The cover of [.5, .3, .15, .05] by 0.9 is 3.
TEST(FlexPrefill, Cover) {
  EXPECT_EQ(cover_count({.05f, .5f, .15f, .3f}, 0.9), 3);
  EXPECT_EQ(cover_count({.5f, .5f}, 1.001), 3);
}

TEST(FlexPrefill, SmallPromptsAreDense) {
  Layer layer(1, 1, 16, 256, 256, 1);
  EXPECT_TRUE(plan("flexprefill:min_budget=512", layer).empty());
  EXPECT_TRUE(plan("flexprefill:min_budget=1", layer).empty());  // n <= 2 bs
  Layer longer(1, 1, 16, 257, 257, 1);
  EXPECT_TRUE(plan("flexprefill", longer).empty());
  EXPECT_EQ(plan("flexprefill:min_budget=1", longer).size(), 1u);
}

TEST(FlexPrefill, CoveringEverythingEqualsFullAttention) {
  for (const char* tau : {"0", "1"}) {
    Layer layer(1, 2, 32, 900, 900, 2);
    const auto patterns =
        plan(fmt::format("flexprefill:gamma=1.001,min_budget=1,tau={}", tau), layer);
    for (const HeadPattern& p : patterns) EXPECT_EQ(pattern_pairs(p, {0, 900}), 900 * 901 / 2);
  }
}

struct FlexSettings {
  double gamma, tau;
  int min_budget;
};

/// FlexPrefill for one head: the blocks of the grid that begins at `begin` (0, or below 0 if the
/// pass does not begin on the grid).
std::set<std::pair<int, int>> reference_blocks(Layer& layer, int h, const FlexSettings& s, int bs,
                                               bool& query_aware) {
  const int n = layer.n, a = n - layer.rows, begin = -((bs - a % bs) % bs);
  const int nb = (n - begin + bs - 1) / bs, first = (a - begin) / bs,
            last = std::min(bs, layer.rows);
  const auto clip = [&](int i) { return std::clamp(i, 0, n); };
  std::vector<float> vert(static_cast<std::size_t>(n)), slash(vert.size());
  for (int i = n - last; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      const auto p = static_cast<float>(layer.probability(h, i, j) / last);
      vert[j] += p;
      slash[n - 1 - (i - j)] += p;  // t
    }
  }
  const int minb = (s.min_budget + bs - 1) / bs;
  int kv = std::clamp(cover_count(vert, s.gamma) / bs + 1, std::min(minb, nb), nb);
  int ks = std::clamp(cover_count(slash, s.gamma) / bs + 1, std::min(minb, nb), nb);
  const auto key_of = [&](int j) { return key(layer, h, j); };
  const auto query_of = [&](int i) { return query(layer, h, i); };
  Doubles vertical, diagonal, estimate;
  std::vector<Doubles> k;
  const Doubles q = mean(n - last, n, query_of);
  for (int b = 0; b < nb; ++b) {
    const int from = clip(begin + b * bs), to = clip(begin + (b + 1) * bs);
    vertical.push_back(std::accumulate(vert.begin() + from, vert.begin() + to, 0.0));
    diagonal.push_back(std::accumulate(slash.begin() + from, slash.begin() + to, 0.0));
    k.push_back(mean(from, to, key_of));
    estimate.push_back(dot(q, k.back()) / std::sqrt(layer.shape.head_dim));
  }
  estimate = softmax(estimate);
  double js = 0;
  for (std::size_t b = 0; b < k.size(); ++b) {
    const double p = estimate[b], v = vertical[b], m = (p + v) / 2;
    js += (p > 0 ? p * std::log(p / m) / 2 : 0) + (v > 0 ? v * std::log(v / m) / 2 : 0);
  }
  query_aware = std::sqrt(js) < s.tau;
  if (query_aware) kv = ks = minb;
  std::reverse(diagonal.begin(), diagonal.end());  // by block offset
  vertical[0] = diagonal[0] = 1e9;
  std::set<std::pair<int, int>> out;
  for (int c : best(vertical, kv)) {
    for (int r = std::max(first, c); r < nb; ++r) out.insert({r, c});
  }
  for (int o : best(diagonal, ks)) {
    for (int r = std::max(first, o); r < nb; ++r) out.insert({r, r - o});
  }
  if (!query_aware) return out;
  std::vector<std::tuple<double, int, int>> map;
  for (int r = first; r < nb; ++r) {
    const Doubles rows = mean(begin + r * bs, clip(begin + (r + 1) * bs), query_of);
    Doubles row;
    for (int c = 0; c <= r; ++c) row.push_back(dot(rows, k[c]) / std::sqrt(layer.shape.head_dim));
    row = softmax(row);
    for (int c = 0; c <= r; ++c) map.emplace_back(-row[c], r, c);
  }
  std::sort(map.begin(), map.end());
  double sum = 0;
  for (const auto& [p, r, c] : map) {
    if ((sum -= p) > s.gamma * (nb - first)) break;
    out.insert({r, c});
  }
  return out;
}

TEST(FlexPrefill, EqualsItsMask) {
  int aware = 0, unaware = 0;
  for (const auto& [s, bs] : {std::pair{FlexSettings{0.5, 0, 1}, 64},
                              {FlexSettings{0.9, 0, 200}, 128},
                              {FlexSettings{0.6, 1, 64}, 64},
                              {FlexSettings{0.4, 0.3, 130}, 128}}) {
    for_each_size([&, s = s, bs = bs](Layer& layer) {
      const auto patterns = plan(fmt::format("flexprefill:gamma={},tau={},min_budget={},block={}",
                                             s.gamma, s.tau, s.min_budget, bs),
                                 layer);
      if (layer.n <= 2 * bs) {
        EXPECT_TRUE(patterns.empty());
        return;
      }
      const int lead = (bs - (layer.n - layer.rows) % bs) % bs, side = (layer.n + lead) / bs + 1;
      std::vector<std::vector<char>> blocks;  // of a head: [row block][key block]
      for (int h = 0; h < layer.shape.heads; ++h) {
        bool query_aware = false;
        auto& chosen = blocks.emplace_back(static_cast<std::size_t>(side * side), false);
        for (const auto& [r, c] : reference_blocks(layer, h, s, bs, query_aware))
          chosen.at(static_cast<std::size_t>(r * side + c)) = true;
        ++(query_aware ? aware : unaware);
      }
      expect_equal(layer, patterns, [&](int h, int i, int j) -> bool {
        return blocks[h][static_cast<std::size_t>((i + lead) / bs * side + (j + lead) / bs)];
      });
    });
  }
  EXPECT_GT(aware, 0);
  EXPECT_GT(unaware, 0);
}

TEST(FlexPrefill, LaterTurnsCanBeDense) {
  Layer layer(1, 1, 16, 700, 300, 3);
  EXPECT_TRUE(plan("flexprefill:min_budget=1,followup=dense", layer).empty());
}

struct CritiSettings {
  int segment, block, budget, threshold;
};

/// CritiPrefill for one layer and one KV head; `before` are the scores of the previous layer, if
/// they are to be fused, and becomes this layer's scores.
std::vector<std::set<int>> reference_segments(const Layer& layer, int set, const CritiSettings& s,
                                              std::vector<Doubles>& before, bool fuse) {
  const int n = layer.n, a = n - layer.rows, g = layer.shape.group(), d = layer.shape.head_dim;
  const int lead = (s.block - a % s.block) % s.block;
  std::vector<std::set<int>> out;
  std::vector<Doubles> all;
  for (int from = a; from < n; from += s.segment) {
    const int to = std::min(n, from + s.segment), blocks = (from + lead) / s.block;
    Doubles scores(static_cast<std::size_t>(blocks));
    for (int h = set * g; h < (set + 1) * g; ++h) {
      Doubles qmax(static_cast<std::size_t>(d), -INFINITY), qmin(qmax.size(), INFINITY);
      for (int i = from; i < to; ++i) {
        const Doubles q = query(layer, h, i);
        for (std::size_t c = 0; c < q.size(); ++c)
          qmax[c] = std::max(qmax[c], q[c]), qmin[c] = std::min(qmin[c], q[c]);
      }
      for (int b = 0; b < blocks; ++b) {
        Doubles kmax(qmax.size(), -INFINITY), kmin(qmax.size(), INFINITY);
        for (int j = std::max(0, b * s.block - lead); j < (b + 1) * s.block - lead; ++j) {
          const Doubles k = key(layer, h, j);
          for (std::size_t c = 0; c < k.size(); ++c)
            kmax[c] = std::max(kmax[c], k[c]), kmin[c] = std::min(kmin[c], k[c]);
        }
        scores[b] +=
            std::max(dot(qmax, kmax) + dot(qmin, kmax), dot(qmax, kmin) + dot(qmin, kmin)) / 2 / g;
      }
    }
    scores = softmax(scores);
    for (std::size_t b = 0; fuse && b < scores.size(); ++b)
      scores[b] = 0.25 * before[all.size()][b] + 0.75 * scores[b];
    std::set<int> chosen;
    const bool sparse = from >= s.threshold && to < n;
    for (int b : best(scores, sparse ? s.budget / s.block : blocks)) chosen.insert(b);
    for (int b = blocks; b <= (n - 1 + lead) / s.block; ++b) chosen.insert(b);  // causal limit
    out.push_back(chosen);
    all.push_back(scores);
  }
  before = all;
  return out;
}

TEST(CritiPrefill, EqualsItsMaskInEveryLayer) {
  for (const CritiSettings& s : {CritiSettings{128, 32, 96, 256}, CritiSettings{64, 16, 64, 0}}) {
    for_each_size([&](Layer& layer) {
      const auto policy =
          Method::parse(fmt::format("critiprefill:segment={},block={},budget={},threshold={}",
                                    s.segment, s.block, s.budget, s.threshold))
              .make();
      EXPECT_TRUE(policy.prefill->plan(layer.view(0)).empty());  // layer_skip = 1
      std::vector<std::vector<Doubles>> before(static_cast<std::size_t>(layer.shape.kv_heads));
      for (int l = 1; l < 4; ++l) {
        std::vector<std::vector<std::set<int>>> segments;
        for (int set = 0; set < layer.shape.kv_heads; ++set) {
          segments.push_back(reference_segments(layer, set, s, before[set], l >= 2));
        }
        const int first = layer.n - layer.rows, lead = (s.block - first % s.block) % s.block;
        expect_equal(layer, policy.prefill->plan(layer.view(l)), [&](int h, int i, int j) {
          return segments[h / layer.shape.group()]
                         [static_cast<std::size_t>((i - first) / s.segment)]
                             .contains((j + lead) / s.block);
        });
      }
    });
  }
}

// A budget of all blocks is full attention; the last segment is always dense.
TEST(CritiPrefill, BudgetsOfEverythingAreFullAttention) {
  Layer layer(1, 2, 32, 700, 700, 4);
  for (const HeadPattern& p : plan("critiprefill:budget=704,threshold=0,segment=64", layer, 1))
    EXPECT_EQ(pattern_pairs(p, {0, 700}), 700 * 701 / 2);
  const HeadPattern p = plan("critiprefill:budget=32,threshold=0,segment=64", layer, 1)[0];
  EXPECT_LT(pattern_pairs(p, {0, 700}), 700 * 701 / 2);
  const auto rows = rows_of(p, {0, 700});
  for (int i = 640; i < 700; ++i) EXPECT_EQ(rows[i].size(), static_cast<std::size_t>(i) + 1);
}

TEST(CritiPrefill, WithoutFusionLayersAreIndependent) {
  Layer layer(1, 1, 16, 600, 600, 5);
  const std::string spec = "critiprefill:budget=64,threshold=0,segment=64,layer_fusion=false";
  const auto policy = Method::parse(spec).make();
  const auto one = policy.prefill->plan(layer.view(1)), two = policy.prefill->plan(layer.view(2));
  EXPECT_EQ(one[0].blocks, two[0].blocks);
  EXPECT_TRUE(plan("critiprefill:layer_skip=3", layer, 2).empty());
  Layer later(1, 1, 16, 600, 100, 5);
  EXPECT_TRUE(plan("critiprefill:followup=dense", later, 1).empty());
  EXPECT_THROW(Method::parse("critiprefill:segment=100"), std::exception);
  EXPECT_THROW(Method::parse("critiprefill:block=48"), std::exception);
}

}  // namespace
}  // namespace turnbench
