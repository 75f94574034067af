#include "harness/scoring/rescore.h"

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "harness/experiment/experiment.h"
#include "harness/scoring/score_answer.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

std::string place_of(const CellScores& scores, const std::string& dialogue, int turn) {
  return fmt::format("{}, {}, {}, {}: {}, turn {}", scores.cell.model, scores.cell.dataset,
                     scores.cell.position, scores.cell.method, printable(dialogue), turn + 1);
}

}  // namespace

std::vector<CellScores> rescore(Store& store, const std::string& experiment,
                                const RescoreRequest& request) {
  std::vector<CellScores> out;
  std::map<std::string, std::size_t> by_key;
  std::vector<Scorer> scorers;
  std::map<std::string, std::shared_ptr<const Segmenter>> segmenters;  // by metric
  for (const Cell& cell : store.cells(experiment)) {
    if (is_probe(cell) || !by_key.emplace(cell.key, out.size()).second) continue;
    CellScores& scores = out.emplace_back();
    scores.cell = cell;
    scores.metric = request.metric.empty() ? cell.metric : request.metric;
    scores.postprocess = request.postprocess.empty() ? cell.postprocess : request.postprocess;
    const Metric& metric = find_metric(scores.metric, "--metric");
    auto& segmenter = segmenters[scores.metric];
    if (!segmenter) segmenter = open_segmenter(metric, request.locations);
    scorers.push_back(
        {&metric, &find_postprocess(scores.postprocess, "--postprocess"), segmenter.get()});
  }
  store.for_each_answered_dialogue(
      experiment, [&](const StoredDialogue& stored, const std::vector<Store::Answer>& answers) {
        const Dialogue dialogue = store.parse(stored);
        std::vector<ScoreValue> values, unreferenced;
        std::set<std::string> scored;  // cells
        for (const Store::Answer& answer : answers) {
          const auto found = by_key.find(answer.cell);
          if (found == by_key.end()) continue;
          CellScores& scores = out[found->second];
          const Scorer& scorer = scorers[found->second];
          const Turn& turn = dialogue.turns[answer.turn];
          try {
            const std::optional<double> value = score_answer(scorer, turn, answer.text);
            ScoreValue score{answer.cell,   stored.id,          answer.turn,
                             scores.metric, scores.postprocess, value.value_or(0)};
            if (!value) {
              unreferenced.push_back(std::move(score));
              continue;
            }
            values.push_back(std::move(score));
            scores.sum += *value;
            ++scores.turns;
            scored.insert(answer.cell);
          } catch (const Error& error) {
            scores.refused.push_back(
                fmt::format("{}: {}", place_of(scores, stored.id, answer.turn), error.what()));
          }
        }
        for (const std::string& cell : scored) ++out[by_key.at(cell)].dialogues;
        const std::vector<bool> deleted = store.delete_scores(unreferenced);
        for (std::size_t i = 0; i < deleted.size(); ++i)
          out[by_key.at(unreferenced[i].cell)].deleted += deleted[i];
        const std::vector<std::optional<double>> before = store.put_scores(values, request.replace);
        for (std::size_t i = 0; i < values.size(); ++i) {
          CellScores& scores = out[by_key.at(values[i].cell)];
          if (!before[i]) {
            ++scores.added;
          } else if (*before[i] == values[i].value) {
            ++scores.equal;
          } else {
            scores.different.push_back(fmt::format("{}: found {} stored, expected {}",
                                                   place_of(scores, stored.id, values[i].turn),
                                                   *before[i], values[i].value));
          }
        }
      });
  return out;
}

}  // namespace turnbench
