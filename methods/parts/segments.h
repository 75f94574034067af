#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The marks that end a segment of a text.
enum class Cut {
  kClause,   ///< . , ; : ! ? and a newline, and their CJK forms
  kSentence  ///< . ! ? and an empty line, and their CJK forms
};

/// Whether a token with this text ends a segment: by its last character that is not white space, or
/// by the newlines after that.
bool ends_segment(std::string_view text, Cut cut);

/// The segment of each token of the dialogue, counted from 0 without gaps: [tokens].  Refuses a
/// dialogue whose tokens have no text.
std::vector<int> segments(const DialogueView& dialogue, Cut cut, std::string_view method);

/// The first `slots` slots of a set, ascending, by the segment of their tokens; segments without
/// any are left out.  segments: of each token of the dialogue, whose positions the set must have.
std::vector<std::vector<std::int32_t>> slots_by_segment(const std::vector<int>& segments,
                                                        const KvHeadCache& set, int slots);

}  // namespace turnbench
