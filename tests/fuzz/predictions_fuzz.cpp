// Fuzzes the import of predictions.  The first line has the metric and the number of turns of the
// dialogues, 1 or 2; the rest is the file.
#include "harness/scoring/import_predictions.h"
#include "metrics/metric.h"
#include "tests/fuzz/prediction_input.h"

namespace turnbench::fuzz {
namespace {

ImportTarget target_of(std::string_view metric, std::size_t turns) {
  ImportTarget out;
  out.cell.dataset = "bees";
  out.cell.metric = find_metric(metric, "the first line").name;
  out.cell.postprocess = "none";
  out.cell.model = "m";
  for (const char* answer : {"Ann", "2", "2"}) {
    Dialogue dialogue;
    dialogue.id = fmt::format("d{}", out.dialogues.size());
    Turn turn;
    turn.references = {answer};
    turn.classes = {"Ann", "Bob", "2"};
    dialogue.turns.assign(turns, turn);
    out.dialogues.push_back(dialogue);
  }
  return out;
}

/// Requires that each turn occurs at most once per position, with a record and a score.
void check(const ImportedPredictions& imported, const ImportTarget& target) {
  require(imported.records.size() == imported.scores.size(), "other scores than records");
  const std::size_t turns = target.dialogues.size() * target.dialogues[0].turns.size();
  require(imported.experiment.cells.size() <= 3, "more cells than positions");
  require(imported.records.size() <= turns * imported.experiment.cells.size(),
          "turns that are not there");
  for (std::size_t i = 0; i < imported.records.size(); ++i) {
    const ScoreValue& score = imported.scores[i];
    require(score.cell == imported.records[i].cell && score.turn == imported.records[i].turn,
            "a score of another record");
    require(score.value >= 0 && score.value <= 1, fmt::format("a score of {}", score.value));
  }
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  const auto input = fuzz::PredictionInput::from(data, size);
  fuzz::expect_value_or_refusal([&] {
    const ImportTarget target = fuzz::target_of(input.words[0], input.words.back() == "2" ? 2 : 1);
    const ImportRequest request = {.file = input.path, .label = "mine", .model = ""};
    fuzz::check(read_predictions(request, target, &input.segmenter), target);
  });
  return 0;
}
