// Fuzzes files of predictions.  The first line names the metric and the LongBench dataset ("-":
// none); the rest is the file.
#include <nlohmann/json.hpp>

#include "metrics/score_file.h"
#include "tests/fuzz/prediction_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  const auto input = fuzz::PredictionInput::from(data, size);
  ScoreRequest request{.segmenter = &input.segmenter};
  if (input.words[0] != "-") request.metric = input.words[0];
  if (input.words.size() > 1 && input.words[1] != "-") request.dataset = input.words[1];
  fuzz::expect_value_or_refusal([&] {
    const FileScores scores = score_file(input.path, request);
    for (const LineScore& line : scores.lines) {
      fuzz::require(line.score >= 0 && line.score <= 1, fmt::format("a score of {}", line.score));
    }
    fuzz::require(scores.mean >= 0 && scores.mean <= 100, to_text(scores));
    fuzz::require(is_valid_utf8(to_json(scores).dump()), "a report that is not UTF-8");
  });
  return 0;
}
