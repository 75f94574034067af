#include "inference/attention/attention_pattern.h"

#include <algorithm>
#include <span>

namespace turnbench {
namespace {

/// Consecutive keys [begin, end).
struct Run {
  std::int32_t begin, end;
};

bool contains(const std::vector<std::int32_t>& sorted, std::int32_t x) {
  return std::binary_search(sorted.begin(), sorted.end(), x);
}

/// The key runs that the slash lines claim for the row block that ends before `end`, as
/// MInference's index kernel forms them: offset o claims the 64 keys before max(end - o, 64), which
/// contain the block's part of the diagonal; a claim that touches or overlaps the last run extends
/// it by 64.
void slash_runs(const HeadPattern& p, std::int32_t end, std::vector<Run>& out) {
  out.clear();
  const std::int32_t block = kPatternBlock;
  // Descending offsets give ascending runs.
  for (auto o = p.offsets.rbegin(); o != p.offsets.rend(); ++o) {
    if (*o >= end) continue;
    const std::int32_t stop = std::max(end - *o, block);
    if (!out.empty() && stop <= out.back().end + block) {
      if (stop > out.back().end) out.back().end += block;
    } else {
      out.push_back({stop - block, stop});
    }
  }
}

}  // namespace

bool pattern_contains(const HeadPattern& p, const PatternPass& pass, std::int32_t row,
                      std::int32_t key) {
  if (key > row) return false;
  switch (p.kind) {
    case HeadPattern::Kind::kDense:
      return true;
    case HeadPattern::Kind::kBand:
      return row - key < p.local || key < p.sinks ||
             row >= pass.first_position + pass.rows - p.dense_rows;
    case HeadPattern::Kind::kVerticalSlash:
      if (p.granularity == HeadPattern::Granularity::kLine) {
        return contains(p.columns, key) || contains(p.offsets, row - key);
      }
      break;
    case HeadPattern::Kind::kBlocks:
      break;
  }
  std::vector<std::int32_t> keys;
  pattern_keys(p, pass, (row - pass.first_position) / kPatternBlock, keys);
  return contains(keys, key);
}

namespace {

/// Adds keys [begin, end).
void add_range(std::int32_t begin, std::int32_t end, std::vector<std::int32_t>& out) {
  for (std::int32_t key = begin; key < end; ++key) out.push_back(key);
}

/// Adds the keys of ascending runs and the columns outside them, below `end`, each once.
void add_runs_and_columns(std::span<const Run> runs, std::span<const std::int32_t> columns,
                          std::int32_t end, std::vector<std::int32_t>& out) {
  std::size_t c = 0;
  for (const Run& run : runs) {
    const std::int32_t run_end = std::min(run.end, end);
    for (; c < columns.size() && columns[c] < run.begin; ++c) out.push_back(columns[c]);
    while (c < columns.size() && columns[c] < run_end) ++c;
    add_range(std::min(run.begin, end), run_end, out);
  }
  for (; c < columns.size() && columns[c] < end; ++c) out.push_back(columns[c]);
}

/// Ascending runs of keys on the diagonals in rows [first, end), with Granularity::kLine.
std::vector<Run> diagonal_runs(const HeadPattern& p, std::int32_t first, std::int32_t end) {
  std::vector<Run> runs;
  for (auto o = p.offsets.rbegin(); o != p.offsets.rend(); ++o) {
    const Run r{std::max(0, first - *o), end - *o};
    if (r.end <= 0) continue;
    if (!runs.empty() && r.begin <= runs.back().end) {
      runs.back().end = std::max(runs.back().end, r.end);
    } else {
      runs.push_back(r);
    }
  }
  return runs;
}

}  // namespace

bool pattern_keys(const HeadPattern& p, const PatternPass& pass, std::int32_t block,
                  std::vector<std::int32_t>& out) {
  out.clear();
  const std::int32_t first = pass.first_position + block * kPatternBlock;
  const std::int32_t end = std::min(first + kPatternBlock, pass.first_position + pass.rows);
  switch (p.kind) {
    case HeadPattern::Kind::kDense:
      add_range(0, end, out);
      return false;
    case HeadPattern::Kind::kBand: {
      if (end > pass.first_position + pass.rows - p.dense_rows) {
        add_range(0, end, out);
        return first < pass.first_position + pass.rows - p.dense_rows;
      }
      const std::int32_t local_begin = std::max(0, first - p.local + 1);
      add_range(0, std::min(p.sinks, local_begin), out);
      add_range(local_begin, end, out);
      return end - p.local > p.sinks;
    }
    case HeadPattern::Kind::kVerticalSlash: {
      if (p.granularity == HeadPattern::Granularity::kLine) {
        add_runs_and_columns(diagonal_runs(p, first, end), p.columns, end, out);
        return true;
      }
      std::vector<Run> runs;
      slash_runs(p, first + kPatternBlock, runs);
      add_runs_and_columns(runs, p.columns, end, out);
      return false;
    }
    case HeadPattern::Kind::kBlocks: {
      const BlockGrid grid(p.block_size, pass.first_position);
      for (std::int32_t b : p.blocks[block * kPatternBlock / p.block_rows])
        add_range(grid.begin(b), std::min(grid.end(b), end), out);
      return false;
    }
  }
  return false;
}

PatternMask::PatternMask(const HeadPattern& p, const PatternPass& pass, std::int32_t block)
    : pattern_(p),
      first_dense_row_(pass.first_position + pass.rows - p.dense_rows),
      line_exact_(p.kind == HeadPattern::Kind::kVerticalSlash &&
                  p.granularity == HeadPattern::Granularity::kLine) {
  const std::int32_t end =
      pass.first_position + std::min((block + 1) * std::int32_t{kPatternBlock}, pass.rows);
  last_row_ = end - 1;
  if (!line_exact_) return;
  const auto mark = [end](const std::vector<std::int32_t>& lines, std::vector<char>& out) {
    out.assign(static_cast<std::size_t>(end), 0);
    for (std::int32_t line : lines) {
      if (line < end) out[line] = 1;
    }
  };
  mark(p.columns, columns_);
  mark(p.offsets, offsets_);
}

bool PatternMask::contains_all(std::int32_t lowest, std::int32_t highest) const {
  if (pattern_.kind == HeadPattern::Kind::kBand)
    return last_row_ - lowest < pattern_.local || highest < pattern_.sinks;
  return !line_exact_;
}

bool PatternMask::contains(std::int32_t row, std::int32_t key) const {
  if (key > row) return false;
  if (line_exact_) {
    return columns_[key] != 0 || offsets_[row - key] != 0;
  }
  return pattern_.kind != HeadPattern::Kind::kBand || row - key < pattern_.local ||
         key < pattern_.sinks || row >= first_dense_row_;
}

namespace {

/// Each pair of a column and an offset intersects in one row, so the cells of the lines can be
/// counted without enumerating them.
std::int64_t line_pairs(const HeadPattern& p, const PatternPass& pass) {
  const std::int32_t begin = pass.first_position, end = pass.first_position + pass.rows;
  const auto count = [](const std::vector<std::int32_t>& sorted, std::int32_t from,
                        std::int32_t to) {
    return std::lower_bound(sorted.begin(), sorted.end(), to) -
           std::lower_bound(sorted.begin(), sorted.end(), from);
  };
  std::int64_t pairs = 0;
  for (const std::vector<std::int32_t>* lines : {&p.columns, &p.offsets}) {
    for (std::int32_t line : *lines) pairs += std::max(0, end - std::max(line, begin));
  }
  for (std::int32_t column : p.columns) pairs -= count(p.offsets, begin - column, end - column);
  return pairs;
}

}  // namespace

std::int64_t pattern_pairs(const HeadPattern& p, const PatternPass& pass) {
  std::int64_t pairs = 0;
  if (p.kind == HeadPattern::Kind::kDense) {
    const std::int64_t rows = pass.rows;
    return rows * pass.first_position + rows * (rows + 1) / 2;
  }
  if (p.kind == HeadPattern::Kind::kBand) {
    for (std::int64_t row = pass.first_position; row < pass.first_position + pass.rows; ++row) {
      const bool dense = row >= pass.first_position + pass.rows - p.dense_rows;
      const std::int64_t local = dense ? row + 1 : std::min<std::int64_t>(row + 1, p.local);
      pairs += local + std::min<std::int64_t>(p.sinks, row + 1 - local);
    }
    return pairs;
  }
  if (p.kind == HeadPattern::Kind::kVerticalSlash &&
      p.granularity == HeadPattern::Granularity::kLine)
    return line_pairs(p, pass);
  std::vector<std::int32_t> keys;
  for (std::int32_t block = 0; block * kPatternBlock < pass.rows; ++block) {
    const std::int32_t first = pass.first_position + block * kPatternBlock;
    const std::int32_t end = std::min(first + kPatternBlock, pass.first_position + pass.rows);
    pattern_keys(p, pass, block, keys);
    // Keys at or before the first row are seen by every row, the few others by some rows.
    const auto split = std::upper_bound(keys.begin(), keys.end(), first);
    pairs += (end - first) * (split - keys.begin());
    for (auto k = split; k != keys.end(); ++k) pairs += end - *k;
  }
  return pairs;
}

}  // namespace turnbench
