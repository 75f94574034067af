#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/random.h"

namespace turnbench {

/// Words (runs of letters, digits and apostrophes) and marks (every other character but white
/// space): the unit of the length of generated dialogues, which needs no tokenizer.
std::size_t count_words_and_marks(std::string_view text);

/// A version-4 UUID in lower case.
std::string random_uuid(Random& random);

/// Gives one sentence after another, without end.
using SentenceGenerator = std::function<std::string()>;

/// Sentences of everyday life, without digits.  Few are like another: there are some billions.
SentenceGenerator random_sentences(Random& random);

/// Pairs of UUIDs as lines of a JSON object: `"KEY": "VALUE",`.
SentenceGenerator random_uuid_pairs(Random& random);

/// The sentences of all .txt files of a directory (or of one file), in the order of their names;
/// white space is one space.  Refuses a directory without such files, texts without a sentence and
/// what is not UTF-8.
std::vector<std::string> read_sentences(const std::filesystem::path& source);

/// The given sentences in their order from a random one on, and from the first after the last.
SentenceGenerator cyclic_sentences(std::span<const std::string> sentences, Random& random);

}  // namespace turnbench
