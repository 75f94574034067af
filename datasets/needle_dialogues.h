#pragma once

#include <span>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"
#include "datasets/needle_questions.h"

namespace turnbench {

/// Minimum length of a turn, in words and punctuation marks.
constexpr int kMinNeedleTurnLength = 200;

/// Generates needle-in-a-haystack dialogues.  The same options give the same bytes on every
/// machine, at any length.  `name` is the dataset's.  The filler is `essays` (sentences), or random
/// sentences if there are none.
///
/// - The turns share `options.length` equally; it counts instruction, context and question.
/// - Turn j asks question j.  Its needles are cut, in order, into k groups, placed in k of
///   the turns 1..j.  k is drawn uniformly from 1..j (at most the number of needles), the turns
///   uniformly (the relevance of LoopServe's section 4.1).  Distractors are placed in any of the
///   turns 1..j.
/// - A needle of depth d is placed at the sentence boundary nearest to d percent of its turn's
///   filler (in words and marks; the earlier boundary on a tie).  Without `options.depth`, depths
///   are drawn uniformly and ascend for the needles of one question in one turn.  Nothing else
///   depends on the depth: a grid of depths asks the same questions about the same text.
/// - A paragraph has four to eight sentences.  Every paragraph is a source, "turn-T#P".
///
/// @throws Error (input) for turns outside [1, 16], a depth outside [0, 100], or fewer than 200
/// words and marks per turn.
std::vector<Dialogue> make_needle_dialogues(const NeedleTask& kind, const std::string& name,
                                            std::span<const std::string> essays,
                                            const BuildOptions& options);

}  // namespace turnbench
