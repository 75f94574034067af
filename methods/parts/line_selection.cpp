#include "methods/parts/line_selection.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace turnbench {
namespace {

constexpr double kTolerance = 1e-6;  // share of the total that may stay uncovered due to rounding

/// The lines of one direction, by index: offsets, or keys.
class Lines {
 public:
  explicit Lines(std::size_t n) : weight(n), cells(n + 1), taken(n) {}

  std::vector<double> weight;  ///< probability mass not covered by chosen lines
  std::vector<int> cells;      ///< cells not covered by chosen lines
  std::vector<char> taken;

  /// Adds one cell to each of the lines [begin, end).  Until `finish`, `cells` holds differences.
  void add_cells(std::size_t begin, std::size_t end) {
    ++cells[begin];
    --cells[end];
  }
  /// Counts the cells, and sorts the lines by total weight: heaviest first, ties by lower index.
  void finish() {
    std::partial_sum(cells.begin(), cells.end(), cells.begin());
    for (std::size_t i = 0; i < weight.size(); ++i) {
      if (cells[i] > 0) queue_.emplace_back(weight[i], -static_cast<std::int32_t>(i));
    }
    std::make_heap(queue_.begin(), queue_.end());
  }

  bool empty() const { return queue_.empty(); }
  std::int32_t next() const { return -queue_.front().second; }
  std::int32_t pop() {
    const std::int32_t line = next();
    std::pop_heap(queue_.begin(), queue_.end());
    queue_.pop_back();
    return line;
  }

 private:
  std::vector<std::pair<double, std::int32_t>> queue_;  // weight, -index
};

/// The sampled cells, summed along both directions.  Each cell is on one slash and one vertical
/// line.
struct ProbabilityMatrix {
  const SampledAttention& a;
  Lines slash, vertical;  // by offset; by index into a.keys

  explicit ProbabilityMatrix(const SampledAttention& attention)
      : a(attention), slash(a.rows.empty() ? 0 : a.rows.back() + 1), vertical(a.keys.size()) {
    for_each_run([&](std::size_t r, std::size_t begin, std::size_t end) {
      const float* cell = a.cells.data() + r * a.ld;
      const auto nearest = static_cast<std::size_t>(a.rows[r] - a.keys[end - 1]);
      double* along = slash.weight.data() + nearest + (end - 1 - begin);
      double* down = vertical.weight.data();
      for (std::size_t j = begin; j < end; ++j) down[j] += cell[j];
      for (std::size_t j = begin; j < end; ++j) *along-- += cell[j];
      vertical.add_cells(begin, end);
      slash.add_cells(nearest, nearest + (end - begin));
    });
    slash.finish();
    vertical.finish();
  }

  /// Calls task(row, begin, end) for each row and each run of keys at consecutive positions that it
  /// sees.
  template <typename Task>
  void for_each_run(const Task& task) const {
    std::vector<std::size_t> starts;
    for (std::size_t j = 0; j < a.keys.size(); ++j) {
      if (j == 0 || a.keys[j] != a.keys[j - 1] + 1) starts.push_back(j);
    }
    for (std::size_t r = 0; r < a.rows.size(); ++r) {
      const auto seen = static_cast<std::size_t>(
          std::upper_bound(a.keys.begin(), a.keys.end(), a.rows[r]) - a.keys.begin());
      for (std::size_t i = 0; i < starts.size() && starts[i] < seen; ++i)
        task(r, starts[i], i + 1 < starts.size() ? std::min(starts[i + 1], seen) : seen);
    }
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

  /// Chooses a line and removes its cells from the crossing lines.  Returns the gained weight.
  double take_slash(std::int32_t offset) {
    const auto o = static_cast<std::size_t>(offset);
    slash.taken[o] = 1;
    for (std::size_t r = 0; r < a.rows.size(); ++r) {
      const std::size_t j = key_at(a.rows[r] - offset);
      if (j == a.keys.size() || vertical.taken[j] != 0) continue;
      vertical.weight[j] -= a.at(r, j);
      --vertical.cells[j];
    }
    return slash.weight[o];
  }
  double take_vertical(std::int32_t key) {
    const auto j = static_cast<std::size_t>(key);
    vertical.taken[j] = 1;
    const auto first = std::lower_bound(a.rows.begin(), a.rows.end(), a.keys[j]);
    for (auto r = static_cast<std::size_t>(first - a.rows.begin()); r < a.rows.size(); ++r) {
      const auto o = static_cast<std::size_t>(a.rows[r] - a.keys[j]);
      if (slash.taken[o] != 0) continue;
      slash.weight[o] -= a.at(r, j);
      --slash.cells[o];
    }
    return vertical.weight[j];
  }
};

/// Key indices -> positions; ascending.
LineSelection finished(LineSelection out, const SampledAttention& attention) {
  for (std::int32_t& j : out.columns) j = attention.keys[j];
  std::sort(out.columns.begin(), out.columns.end());
  std::sort(out.offsets.begin(), out.offsets.end());
  return out;
}

/// Mass to cover, minus the tolerance for rounding.
double wanted(double total, double alpha) {
  return alpha * total - kTolerance * total;
}

/// Offset 0 was chosen first; it is skipped in the queue.
bool any_left(ProbabilityMatrix& m) {
  if (!m.slash.empty() && m.slash.next() == 0) m.slash.pop();
  return !m.slash.empty() || !m.vertical.empty();
}

/// Largest entry of each line of both directions.
struct LargestEntries {
  std::vector<float> slash, vertical;  // [offsets], [keys]

  explicit LargestEntries(const ProbabilityMatrix& m)
      : slash(m.slash.weight.size()), vertical(m.a.keys.size()) {
    m.for_each_run([&](std::size_t r, std::size_t begin, std::size_t end) {
      for (std::size_t j = begin; j < end; ++j) {
        float& along = slash[m.a.rows[r] - m.a.keys[j]];
        along = std::max(along, m.a.at(r, j));
        vertical[j] = std::max(vertical[j], m.a.at(r, j));
      }
    });
  }
};

}  // namespace

LineSelection select_lines(const SampledAttention& attention, double alpha) {
  LineSelection out;
  if (attention.rows.empty()) return out;
  ProbabilityMatrix m(attention);
  out.total = m.total();
  out.offsets.push_back(0);
  out.covered = m.take_slash(0);
  const auto gain_per_cell = [](const Lines& lines) {  // of the next line
    if (lines.empty()) return -1.0;
    const auto line = static_cast<std::size_t>(lines.next());
    return lines.weight[line] / std::max(1, lines.cells[line]);
  };
  while (out.covered < wanted(out.total, alpha) && any_left(m)) {
    if (gain_per_cell(m.slash) >= gain_per_cell(m.vertical)) {
      out.offsets.push_back(m.slash.pop());
      out.covered += m.take_slash(out.offsets.back());
    } else {
      out.columns.push_back(m.vertical.pop());
      out.covered += m.take_vertical(out.columns.back());
    }
  }
  return finished(std::move(out), attention);
}

LineSelection select_lines_by_bound(const SampledAttention& attention, double alpha) {
  LineSelection out;
  if (attention.rows.empty()) return out;
  ProbabilityMatrix m(attention);
  const LargestEntries largest(m);
  out.total = m.total();
  out.offsets.push_back(0);
  out.covered = m.slash.weight[0];
  double slash_overlap = largest.slash[0], vertical_overlap = 0;  // ol_s, ol_v
  const auto gain = [](const Lines& lines, double overlap) {      // of the next line
    if (lines.empty()) return -1.0;
    return std::max(0.0, lines.weight[lines.next()] - overlap);
  };
  const auto length = [](const Lines& lines, std::size_t crossing) {
    if (lines.empty()) return 1.0;
    return std::max(1.0, lines.cells[lines.next()] - static_cast<double>(crossing));
  };
  while (out.covered < wanted(out.total, alpha) && any_left(m)) {
    const double slash_gain = gain(m.slash, vertical_overlap),
                 vertical_gain = gain(m.vertical, slash_overlap);
    if (slash_gain / length(m.slash, out.columns.size()) >=
        vertical_gain / length(m.vertical, out.offsets.size())) {
      out.offsets.push_back(m.slash.pop());
      slash_overlap += largest.slash[out.offsets.back()];
      out.covered += slash_gain;
    } else {
      out.columns.push_back(m.vertical.pop());
      vertical_overlap += largest.vertical[out.columns.back()];
      out.covered += vertical_gain;
    }
  }
  return finished(std::move(out), attention);
}

}  // namespace turnbench
