#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/random.h"

namespace turnbench {

/// The number of words (runs of letters, digits and apostrophes) and marks (all other characters
/// except white space).  Lengths of generated dialogues use this unit: it needs no tokenizer.
std::size_t count_words_and_marks(std::string_view text);

/// A version-4 UUID in lower case.
std::string random_uuid(Random& random);

/// Returns the next sentence at each call; it never ends.
using SentenceGenerator = std::function<std::string()>;

/// Random sentences about everyday life, without digits.  There are some billions, so few repeat.
/// `random` must outlive the generator.
SentenceGenerator random_sentences(Random& random);

/// Random pairs of UUIDs as lines of a JSON object: `"KEY": "VALUE",`.  `random` must outlive the
/// generator.
SentenceGenerator random_uuid_pairs(Random& random);

/// The sentences of all .txt files of a directory (or of one file), in the order of the file names.
/// White space becomes one space.
/// @throws Error (input) for a directory without .txt files, text without a sentence, and text that
/// is not UTF-8.
std::vector<std::string> read_sentences(const std::filesystem::path& source);

/// The given sentences in order, starting at a random one and wrapping around.  `sentences` must
/// outlive the generator.
SentenceGenerator cyclic_sentences(std::span<const std::string> sentences, Random& random);

}  // namespace turnbench
