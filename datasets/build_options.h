#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace turnbench {

/// Maximum number of words and symbols of a generated dataset, which is kept in memory.
constexpr std::size_t kMaxGeneratedWords = 500'000'000;

/// Options for building or generating the dialogues of a dataset.
struct BuildOptions {
  int turns = 0;  ///< 0: the dataset's default
  std::uint64_t seed = 0;
  /// Number of dialogues; 0: the dataset's default.  A larger limit only adds dialogues.
  std::size_t limit = 0;
  int length = 0;  ///< of a generated dialogue, in words and symbols; 0: the default
  /// Depth of the needle in its turn's text, in percent; without a value it is drawn for each
  /// needle.
  std::optional<double> depth = std::nullopt;
  /// Renames the fields of a custom file: our name -> its name in the file (see custom.h).
  std::map<std::string, std::string> fields = {};
  bool official_prompts = false;         ///< LongBench's, from dataset2prompt.json or 0shot.txt
  std::filesystem::path leave_out = {};  ///< file with ids of questions, one per line
  /// False: each record is in at most one dialogue, and there may be fewer dialogues.
  bool reuse_records = true;
  std::size_t max_irrelevant_paragraphs = 3;  ///< per turn of mt-TASK
  /// Per turn of mt-TASK; in words, for Chinese in characters.
  std::size_t max_irrelevant_length = 400;
};

/// Checks the options of a generator whose defaults are filled in.  `name` is the dataset's.
/// @throws Error (input) for turns outside [1, max_turns], fewer than `min_length` words and
/// symbols per turn, more than kMaxGeneratedWords in all, or a depth outside [0, 100].
void check_generated(const std::string& name, const BuildOptions& options, int max_turns,
                     int min_length);

}  // namespace turnbench
