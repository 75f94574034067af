#include "methods/prefill/pattern_search.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/json.h"
#include "methods/parts/block_pool.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

using HeadKind = MInferenceConfig::Kind;
using Head = MInferenceConfig::Head;

constexpr int kSearchRows = 64;
constexpr int kForcedLines = 30;   // per direction; of the official search, not its prefill
constexpr int kBlock = 32;         // rows and keys of a block
constexpr int kBlockShare = 8;     // one of this many key blocks is kept
constexpr float kVisible = 5e-3f;  // difference of outputs above which an element is counted

/// The keys that the rows of one head see under a candidate, exactly (no 64-key runs).
class Mask {
 public:
  Mask(const LayerView& view, int head, const Head& candidate) : c_(candidate) {
    if (c_.kind == HeadKind::kVerticalSlash) estimate_lines(view, head);
    if (c_.kind == HeadKind::kBlockSparse) estimate_blocks(view, head);
  }

  /// The keys that the row at position `row` sees, without repeats.
  void keys_of(std::int32_t row, std::vector<std::int32_t>& out) const {
    out.clear();
    switch (c_.kind) {
      case HeadKind::kStream:
        for (std::int32_t j = 0; j < std::min(c_.vertical, row + 1); ++j) out.push_back(j);
        for (std::int32_t j = std::max(c_.vertical, row + 1 - c_.slash); j <= row; ++j)
          out.push_back(j);
        return;
      case HeadKind::kVerticalSlash:
        for (std::int32_t j : columns_) {
          if (j <= row) out.push_back(j);
        }
        for (std::int32_t o : offsets_) {
          if (o <= row && is_column_[row - o] == 0) out.push_back(row - o);
        }
        return;
      case HeadKind::kBlockSparse:
        for (std::int32_t b : blocks_[row / kBlock]) {
          for (std::int32_t j = b * kBlock; j <= std::min(row, (b + 1) * kBlock - 1); ++j)
            out.push_back(j);
        }
        return;
    }
  }

 private:
  void estimate_lines(const LayerView& view, int head) {
    LineMass attention = view.stats.line_mass(head, kSearchRows);  // [slots], [offsets]
    is_column_.assign(attention.vertical.size(), 0);
    columns_ = top_k_with_first(std::move(attention.vertical), kForcedLines, c_.vertical);
    offsets_ = top_k_with_first(std::move(attention.slash), kForcedLines, c_.slash);
    for (std::int32_t j : columns_) is_column_[j] = 1;
  }

  void estimate_blocks(const LayerView& view, int head) {
    const BlockPool keys = pool_keys(*view.backend, cache_of_head(view, head), BlockGrid(kBlock, 0),
                                     view.rows);                 // [blocks]
    const BlockPool queries = pool_queries(view, head, kBlock);  // [blocks]
    for (int r = 0; r < queries.blocks(); ++r) {
      std::vector<float> logits;  // [key blocks up to the diagonal]
      for (int c = 0; c <= r; ++c)
        logits.push_back(static_cast<float>(dot(queries.sum(r), keys.sum(c))));
      blocks_.push_back(top_k(logits, keys.blocks() / kBlockShare));
    }
  }

  Head c_;
  std::vector<std::int32_t> columns_, offsets_;    // key positions, distances: ascending
  std::vector<char> is_column_;                    // [n]
  std::vector<std::vector<std::int32_t>> blocks_;  // [row blocks][key blocks]
};

/// Attention output of one row that sees only `keys`: its probabilities [n], normalised over these
/// keys, times the values [n][head_dim].  Returns [head_dim].
std::vector<float> output(std::span<const float> probabilities, std::span<const std::int32_t> keys,
                          const std::vector<float>& values, std::size_t head_dim) {
  std::vector<float> out(head_dim, 0.0f);
  float mass = 0;
  for (std::int32_t j : keys) {
    const float p = probabilities[j];
    const float* v = values.data() + static_cast<std::size_t>(j) * head_dim;
    for (std::size_t d = 0; d < head_dim; ++d) out[d] += p * v[d];
    mass += p;
  }
  for (float& x : out) x = mass > 0 ? x / mass : 0;
  return out;
}

}  // namespace

std::vector<Head> pattern_candidates(PatternObjective objective) {
  std::vector<Head> out = {{HeadKind::kStream, 100, 800},
                           {HeadKind::kVerticalSlash, 30, 800},
                           {HeadKind::kVerticalSlash, 100, 750},
                           {HeadKind::kVerticalSlash, 500, 700},
                           {HeadKind::kVerticalSlash, 3500, 100}};
  if (objective == PatternObjective::kOutput) {
    out.push_back({HeadKind::kVerticalSlash, 100, 800});
    out.push_back({HeadKind::kVerticalSlash, 1000, 4096});
  }
  out.push_back({HeadKind::kBlockSparse});
  return out;
}

std::vector<HeadPattern> PatternSearch::plan(const LayerView& view) {
  if (view.rows <= s_.first_row) {
    throw input_error("pattern search: found a prompt of {} tokens, expected more than {}",
                      view.rows, s_.first_row);
  }
  found_->resize(static_cast<std::size_t>(view.shape.layers));
  auto& layer = (*found_)[view.layer];
  layer.resize(static_cast<std::size_t>(view.shape.heads));
  view.stats.for_each_head([&](int head) { layer[head] = best(view, head); });
  return {};
}

/// Each row's attention -> the share that each candidate's mask retains, or the changed output
/// elements -> summed over the rows -> the best candidate.
FoundPattern PatternSearch::best(const LayerView& view, int head) const {
  std::vector<Mask> masks;  // [candidates]
  for (const Head& c : s_.candidates) masks.emplace_back(view, head, c);
  const bool recall = s_.objective == PatternObjective::kRecall;
  const auto head_dim = static_cast<std::size_t>(view.shape.head_dim);
  const std::vector<float> values =  // [n][head_dim]
      recall ? std::vector<float>()
             : view.backend->rows_on_host(cache_of_head(view, head), KvRow::kValue, 0, view.rows);

  std::vector<double> scores(masks.size(), 0.0);  // [candidates]
  std::vector<std::int32_t> keys;
  const auto judge = [&](std::int32_t position, std::span<const float> row) {
    const std::vector<float> dense =
        recall ? std::vector<float>() : output(row, all_slots(position + 1), values, head_dim);
    for (std::size_t c = 0; c < masks.size(); ++c) {
      masks[c].keys_of(position, keys);
      if (recall) {
        for (std::int32_t j : keys) scores[c] += row[j];
        continue;
      }
      const std::vector<float> sparse = output(row, keys, values, head_dim);
      for (std::size_t d = 0; d < head_dim; ++d)
        scores[c] += std::abs(sparse[d] - dense[d]) > kVisible ? 1 : 0;
    }
  };
  const int rows = view.rows - s_.first_row;
  view.stats.for_each_row(head, s_.first_row, rows, judge);
  if (recall) {  // means over the rows; sums that differ only by rounding must tie
    for (double& s : scores) s = std::round(s / rows * 1e9) / 1e9;
  }
  const auto winner = recall ? std::max_element(scores.begin(), scores.end())
                             : std::min_element(scores.begin(), scores.end());
  return {s_.candidates[winner - scores.begin()], *winner};
}

Head as_vertical_slash(Head pattern) {
  if (pattern.kind == HeadKind::kBlockSparse) return Head{};
  pattern.kind = HeadKind::kVerticalSlash;
  return pattern;
}

std::string pattern_file(const FoundPatterns& found) {
  std::string out = "[";
  for (const auto& layer : found) {
    OrderedJson heads = OrderedJson::object();
    for (std::size_t h = 0; h < layer.size(); ++h) {
      const Head& p = layer[h].pattern;
      heads[std::to_string(h)] = {name_of(p.kind), p.vertical, p.slash, layer[h].score};
    }
    out += (out.size() == 1 ? "\n " : ",\n ") + heads.dump();
  }
  return out + "\n]\n";
}

}  // namespace turnbench
