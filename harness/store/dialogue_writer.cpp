#include "harness/store/dialogue_writer.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"

namespace turnbench {

std::string without_texts(std::string_view json) {
  if (json.empty()) return "";  // a dialogue that an old store lacked
  Dialogue dialogue = parse_dialogue(json, "dialogue");
  for (Turn& turn : dialogue.turns) {
    turn.instruction.clear();
    turn.question.clear();
    turn.answer_prefix.clear();
    for (Paragraph& paragraph : turn.contexts) paragraph.text.clear();
  }
  return to_json_line(dialogue);
}

bool lacks_text(const Turn& turn) {
  return turn.instruction.empty() && turn.question.empty() &&
         std::all_of(turn.contexts.begin(), turn.contexts.end(),
                     [](const Paragraph& paragraph) { return paragraph.text.empty(); });
}

bool is_same_dialogue(std::string_view first, std::string_view second) {
  if (first.size() == second.size()) return first == second;
  try {
    return first.size() < second.size() ? first == without_texts(second)
                                        : without_texts(first) == second;
  } catch (const Error&) {  // no dialogue of this program
    return false;
  }
}

DialogueWriter::DialogueWriter(const Database& db)
    : db_(db),
      find_(db.prepare("SELECT json FROM dialogue WHERE dataset = ? AND id = ?")),
      next_(db.prepare("SELECT ifnull(max(number) + 1, 0) FROM dialogue WHERE dataset = ?")),
      write_(db.prepare("INSERT INTO dialogue (dataset, id, turns, json, number, content, "
                        "texts) VALUES (?,?,?,?,?,?,?)")),
      complete_(db.prepare(
          "UPDATE dialogue SET json = ?, content = ?, texts = ? WHERE dataset = ? AND id = ?")) {}

bool DialogueWriter::add(const std::string& dataset, const std::string& id, std::int64_t turns,
                         std::string_view json, const DialogueHashes& hashes) {
  find_ << dataset << id;
  const bool exists = find_.next(), lacks_texts = exists && unpacked_size(find_, 0) < json.size() &&
                                                  is_same_dialogue(unpacked_text(find_, 0), json);
  find_.reset();
  if (exists && !lacks_texts) return false;
  DialogueHashes own = hashes_of(json);
  if (own.content.empty()) own = hashes;
  if (lacks_texts) {
    (complete_ << PackedText(json) << own.content << own.texts << dataset << id).run();
    return false;
  }
  next_ << dataset;
  const std::int64_t number = next_.next() ? next_.integer(0) : 0;
  next_.reset();
  if (number >= kMostDialogues) {
    throw runtime_error(
        "{}: found more than {} dialogues in the dataset {}, expected at most so many", db_.path(),
        kMostDialogues, printable(dataset));
  }
  (write_ << dataset << id << turns << PackedText(json) << number << own.content << own.texts)
      .run();
  return true;
}

}  // namespace turnbench
