#include "reports/estimate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/random.h"

namespace turnbench {
namespace {

constexpr int kResamples = 2000;
constexpr double kTail = 0.025;
constexpr std::uint64_t kSeed = 20250101;

/// Strata with their dialogues numbered by population, for fast resampling.
class Resampler {
 public:
  explicit Resampler(const std::vector<const Stratum*>& strata) {
    std::map<std::string, std::set<std::string>> ids;
    for (const Stratum* s : strata) {
      for (const auto& [id, sum] : s->dialogues) ids[s->population].insert(id);
    }
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
        strata_.back().sums.push_back(found == s->dialogues.end() ? Stratum::Sum{} : found->second);
      }
    }
  }

  std::size_t size() const { return strata_.size(); }
  const std::vector<std::size_t>& sizes() const { return sizes_; }

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
      const auto add = [&](const Stratum::Sum& sum) {
        score += sum.score;
        turns += sum.turns;
      };
      if (draw == nullptr) {
        for (const Stratum::Sum& sum : strata_[s].sums) add(sum);
      } else {
        for (std::size_t i : (*draw)[strata_[s].population]) add(strata_[s].sums[i]);
      }
      if (turns == 0) continue;
      total += score / turns;
      ++counted;
    }
    return counted == 0 ? 0 : 100 * total / counted;
  }

 private:
  struct Numbered {
    std::size_t population;
    std::vector<Stratum::Sum> sums;
  };
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

void count(const std::vector<const Stratum*>& strata, Estimate& out) {
  for (const Stratum* s : strata) {
    out.failed += s->failed;
    for (const auto& [id, sum] : s->dialogues) out.turns += sum.turns;
  }
}

/// The part of `stratum` whose dialogues `other` has too.
Stratum restricted(const Stratum& stratum, const Stratum& other) {
  Stratum out = stratum;
  std::erase_if(out.dialogues, [&](const auto& d) { return !other.dialogues.contains(d.first); });
  return out;
}

}  // namespace

Estimate estimate(const std::vector<const Stratum*>& strata) {
  Estimate out;
  count(strata, out);
  if (out.turns == 0) return out;
  const Resampler resampler(strata);
  out.mean = resampler.mean(0, resampler.size(), nullptr);
  bootstrap(
      resampler, [&](const auto* draw) { return resampler.mean(0, resampler.size(), draw); }, out);
  const bool scores =
      std::all_of(strata.begin(), strata.end(), [](const Stratum* s) { return s->is_score; });
  if (scores && out.low == out.high && (out.mean == 0 || out.mean == 100)) {
    double dialogues = 0;
    for (std::size_t n : resampler.sizes()) dialogues += static_cast<double>(n);
    const double bound = 100 * (1 - std::pow(kTail, 1 / dialogues));
    (out.mean == 0 ? out.high : out.low) = out.mean == 0 ? bound : 100 - bound;
  }
  return out;
}

Estimate estimate_difference(const std::vector<StratumPair>& pairs) {
  std::vector<Stratum> ours, theirs;
  for (const auto& [stratum, baseline] : pairs) {
    Stratum a = restricted(*stratum, *baseline), b = restricted(*baseline, *stratum);
    if (a.dialogues.empty()) continue;
    ours.push_back(std::move(a));
    theirs.push_back(std::move(b));
  }
  std::vector<const Stratum*> all;
  for (const Stratum& s : ours) all.push_back(&s);
  Estimate out;
  count(all, out);
  if (out.turns == 0) return out;
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
