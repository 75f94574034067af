#include "methods/line_selection.h"

#include <algorithm>
#include <numeric>

namespace turnbench {
namespace {

constexpr double kTolerance = 1e-6;  // of the total: what rounding may leave uncovered

/// Weights, sizes and largest cells of all lines of one direction.
struct Lines {
  std::vector<double> weight;
  std::vector<int> cells;
  std::vector<float> largest;
  std::vector<std::int32_t> order;  // by weight, heaviest first, lower index on ties

  explicit Lines(std::size_t n) : weight(n), cells(n), largest(n) {}
  void add(std::size_t line, float p) {
    weight[line] += p;
    ++cells[line];
    largest[line] = std::max(largest[line], p);
  }
  void sort() {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      if (cells[i] > 0) order.push_back(static_cast<std::int32_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return weight[static_cast<std::size_t>(a)] > weight[static_cast<std::size_t>(b)];
    });
  }
};

struct Matrix {
  const SampledAttention& a;
  Lines slash, vertical;  // by offset; by key index

  explicit Matrix(const SampledAttention& attention)
      : a(attention),
        slash(static_cast<std::size_t>(a.rows.empty() ? 0 : a.rows.back() + 1)),
        vertical(a.keys.size()) {
    for (std::size_t r = 0; r < a.rows.size(); ++r) {
      for (std::size_t j = 0; j < a.keys.size() && a.keys[j] <= a.rows[r]; ++j) {
        slash.add(static_cast<std::size_t>(a.rows[r] - a.keys[j]), a.at(r, j));
        vertical.add(j, a.at(r, j));
      }
    }
    slash.sort();
    vertical.sort();
  }

  double total() const {
    return std::accumulate(vertical.weight.begin(), vertical.weight.end(), 0.0);
  }

  /// Index of the key at `position`, or keys.size().
  std::size_t key_at(std::int32_t position) const {
    if (position < 0) return a.keys.size();
    const auto p = static_cast<std::size_t>(position);
    if (p < a.keys.size() && a.keys[p] == position) return p;  // nothing was evicted before it
    const auto found = std::lower_bound(a.keys.begin(), a.keys.end(), position);
    return found != a.keys.end() && *found == position
               ? static_cast<std::size_t>(found - a.keys.begin())
               : a.keys.size();
  }
};

void finish(LineSelection& out, const Matrix& m) {
  for (std::int32_t& j : out.columns) j = m.a.keys[static_cast<std::size_t>(j)];
  std::sort(out.columns.begin(), out.columns.end());
  std::sort(out.offsets.begin(), out.offsets.end());
}

}  // namespace

LineSelection select_lines(const SampledAttention& attention, double alpha) {
  Matrix m(attention);
  const std::size_t n = attention.keys.size();
  std::vector<char> covered(attention.rows.size() * n, 0);
  LineSelection out;
  out.total = m.total();

  const auto take_slash = [&](std::int32_t offset) {
    const auto o = static_cast<std::size_t>(offset);
    out.offsets.push_back(offset);
    out.covered += m.slash.weight[o];
    for (std::size_t r = 0; r < attention.rows.size(); ++r) {
      const std::size_t j = m.key_at(attention.rows[r] - offset);
      if (j == n || covered[r * n + j]) continue;
      covered[r * n + j] = 1;
      m.vertical.weight[j] -= attention.at(r, j);
      --m.vertical.cells[j];
    }
  };
  const auto take_vertical = [&](std::int32_t key) {
    const auto j = static_cast<std::size_t>(key);
    out.columns.push_back(key);
    out.covered += m.vertical.weight[j];
    for (std::size_t r = 0; r < attention.rows.size(); ++r) {
      if (attention.keys[j] > attention.rows[r] || covered[r * n + j]) continue;
      covered[r * n + j] = 1;
      const auto o = static_cast<std::size_t>(attention.rows[r] - attention.keys[j]);
      m.slash.weight[o] -= attention.at(r, j);
      --m.slash.cells[o];
    }
  };

  if (attention.rows.empty()) return out;
  take_slash(0);
  std::size_t s = 0, v = 0;
  const double wanted = alpha * out.total - kTolerance * out.total;
  while (out.covered < wanted) {
    while (s < m.slash.order.size() && m.slash.order[s] == 0) ++s;  // taken already
    if (s == m.slash.order.size() && v == m.vertical.order.size()) break;
    const auto gain = [](const Lines& lines, std::size_t head) {
      if (head == lines.order.size()) return -1.0;
      const auto line = static_cast<std::size_t>(lines.order[head]);
      return lines.weight[line] / std::max(1, lines.cells[line]);
    };
    if (gain(m.slash, s) >= gain(m.vertical, v)) {
      take_slash(m.slash.order[s++]);
    } else {
      take_vertical(m.vertical.order[v++]);
    }
  }
  finish(out, m);
  return out;
}

LineSelection select_lines_by_bound(const SampledAttention& attention, double alpha) {
  const Matrix m(attention);
  LineSelection out;
  out.total = m.total();
  double slash_overlap = 0, vertical_overlap = 0;
  std::size_t s = 0, v = 0;
  while (out.covered < alpha * out.total - kTolerance * out.total &&
         (s < m.slash.order.size() || v < m.vertical.order.size())) {
    const auto gain = [](const Lines& lines, std::size_t head, double overlap) {
      return head == lines.order.size()
                 ? -1.0
                 : std::max(0.0,
                            lines.weight[static_cast<std::size_t>(lines.order[head])] - overlap);
    };
    const auto length = [](const Lines& lines, std::size_t head, std::size_t chosen) {
      return head == lines.order.size()
                 ? 1.0
                 : std::max(1.0, lines.cells[static_cast<std::size_t>(lines.order[head])] -
                                     static_cast<double>(chosen));
    };
    const double ds = gain(m.slash, s, vertical_overlap), dv = gain(m.vertical, v, slash_overlap);
    if (ds / length(m.slash, s, out.columns.size()) >=
        dv / length(m.vertical, v, out.offsets.size())) {
      const std::int32_t line = m.slash.order[s++];
      out.offsets.push_back(line);
      slash_overlap += m.slash.largest[static_cast<std::size_t>(line)];
      out.covered += ds;
    } else {
      const std::int32_t line = m.vertical.order[v++];
      out.columns.push_back(line);
      vertical_overlap += m.vertical.largest[static_cast<std::size_t>(line)];
      out.covered += dv;
    }
  }
  if (!attention.rows.empty() &&
      std::find(out.offsets.begin(), out.offsets.end(), 0) == out.offsets.end()) {
    out.offsets.push_back(0);  // no row may be empty
  }
  finish(out, m);
  return out;
}

}  // namespace turnbench
