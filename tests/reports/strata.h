#pragma once

// Strata made by hand: dialogues of one population, numbered in order.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "reports/statistics/stratum.h"

namespace turnbench::test {

inline std::shared_ptr<const Population> population(const std::string& name, std::size_t size) {
  auto out = std::make_shared<Population>();
  out->name = name;
  for (std::size_t i = 0; i < size; ++i) out->ids.push_back(fmt::format("d{:03}", i));
  return out;
}

/// A stratum with the scores of each dialogue's turns.
inline Stratum stratum(const std::shared_ptr<const Population>& of,
                       const std::vector<std::vector<double>>& dialogues) {
  Stratum out;
  out.population = of;
  for (std::size_t d = 0; d < dialogues.size(); ++d) {
    for (std::size_t t = 0; t < dialogues[d].size(); ++t)
      out.turns.push_back(
          {static_cast<std::uint32_t>(d), static_cast<std::int32_t>(t), dialogues[d][t]});
  }
  return out;
}

/// A stratum of dialogues with one turn each.
inline Stratum stratum(const std::shared_ptr<const Population>& of,
                       const std::vector<double>& scores) {
  std::vector<std::vector<double>> dialogues;
  for (double score : scores) dialogues.push_back({score});
  return stratum(of, dialogues);
}

}  // namespace turnbench::test
