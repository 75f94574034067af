#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace turnbench {

/// Words and marks that a generated set may have in all: they are held in memory.
constexpr std::size_t kMaxGeneratedWords = 500'000'000;

/// How the dialogues of a set are built or generated.
struct BuildOptions {
  int turns = 0;  ///< 0: the set's own
  std::uint64_t seed = 0;
  /// How many dialogues; 0: the set's own number.  A larger limit only adds to them.
  std::size_t limit = 0;
  int length = 0;  ///< of generated dialogues, in words and marks; 0: the generator's own
  /// Where in a turn's text the hidden statement stands, in percent; otherwise drawn for each.
  std::optional<double> depth = std::nullopt;
  /// What a file of one's own calls its fields, by our names (see custom.h).
  std::map<std::string, std::string> fields = {};
  bool official_prompts = false;  ///< LongBench's own, of dataset2prompt.json
  bool reuse_records = true;      ///< false: no record in two dialogues, so there may be fewer
  std::size_t max_irrelevant_paragraphs = 3;  ///< a turn of mt-TASK
  std::size_t max_irrelevant_length = 400;    ///< a turn of mt-TASK; words, for Chinese characters
};

/// Refuses turns out of [1, max_turns], less than `min_length` words and marks a turn, dialogues of
/// more than kMaxGeneratedWords in all, and a depth out of [0, 100]; `name` is the dataset's.  For
/// generators, with their defaults filled in.
void check_generated(const std::string& name, const BuildOptions& options, int max_turns,
                     int min_length);

}  // namespace turnbench
