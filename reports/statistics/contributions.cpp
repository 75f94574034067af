#include "reports/statistics/contributions.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace turnbench {
namespace {

/// Accumulates strata: first the sums of each, then, when their number is known, the parts.
class ContributionSums {
 public:
  explicit ContributionSums(std::size_t strata) : strata_(static_cast<double>(strata)) {
    out_.known = strata > 0;
  }

  /// `turns`: sorted by dialogue.
  void add(const std::shared_ptr<const Population>& population,
           const std::vector<TurnValue>& turns) {
    if (turns.empty()) {
      out_.known = false;
      return;
    }
    double sum = 0;
    for (const TurnValue& t : turns) sum += t.value;
    const auto count = static_cast<double>(turns.size());
    out_.mean += sum / count / strata_;
    out_.turns += static_cast<int>(turns.size());
    const std::shared_ptr<const Units> units = population->units ? population->units : population;
    Sums& of = populations_[units->name];
    of.units = units;
    of.weight += 1 / strata_;
    of.of_unit.resize(units->ids.size());
    std::vector<bool>& seen = seen_[population->name];
    seen.resize(population->ids.size());
    for (std::size_t i = 0; i < turns.size();) {
      const std::uint32_t dialogue = turns[i].dialogue;
      OfUnit& unit = of.of_unit[population->units ? population->unit_of[dialogue] : dialogue];
      double own = 0, own_turns = 0;
      for (; i < turns.size() && turns[i].dialogue == dialogue; ++i) {
        own += turns[i].value;
        ++own_turns;
      }
      if (!seen[dialogue]) {
        seen[dialogue] = true;
        ++unit.dialogues;
        ++out_.dialogues;
      }
      unit.part += own / (strata_ * count);
      unit.full_part += own_turns / (strata_ * count);
      unit.residual += (own - own_turns * sum / count) / (strata_ * count);
    }
  }

  Contributions take() {
    for (auto& [name, of] : populations_) {
      Contributions::OfPopulation& out = out_.populations.emplace_back();
      out.units = of.units;
      out.weight = of.weight;
      double squares = 0;
      bool groups = false;
      for (std::size_t i = 0; i < of.of_unit.size(); ++i) {
        const OfUnit& unit = of.of_unit[i];
        if (unit.dialogues == 0) continue;
        out.present.push_back(static_cast<std::uint32_t>(i));
        out.parts.push_back(unit.part);
        out.full_parts.push_back(unit.full_part);
        out.residuals.push_back(unit.residual);
        squares += unit.full_part * unit.full_part;
        groups |= unit.dialogues > 1;
      }
      out.size = groups ? of.weight * of.weight / squares : static_cast<double>(out.present.size());
    }
    return std::move(out_);
  }

  void limit(const Stratum& stratum) {
    out_.in_range &= stratum.is_share &&
                     std::all_of(stratum.turns.begin(), stratum.turns.end(),
                                 [](const TurnValue& t) { return t.value >= 0 && t.value <= 1; });
  }

 private:
  struct OfUnit {
    double part = 0, full_part = 0, residual = 0;
    int dialogues = 0;
  };
  struct Sums {
    std::shared_ptr<const Units> units;
    double weight = 0;
    std::vector<OfUnit> of_unit;  // by index
  };
  double strata_;
  std::map<std::string_view, Sums> populations_;        // the names are owned by the units
  std::map<std::string_view, std::vector<bool>> seen_;  // dialogues, by dataset
  Contributions out_;
};

/// The differences on the turns that both have.
std::vector<TurnValue> common_turns(const Stratum& ours, const Stratum& theirs) {
  std::vector<TurnValue> out;
  if (ours.population != theirs.population) return out;
  out.reserve(ours.turns.size());
  auto other = theirs.turns.begin();
  for (const TurnValue& t : ours.turns) {
    while (
        other != theirs.turns.end() &&
        (other->dialogue < t.dialogue || (other->dialogue == t.dialogue && other->turn < t.turn))) {
      ++other;
    }
    if (other == theirs.turns.end()) break;
    if (other->dialogue == t.dialogue && other->turn == t.turn)
      out.push_back({t.dialogue, t.turn, t.value - other->value});
  }
  return out;
}

}  // namespace

void Contributions::subtract(double constant) {
  mean -= constant;
  for (OfPopulation& p : populations) {
    for (std::size_t i = 0; i < p.parts.size(); ++i) p.parts[i] -= constant * p.full_parts[i];
  }
}

Contributions contributions(const std::vector<const Stratum*>& strata) {
  ContributionSums sums(strata.size());
  for (const Stratum* s : strata) {
    sums.limit(*s);
    sums.add(s->population, s->turns);
  }
  return sums.take();
}

Contributions contributions(const std::vector<StratumPair>& pairs) {
  ContributionSums sums(pairs.size());
  for (const auto& [stratum, baseline] : pairs) {
    sums.limit(*stratum);
    sums.limit(*baseline);
    sums.add(stratum->population, common_turns(*stratum, *baseline));
  }
  return sums.take();
}

}  // namespace turnbench
