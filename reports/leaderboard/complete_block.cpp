#include "reports/leaderboard/complete_block.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace turnbench {
namespace {

constexpr std::size_t kMostSets = 4'096;

using Conditions = std::set<std::size_t>;

/// The sets and their intersections.
std::set<Conditions> intersections(const std::vector<Conditions>& sets) {
  std::set<Conditions> out;
  for (const Conditions& own : sets) {
    std::set<Conditions> added = {own};
    for (const Conditions& other : out) {
      Conditions both;
      std::set_intersection(own.begin(), own.end(), other.begin(), other.end(),
                            std::inserter(both, both.end()));
      added.insert(std::move(both));
      if (out.size() + added.size() >= kMostSets) break;
    }
    out.merge(added);
  }
  return out;
}

}  // namespace

CompleteBlock largest_complete_block(const std::vector<Conditions>& conditions_of) {
  CompleteBlock best;
  for (const Conditions& conditions : intersections(conditions_of)) {
    if (conditions.empty()) continue;
    CompleteBlock block;
    block.conditions.assign(conditions.begin(), conditions.end());
    for (std::size_t method = 0; method < conditions_of.size(); ++method) {
      const Conditions& own = conditions_of[method];
      if (std::includes(own.begin(), own.end(), conditions.begin(), conditions.end()))
        block.methods.push_back(method);
    }
    const auto size = [](const CompleteBlock& b) {
      return std::tuple(b.methods.size() > 1, b.methods.size() * b.conditions.size(),
                        b.methods.size());
    };
    if (size(block) > size(best)) best = std::move(block);
  }
  return best;
}

}  // namespace turnbench
