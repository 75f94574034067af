#pragma once

#include <string_view>
#include <vector>

#include "inference/policy.h"

namespace turnbench {

/// Where a text is cut.
enum class Cut {
  kClause,   ///< behind . , ; : ! ? and a newline, and their CJK forms
  kSentence  ///< behind . ! ? and an empty line, and their CJK forms
};

/// Whether a token with this text ends a clause or sentence: by its last character that is not
/// white space, or by the newlines behind it.
bool ends_segment(std::string_view text, Cut cut);

/// The segment that each token of the dialogue belongs to, counted from 0 without gaps; refuses a
/// dialogue whose tokens have no text.
std::vector<int> segments(const DialogueView& dialogue, Cut cut, std::string_view method);

/// The same for the first `slots` cached tokens of a set whose positions are those of the dialogue.
std::vector<int> slot_segments(const std::vector<int>& segments, const KvHeadCache& set, int slots);

}  // namespace turnbench
