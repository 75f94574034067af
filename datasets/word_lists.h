#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

/// RULER's aggregation tasks (Hsieh et al. 2024, section 3).  The context is a long list of words;
/// the question asks for:
enum class WordListTask {
  kCommon,   ///< the 10 words that occur 10 times as often as all others, in a numbered list
  kFrequent  ///< the 3 most frequent of random words with Zipf-distributed frequencies
};

/// Minimum length of a turn, in words and punctuation marks.
constexpr int kMinListTurnLength = 700;

/// The name of the task's dataset: `common-words`, `frequent-words`.
std::string_view name_of(WordListTask task);

/// Generates dialogues of `options.turns` lists, which share `options.length` equally.  The same
/// options give the same bytes on every machine.  `name` is the dataset's.
///
/// - Turn j asks about list j.  The list is cut into k parts, which are placed in k of the turns
///   1..j (see multi_turn.h); k is drawn uniformly from 1..j.  A part is headed "[List B, part 1 of
///   2]".  A turn may contain no list at all.
/// - Common words are compounds (`quiet-river`); none is part of another word of the dialogue.
///   Common ones occur 30 times and the others 3 times, as in RULER; 10 times and once in lists
///   below 600 words.  If a list would need more different words than there are, all occur more
///   often, in the same ratio of 10 to 1.
/// - Frequent words: the word of rank r occurs floor(n / (zeta(2) r^2)) times among n words.  As in
///   RULER, rank 1 is a run of dots ("..."), which is not asked for.  The other words are six
///   random letters.
///
/// @throws Error (input) for turns outside [1, 16] and fewer than 700 words and marks per turn.
std::vector<Dialogue> make_word_lists(WordListTask task, const std::string& name,
                                      const BuildOptions& options);

}  // namespace turnbench
