#include "harness/store/cell_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

std::string share_text(const CellUsage& usage) {
  return fmt::format("{} of {}", usage.limited, usage.answers);
}

/// "; by method: full 9 of 18, quest 0 of 18"; empty if the values of the dimension do not differ.
/// Labels of equal data share cells.  all: of all cells, each once.
std::string by_dimension(const char* name, const std::vector<Cell>& cells,
                         std::string Cell::*dimension,
                         const std::map<std::string, CellUsage>& by_cell, const CellUsage& all) {
  constexpr std::size_t kNamed = 12;
  std::vector<std::string> values;  // in the order of the cells
  std::map<std::string, CellUsage> usages;
  std::set<std::pair<std::string, std::string>> seen;  // value, cell
  for (const Cell& cell : cells) {
    const auto found = by_cell.find(cell.key);
    if (found == by_cell.end() || found->second.answers == 0) continue;
    if (!seen.emplace(cell.*dimension, cell.key).second) continue;
    const auto [usage, is_new] = usages.try_emplace(cell.*dimension);
    if (is_new) values.push_back(cell.*dimension);
    usage->second += found->second;
  }
  // If more values have no limited answer, only their number is printed.
  constexpr std::ptrdiff_t kListedNone = 2;
  const std::ptrdiff_t none =
      std::count_if(values.begin(), values.end(),
                    [&](const std::string& value) { return usages.at(value).limited == 0; });
  std::vector<std::string> texts;
  std::set<std::string> shares;
  std::size_t answers = 0;
  for (const std::string& value : values) {
    const CellUsage& usage = usages.at(value);
    shares.insert(share_text(usage));
    answers += usage.answers;
    if (usage.limited > 0 || none <= kListedNone)
      texts.push_back(fmt::format("{} {}", printable(value), share_text(usage)));
  }
  if (shares.size() < 2) return "";
  if (texts.size() > kNamed) {
    const std::size_t more = texts.size() - kNamed;
    texts.resize(kNamed);
    texts.push_back(fmt::format("and {} more", more));
  }
  if (none > kListedNone) texts.push_back(fmt::format("none of {} others", none));
  return fmt::format("; by {}: {}{}", name, join(texts, ", "),
                     answers > all.answers ? " (some of them share answers)" : "");
}

}  // namespace

CellUsage& CellUsage::operator+=(const CellUsage& other) {
  answers += other.answers;
  limited += other.limited;
  as_full += other.as_full;
  longest_prompt = std::max(longest_prompt, other.longest_prompt);
  const auto add = [](Mean& to, const Mean& more) {
    to.sum += more.sum;
    to.count += more.count;
  };
  add(prompt, other.prompt);
  add(kept, other.kept);
  add(read, other.read);
  add(answered, other.answered);
  return *this;
}

bool has_length_limit(const Cell& cell) {
  if (is_probe(cell)) return false;
  const Json card = Json::parse(cell.protocol_text, nullptr, /*allow_exceptions=*/false);
  return !card.is_object() || (!card.contains("isolated") && !card.contains("alone"));
}

std::string describe_limited(const std::vector<Cell>& cells,
                             const std::map<std::string, CellUsage>& by_cell) {
  std::vector<Cell> counted;
  for (const Cell& cell : cells) {
    if (has_length_limit(cell)) counted.push_back(cell);
  }
  CellUsage all;
  std::set<std::string> seen;
  for (const Cell& cell : counted) {
    const auto found = by_cell.find(cell.key);
    if (found != by_cell.end() && seen.insert(cell.key).second) all += found->second;
  }
  if (all.limited == 0) return "";
  return share_text(all) + " answers reached their length limit" +
         by_dimension("dataset", counted, &Cell::dataset, by_cell, all) +
         by_dimension("method", counted, &Cell::method, by_cell, all);
}

std::map<std::string, CellUsage> Store::usages(const std::string& experiment) const {
  std::map<std::string, CellUsage> out;
  for (const auto& [cell, summary] : summaries(experiment)) {
    if (summary.usage.answers > 0) out[cell] = summary.usage;
  }
  return out;
}

}  // namespace turnbench
