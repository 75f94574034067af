#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// MT-Bench (Zheng et al. 2023), question.jsonl: {"question_id", "category", "turns", "reference"},
/// where `reference` may be missing and some of its texts are empty.  Every text of `turns` is the
/// question of a turn without context; the task is the category.  Answers have at most 1,024
/// tokens, as in the official gen_model_answer.py.
///
/// The official score is a language model's judgement; here F1 over words with the reference stands
/// for it, which means little for free answers and nothing without a reference: such a turn has an
/// empty one and scores 0, so that the whole set is for times, memory and probes.
/// With `referenced` there are only the records that have a reference, each up to its last turn
/// with one.  Refuses other fields, wrong types, empty questions, ids that were there before, and
/// another number of references than of turns.
std::vector<Dialogue> read_mt_bench(const std::filesystem::path& file, bool referenced,
                                    const std::string& name, std::size_t limit);

}  // namespace turnbench
