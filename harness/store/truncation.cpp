#include "harness/store/truncation.h"

#include <algorithm>
#include <array>

#include "harness/store/schema.h"
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
  Statement s = db_->prepare(fmt::format(
      "SELECT r.cell, r.prompt_tokens, sum(r.truncated_tokens) OVER (PARTITION BY r.cell, "
      "r.dialogue ORDER BY r.turn) FROM {} e JOIN record r ON r.cell = e.cell "
      "WHERE r.prompt_tokens > 0",  // the others have no prompt
      kCellsSql));
  s << experiment;
  std::map<std::string, Truncation> out;
  while (s.next())
    out[s.text(0)].add(static_cast<int>(s.integer(1)), static_cast<int>(s.integer(2)));
  return out;
}

}  // namespace turnbench
