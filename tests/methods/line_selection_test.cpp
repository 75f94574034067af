#include "methods/parts/line_selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;

/// A causal matrix of rows 0..n-1 given by their entries.
struct Example {
  explicit Example(const std::vector<std::vector<float>>& matrix) {
    ld = matrix.back().size();
    for (std::size_t r = 0; r < matrix.size(); ++r) {
      rows.push_back(static_cast<std::int32_t>(matrix[r].size()) - 1);
      cells.insert(cells.end(), matrix[r].begin(), matrix[r].end());
      cells.resize((r + 1) * ld, 0);
    }
    for (std::size_t j = 0; j < ld; ++j) keys.push_back(static_cast<std::int32_t>(j));
  }
  SampledAttention view() const { return {rows, keys, cells, ld}; }
  Ints rows, keys;
  std::vector<float> cells;
  std::size_t ld;
};

const Example kWorked({{1}, {.6f, .4f}, {.5f, .1f, .4f}, {.4f, .05f, .25f, .3f}});

// A worked example of LoopServe's prefill.
TEST(SelectLines, WorkedExample) {
  const LineSelection low = select_lines(kWorked.view(), 0.89);
  EXPECT_EQ(low.offsets, Ints{0});
  EXPECT_EQ(low.columns, Ints{0});
  EXPECT_NEAR(low.covered, 3.60, 1e-6);
  EXPECT_NEAR(low.total, 4, 1e-6);
  const LineSelection high = select_lines(kWorked.view(), 0.955);
  EXPECT_EQ(high.offsets, Ints{0});
  EXPECT_EQ(high.columns, (Ints{0, 2}));
  EXPECT_NEAR(high.covered, 3.85, 1e-6);
}

/// Softmax rows with a sink, a local band and noise; some rows sampled.
Example random_example(int n, int samples, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::set<int> rows;
  while (static_cast<int>(rows.size()) < samples)
    rows.insert(static_cast<int>(random() % static_cast<unsigned>(n)));
  std::vector<std::vector<float>> matrix;
  for (int i : rows) {
    std::vector<float> row;
    double sum = 0;
    for (int j = 0; j <= i; ++j) {
      const double z =
          normal(random) + (j < 2 ? 5 : 0) + 4 * std::exp(-(i - j) / 6.0) + (j % 41 == 7 ? 3 : 0);
      row.push_back(static_cast<float>(std::exp(z)));
      sum += row.back();
    }
    for (float& x : row) x = static_cast<float>(x / sum);
    matrix.push_back(row);
  }
  matrix.back().resize(static_cast<std::size_t>(*rows.rbegin()) + 1);
  return Example(matrix);
}

double mass_on(const Example& e, const LineSelection& s) {
  double mass = 0;
  for (std::size_t r = 0; r < e.rows.size(); ++r) {
    for (std::int32_t j = 0; j <= e.rows[r]; ++j) {
      const bool on = std::binary_search(s.columns.begin(), s.columns.end(), j) ||
                      std::binary_search(s.offsets.begin(), s.offsets.end(), e.rows[r] - j);
      if (on) mass += e.cells[r * e.ld + static_cast<std::size_t>(j)];
    }
  }
  return mass;
}

TEST(SelectLines, ReportedMassIsTheTrueOneAndReachesAlpha) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Example e = random_example(200, 24, seed);
    for (double alpha : {0.5, 0.8, 0.955, 0.995}) {
      const LineSelection s = select_lines(e.view(), alpha);
      EXPECT_NEAR(s.covered, mass_on(e, s), 1e-4);
      EXPECT_GE(s.covered, alpha * s.total * (1 - 1e-5));
      EXPECT_TRUE(std::binary_search(s.offsets.begin(), s.offsets.end(), 0));
    }
  }
}

// The greedy sequence does not depend on alpha.
TEST(SelectLines, SelectionsAreNestedInAlpha) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const Example e = random_example(150, 16, seed);
    LineSelection last = select_lines(e.view(), 0.3);
    for (double alpha : {0.6, 0.9, 0.99, 1.0}) {
      const LineSelection next = select_lines(e.view(), alpha);
      EXPECT_TRUE(std::includes(next.offsets.begin(), next.offsets.end(), last.offsets.begin(),
                                last.offsets.end()));
      EXPECT_TRUE(std::includes(next.columns.begin(), next.columns.end(), last.columns.begin(),
                                last.columns.end()));
      last = next;
    }
  }
}

/// The paper's loop (Algorithm 2), implemented literally: residuals are recomputed from the set of
/// covered cells at every step.
LineSelection reference_lines(const Example& e, double alpha) {
  const std::size_t n = e.keys.size();
  std::set<std::pair<std::size_t, std::int32_t>> covered;
  const auto line = [&](bool slash, std::int32_t index, bool residual) {
    std::pair<double, int> out{0, 0};
    for (std::size_t r = 0; r < e.rows.size(); ++r) {
      const std::int32_t j = slash ? e.rows[r] - index : index;
      if (j < 0 || j > e.rows[r] || (residual && covered.contains({r, j}))) continue;
      out.first += e.cells[r * e.ld + static_cast<std::size_t>(j)];
      ++out.second;
    }
    return out;
  };
  const auto order = [&](bool slash, std::size_t count) {
    std::vector<std::pair<double, std::int32_t>> lines;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(count); ++i) {
      const auto [weight, cells] = line(slash, i, false);
      if (cells > 0) lines.emplace_back(-weight, i);
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return lines;
  };
  auto slashes = order(true, static_cast<std::size_t>(e.rows.back()) + 1),
       verticals = order(false, n);
  LineSelection out;
  const auto take = [&](bool slash, std::int32_t index) {
    out.covered += line(slash, index, true).first;
    for (std::size_t r = 0; r < e.rows.size(); ++r) {
      const std::int32_t j = slash ? e.rows[r] - index : index;
      if (j >= 0 && j <= e.rows[r]) covered.insert({r, j});
    }
    (slash ? out.offsets : out.columns).push_back(index);
  };
  for (float x : e.cells) out.total += x;
  take(true, 0);
  std::erase_if(slashes, [](const auto& s) { return s.second == 0; });
  while (out.covered < alpha * out.total * (1 - 1e-6) && !(slashes.empty() && verticals.empty())) {
    double es = -1, ev = -1;
    if (!slashes.empty()) {
      const auto [g, c] = line(true, slashes[0].second, true);
      es = g / std::max(1, c);
    }
    if (!verticals.empty()) {
      const auto [g, c] = line(false, verticals[0].second, true);
      ev = g / std::max(1, c);
    }
    auto& from = es >= ev ? slashes : verticals;
    take(es >= ev, from[0].second);
    from.erase(from.begin());
  }
  std::sort(out.offsets.begin(), out.offsets.end());
  std::sort(out.columns.begin(), out.columns.end());
  return out;
}

TEST(SelectLines, EqualsTheLiteralLoop) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Example e = random_example(60, 12, 100 + seed);
    for (double alpha : {0.7, 0.95, 1.0}) {
      const LineSelection got = select_lines(e.view(), alpha), want = reference_lines(e, alpha);
      EXPECT_EQ(got.offsets, want.offsets) << seed << " " << alpha;
      EXPECT_EQ(got.columns, want.columns) << seed << " " << alpha;
      EXPECT_NEAR(got.covered, want.covered, 1e-5);
    }
  }
}

/// Algorithm 2 as printed, with these exceptions: offset 0 is selected first, lines are popped,
/// gains are at least 0, lengths at least 1.
LineSelection printed_rule(const Example& e, double alpha) {
  struct Line {
    double weight = 0, largest = 0;
    int length = 0;
    std::int32_t index = 0;
  };
  std::vector<Line> slash(e.keys.size()), vertical(e.keys.size());
  LineSelection out;
  for (std::size_t r = 0; r < e.rows.size(); ++r) {
    for (std::int32_t j = 0; j <= e.rows[r]; ++j) {
      const double p = e.cells[r * e.ld + static_cast<std::size_t>(j)];
      out.total += p;
      for (Line* line : {&slash[e.rows[r] - j], &vertical[j]}) {
        line->weight += p;
        line->largest = std::max(line->largest, p);
        ++line->length;
      }
    }
  }
  for (auto* lines : {&slash, &vertical}) {
    for (std::size_t i = 0; i < lines->size(); ++i)
      (*lines)[i].index = static_cast<std::int32_t>(i);
  }
  double ol_s = slash[0].largest, ol_v = 0;
  out.covered = slash[0].weight;
  out.offsets = {0};
  slash.erase(slash.begin());
  for (auto* lines : {&slash, &vertical}) {
    std::erase_if(*lines, [](const Line& l) { return l.length == 0; });
    std::stable_sort(lines->begin(), lines->end(),
                     [](const Line& a, const Line& b) { return a.weight > b.weight; });
  }
  while (out.covered < alpha * out.total * (1 - 1e-6) && !(slash.empty() && vertical.empty())) {
    const auto rate = [](const std::vector<Line>& lines, double overlap, std::size_t other) {
      if (lines.empty()) return -1.0;
      return std::max(0.0, lines[0].weight - overlap) /
             std::max(1.0, lines[0].length - static_cast<double>(other));
    };
    if (rate(slash, ol_v, out.columns.size()) >= rate(vertical, ol_s, out.offsets.size())) {
      out.covered += std::max(0.0, slash[0].weight - ol_v);
      ol_s += slash[0].largest;
      out.offsets.push_back(slash[0].index);
      slash.erase(slash.begin());
    } else {
      out.covered += std::max(0.0, vertical[0].weight - ol_s);
      ol_v += vertical[0].largest;
      out.columns.push_back(vertical[0].index);
      vertical.erase(vertical.begin());
    }
  }
  std::sort(out.offsets.begin(), out.offsets.end());
  std::sort(out.columns.begin(), out.columns.end());
  return out;
}

TEST(SelectLinesByBound, EqualsThePrintedRule) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Example e = random_example(80, 16, 300 + seed);
    for (double alpha : {0.3, 0.6, 0.9}) {
      const LineSelection got = select_lines_by_bound(e.view(), alpha),
                          want = printed_rule(e, alpha);
      EXPECT_EQ(got.offsets, want.offsets) << seed << " " << alpha;
      EXPECT_EQ(got.columns, want.columns) << seed << " " << alpha;
      EXPECT_NEAR(got.covered, want.covered, 1e-5);
    }
  }
}

// The printed overlap rule needs almost every line in a case where exact overlaps need a few.
TEST(SelectLinesByBound, ReachesAlphaOnlyByExhaustion) {
  const Example e = random_example(200, 32, 5);
  const LineSelection exact = select_lines(e.view(), 0.9),
                      bound = select_lines_by_bound(e.view(), 0.9);
  EXPECT_GT(bound.offsets.size() + bound.columns.size(),
            2 * (exact.offsets.size() + exact.columns.size()));
  EXPECT_TRUE(std::binary_search(bound.offsets.begin(), bound.offsets.end(), 0));
}

// Keys may have gaps where tokens were evicted: a slash has cells only for keys that are still
// cached, so two short slashes (gains .7 and .6 per cell) are better than the column of key 0 (1.3
// over two cells).
TEST(SelectLines, KeysWithGaps) {
  const Ints rows = {9, 10}, keys = {0, 3, 9, 10};
  const std::vector<float> cells = {.7f, .1f, .2f, 0, .6f, .1f, .1f, .2f};
  const LineSelection s = select_lines({rows, keys, cells, 4}, 0.8);
  EXPECT_EQ(s.offsets, (Ints{0, 9, 10}));
  EXPECT_TRUE(s.columns.empty());
  EXPECT_NEAR(s.covered, 1.7, 1e-6);
}

}  // namespace
}  // namespace turnbench
