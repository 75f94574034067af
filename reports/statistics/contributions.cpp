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
    Sums& of = populations_[population->name];
    of.population = population;
    of.weight += 1 / strata_;
    of.of_dialogue.resize(population->ids.size());
    for (std::size_t i = 0; i < turns.size();) {
      OfDialogue& dialogue = of.of_dialogue[turns[i].dialogue];
      double own = 0, own_turns = 0;
      for (const std::uint32_t id = turns[i].dialogue; i < turns.size() && turns[i].dialogue == id;
           ++i) {
        own += turns[i].value;
        ++own_turns;
      }
      dialogue.present = true;
      dialogue.part += own / (strata_ * count);
      dialogue.full_part += own_turns / (strata_ * count);
      dialogue.residual += (own - own_turns * sum / count) / (strata_ * count);
    }
  }

  Contributions take() {
    for (auto& [name, of] : populations_) {
      Contributions::OfPopulation& out = out_.populations.emplace_back();
      out.population = of.population;
      out.weight = of.weight;
      for (std::size_t i = 0; i < of.of_dialogue.size(); ++i) {
        const OfDialogue& dialogue = of.of_dialogue[i];
        if (!dialogue.present) continue;
        out.dialogues.push_back(static_cast<std::uint32_t>(i));
        out.parts.push_back(dialogue.part);
        out.full_parts.push_back(dialogue.full_part);
        out.residuals.push_back(dialogue.residual);
      }
    }
    return std::move(out_);
  }

  void limit(const Stratum& stratum) {
    out_.in_range &= stratum.is_share &&
                     std::all_of(stratum.turns.begin(), stratum.turns.end(),
                                 [](const TurnValue& t) { return t.value >= 0 && t.value <= 1; });
  }

 private:
  struct OfDialogue {
    double part = 0, full_part = 0, residual = 0;
    bool present = false;
  };
  struct Sums {
    std::shared_ptr<const Population> population;
    double weight = 0;
    std::vector<OfDialogue> of_dialogue;  // by index
  };
  double strata_;
  std::map<std::string_view, Sums> populations_;  // the names are owned by the populations
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

int Contributions::dialogues() const {
  std::size_t out = 0;
  for (const OfPopulation& p : populations) out += p.dialogues.size();
  return static_cast<int>(out);
}

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
