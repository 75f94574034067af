#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Representation of LongMemEval's chats.
enum class ChatForm {
  kOneMessage,  ///< all in the context of a single turn, before the question
  kReplayed     ///< as separate turns, with the original answers
};

/// Reads LongMemEval (Wu et al. 2024): a JSON array of questions about a user's earlier chats.  The
/// first message of a session is headed by its date.  The last turn is the question.  As one
/// message, each message of a chat is a paragraph; its source is the session's id, and the sessions
/// in `answer_session_ids` are relevant.  Replayed, each turn contains one or more consecutive user
/// messages, and its gold answer is the assistant's text that followed, which may be empty; if a
/// session begins with the assistant, the user's message is the date alone.  The official score
/// comes from a judge model; the metric here is F1 over words.
/// @throws Error (input) for other fields, wrong types, unequal numbers of sessions, ids and dates,
/// and answer sessions that do not exist.
std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit, ChatForm form = ChatForm::kOneMessage);

}  // namespace turnbench
