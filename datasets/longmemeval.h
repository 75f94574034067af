#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// LongMemEval (Wu et al. 2024): one JSON array of questions on a user's earlier chats.  A message
/// is a paragraph, headed by its date where a session begins; its source is the session's id.
/// Relevant are the sessions of `answer_session_ids`.  The official score is a language model's
/// judgement; here F1 over words stands for it.  Refuses other fields, wrong types, lists of
/// sessions, ids and dates of different lengths, and answers from sessions that are not there.
std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit);

}  // namespace turnbench
