#include "reports/comparison/comparison_examples.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace turnbench {
namespace {

/// A turn whose scores differ.
struct DifferentTurn {
  const ComparedCells* cells;
  std::string dialogue;
  int turn = 0, length = 0;
  double first = 0, second = 0;
};

/// The turns with the largest differences, those in favour of one method.
std::vector<DifferentTurn> largest_differences(std::vector<DifferentTurn> turns, bool first_higher,
                                               std::size_t most) {
  std::erase_if(turns, [&](const DifferentTurn& turn) {
    return first_higher ? turn.first <= turn.second : turn.first >= turn.second;
  });
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first - a.second) > std::abs(b.first - b.second);
  });
  std::vector<DifferentTurn> out;
  std::set<std::pair<std::string, std::string>> dialogues;
  for (DifferentTurn& turn : turns) {
    if (out.size() == most) break;
    if (dialogues.emplace(turn.cells->first->dataset_hash, turn.dialogue).second)
      out.push_back(std::move(turn));
  }
  return out;
}

std::vector<DifferentTurn> different_turns(const std::vector<ComparedCells>& cells,
                                           const std::vector<std::vector<int>>& lengths,
                                           double scale) {
  std::vector<DifferentTurn> out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Stratum &first = cells[i].first_scores, &second = cells[i].second_scores;
    for (std::size_t t = 0; t < first.turns.size(); ++t) {
      if (first.turns[t].value == second.turns[t].value) continue;
      out.push_back({&cells[i], first.population->ids[first.turns[t].dialogue], first.turns[t].turn,
                     lengths[i][t], scale * first.turns[t].value, scale * second.turns[t].value});
    }
  }
  return out;
}

/// The answer of a cell; null if it is not among those of the turn.
const MethodAnswer* answer_in(const AnsweredTurn& turn, const Cell& cell) {
  const auto found =
      std::find_if(turn.answers.begin(), turn.answers.end(), [&](const MethodAnswer& answer) {
        return answer.cell == cell.key && answer.method == cell.method;
      });
  return found == turn.answers.end() ? nullptr : &*found;
}

}  // namespace

void add_examples(MethodComparison& comparison, const Store& store,
                  const std::vector<ComparedCells>& cells,
                  const std::vector<std::vector<int>>& lengths, std::size_t most) {
  const std::vector<DifferentTurn> all = different_turns(cells, lengths, comparison.unit.scale);
  const bool lower = comparison.unit.lower_is_better;
  std::vector<std::vector<DifferentTurn>> wanted;
  for (const bool better : {true, false})
    wanted.push_back(largest_differences(all, better != lower, most));
  std::vector<ComparisonExample>* lists[] = {&comparison.better, &comparison.worse};
  for (std::size_t list = 0; list < wanted.size(); ++list) lists[list]->resize(wanted[list].size());
  AnswersRequest request;
  request.experiment = comparison.experiment;
  std::set<std::string> methods;
  for (const ComparedCells& pair : cells) {
    methods.insert(pair.first->method_canonical);
    methods.insert(pair.second->method_canonical);
  }
  request.methods.assign(methods.begin(), methods.end());
  for_each_answered_turn(store, request, [&](const AnsweredTurn& turn) {
    for (const ComparedCells& pair : cells) {
      const MethodAnswer *first = answer_in(turn, *pair.first),
                         *second = answer_in(turn, *pair.second);
      if (first == nullptr || second == nullptr) continue;
      if (first->status == "ok" && second->status == "ok") {
        ++comparison.answers;
        comparison.equal_answers += first->answer == second->answer;
      }
      for (std::size_t list = 0; list < wanted.size(); ++list) {
        for (std::size_t i = 0; i < wanted[list].size(); ++i) {
          const DifferentTurn& one = wanted[list][i];
          if (one.cells != &pair || one.dialogue != turn.dialogue || one.turn != turn.turn)
            continue;
          ComparisonExample& out = (*lists[list])[i];
          out = {turn, one.first, one.second, one.length};
          out.turn.answers = {*first, *second};
        }
      }
    }
  });
}

}  // namespace turnbench
