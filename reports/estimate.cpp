#include "reports/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/statistics/contributions.h"
#include "reports/statistics/equivalence.h"
#include "reports/statistics/power.h"

namespace turnbench {
namespace {

/// Counts and mean, without an interval.
Estimate counted(const Contributions& c, double scale) {
  Estimate out;
  out.known = c.known;
  if (c.known) out.mean = scale * c.mean;
  out.dialogues = c.dialogues;
  for (const Contributions::OfPopulation& p : c.populations)
    out.units += static_cast<int>(p.present.size());
  out.turns = c.turns;
  return out;
}

Interval scaled(const Interval& interval, double scale) {
  return {scale * interval.low, scale * interval.high};
}

/// The interval of the difference between pairs with these contributions is left out if their
/// spread is not known.
Estimate paired_estimate(const Contributions& c, const Spread& spread,
                         const std::vector<StratumPair>& pairs) {
  if (pairs.empty()) return {};
  const double scale = pairs.front().stratum->scale;
  Estimate out = counted(c, scale);
  for (const StratumPair& pair : pairs) out.failed += pair.stratum->failed;
  if (!spread.known) return out;
  out.interval = scaled(
      c.in_range ? difference_interval(c.mean, spread) : value_interval(c.mean, spread), scale);
  return out;
}

}  // namespace

Estimate estimate(const std::vector<const Stratum*>& strata) {
  const Contributions c = contributions(strata);
  const double scale = strata.empty() ? 1 : strata.front()->scale;
  Estimate out = counted(c, scale);
  for (const Stratum* s : strata) out.failed += s->failed;
  const Spread spread = spread_of(c);
  if (!spread.known) return out;
  Interval interval = c.in_range ? share_interval(c.mean, spread) : value_interval(c.mean, spread);
  // Values that are never negative have no negative mean (except for rounding of a mean of 0).  For
  // metrics whose scores are not shares, no range is known.
  const Stratum& any = *strata.front();
  if (!any.is_share && !any.is_signed && c.mean >= 0) interval.low = std::max(interval.low, 0.0);
  if (std::all_of(strata.begin(), strata.end(), [](const Stratum* s) { return s->is_exact; }))
    interval = {c.mean, c.mean};
  out.interval = scaled(interval, scale);
  return out;
}

Estimate paired_estimate(const std::vector<StratumPair>& pairs) {
  const Contributions c = contributions(pairs);
  return paired_estimate(c, spread_of(c), pairs);
}

std::vector<std::optional<Difference>> compare(const std::vector<std::vector<StratumPair>>& family,
                                               const Comparison& comparison) {
  std::vector<Contributions> all;
  for (const std::vector<StratumPair>& pairs : family) all.push_back(contributions(pairs));
  std::vector<std::optional<Difference>> out(family.size());
  std::vector<const Contributions*> known;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < family.size(); ++i) {
    const Contributions& c = all[i];
    if (!c.known) continue;
    known.push_back(&c);
    numbers.push_back(i);
    const double scale = family[i].front().stratum->scale;
    const Spread spread = spread_of(c);
    Difference& difference = out[i].emplace();
    difference.estimate = paired_estimate(c, spread, family[i]);
    if (spread.known && comparison.margin > 0 && c.in_range)
      difference.equivalence = equivalence_p(c.mean, spread, c, comparison.margin / scale);
  }
  const std::vector<PValue> tested = test_family(known, comparison.adjustment);
  for (std::size_t i = 0; i < numbers.size(); ++i) out[numbers[i]]->against_zero = tested[i];
  return out;
}

std::optional<double> equivalence_to(double published, const std::vector<const Stratum*>& strata,
                                     double margin) {
  Contributions c = contributions(strata);
  if (strata.empty() || !c.in_range) return {};
  const double scale = strata.front()->scale;
  c.subtract(published / scale);
  const Spread spread = spread_of(c);
  if (!spread.known) return {};
  return equivalence_to_constant_p(c.mean, spread, c, margin / scale);
}

NeededDialogues needed_dialogues(const std::vector<StratumPair>& pairs, double points) {
  const Contributions c = contributions(pairs);
  const Spread spread = spread_of(c);
  if (!c.in_range) return {{}, "unknown: points are of 100, and these values are no shares"};
  if (!spread.known) return {{}, "unknown: a dataset has fewer than two dialogues"};
  const auto number = dialogues_needed(spread, points / pairs.front().stratum->scale);
  return {number, number ? "" : fmt::format("more than {}", kMostDialogues)};
}

}  // namespace turnbench
