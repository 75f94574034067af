#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Reads LongMemEval (Wu et al. 2024): a JSON array of questions about a user's earlier chats.  A
/// message is a paragraph; its source is the session's id.  The first message of a session is
/// headed by its date.  The sessions in `answer_session_ids` are relevant.  The official score
/// comes from a judge model; the metric here is F1 over words.
/// @throws Error (input) for other fields, wrong types, unequal numbers of sessions, ids and dates,
/// and answer sessions that do not exist.
std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit);

}  // namespace turnbench
