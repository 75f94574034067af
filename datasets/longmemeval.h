#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// How LongMemEval's chats are given.
enum class ChatForm {
  kOneMessage,  ///< all in one turn's context, before the question
  kReplayed     ///< as turns of their own, with the answers that were given
};

/// Reads LongMemEval (Wu et al. 2024): a JSON array of questions about a user's earlier chats.  The
/// first message of a session is headed by its date.  In one message, each message of a chat is a
/// paragraph; its source is the session's id, and the sessions in `answer_session_ids` are
/// relevant. Replayed, a turn is what the user said in one or more messages, and its gold answer
/// what the assistant said then, perhaps nothing; where a session begins with the assistant, the
/// user's message is the date alone.  The last turn is the question.  The official score comes from
/// a judge model; the metric here is F1 over words.
/// @throws Error (input) for other fields, wrong types, unequal numbers of sessions, ids and dates,
/// and answer sessions that do not exist.
std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit, ChatForm form = ChatForm::kOneMessage);

}  // namespace turnbench
