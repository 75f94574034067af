#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

// Dialogues of real questions on Wikipedia, made from the original files of SQuAD (Rajpurkar et al.
// 2016, 2018) and HotpotQA (Yang et al. 2018).  Each turn brings at least `length` / `turns` words
// and marks of passages: those with the answers, and passages of other articles.  The seed draws
// records and passages and shuffles the passages of a turn.  A passage or question is used at most
// once as a source of answers, so there may be fewer dialogues than asked for.

constexpr int kPassageTurns = 3, kPassageLength = 2400;  ///< the defaults
constexpr int kMinPassageTurnLength = 300;               ///< words and marks
constexpr std::size_t kPassageDialogues = 100;           ///< the default limit

/// From train-v1.1.json, dev-v2.0.json and so on.  Each turn brings one passage with questions.
/// Its question is drawn from those of this passage and of the passages of earlier turns.
/// Unanswerable questions are left out.
/// @throws Error (input), with file, path and value, for other files, fewer passages with questions
/// than turns, too few passages for the length, turns outside [1, 100], and shorter turns than
/// kMinPassageTurnLength.
std::vector<Dialogue> make_squad_dialogues(const std::filesystem::path& file,
                                           const std::string& name, BuildOptions options);

/// From hotpot_dev_distractor_v1.json and so on.  Each turn asks the question of one record.  One
/// of its two supporting passages is in this turn, the other one in a turn drawn from this and the
/// earlier ones.
/// @throws Error (input) as `make_squad_dialogues`.
std::vector<Dialogue> make_hotpotqa_dialogues(const std::filesystem::path& file,
                                              const std::string& name, BuildOptions options);

}  // namespace turnbench
