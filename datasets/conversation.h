#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

// Shared by the readers of LoCoMo and REALTALK: questions on one long conversation of two people.

/// A category of questions; each is a dataset.
struct MemoryCategory {
  int number;  ///< `category` of the files
  std::string_view name;
  std::string_view description;
  std::string_view metric;
};

/// Form of the dialogues.
enum class MemoryForm {
  kSingleTurn,   ///< one dialogue per question; its id is the question's
  kConversation  ///< one dialogue per conversation; the context is in the first turn
};

/// A conversation with its questions of one category.
struct MemoryConversation {
  struct Question {
    std::string id;
    Turn turn;  ///< without instruction and contexts
  };
  std::string id;
  std::string instruction;
  std::vector<Paragraph> messages;
  std::vector<Question> questions;
};

/// The messages in the arrays `session_1`, `session_2`, ... of an object, in this order (which need
/// not be that of the keys).  The source of a message is its `dia_id`.  The first one of a session
/// is headed by `session_N_date_time`; a message with an image has its caption.  `text` is the key
/// of a message's text, `known` are its other keys apart from `speaker`, `dia_id` and
/// `blip_caption`.
/// @throws Error (input) for wrong types, other keys, repeated ids, and objects without a session.
std::vector<Paragraph> read_sessions(const JsonView& view, const char* text,
                                     std::vector<std::string_view> known);

/// True for `session_N` and `session_N_date_time`.
bool is_session_key(std::string_view key);

/// The text of a question.
std::string question_text(const JsonView& view);

/// The text or whole number of an answer.
std::string answer_text(const JsonView& view);

/// The ids of `messages` in the texts of `evidence` ("D8:6; D9:17" has two), without repetition.
/// The official files also have ids of messages that do not exist; they are ignored.
std::vector<std::string> evidence_of(const JsonView& evidence, std::span<const Paragraph> messages);

/// The dialogues of conversations, at most `options.limit` (0: all).  Conversations without
/// questions are omitted.  With `options.turns`, the questions of a conversation are divided into
/// several dialogues CONVERSATION-1, CONVERSATION-2, ... of at most this number of turns.
std::vector<Dialogue> memory_dialogues(const std::vector<MemoryConversation>& conversations,
                                       MemoryForm form, const std::string& name,
                                       std::string_view metric, const BuildOptions& options);

/// Questions to leave out: a text file with one id per line; blank lines are skipped.
class LeftOutQuestions {
 public:
  /// Reads nothing if `file` is empty.
  explicit LeftOutQuestions(const std::filesystem::path& file);

  /// True if the question `id` is left out.  Counts as found.
  bool contains(const std::string& id);

  /// @throws Error (input) if an id of the file was not found.  `source` names the dataset's files.
  void require_found(const std::string& source) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, std::size_t> lines_;  ///< by id, from 1; 0 once found
};

}  // namespace turnbench
