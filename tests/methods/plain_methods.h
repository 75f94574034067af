#pragma once

// The eviction methods in their plainest form: from complete attention matrices in double
// precision; every score is a new sum, every ranking is a full sort.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "tests/methods/plain_decoder.h"

namespace turnbench::test {

using Slots = std::vector<int>;

/// A layer after its attention was computed.
struct Seen {
  int layer = 0, layers = 0;
  const PlainSets& sets;
  const Attention& attention;
  std::span<const int> tokens;  ///< of the whole dialogue
  int prompt_tokens = 0;        ///< of `tokens`, up to the end of the turn's prompt
  int step = 0;                 ///< within the answer; 0 after the prompt
  /// The smallest relative difference so far between a chosen score and one that was not chosen.
  /// Equal scores are equal in any arithmetic here; nearly equal ones would make a test depend on
  /// rounding.
  double& closest;

  void prefer(double better, double worse) const {
    if (better > worse) closest = std::min(closest, (better - worse) / better);
  }
  int size(std::size_t set = 0) const { return sets[set].size(); }
  int rows() const { return static_cast<int>(attention[0].size()); }
};

/// The slots that each set keeps; an empty result keeps all.  `steps`: also called after each step.
struct PlainMethod {
  std::function<std::vector<Slots>(const Seen&)> keep;
  bool steps = false;
};

inline Slots range(int begin, int end) {
  Slots out;
  for (int i = begin; i < end; ++i) out.push_back(i);
  return out;
}

inline Slots joined(Slots a, const Slots& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Indices by descending score; ties go to the lower index.
inline Slots by_score(const Row& scores) {
  Slots out = range(0, static_cast<int>(scores.size()));
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  return out;
}

inline Slots top(const Seen& seen, const Row& scores, int k) {
  Slots out = by_score(scores);
  const auto count = static_cast<std::size_t>(std::max(k, 0));
  if (count >= out.size()) return range(0, static_cast<int>(out.size()));
  if (count > 0) {
    seen.prefer(scores[out[count - 1]], scores[out[count]]);
  }
  out.resize(count);
  std::sort(out.begin(), out.end());
  return out;
}

/// Attention of `heads` heads from `first` on to the slots below `count`, summed over the last
/// rows.
inline Row column_sums(const Seen& seen, std::size_t first, std::size_t heads, int last_rows,
                       int count) {
  Row out(static_cast<std::size_t>(std::max(count, 0)), 0);
  for (std::size_t h = first; h < first + heads; ++h) {
    for (int r = std::max(0, seen.rows() - last_rows); r < seen.rows(); ++r) {
      for (std::size_t j = 0; j < out.size(); ++j) out[j] += seen.attention[h][r][j];
    }
  }
  return out;
}

/// A number of tokens; a value below 1 is a share of the prompt's tokens.
inline int tokens_of(double budget, int prompt_tokens) {
  return static_cast<int>(budget < 1 ? std::floor(budget * prompt_tokens + 1e-9) : budget);
}

/// How three layers share their tokens: in proportion to weights, or as a pyramid.
struct Sharing {
  Row weights = {1, 1, 1};
  int beta = 0;                 ///< parameter of the pyramid; 0: no pyramid
  bool short_is_equal = false;  ///< no pyramid for prompts of less than twice the mean

  /// The tokens of a layer out of `prompt` - `fixed` candidates; the mean over the layers is
  /// `base`.
  int of(int layer, int base, int prompt, int fixed) const {
    const int candidates = prompt - fixed;
    if (base >= candidates || (beta == 0 && weights == Row{1, 1, 1})) return base;
    if (beta > 0) {
      if (short_is_equal && prompt < 2 * base) return base;
      const int high = std::min(candidates, 2 * base - base / beta);
      return layer == 0 ? high : layer == 1 ? base : 2 * base - high;
    }
    // Two layers may have a remainder of 1/2 each; the lower layer gets the token.  The weights of
    // these tests lead to no other remainders.
    const double sum = weights[0] + weights[1] + weights[2];
    std::vector<int> out;
    int left = 3 * base;
    for (double w : weights) {
      out.push_back(static_cast<int>(3 * base * w / sum));
      left -= out.back();
    }
    out[0] += left;
    return out[layer];
  }
};

inline PlainMethod plain_streaming(double budget, int sinks, const Sharing& sharing = {}) {
  return {[=](const Seen& seen) {
            const int n = seen.size(), p = seen.prompt_tokens;
            const int recent = sharing.of(seen.layer, tokens_of(budget, p) - sinks, p, sinks);
            if (n <= sinks + recent) return std::vector<Slots>();
            return std::vector<Slots>(seen.sets.size(),
                                      joined(range(0, sinks), range(n - recent, n)));
          },
          true};
}

inline PlainMethod plain_tova(double budget) {
  return {[=](const Seen& seen) {
            const Row last = column_sums(seen, 0, seen.attention.size(), 1, seen.size());
            return std::vector<Slots>(seen.sets.size(),
                                      top(seen, last, tokens_of(budget, seen.prompt_tokens)));
          },
          true};
}

struct Hitters {
  double budget = 0, recent = 0.5;
  bool counts_current = false;  ///< the next step's token counts as a recent one
  int window = 0;               ///< H2O after the prompt only: tokens that are always kept
  double last_temperature = 1;
  int t_max = 1;
  Sharing sharing = {};
};

/// H2O, and Keyformer without noise: the attention of all rows, summed for the tokens in the cache.
inline PlainMethod plain_hitters(const Hitters& s) {
  const auto keep = [s, sums = std::map<int, std::vector<Row>>()](const Seen& seen) mutable {
    const double temperature =
        1 + (s.last_temperature - 1) * std::min(1.0, static_cast<double>(seen.step) / s.t_max);
    const int budget = tokens_of(s.budget, seen.prompt_tokens);
    const int always = s.window > 0 ? s.window : static_cast<int>(s.recent * budget + 1e-9);
    const int hitters = s.sharing.of(seen.layer, budget - always, seen.prompt_tokens, always);
    const int recent = always - (s.counts_current ? 1 : 0);
    std::vector<Row>& mine = sums[seen.layer];
    if (s.window > 0) mine.clear();
    mine.resize(seen.sets.size());
    std::vector<Slots> out;
    for (std::size_t set = 0; set < seen.sets.size(); ++set) {
      const int n = seen.size(set);
      Row& f = mine[set];
      f.resize(static_cast<std::size_t>(n), 0);
      const std::size_t heads = seen.attention.size() / seen.sets.size();
      for (std::size_t h = set * heads; h < (set + 1) * heads; ++h) {
        for (const Row& p : seen.attention[h]) {
          double sum = 0;
          for (double x : p) sum += std::pow(x, 1 / temperature);
          for (std::size_t j = 0; j < p.size(); ++j) f[j] += std::pow(p[j], 1 / temperature) / sum;
        }
      }
      Slots slots = range(0, n);
      if (n > recent + hitters) {
        const Row old(f.begin(), f.end() - recent);
        slots = joined(top(seen, old, hitters), range(n - recent, n));
      }
      Row rest;
      for (int slot : slots) rest.push_back(f[slot]);
      f = rest;
      out.push_back(slots);
    }
    return out;
  };
  return {keep, s.window == 0};
}

/// SnapKV's scores: summed over the rows of the window and the heads of a set, which ranks like
/// their mean, and max-pooled.
struct Window {
  double budget = 0;
  int window = 4, kernel = 3;
  Sharing sharing = {};
  bool per_query_head = false;

  int base(const Seen& seen) const {
    return sharing.of(seen.layer, tokens_of(budget, seen.prompt_tokens) - window,
                      seen.prompt_tokens, window);
  }
  std::size_t lists(const Seen& seen) const {
    return per_query_head ? seen.attention.size() : seen.sets.size();
  }
  int size(const Seen& seen, std::size_t list) const {
    return seen.size(list * seen.sets.size() / lists(seen));
  }
  Row scores(const Seen& seen, std::size_t list) const {
    const std::size_t heads = seen.attention.size() / lists(seen);
    const int m = size(seen, list) - window;
    const Row sums = column_sums(seen, list * heads, heads, window, m);
    Row out;
    for (int j = 0; j < m; ++j) {
      const int begin = std::max(0, j - kernel / 2), end = std::min(m, j + kernel / 2 + 1);
      out.push_back(*std::max_element(sums.begin() + begin, sums.begin() + end));
    }
    return out;
  }
  /// The `count` best slots before the window, and the window.
  Slots kept(const Seen& seen, std::size_t list, const Row& scores, int count) const {
    const int n = size(seen, list);
    return joined(top(seen, scores, count), range(std::max(0, n - window), n));
  }
};

inline PlainMethod plain_snapkv(const Window& w) {
  return {[w](const Seen& seen) {
    std::vector<Slots> out;
    for (std::size_t i = 0; i < w.lists(seen); ++i)
      out.push_back(w.kept(seen, i, w.scores(seen, i), w.base(seen)));
    return out;
  }};
}

inline PlainMethod plain_adakv(const Window& w, double alpha) {
  return {[w, alpha](const Seen& seen) {
    Row joint;
    std::vector<Row> scores;
    std::vector<std::size_t> owner;
    for (std::size_t s = 0; s < seen.sets.size(); ++s) {
      scores.push_back(w.scores(seen, s));
      joint.insert(joint.end(), scores[s].begin(), scores[s].end());
      owner.resize(joint.size(), s);
    }
    const int base = w.base(seen), total = base * static_cast<int>(seen.sets.size());
    if (total >= static_cast<int>(joint.size())) return std::vector<Slots>();
    std::vector<int> wanted(seen.sets.size(), 0), count;
    for (int j : top(seen, joint, total)) ++wanted[owner[j]];
    // Each head gets the floor of its target.  Heads with free candidates then get one more token
    // at a time, in the order of their remainders.
    Row remainder;
    for (int x : wanted) {
      const double target = alpha * base + (1 - alpha) * x;
      const auto cap = static_cast<int>(scores[count.size()].size());
      count.push_back(std::min(cap, static_cast<int>(target + 1e-9)));
      remainder.push_back(target - static_cast<int>(target + 1e-9));
    }
    int left = total - std::accumulate(count.begin(), count.end(), 0);
    while (left > 0) {
      for (int h : by_score(remainder)) {
        const auto at = static_cast<std::size_t>(h);
        if (left == 0 || count[at] == static_cast<int>(scores[at].size())) continue;
        ++count[at];
        --left;
      }
    }
    std::vector<Slots> out;
    for (std::size_t s = 0; s < count.size(); ++s)
      out.push_back(w.kept(seen, s, scores[s], count[s]));
    return out;
  }};
}

/// Scores of ChunkKV and SABlock: the mean over all heads of the layer, without pooling.
inline Row layer_scores(const Seen& seen, int window) {
  Row out = column_sums(seen, 0, seen.attention.size(), window, seen.size() - window);
  for (double& x : out) x /= static_cast<double>(seen.attention.size());
  return out;
}

/// `count` slots in blocks of `size`, the best block first.  A last block that does not fit as a
/// whole gives its first slots if `mean`, otherwise its best.
inline Slots in_order(const Seen& seen, const Row& scores, int size, int count, bool mean) {
  const int n = static_cast<int>(scores.size());
  Row blocks;
  for (int begin = 0; begin < n; begin += size) {
    const auto from = scores.begin() + begin, to = scores.begin() + std::min(n, begin + size);
    blocks.push_back(std::accumulate(from, to, 0.0) / (mean ? static_cast<double>(to - from) : 1));
  }
  const Slots order = by_score(blocks);
  Slots out;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int left = count - static_cast<int>(out.size()), begin = order[i] * size;
    if (i > 0) {  // also compares the last chosen block with the next one
      seen.prefer(blocks[order[i - 1]], blocks[order[i]]);
    }
    if (left <= 0) break;
    const int end = std::min(n, begin + size);
    const Row own(scores.begin() + begin, scores.begin() + end);
    const Slots best = mean ? range(0, std::min(left, end - begin)) : top(seen, own, left);
    for (int slot : best) out.push_back(begin + slot);
  }
  std::sort(out.begin(), out.end());
  return out;
}

inline PlainMethod plain_chunkkv(double budget, int window, int chunk) {
  return {[=](const Seen& seen) {
    const int n = seen.size(), count = tokens_of(budget, seen.prompt_tokens) - window;
    if (count >= n - window) return std::vector<Slots>();
    const Slots chosen = in_order(seen, layer_scores(seen, window), chunk, count, true);
    return std::vector<Slots>(seen.sets.size(), joined(chosen, range(n - window, n)));
  }};
}

/// SABlock with its defaults: lambda = gamma = 0.5, tau = 0.8, blocks of at most 10 tokens.
/// `ends(token)` is true if a segment ends after the token.
inline PlainMethod plain_sablock(double budget, int window,
                                 const std::function<bool(int token)>& ends) {
  return {[=](const Seen& seen) {
    const int n = seen.size(), m = n - window,
              count = tokens_of(budget, seen.prompt_tokens) - window;
    if (count >= m) return std::vector<Slots>();
    const Row s = layer_scores(seen, window);
    std::vector<Slots> segments;  // segments with candidates
    int segment = 0, last = -1;
    for (int slot = 0, position = 0; slot < m; ++slot) {
      for (; position < seen.sets[0].positions[slot]; ++position)
        segment += ends(seen.tokens[position]) ? 1 : 0;
      if (segment != last) segments.emplace_back();
      last = segment;
      segments.back().push_back(slot);
    }
    Row weight;
    for (const Slots& members : segments) {
      double sum = 0, entropy = 0;
      for (int j : members) sum += s[j];
      for (int j : members) {
        const double p = s[j] / (sum + 1e-8);
        entropy -= p * std::log(p + 1e-8);
      }
      const auto size = static_cast<double>(members.size());
      const double diversity = size > 1 ? entropy / std::log(size) : 0;
      weight.push_back(sum / size * (1 + 0.5 * diversity));
    }
    const double heaviest = *std::max_element(weight.begin(), weight.end());
    Row guided = s;
    for (std::size_t k = 0; k < segments.size(); ++k) {
      for (int j : segments[k]) guided[j] *= 1 + 0.5 * weight[k] / heaviest;
    }
    const Slots best = top(seen, guided, count);
    Slots out;
    for (const Slots& members : segments) {
      Row own;
      int b = 0;
      for (int j : members) {
        own.push_back(guided[j]);
        b += std::binary_search(best.begin(), best.end(), j) ? 1 : 0;
      }
      const auto mass = [&](const Slots& places) {
        double sum = 0;
        for (int i : places) sum += own[i];
        return sum;
      };
      for (int size = std::min(10, b); size >= 1; --size) {
        const Slots places = in_order(seen, own, size, b, false);
        const double all = mass(top(seen, own, b)), held = mass(places);
        seen.prefer(std::max(held, 0.8 * all), std::min(held, 0.8 * all));
        if (held < 0.8 * all) continue;
        for (int i : places) out.push_back(members[i]);
        break;
      }
    }
    std::sort(out.begin(), out.end());
    return std::vector<Slots>(seen.sets.size(), joined(out, range(m, n)));
  }};
}

}  // namespace turnbench::test
