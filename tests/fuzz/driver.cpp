// Runs a fuzzer without libFuzzer.  PROGRAM CORPUS SECONDS runs every file of the folder and then
// mutations of these files; they are the same in every run.  The current input is stored in a file,
// which remains if the program crashes.  PROGRAM FILE 0 runs it again.
#include <fstream>
#include <iostream>
#include <map>

#include "common/clock.h"
#include "common/file.h"
#include "common/random.h"
#include "tests/fuzz/fuzz.h"

namespace turnbench::fuzz {
namespace {

namespace fs = std::filesystem;

/// Strings that have a meaning for some reader.
const std::vector<std::string>& tokens() {
  static const std::vector<std::string> all = split(
      "{ } [ ] {} [] \" \"\" \"a\" : , \\ \\u \\ud8 null true - -1 0 9 0.5 1e999 "
      "99999999999999999999 "
      "\n \n\n \r \t . ## #### <1> {x} USER: \x7F \xFF \xE4 \xEF\xBB\xBF \u4E2D \u3000 \u0130 "
      "\u03A3",
      " ");
  return all;
}

/// Applies up to four changes: a new byte, an inserted token, a part removed, repeated or taken
/// from another input.
std::string mutated(std::string text, const std::string& other, Random& random) {
  for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
    const std::size_t at = random.below(text.size() + 1);
    const std::size_t part = std::min<std::size_t>(1 + random.below(40), text.size() - at);
    switch (random.below(5)) {
      case 0:
        if (part > 0) text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.insert(at, random.choice(tokens()));
        break;
      case 2:
        text.erase(at, part);
        break;
      case 3:
        text.insert(at, text.substr(at, part));
        break;
      default:
        text.replace(at, part, other, random.below(other.size() + 1), 1 + random.below(60));
    }
  }
  return text;
}

void run(const std::string& input, const fs::path& at_work) {
  std::ofstream(at_work, std::ios::binary | std::ios::trunc) << input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

void run_all(const fs::path& corpus, double seconds) {
  std::map<fs::path, std::string> files;  // sorted, so that runs have the same mutations
  if (fs::is_regular_file(corpus)) files[corpus] = read_file(corpus);
  if (fs::is_directory(corpus)) {
    for (const auto& entry : fs::directory_iterator(corpus)) {
      files[entry.path()] = read_file(entry.path());
    }
  }
  if (files.empty()) throw input_error("{}: found no file, expected inputs", corpus.string());
  const fs::path at_work = memory_directory() / fmt::format("turnbench_fuzz_{}.input", ::getpid());
  fmt::print("the input at work is {}\n", at_work.string());
  std::fflush(stdout);
  std::vector<std::string> inputs;
  for (const auto& [path, input] : files) {
    run(input, at_work);
    inputs.push_back(input);
  }
  Random random(1);
  std::size_t mutations = 0;
  for (const auto start = Clock::now(); seconds_since(start) < seconds; ++mutations) {
    const std::string& other = random.choice(inputs);
    run(mutated(random.choice(inputs), other, random), at_work);
  }
  fs::remove(at_work);
  fmt::print("{} inputs and {} mutations\n", inputs.size(), mutations);
}

}  // namespace
}  // namespace turnbench::fuzz

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: PROGRAM CORPUS SECONDS\n";
    return 2;
  }
  turnbench::fuzz::run_all(argv[1], std::stod(argv[2]));
}
