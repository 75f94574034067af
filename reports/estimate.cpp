#include "reports/estimate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "common/random.h"

namespace turnbench {
namespace {

constexpr int kResamples = 2000;
constexpr double kTail = 0.025;
constexpr std::uint64_t kSeed = 20250101;

/// A dialogue's scores summed over its turns.
struct Sum {
  double score = 0;
  int turns = 0;
};

Sum sum_of(const Stratum::Turns& turns) {
  Sum out;
  for (const auto& [turn, score] : turns) {
    out.score += score;
    ++out.turns;
  }
  return out;
}

/// Strata with their dialogues numbered by population, for fast resampling.
class Resampler {
 public:
  explicit Resampler(const std::vector<const Stratum*>& strata) {
    std::map<std::string, std::set<std::string>> ids;
    for (const Stratum* s : strata) {
      for (const auto& [id, sum] : s->dialogues) ids[s->population].insert(id);
    }
    if (!strata.empty()) scale_ = strata.front()->scale;
    std::map<std::string, std::size_t> index;
    for (const auto& [population, members] : ids) {
      index[population] = sizes_.size();
      sizes_.push_back(members.size());
    }
    for (const Stratum* s : strata) {
      const auto& members = ids[s->population];
      strata_.push_back({index[s->population], {}});
      for (const std::string& id : members) {
        const auto found = s->dialogues.find(id);
        strata_.back().sums.push_back(found == s->dialogues.end() ? Sum{} : sum_of(found->second));
      }
    }
  }

  std::size_t size() const { return strata_.size(); }

  /// One draw with replacement for every population.
  std::vector<std::vector<std::size_t>> draw(Random& random) const {
    std::vector<std::vector<std::size_t>> out;
    for (std::size_t n : sizes_) {
      out.emplace_back(n);
      for (std::size_t& i : out.back()) i = random.below(n);
    }
    return out;
  }

  /// Mean over strata [first, last) of their means, under a draw (or plainly, without one).
  double mean(std::size_t first, std::size_t last,
              const std::vector<std::vector<std::size_t>>* draw) const {
    double total = 0;
    int counted = 0;
    for (std::size_t s = first; s < last; ++s) {
      double score = 0, turns = 0;
      const auto add = [&](const Sum& sum) {
        score += sum.score;
        turns += sum.turns;
      };
      if (draw == nullptr) {
        for (const Sum& sum : strata_[s].sums) add(sum);
      } else {
        for (std::size_t i : (*draw)[strata_[s].population]) add(strata_[s].sums[i]);
      }
      if (turns == 0) continue;
      total += score / turns;
      ++counted;
    }
    return counted == 0 ? 0 : scale_ * total / counted;
  }

 private:
  struct Numbered {
    std::size_t population;
    std::vector<Sum> sums;
  };
  double scale_ = 1;
  std::vector<std::size_t> sizes_;
  std::vector<Numbered> strata_;
};

template <typename Statistic>
void bootstrap(const Resampler& resampler, const Statistic& statistic, Estimate& out) {
  Random random(kSeed);
  std::vector<double> values;
  for (int i = 0; i < kResamples; ++i) {
    const auto draw = resampler.draw(random);
    values.push_back(statistic(&draw));
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * (kResamples - 1) + 0.5)];
  };
  out.low = std::min(out.mean, at(kTail));
  out.high = std::max(out.mean, at(1 - kTail));
}

/// Counts turns and dialogues.  True if every stratum has a scored turn, and there is a stratum.
bool count(const std::vector<const Stratum*>& strata, Estimate& out) {
  std::set<std::pair<std::string_view, std::string_view>> dialogues;
  bool complete = !strata.empty();
  for (const Stratum* s : strata) {
    out.failed += s->failed;
    int turns = 0;
    for (const auto& [id, scores] : s->dialogues) {
      turns += static_cast<int>(scores.size());
      if (!scores.empty()) dialogues.emplace(s->population, id);
    }
    out.turns += turns;
    complete &= turns > 0;
  }
  out.dialogues = static_cast<int>(dialogues.size());
  return complete;
}

/// The part of `stratum` whose turns `other` has too.
Stratum restricted(const Stratum& stratum, const Stratum& other) {
  Stratum out = stratum;
  for (auto& [id, turns] : out.dialogues) {
    const auto found = other.dialogues.find(id);
    std::erase_if(turns, [&, &id = id](const auto& turn) {
      return found == other.dialogues.end() || !found->second.contains(turn.first);
    });
  }
  std::erase_if(out.dialogues, [](const auto& d) { return d.second.empty(); });
  return out;
}

/// How large a mean may be of which all scores are 0, as a share: the largest weighted mean of the
/// populations' probabilities p under which that has the probability kTail or more, that is
/// product (1 - p)^n >= kTail.  Lagrange's condition gives 1 - p = lambda n / weight, or p = 0
/// where that exceeds 1: dialogues of one population say nothing about those of another.
double zero_bound(const std::vector<const Stratum*>& strata) {
  struct Population {
    double n = 0, weight = 0;
  };
  std::map<std::string_view, Population> named;
  for (const Stratum* s : strata) {
    Population& p = named[s->population];
    const auto n = static_cast<double>(s->dialogues.size());
    p.n = p.weight == 0 ? n : std::min(p.n, n);
    p.weight += 1 / static_cast<double>(strata.size());
  }
  std::vector<Population> open;
  for (const auto& [name, p] : named) open.push_back(p);
  std::sort(open.begin(), open.end(), [](const Population& a, const Population& b) {
    return a.n / a.weight < b.n / b.weight;
  });
  for (;; open.pop_back()) {
    double n = 0, logs = std::log(kTail);
    for (const Population& p : open) {
      n += p.n;
      logs -= p.n * std::log(p.n / p.weight);
    }
    const double lambda = std::exp(logs / n);
    if (open.size() > 1 && lambda * open.back().n / open.back().weight > 1) continue;
    double out = 0;
    for (const Population& p : open) out += p.weight - lambda * p.n;
    return out;
  }
}

}  // namespace

Estimate estimate(const std::vector<const Stratum*>& strata) {
  Estimate out;
  out.known = count(strata, out);
  if (!out.known) return out;
  const Resampler resampler(strata);
  out.mean = resampler.mean(0, resampler.size(), nullptr);
  bootstrap(
      resampler, [&](const auto* draw) { return resampler.mean(0, resampler.size(), draw); }, out);
  const bool scores =
      std::all_of(strata.begin(), strata.end(), [](const Stratum* s) { return s->is_score; });
  if (scores && out.low == out.high && (out.mean == 0 || out.mean == 100)) {
    const double bound = 100 * zero_bound(strata);
    (out.mean == 0 ? out.high : out.low) = out.mean == 0 ? bound : 100 - bound;
  }
  return out;
}

Estimate estimate_difference(const std::vector<StratumPair>& pairs) {
  std::vector<Stratum> ours, theirs;
  for (const auto& [stratum, baseline] : pairs) {
    ours.push_back(restricted(*stratum, *baseline));
    theirs.push_back(restricted(*baseline, *stratum));
  }
  std::vector<const Stratum*> all;
  for (const Stratum& s : ours) all.push_back(&s);
  Estimate out;
  out.known = count(all, out);
  if (!out.known) return out;
  for (const Stratum& s : theirs) all.push_back(&s);
  const Resampler resampler(all);
  const auto difference = [&](const auto* draw) {
    return resampler.mean(0, ours.size(), draw) -
           resampler.mean(ours.size(), resampler.size(), draw);
  };
  out.mean = difference(static_cast<const std::vector<std::vector<std::size_t>>*>(nullptr));
  bootstrap(resampler, difference, out);
  return out;
}

}  // namespace turnbench
