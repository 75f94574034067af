// Fuzzes LongBench's archive data.zip with any bytes.
#include "common/file.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/longbench.h"
#include "tests/fuzz/fuzz.h"

namespace turnbench::fuzz {
namespace {

constexpr const char* kDataset = "qasper";

std::string read(const std::filesystem::path& source) {
  std::string out;
  for (const Dialogue& dialogue : load_dialogues(kDataset, source, {})) {
    out += to_json_line(dialogue) + "\n";
  }
  return out;
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  static const fuzz::InputFile input("data.zip");
  write_file(input.path(), fuzz::text_of(data, size));
  fuzz::expect_value_or_refusal([&] {
    const std::string packed = fuzz::read(input.path().parent_path());
    // A file in the archive gives the same dialogues as the extracted file.
    std::string lines;
    for_each_line(find_longbench_file(input.path(), fuzz::kDataset),
                  [&](std::string_view line, std::size_t) { lines += std::string(line) + "\n"; });
    const std::filesystem::path plain = input.beside("qasper.jsonl.txt");
    write_file(plain, lines);
    fuzz::require(fuzz::read(plain) == packed, packed);
  });
  return 0;
}
