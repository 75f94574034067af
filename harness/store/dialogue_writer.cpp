#include "harness/store/dialogue_writer.h"

#include "common/error.h"
#include "common/text.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"

namespace turnbench {

DialogueWriter::DialogueWriter(const Database& db)
    : db_(db),
      find_(db.prepare("SELECT 1 FROM dialogue WHERE dataset = ? AND id = ?")),
      next_(db.prepare("SELECT ifnull(max(number) + 1, 0) FROM dialogue WHERE dataset = ?")),
      write_(db.prepare("INSERT INTO dialogue (dataset, id, turns, json, number) "
                        "VALUES (?,?,?,?,?)")) {}

bool DialogueWriter::add(const std::string& dataset, const std::string& id, std::int64_t turns,
                         std::string_view json) {
  find_ << dataset << id;
  const bool exists = find_.next();
  find_.reset();
  if (exists) return false;
  next_ << dataset;
  const std::int64_t number = next_.next() ? next_.integer(0) : 0;
  next_.reset();
  if (number >= kMostDialogues) {
    throw runtime_error(
        "{}: found more than {} dialogues in the dataset {}, expected at most so "
        "many",
        db_.path(), kMostDialogues, printable(dataset));
  }
  (write_ << dataset << id << turns << PackedText(json) << number).run();
  return true;
}

}  // namespace turnbench
