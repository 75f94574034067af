// Expected Attention, compared with a reference in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "prescribed.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

using Vector = std::vector<double>;

double angle(const Layer& layer, int position, int pair) {
  return position * static_cast<double>(layer.frequencies[pair]);
}

/// The query of a row before RoPE: [head_dim].
Vector query_before_rope(const Layer& layer, int head, int row) {
  const int d = layer.shape.head_dim, half = d / 2;
  const float* q =
      layer.queries.data() + static_cast<std::size_t>((row * layer.shape.heads + head) * d);
  Vector out(static_cast<std::size_t>(d));
  for (int i = 0; i < half; ++i) {
    const double c = std::cos(angle(layer, row, i)), s = std::sin(angle(layer, row, i));
    out[i] = q[i] * c + q[i + half] * s;
    out[i + half] = q[i + half] * c - q[i] * s;
  }
  return out;
}

/// A vector rotated to each of the next positions, on average.
Vector rotated(const Layer& layer, const Vector& x, int future) {
  const int half = layer.shape.head_dim / 2;
  Vector out(x.size());
  for (int p = layer.n; p < layer.n + future; ++p) {
    for (int i = 0; i < half; ++i) {
      const double c = std::cos(angle(layer, p, i)), s = std::sin(angle(layer, p, i));
      out[i] += (x[i] * c - x[i + half] * s) / future;
      out[i + half] += (x[i + half] * c + x[i] * s) / future;
    }
  }
  return out;
}

struct Options {
  int sinks = 4, future = 512;
  bool covariance = true, value_norms = true;
  double epsilon = 0;
  std::string text() const {
    return fmt::format("sinks={},future={},covariance={},value_norms={},epsilon={}", sinks, future,
                       covariance, value_norms, epsilon);
  }
};

/// The scores of a head.  As a projection of a query q on k is a number, its variance over the rows
/// is k C k, where C is the covariance of the rotated queries.
Vector head_scores(const Layer& layer, int head, const Options& options) {
  const int d = layer.shape.head_dim, set = head / layer.shape.group();
  std::vector<Vector> queries;
  for (int row = options.sinks; row < layer.n; ++row)
    queries.push_back(rotated(layer, query_before_rope(layer, head, row), options.future));
  Vector logits;
  for (int token = options.sinks; token < layer.n; ++token) {
    Vector products;
    double mean = 0, variance = 0;
    for (const Vector& q : queries) {
      double product = 0;
      for (int i = 0; i < d; ++i) product += q[i] * layer.keys[set][token * d + i];
      products.push_back(product / std::sqrt(d));
      mean += products.back() / static_cast<double>(queries.size());
    }
    for (const double product : products)
      variance += (product - mean) * (product - mean) / static_cast<double>(queries.size());
    logits.push_back(mean + (options.covariance ? variance / 2 : 0));
  }
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - top);
  Vector out;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double norm = 0;
    for (int k = 0; k < d; ++k) norm += std::pow(layer.values[set][(i + options.sinks) * d + k], 2);
    out.push_back((std::exp(logits[i] - top) / sum + options.epsilon) *
                  (options.value_norms ? std::sqrt(norm) : 1));
  }
  return out;
}

TEST(ExpectedAttention, KeepsTheTokensOfTheReference) {
  constexpr int kBudget = 40;
  for (const Options& options : {Options{}, Options{0, 64}, Options{8, 1, false},
                                 Options{4, 512, true, false}, Options{4, 32, true, true, .01}}) {
    Layer layer(2, 3, 16, 150, 150, 17);
    for (float& q : layer.queries) q *= .4f;  // so that one token does not get all attention
    const auto got =
        kept(fmt::format("expected-attention:budget={},{}", kBudget, options.text()), layer);
    for (int set = 0; set < 2; ++set) {
      Vector scores(static_cast<std::size_t>(layer.n), INFINITY);  // of the sinks
      for (int i = options.sinks; i < layer.n; ++i) scores[i] = 0;
      for (int head = 3 * set; head < 3 * (set + 1); ++head) {
        const Vector own = head_scores(layer, head, options);
        for (std::size_t i = 0; i < own.size(); ++i) scores[options.sinks + i] += own[i] / 3;
      }
      EXPECT_EQ(got[set], best(scores, kBudget)) << options.text();
    }
  }
}

TEST(ExpectedAttention, RefusesSharesThatTheSinksFill) {
  Layer layer(1, 2, 16, 20, 20, 3);
  EXPECT_EQ(test::message_of([&] { kept("expected-attention:budget=20%", layer); }),
            "expected-attention: found a budget of 4 tokens of 20, expected more than the 4 sinks");
  EXPECT_EQ(kept("expected-attention:budget=25%", layer)[0].size(), 5u);
}

TEST(ExpectedAttention, ScoresForOtherMethods) {
  Layer layer(2, 3, 16, 150, 150, 17);
  EXPECT_EQ(kept("adakv:scorer=expected-attention,budget=40,window=8,floor_alpha=1", layer),
            kept("expected-attention:budget=40,window=8", layer));
}

}  // namespace
}  // namespace turnbench
