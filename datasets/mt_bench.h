#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Reads MT-Bench (Zheng et al. 2023), question.jsonl: {"question_id", "category", "turns",
/// "reference"}; `reference` is optional, and some of its texts are empty.  Each text of `turns` is
/// the question of a turn without context; the category is the task.  Answers have at most 1,024
/// tokens, as in the official gen_model_answer.py.
///
/// The official score comes from a judge model.  The metric here is F1 over words, which is a weak
/// measure for free-form answers.  A turn without a reference has an empty one, and no score.  With
/// `referenced`, only records with a reference are read, each up to its last turn that has one.
/// @throws Error (input) for other fields, wrong types, empty questions, repeated ids, and unequal
/// numbers of references and turns.
std::vector<Dialogue> read_mt_bench(const std::filesystem::path& file, bool referenced,
                                    const std::string& name, std::size_t limit);

}  // namespace turnbench
