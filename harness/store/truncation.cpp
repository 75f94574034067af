#include "harness/store/truncation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/store/store.h"

namespace turnbench {

void Truncation::add(int tokens, int lost) {
  *this += {1, lost > 0 ? 1u : 0u, lost > 0 ? tokens + lost : 0, lost > 0 ? tokens : 0};
}

Truncation& Truncation::operator+=(const Truncation& other) {
  prompts += other.prompts;
  cut += other.cut;
  const bool longer = other.longest > longest,
             cut_more = other.longest == longest && other.cut_to < cut_to;
  if (longer || cut_more) {
    longest = other.longest;
    cut_to = other.cut_to;
  }
  return *this;
}

Truncation total(const std::vector<Cell>& cells, const std::map<std::string, Truncation>& by_cell) {
  using Prompts = std::array<std::string, 6>;
  std::map<Prompts, Truncation> by_prompts;
  for (const Cell& cell : cells) {
    const auto found = by_cell.find(cell.key);
    if (found == by_cell.end()) continue;
    Truncation& same = by_prompts[Prompts{cell.model_hash, cell.dataset_hash, cell.protocol,
                                          cell.position, cell.history, cell.answers}];
    Truncation both = same;
    both += found->second;
    both.prompts = std::max(same.prompts, found->second.prompts);
    both.cut = std::max(same.cut, found->second.cut);
    same = both;
  }
  Truncation all;
  for (const auto& [prompts, truncation] : by_prompts) all += truncation;
  return all;
}

std::string describe(const Truncation& t) {
  if (t.cut == 0) return "";
  return fmt::format("{} of {} prompts were cut, the longest from {} to {} tokens", t.cut,
                     t.prompts, t.longest, t.cut_to);
}

std::map<std::string, Truncation> Store::truncations(const std::string& experiment) const {
  std::map<std::string, Truncation> out;
  for (const auto& [cell, summary] : summaries(experiment)) {
    if (summary.truncation.prompts > 0) out[cell] = summary.truncation;
  }
  return out;
}

}  // namespace turnbench
