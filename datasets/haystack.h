#pragma once

#include <span>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"
#include "datasets/needles.h"

namespace turnbench {

/// Words and marks that a turn has at least.
constexpr int kMinNeedleTurnLength = 200;

/// Dialogues of riddles hidden in filler, made of nothing but the options: byte-identical
/// everywhere, at any length.  `name` is the dataset's; the filler is `essays` (sentences) if there
/// are any, otherwise made up.
///
/// - `options.turns` turns share `options.length` equally: instruction, context and question.
/// - Turn j asks riddle j.  The riddle's statements are cut, in order, into k stretches, k drawn
///   uniformly from 1..j (at most their number), which stand in k of the turns 1..j, drawn
///   uniformly (the relevance of LoopServe's section 4.1).  Distractors stand in any of the turns
///   1..j.
/// - A statement of depth d stands at the end of a sentence, the one nearest to d percent of its
///   turn's filler (words and marks; the earlier one on a tie).  Depths are drawn uniformly, in
///   ascending order for the statements of a riddle in one turn, unless `options.depth` is given.
///   Everything else does not depend on the depth, so that a grid of depths asks the same.
/// - Four to eight sentences make a paragraph; every paragraph is a source, "turn-T#P".
///
/// Refuses turns out of [1, 16], a depth out of [0, 100] and less than 200 words and marks a turn.
std::vector<Dialogue> make_needle_dialogues(const NeedleTask& kind, const std::string& name,
                                            std::span<const std::string> essays,
                                            const BuildOptions& options);

}  // namespace turnbench
