// Fuzzes every reader of dialogues.  The first line names a dataset that is read from files,
// "dialogues" (the project's own format) or "prompts" (dataset2prompt.json); the rest is the file.
#include "common/file.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/longbench.h"
#include "tests/fuzz/fuzz.h"

namespace turnbench::fuzz {
namespace {

/// A dialogue that was read can be written in the project's own format and read again, and at every
/// position its question slot is within its paragraphs.
void check(const Dialogue& dialogue, const std::filesystem::path& scratch) {
  const std::string line = to_json_line(dialogue);
  write_file(scratch, line);
  require(to_json_line(read_dialogues(scratch).at(0)) == line, line);
  for (const Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    for (const Turn& turn : with_questions_at(dialogue, position).turns) {
      require(question_index(turn) <= turn.contexts.size(), line);
    }
  }
}

/// If the file has examples, the questions are read from a second file in the same directory.
struct DatasetFiles : InputFile {
  DatasetFiles() : InputFile("dataset2prompt.json") {
    write_file(beside("test.jsonl"), R"({"question": "1 + 1?", "answer": "#### 2"})");
  }
};

std::vector<Dialogue> read(const std::string& name, const std::filesystem::path& file) {
  if (name == "dialogues") return read_dialogues(file);
  const Dataset& dataset = find_dataset(name, "the first line");
  BuildOptions options{.limit = 3};
  if (dataset.has_length) options.length = std::max(400, dataset.min_turn_length * dataset.turns);
  return load_dialogues(name, file, options);
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  static const fuzz::DatasetFiles input;
  std::string_view text = fuzz::text_of(data, size);
  const std::string name(fuzz::take_line(text));
  write_file(input.path(), text);
  if (name == "prompts") {
    fuzz::expect_value_or_refusal([&] { load_official_prompts(input.path()); });
    return 0;
  }
  std::vector<Dialogue> dialogues;
  fuzz::expect_value_or_refusal([&] { dialogues = fuzz::read(name, input.path()); });
  for (const Dialogue& dialogue : dialogues) fuzz::check(dialogue, input.beside("again.jsonl"));
  return 0;
}
