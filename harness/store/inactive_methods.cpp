#include "harness/store/inactive_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text.h"
#include "harness/store/cell_names.h"
#include "harness/store/method_settings.h"

namespace turnbench {
namespace {

/// The cells of one dataset in which a method ran, and those among them in which it had no effect.
struct OfDataset {
  std::string name;
  std::vector<const Cell*> all, inactive;
};

/// The name of a cell's place: "tiny-fact, begin", with the dimensions that the experiment varies.
std::string place_of(const Cell& cell, const std::vector<Cell>& cells) {
  std::string out = cell.dataset;
  for (const auto field : {&Cell::model, &Cell::position, &Cell::history, &Cell::answers}) {
    if (varies(cells, field)) out += " " + cell.*field;
  }
  return out;
}

/// The datasets; for a dataset in which the method had an effect in some cells, its other cells.
std::vector<std::string> places_of(const std::vector<OfDataset>& datasets,
                                   const std::vector<Cell>& cells) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> out;
  for (const OfDataset& dataset : datasets) {
    if (dataset.inactive.size() == dataset.all.size()) {
      out.push_back(dataset.name);
    } else {
      for (const Cell* cell : dataset.inactive) out.push_back(place_of(*cell, cells));
    }
  }
  if (out.size() > kNamed) {
    const std::size_t more = out.size() - kNamed;
    out.resize(kNamed);
    out.push_back(fmt::format("and {} more", more));
  }
  return out;
}

/// Where and why a method had no effect: equal for methods that share a line.
struct Inactivity {
  std::size_t records = 0;
  std::string places;
  int longest_prompt = 0;  ///< tokens, if its budget was never reached; else 0
  bool encodes = false;    ///< it has a codec, which was active

  auto operator<=>(const Inactivity&) const = default;
};

Inactivity inactivity_of(const std::vector<OfDataset>& datasets, const std::vector<Cell>& cells,
                         const std::map<std::string, CellUsage>& by_cell) {
  CellUsage usage;
  std::set<std::string> counted;
  std::string_view canonical;
  for (const OfDataset& dataset : datasets) {
    for (const Cell* cell : dataset.inactive) {
      canonical = cell->method_canonical;
      if (counted.insert(cell->key).second) usage += by_cell.at(cell->key);
    }
  }
  const MethodSettings settings = MethodSettings::parse(canonical);
  const auto budget = settings.budget();
  const int longest = usage.longest_prompt;
  return {usage.answers, join(places_of(datasets, cells), ", "),
          budget && budget->tokens(longest) >= longest ? longest : 0,
          std::any_of(settings.parts.begin(), settings.parts.end(),
                      [](const auto& part) { return part.kinds.codec; })};
}

std::string line_of(const std::vector<std::string>& methods, const Inactivity& what) {
  const bool one = methods.size() == 1;
  std::string out = fmt::format(
      "{} kept, read and computed as much as full attention in all {} records of {}: {}{} not "
      "active",
      join(methods, ", "), what.records, what.places,
      !what.encodes ? ""
      : one         ? "apart from its codec, "
                    : "apart from their codecs, ",
      one ? "it was" : "they were");
  if (what.longest_prompt > 0) {
    out += fmt::format(", {} never reached (prompts of at most {} tokens)",
                       one ? "its budget was" : "their budgets were", what.longest_prompt);
  }
  return out;
}

/// Whether counts of tokens cannot show that a method was active: it is full attention, only stores
/// keys and values in its own way, or clamps distances.
bool is_not_counted(const MethodSettings& method) {
  const auto& parts = method.parts;
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& part) { return part.kinds.clamps_distances; }) ||
         std::all_of(parts.begin(), parts.end(), [](const auto& part) {
           return part.info != nullptr && !part.kinds.prefill && !part.kinds.eviction &&
                  !part.kinds.selection;
         });
}

}  // namespace

std::vector<std::string> inactive_methods(const std::vector<Cell>& cells,
                                          const std::map<std::string, CellUsage>& by_cell) {
  std::vector<std::string> methods;  // in table order
  std::map<std::string, std::vector<OfDataset>> datasets;
  std::map<std::string, bool> not_counted;  // by canonical text
  for (const Cell& cell : cells) {
    const auto usage = by_cell.find(cell.key);
    if (usage == by_cell.end() || is_probe(cell) || is_imported(cell)) continue;
    const auto [excluded, unknown] = not_counted.try_emplace(cell.method_canonical);
    if (unknown) excluded->second = is_not_counted(MethodSettings::parse(cell.method_canonical));
    if (excluded->second) continue;
    const auto [of_method, is_new] = datasets.try_emplace(cell.method);
    if (is_new) methods.push_back(cell.method);
    std::vector<OfDataset>& list = of_method->second;
    auto found = std::find_if(list.begin(), list.end(),
                              [&](const OfDataset& d) { return d.name == cell.dataset; });
    if (found == list.end()) found = list.insert(list.end(), {cell.dataset, {}, {}});
    found->all.push_back(&cell);
    if (usage->second.as_full == usage->second.answers) found->inactive.push_back(&cell);
  }
  std::vector<Inactivity> lines;
  std::map<Inactivity, std::vector<std::string>> of_line;  // methods
  for (const std::string& method : methods) {
    std::vector<OfDataset>& list = datasets.at(method);
    std::erase_if(list, [](const OfDataset& d) { return d.inactive.empty(); });
    if (list.empty()) continue;
    const Inactivity what = inactivity_of(list, cells, by_cell);
    const auto [found, is_new] = of_line.try_emplace(what);
    if (is_new) lines.push_back(what);
    found->second.push_back(printable(method));
  }
  std::vector<std::string> out;
  for (const Inactivity& what : lines) out.push_back(line_of(of_line.at(what), what));
  return out;
}

}  // namespace turnbench
