#include "reports/populations.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "common/text.h"

namespace turnbench {
namespace {

/// Disjoint sets of the numbers below a limit.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t size) : parents_(size) {
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  }

  /// The smallest number of the set.
  std::size_t find(std::size_t number) {
    while (parents_[number] != number) {
      parents_[number] = parents_[parents_[number]];
      number = parents_[number];
    }
    return number;
  }

  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parents_;
};

/// The hashes that all of several dialogues have.
std::set<std::string_view> common_hashes(const HashedDialogues& dialogues) {
  std::set<std::string_view> out;
  if (dialogues.size() < 2) return out;
  std::map<std::string_view, std::size_t> counts;
  for (const auto& [id, hashes] : dialogues) {
    for (const std::string& hash : hashes) ++counts[hash];
  }
  for (const auto& [hash, count] : counts) {
    if (count == dialogues.size()) out.insert(hash);
  }
  return out;
}

/// The units of all datasets: dialogues are numbered dataset by dataset.
class Grouping {
 public:
  explicit Grouping(const std::map<std::string, HashedDialogues>& datasets)
      : datasets_(datasets), dialogues_(count(datasets)), sets_(datasets.size()) {
    std::map<std::string_view, Place> first_of;  // by hash
    Place place;
    for (const auto& [name, dialogues] : datasets) {
      const std::set<std::string_view> ignored = common_hashes(dialogues);
      for (const auto& [id, hashes] : dialogues) {
        for (const std::string& hash : hashes) {
          if (ignored.contains(hash)) continue;
          const auto [known, is_new] = first_of.try_emplace(hash, place);
          if (is_new) continue;
          dialogues_.join(known->second.dialogue, place.dialogue);
          sets_.join(known->second.dataset, place.dataset);
        }
        ++place.dialogue;
      }
      ++place.dataset;
    }
  }

  std::map<std::string, std::shared_ptr<const Population>> populations() {
    const std::vector<std::shared_ptr<Units>> units = make_units();
    std::map<std::string, std::shared_ptr<const Population>> out;
    Place place;
    for (const auto& [name, dialogues] : datasets_) {
      auto population = std::make_shared<Population>();
      population->name = name;
      population->units = units[sets_.find(place.dataset)];
      for (const auto& [id, hashes] : dialogues) {
        population->ids.push_back(id);
        population->unit_of.push_back(unit_of_[dialogues_.find(place.dialogue++)]);
      }
      if (population->units->name == name && population->units->ids == population->ids) {
        population->units = nullptr;
        population->unit_of.clear();
      }
      out[name] = std::move(population);
      ++place.dataset;
    }
    return out;
  }

 private:
  struct Place {
    std::size_t dataset = 0, dialogue = 0;
  };

  static std::size_t count(const std::map<std::string, HashedDialogues>& datasets) {
    std::size_t out = 0;
    for (const auto& [name, dialogues] : datasets) out += dialogues.size();
    return out;
  }

  /// The units of each set of datasets, by the set's first dataset.
  std::vector<std::shared_ptr<Units>> make_units() {
    std::vector<std::shared_ptr<Units>> out(datasets_.size());
    unit_of_.resize(count(datasets_));
    Place place;
    for (const auto& [name, dialogues] : datasets_) {
      std::shared_ptr<Units>& units = out[sets_.find(place.dataset)];
      const bool is_first = units == nullptr;
      if (is_first) units = std::make_shared<Units>();
      units->name += (is_first ? "" : " ") + name;
      for (const auto& [id, hashes] : dialogues) {
        if (dialogues_.find(place.dialogue) == place.dialogue) {
          unit_of_[place.dialogue] = static_cast<std::uint32_t>(units->ids.size());
          units->ids.push_back(is_first ? id : name + " " + id);
        }
        ++place.dialogue;
      }
      ++place.dataset;
    }
    return out;
  }

  const std::map<std::string, HashedDialogues>& datasets_;
  DisjointSets dialogues_, sets_;       ///< sets of dialogues, and of datasets
  std::vector<std::uint32_t> unit_of_;  ///< by the first dialogue of a unit
};

}  // namespace

std::map<std::string, std::shared_ptr<const Population>> make_populations(
    const std::map<std::string, HashedDialogues>& datasets) {
  return Grouping(datasets).populations();
}

}  // namespace turnbench
