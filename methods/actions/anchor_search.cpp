#include "methods/actions/anchor_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "methods/parts/scores.h"
#include "methods/parts/shared_selection.h"

namespace turnbench {
namespace {

/// Reads the attention of a pass that follows the first part of a prompt.
class AttentionReader : public LayerObserver {
 public:
  void attention(const LayerView& view) override {
    if (view.layer == std::ssize(found_.layers)) found_.layers.emplace_back(view.sets.size());
    std::vector<HeadAttention>& heads = found_.layers[view.layer];
    const std::int64_t of_set = view.heads_per_set();
    for (int r = 0; r < view.rows; ++r) {
      const std::int32_t position = view.first_position + r, tokens = position + 1;
      std::vector<std::int32_t> seen;
      if (view.sliding_window > 0) {
        seen = all_slots(tokens);
        std::fill_n(seen.begin(), std::max(0, tokens - view.sliding_window), -1);
      }
      view.scratch->clear();
      std::vector<KeyScoreJob> scoring;
      std::vector<ReduceHeadsJob> reducing;
      const MatrixView queries(view.queries.row(r), view.shape.heads, view.shape.head_dim);
      for (std::size_t s = 0; s < view.sets.size(); ++s) {
        const MatrixView<float> scores = view.scratch->matrix(of_set, tokens);
        scoring.push_back({&view.sets[s],
                           queries.rows_at(static_cast<std::int64_t>(s) * of_set, of_set), seen,
                           scores});
        reducing.push_back({scores, HeadReduction::kSumOfSoftmax, view.scratch->matrix(1, tokens)});
      }
      view.backend->score_keys(view.scale, scoring);
      view.backend->reduce_heads(reducing);
      for (std::size_t s = 0; s < view.sets.size(); ++s) {
        std::vector<float>& row = heads[s].rows.emplace_back(static_cast<std::size_t>(tokens));
        view.backend->memory()->copy_floats(reducing[s].out.data, row.data(), row.size());
      }
    }
  }

  bool reads_residuals() const override { return true; }
  void residuals(int layer, MatrixView<const float> before,
                 MatrixView<const float> after) override {
    found_.importance.resize(static_cast<std::size_t>(layer) + 1);
    for (std::int64_t r = 0; r < before.rows; ++r) {
      double product = 0, own = 0, other = 0;
      for (std::int64_t i = 0; i < before.columns; ++i) {
        const double x = before(r, i), y = after(r, i);
        product += x * y;
        own += x * x;
        other += y * y;
      }
      found_.importance.back() += 1 - product / std::sqrt(own * other);
    }
    if (layer == 0) rows_ += before.rows;
  }

  PromptAttention result() {
    for (double& sum : found_.importance) sum /= static_cast<double>(rows_);
    return std::move(found_);
  }

 private:
  PromptAttention found_;
  std::int64_t rows_ = 0;
};

}  // namespace

PromptAttention measure_prompt(Engine& engine, const TokenizedDialogue& dialogue, int queries) {
  const std::span<const int> tokens = dialogue.tokens;
  const std::size_t first =
      dialogue.prompt_tokens - std::min(dialogue.prompt_tokens, static_cast<std::size_t>(queries));
  const DialogueView view{dialogue.tokens, dialogue.spans, dialogue.turn, 0, {}};
  Sequence sequence = engine.make_sequence({});
  if (first > 0) {
    const Pass before{.sequence = &sequence, .tokens = tokens.first(first), .dialogue = &view};
    engine.prefill({&before, 1});
  }
  AttentionReader reader;
  const Pass pass{.sequence = &sequence,
                  .tokens = tokens.subspan(first),
                  .dialogue = &view,
                  .prompt_end = true,
                  .all_logits = true,
                  .observer = &reader};
  engine.prefill({&pass, 1});
  return reader.result();
}

double AnchorSearch::share(int a, int by, int b, int of) const {
  const auto at = ((std::size_t{1} * a * heads_ + by) * layers_ + b) * heads_ + of;
  return shares_[at] / prompts_;
}

void AnchorSearch::add(const PromptAttention& prompt, int k) {
  const auto layers = static_cast<int>(prompt.layers.size()),
             heads = static_cast<int>(prompt.layers.front().size());
  if (prompts_ == 0) {
    layers_ = layers;
    heads_ = heads;
    shares_.assign(std::size_t{1} * layers * heads * layers * heads, 0);
    importance_.assign(static_cast<std::size_t>(layers), 0);
  }
  ++prompts_;
  for (int l = 0; l < layers; ++l) importance_[l] += prompt.importance[l];
  const std::size_t queries = prompt.layers.front().front().rows.size(),
                    all = std::size_t{1} * layers * heads;
  const auto row_of = [&](std::size_t head, std::size_t query) -> const std::vector<float>& {
    return prompt.layers[head / heads][head % heads].rows[query];
  };
  std::vector<double> least(all * all, std::numeric_limits<double>::infinity());
  std::vector<std::vector<std::int32_t>> best(all);
  for (std::size_t q = 0; q < queries; ++q) {
    for (std::size_t h = 0; h < all; ++h) best[h] = top_k(row_of(h, q), k);
    for (std::size_t of = 0; of < all; ++of) {
      const std::vector<float>& weights = row_of(of, q);
      const auto mass = [&](const std::vector<std::int32_t>& tokens) {
        double sum = 0;
        for (const std::int32_t token : tokens) sum += weights[token];
        return sum;
      };
      const double own = mass(best[of]);
      for (std::size_t by = 0; by / heads <= of / heads; ++by) {
        double& smallest = least[by * all + of];
        smallest = std::min(smallest, mass(best[by]) / own);
      }
    }
  }
  for (std::size_t i = 0; i < least.size(); ++i) {
    if (std::isfinite(least[i])) shares_[i] += least[i];
  }
}

std::vector<std::vector<double>> AnchorSearch::similarity() const {
  std::vector<std::vector<double>> out(static_cast<std::size_t>(layers_),
                                       std::vector<double>(static_cast<std::size_t>(layers_)));
  for (int a = 0; a < layers_; ++a) {
    for (int b = a; b < layers_; ++b) {
      double sum = 0;
      for (int of = 0; of < heads_; ++of) {
        double best = 0;
        for (int by = 0; by < heads_; ++by) best = std::max(best, share(a, by, b, of));
        sum += best;
      }
      out[a][b] = sum / heads_ * importance_[b] / prompts_;
    }
  }
  return out;
}

AnchorMap AnchorSearch::find(int anchors) const {
  if (anchors < 1 || anchors > layers_) {
    throw input_error("found {} anchors, expected 1 to the model's {} layers", anchors, layers_);
  }
  const std::vector<std::vector<double>> similar = similarity();
  // value[k][end]: of the best k anchors for layers [0, end); last[k][end]: the last of them.
  const auto layers = static_cast<std::size_t>(layers_), count = static_cast<std::size_t>(anchors);
  const double none = -std::numeric_limits<double>::infinity();
  std::vector value(count + 1, std::vector(layers + 1, none));
  std::vector last(count + 1, std::vector(layers + 1, std::size_t{0}));
  value[0][0] = 0;
  for (std::size_t k = 1; k <= count; ++k) {
    for (std::size_t end = 1; end <= layers; ++end) {
      for (std::size_t anchor = 0; anchor < end; ++anchor) {
        const double with =
            std::accumulate(similar[anchor].begin() + static_cast<int>(anchor),
                            similar[anchor].begin() + static_cast<int>(end), value[k - 1][anchor]);
        if (with <= value[k][end]) continue;
        value[k][end] = with;
        last[k][end] = anchor;
      }
    }
  }
  AnchorMap out{.anchors = {}, .heads = {}};
  for (std::size_t k = count, end = layers; k > 0; --k) {
    end = last[k][end];
    out.anchors.insert(out.anchors.begin(), static_cast<int>(end));
  }
  const SelectingLayers selecting{out.anchors, {}};
  for (int l = 0; l < layers_; ++l) {
    const int anchor = selecting.last_at(l, layers_);
    std::vector<int>& heads = out.heads.emplace_back();
    for (int of = 0; of < heads_; ++of) {
      int best = 0;
      for (int by = 1; by < heads_; ++by) {
        if (share(anchor, by, l, of) > share(anchor, best, l, of)) best = by;
      }
      heads.push_back(best);
    }
  }
  return out;
}

}  // namespace turnbench
