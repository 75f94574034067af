#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

/// RULER's aggregation tasks (Hsieh et al. 2024, section 3): nothing but a long list of words.
enum class WordListTask {
  kCommon,   ///< the 10 words that occur 10 times as often as all others, in a numbered list
  kFrequent  ///< the 3 most frequent of made-up words with Zipf frequencies
};

/// Words and marks that a turn has at least.
constexpr int kMinListTurnLength = 700;

/// `common-words`, `frequent-words`.
std::string_view name_of(WordListTask task);

/// Dialogues of `options.turns` lists that share `options.length` equally; byte-identical
/// everywhere.  `name` is the dataset's.
///
/// - Turn j asks about list j.  The list is cut into k stretches, k drawn uniformly from 1..j,
///   which stand in k of the turns 1..j (see multi_turn.h): "[List B, part 1 of 2]".  So a turn may
///   hold no list at all.
/// - Common words are compounds (`quiet-river`) that no other word of the dialogue is a part of.
///   Common ones occur 30 times and others 3 times, as in RULER; 10 times and once in lists below
///   600 words; in lists that would need more different words than there are, as often as it takes,
///   always in the ratio 10 to 1.
/// - Frequent words: the word of rank r occurs floor(n / (zeta(2) r^2)) times among n; rank 1 are
///   dots ("...", not asked for), as in RULER; all others are six random letters.
///
/// Refuses turns out of [1, 16] and less than 700 words and marks a turn.
std::vector<Dialogue> make_word_lists(WordListTask task, const std::string& name,
                                      const BuildOptions& options);

}  // namespace turnbench
