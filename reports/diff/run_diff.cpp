#include "reports/diff/run_diff.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "reports/common_turns.h"
#include "reports/diff/cell_pairs.h"
#include "reports/diff/protocol_fields.h"
#include "reports/populations.h"

namespace turnbench {
namespace {

/// The dialogues that two datasets have in common.
struct CommonDialogues {
  std::shared_ptr<const Population> population;  ///< dialogues with the same id and content
  std::set<std::string> other_content;           ///< dialogues with the same id but other content
};

/// The common dialogues of each pair of datasets, read once.
class Dialogues {
 public:
  Dialogues(const Run& first, const Run& second) : first_(first), second_(second) {}

  const CommonDialogues& common(const Cell& first, const Cell& second) {
    const auto [known, is_new] = known_.try_emplace({first.dataset_hash, second.dataset_hash});
    CommonDialogues& out = known->second;
    if (!is_new) return out;
    HashedDialogues hashes = first_.store->text_hashes(first.dataset_hash), both;
    const bool is_same_dataset = first.dataset_hash == second.dataset_hash;
    const auto theirs = second_.store->content_hashes(second.dataset_hash);
    for (const auto& [id, content] : first_.store->content_hashes(first.dataset_hash)) {
      const auto found = theirs.find(id);
      if (found == theirs.end()) continue;
      if (is_same_dataset || (found->second == content && !content.empty())) {
        both[id] = std::move(hashes[id]);
      } else {
        out.other_content.insert(id);
      }
    }
    out.population =
        make_populations({{first.dataset_hash, std::move(both)}}).at(first.dataset_hash);
    return out;
  }

 private:
  Run first_, second_;
  std::map<std::pair<std::string, std::string>, CommonDialogues> known_;
};

bool same_value(const Record::NamedValue& a, const Record::NamedValue& b) {
  return a.name == b.name && a.value == b.value;
}

/// Names of the counters in which two turns differ.
std::set<std::string> different_counters(const Store::TurnResult& first,
                                         const Store::TurnResult& second) {
  std::set<std::string> out;
  const auto add = [&](const auto& these, const auto& those) {
    for (const Record::NamedValue& counter : these) {
      if (std::none_of(those.begin(), those.end(),
                       [&](const auto& other) { return same_value(counter, other); }))
        out.insert(counter.name);
    }
  };
  add(first.counters, second.counters);
  add(second.counters, first.counters);
  return out;
}

/// Counts the differences between the records of two cells.
void compare_records(const Run& first, const Run& second, const CommonDialogues& common,
                     CellPair& out) {
  std::set<std::string> ours, theirs, compared, other_content, counters;  // dialogues; names
  std::map<std::pair<std::string, int>, Store::TurnResult> others;
  for (Store::TurnResult& result : second.store->turn_results(out.second.key)) {
    theirs.insert(result.dialogue);
    others.emplace(std::pair(result.dialogue, result.turn), std::move(result));
  }
  const std::vector<std::string>& ids = common.population->ids;
  for (const Store::TurnResult& result : first.store->turn_results(out.first.key)) {
    ours.insert(result.dialogue);
    const auto found = others.find({result.dialogue, result.turn});
    if (found == others.end()) continue;
    if (common.other_content.contains(result.dialogue)) other_content.insert(result.dialogue);
    if (!std::binary_search(ids.begin(), ids.end(), result.dialogue)) continue;
    const Store::TurnResult& other = found->second;
    compared.insert(result.dialogue);
    ++out.turns;
    out.prompts += result.prompt_hash != other.prompt_hash;
    out.answers += result.status != other.status || result.answer != other.answer ||
                   result.answer_tokens != other.answer_tokens;
    counters.merge(different_counters(result, other));
  }
  out.dialogues = static_cast<int>(compared.size());
  out.other_content = static_cast<int>(other_content.size());
  out.only_first = static_cast<int>(ours.size()) - out.dialogues - out.other_content;
  out.only_second = static_cast<int>(theirs.size()) - out.dialogues - out.other_content;
  out.counters.assign(counters.begin(), counters.end());
}

std::vector<FieldDifference> protocol_differences(const RunDiff& diff) {
  std::vector<std::string> order;
  std::map<std::string, FieldDifference> by_name;
  // A cell may be in several pairs.
  std::map<std::tuple<const Store*, std::string, bool>, ProtocolFields> known;
  const auto fields_of = [&](const Run& run, const Cell& cell,
                             bool of_records) -> const ProtocolFields& {
    const auto [found, is_new] = known.try_emplace({run.store, cell.key, of_records});
    if (is_new) found->second = protocol_fields(*run.store, cell, of_records);
    return found->second;
  };
  const auto has_records = [](const Run& run, const Cell& cell) {
    return !run.store->environments_of(cell.key).empty();
  };
  for (const CellPair& pair : diff.pairs) {
    // A cell without records yet does not differ in the fields that only records have.
    const bool both = has_records(diff.first, pair.first) && has_records(diff.second, pair.second);
    std::vector<std::string> names;
    for (FieldChange& change : changed_fields(fields_of(diff.first, pair.first, both),
                                              fields_of(diff.second, pair.second, both))) {
      names.push_back(change.field);
      FieldDifference& of = by_name[change.field];
      of.field = change.field;
      const auto same = std::find_if(of.values.begin(), of.values.end(), [&](const auto& values) {
        return values.first == change.first && values.second == change.second;
      });
      if (same != of.values.end()) {
        ++same->cells;
      } else {
        of.values.push_back({std::move(change.first), std::move(change.second), 1});
      }
    }
    merge_in_order(order, names);
  }
  std::vector<FieldDifference> out;
  for (const std::string& name : order) out.push_back(std::move(by_name.at(name)));
  return out;
}

}  // namespace

std::size_t RunDiff::cells_that_differ() const {
  return static_cast<std::size_t>(std::count_if(
      pairs.begin(), pairs.end(), [](const CellPair& pair) { return pair.differs(); }));
}

bool RunDiff::same_results() const {
  return cells_that_differ() == 0 && only_first.empty() && only_second.empty() &&
         std::all_of(pairs.begin(), pairs.end(),
                     [](const CellPair& pair) { return pair.is_complete(); });
}

RunDiff diff(const Run& first, const Run& second, const ScoreChoice& choice,
             const Comparison& comparison) {
  const Results ours(*first.store, first.experiment, choice);
  const Results theirs(*second.store, second.experiment, choice);
  RunDiff out;
  out.first = first;
  out.second = second;
  out.smoke = ours.manifest().smoke.empty() ? theirs.manifest().smoke : ours.manifest().smoke;
  out.value = ours.unit_of("score");
  const PairedCells cells = pair_cells(ours.cells(), theirs.cells());
  for (const Cell* cell : cells.only_first) out.only_first.push_back(*cell);
  for (const Cell* cell : cells.only_second) out.only_second.push_back(*cell);

  Dialogues dialogues(first, second);
  std::vector<std::pair<Stratum, Stratum>> strata;
  for (const auto& [our_cell, their_cell] : cells.pairs) {
    CellPair& pair = out.pairs.emplace_back();
    pair.first = *our_cell;
    pair.second = *their_cell;
    const CommonDialogues& common = dialogues.common(*our_cell, *their_cell);
    compare_records(first, second, common, pair);
    auto& [a, b] =
        strata.emplace_back(restricted(ours.stratum(our_cell->key, -1), common.population),
                            restricted(theirs.stratum(their_cell->key, -1), common.population));
    keep_common_turns({&a, &b});
    for (std::size_t i = 0; i < a.turns.size(); ++i)
      pair.scores += a.turns[i].value != b.turns[i].value;
    pair.first_score = estimate({&a});
    pair.second_score = estimate({&b});
  }
  std::vector<std::vector<StratumPair>> family;
  for (const auto& [a, b] : strata) family.push_back({{&b, &a}});
  const auto differences = compare(family, comparison);
  for (std::size_t i = 0; i < differences.size(); ++i) out.pairs[i].difference = differences[i];
  out.protocol = protocol_differences(out);
  return out;
}

}  // namespace turnbench
