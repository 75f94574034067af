// CriticalKV, compared with a reference in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "methods/parts/output_norms.h"
#include "prescribed.h"

namespace turnbench {
namespace {

using namespace test;

/// |W v|_1 of a token, a mean over the query heads of a set.
double output_norm(const Layer& layer, int set, int token) {
  const int group = layer.shape.group(), head_dim = layer.shape.head_dim,
            width = layer.shape.heads * head_dim;
  double out = 0;
  for (int h = set * group; h < (set + 1) * group; ++h) {
    for (int o = 0; o < Layer::kHidden; ++o) {
      double sum = 0;
      for (int d = 0; d < head_dim; ++d) {
        sum += static_cast<double>(layer.output_weights[o * width + h * head_dim + d]) *
               static_cast<double>(layer.values[set][token * head_dim + d]);
      }
      out += std::fabs(sum);
    }
  }
  return out / group;
}

/// The mean probability of each token before the window over its rows and the heads of a set.
std::vector<double> mean_probabilities(Layer& layer, int set, int window) {
  const int group = layer.shape.group();
  std::vector<double> out;
  for (int token = 0; token < layer.n - window; ++token) {
    double sum = 0;
    for (int h = set * group; h < (set + 1) * group; ++h) {
      for (int row = layer.n - window; row < layer.n; ++row)
        sum += layer.probability(h, row, token);
    }
    out.push_back(sum / window / group);
  }
  return out;
}

TEST(CriticalKv, NormsEqualTheReference) {
  for (const int n : {1, 255, 257, 600}) {
    Layer layer(2, 3, 64, n, n, 5);
    const LayerView view = layer.view();
    for (int set = 0; set < 2; ++set) {
      const std::vector<float> got = output_norms(view, kept_sets(view, false)[set]);
      ASSERT_EQ(std::ssize(got), n);
      for (int token = 0; token < n; ++token) {
        const double want = output_norm(layer, set, token);
        ASSERT_NEAR(got[token], want, 1e-4 * want) << n << ", set " << set << ", token " << token;
      }
    }
  }
}

TEST(CriticalKv, ChoosesInTwoStages) {
  constexpr int kWindow = 4;
  for (const double first_share : {0.0, 0.5, 1.0}) {
    for (const double epsilon : {0.0001, 0.01}) {
      for (const int budget : {5, 24, 60}) {
        Layer layer(2, 3, 64, 200, 200, 9);
        const auto got = kept(fmt::format("criticalkv:budget={},window={},pool=none,first_stage={},"
                                          "epsilon={}",
                                          budget, kWindow, first_share, epsilon),
                              layer);
        for (int set = 0; set < 2; ++set) {
          std::vector<double> scores = mean_probabilities(layer, set, kWindow), weighted;
          for (std::size_t i = 0; i < scores.size(); ++i) {
            weighted.push_back((scores[i] + epsilon) *
                               output_norm(layer, set, static_cast<int>(i)));
          }
          const int first = static_cast<int>(budget * first_share) - kWindow;
          for (const std::int32_t i : best(scores, std::max(0, first))) weighted[i] = INFINITY;
          Ints want = best(weighted, budget - kWindow);
          for (int i = layer.n - kWindow; i < layer.n; ++i) want.push_back(i);
          EXPECT_EQ(got[set], want) << first_share << " " << epsilon << " " << budget;
        }
      }
    }
  }
}

TEST(CriticalKv, WithOneStageIsItsScorer) {
  Layer layer(2, 3, 64, 200, 200, 9);
  EXPECT_EQ(kept("criticalkv:budget=24,window=8,first_stage=1", layer),
            kept("snapkv:budget=24,window=8", layer));
  EXPECT_EQ(kept("criticalkv:budget=24,window=8,first_stage=1,floor_alpha=0.2", layer),
            kept("adakv:budget=24,window=8", layer));
}

}  // namespace
}  // namespace turnbench
