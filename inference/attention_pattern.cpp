#include "inference/attention_pattern.h"

#include <algorithm>

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
/// hold the block's part of the diagonal; a claim that touches or overlaps the last run extends it
/// by 64.
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

bool pattern_has(const HeadPattern& p, const PatternPass& pass, std::int32_t row,
                 std::int32_t key) {
  if (key > row) return false;
  switch (p.kind) {
    case HeadPattern::Kind::kDense:
      return true;
    case HeadPattern::Kind::kBand:
      return row - key < p.local || key < p.sinks ||
             row >= pass.first_row + pass.rows - p.dense_rows;
    case HeadPattern::Kind::kLines:
      if (p.granularity == HeadPattern::Granularity::kLine) {
        return contains(p.columns, key) || contains(p.offsets, row - key);
      }
      break;
    case HeadPattern::Kind::kBlocks:
      break;
  }
  std::vector<std::int32_t> keys;
  pattern_keys(p, pass, (row - pass.first_row) / kPatternBlock, keys);
  return contains(keys, key);
}

bool pattern_keys(const HeadPattern& p, const PatternPass& pass, std::int32_t block,
                  std::vector<std::int32_t>& out) {
  out.clear();
  const std::int32_t first = pass.first_row + block * kPatternBlock;
  const std::int32_t end = std::min(first + kPatternBlock, pass.first_row + pass.rows);
  const auto add = [&](std::int32_t begin, std::int32_t stop) {
    for (std::int32_t k = begin; k < stop; ++k) out.push_back(k);
  };
  switch (p.kind) {
    case HeadPattern::Kind::kDense:
      add(0, end);
      return false;
    case HeadPattern::Kind::kBand: {
      if (end > pass.first_row + pass.rows - p.dense_rows) {
        add(0, end);
        return first < pass.first_row + pass.rows - p.dense_rows;
      }
      const std::int32_t local_begin = std::max(0, first - p.local + 1);
      add(0, std::min(p.sinks, local_begin));
      add(local_begin, end);
      return end - p.local > p.sinks;
    }
    case HeadPattern::Kind::kLines: {
      if (p.granularity == HeadPattern::Granularity::kLine) {
        // Exactly the keys that some row of the block reads: columns, and each diagonal's keys.
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
        std::size_t c = 0;
        for (const Run& r : runs) {
          for (; c < p.columns.size() && p.columns[c] < r.begin; ++c) out.push_back(p.columns[c]);
          while (c < p.columns.size() && p.columns[c] < r.end) ++c;
          add(r.begin, r.end);
        }
        for (; c < p.columns.size() && p.columns[c] < end; ++c) out.push_back(p.columns[c]);
        return true;
      }
      std::vector<Run> runs;
      slash_runs(p, first + kPatternBlock, runs);
      std::size_t c = 0;
      for (Run r : runs) {
        r.end = std::min(r.end, end);
        for (; c < p.columns.size() && p.columns[c] < r.begin; ++c) out.push_back(p.columns[c]);
        while (c < p.columns.size() && p.columns[c] < r.end) ++c;
        add(std::min(r.begin, end), r.end);
      }
      for (; c < p.columns.size() && p.columns[c] < end; ++c) out.push_back(p.columns[c]);
      return false;
    }
    case HeadPattern::Kind::kBlocks:
      for (std::int32_t b : p.blocks[static_cast<std::size_t>(block)]) {
        add(b * p.block_size, std::min((b + 1) * p.block_size, end));
      }
      return false;
  }
  return false;
}

std::int64_t pattern_pairs(const HeadPattern& p, const PatternPass& pass) {
  std::int64_t pairs = 0;
  if (p.kind == HeadPattern::Kind::kBand) {
    for (std::int64_t row = pass.first_row; row < pass.first_row + pass.rows; ++row) {
      const bool dense = row >= pass.first_row + pass.rows - p.dense_rows;
      const std::int64_t local = dense ? row + 1 : std::min<std::int64_t>(row + 1, p.local);
      pairs += local + std::min<std::int64_t>(p.sinks, row + 1 - local);
    }
    return pairs;
  }
  std::vector<std::int32_t> keys;
  for (std::int32_t block = 0; block * kPatternBlock < pass.rows; ++block) {
    const std::int32_t first = pass.first_row + block * kPatternBlock;
    const std::int32_t end = std::min(first + kPatternBlock, pass.first_row + pass.rows);
    const bool exact = pattern_keys(p, pass, block, keys);
    for (std::int32_t row = first; row < end; ++row) {
      if (exact) {
        for (std::int32_t k : keys) pairs += pattern_has(p, pass, row, k);
      } else {
        pairs += std::upper_bound(keys.begin(), keys.end(), row) - keys.begin();
      }
    }
  }
  return pairs;
}

}  // namespace turnbench
