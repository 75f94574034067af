// Files of predictions.  The first line names the metric and the LongBench dataset, "-" for none;
// the rest is the file.
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "metrics/score_file.h"
#include "metrics/segmenter.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  static const fuzz::InputFile input("predictions.jsonl");
  static const Segmenter segmenter =
      Segmenter::from_jieba(TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba");
  std::string_view text = fuzz::text_of(data, size);
  const std::vector<std::string> words = split(fuzz::take_line(text), " ");
  ScoreRequest request{.segmenter = &segmenter};
  if (words[0] != "-") request.metric = words[0];
  if (words.size() > 1 && words[1] != "-") request.dataset = words[1];
  write_file(input.path(), text);
  fuzz::expect_value_or_refusal([&] {
    const FileScores scores = score_file(input.path(), request);
    for (const LineScore& line : scores.lines) {
      fuzz::require(line.score >= 0 && line.score <= 1, fmt::format("a score of {}", line.score));
    }
    fuzz::require(scores.mean >= 0 && scores.mean <= 100, to_text(scores));
    fuzz::require(is_valid_utf8(to_json(scores).dump()), "a report that is not UTF-8");
  });
  return 0;
}
