#include "reports/averages.h"

#include <fmt/format.h>

#include "common/text.h"

namespace turnbench {
namespace {

constexpr const char* kDimensions[] = {"model",  "dataset", "position",
                                       "method", "history", "answers"};

}  // namespace

void Averages::add(const std::vector<const Cell*>& cells, const std::string& value,
                   bool all_turns) {
  for (const char* name : kDimensions) {
    std::set<std::string> values;
    for (const Cell* cell : cells) values.insert(results_.dimension(*cell, -1, name));
    if (values.size() > 1) values_[name].insert(values.begin(), values.end());
  }
  if (!all_turns) return;
  std::set<int> turns;
  for (const Cell* cell : cells) {
    for (const TurnValue& turn : results_.stratum(cell->key, -1, value).turns)
      turns.insert(turn.turn);
  }
  if (turns.size() > 1) turns_.insert(turns.begin(), turns.end());
}

std::vector<AveragedDimension> Averages::dimensions() const {
  std::vector<AveragedDimension> out;
  for (const char* name : kDimensions) {
    const auto found = values_.find(name);
    if (found == values_.end()) continue;
    AveragedDimension& dimension = out.emplace_back(AveragedDimension{name, {}});
    for (const std::string& value : results_.values_of(name)) {
      if (found->second.contains(value)) dimension.values.push_back(value);
    }
  }
  if (turns_.empty()) return out;
  AveragedDimension& dimension = out.emplace_back(AveragedDimension{"turn", {}});
  for (const int turn : turns_) dimension.values.push_back(std::to_string(turn + 1));
  return out;
}

std::string describe(const std::vector<AveragedDimension>& dimensions) {
  constexpr std::size_t kNamed = 8;
  if (dimensions.empty()) return "";
  std::vector<std::string> texts;
  for (const auto& [name, values] : dimensions) {
    texts.push_back(fmt::format(
        "{} ({})", name,
        values.size() > kNamed ? fmt::format("{} values", values.size()) : join(values, ", ")));
  }
  return "Means over " + join(texts, ", ") + ".";
}

}  // namespace turnbench
