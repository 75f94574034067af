#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// What a file calls a field, by our name for it.
using FieldNames = std::map<std::string, std::string>;

/// Dialogues of a jsonl file of one's own.  A line is an object with `turns`, a list of objects, or
/// is itself the one turn:
/// - `question` (text) and `references` (a text or a list of texts, at least one) are required;
/// - `context` is a text (cut into paragraphs at blank lines and sentences), or a list of
///   paragraphs: texts, or {"source", "text"}; without a source it is "turn-T#P";
/// - `instruction`, `position`, `classes`, `relevance`, `gold`, `max_new_tokens` as in
///   dialogue_io.h; relevant are all paragraphs of the turn if nothing is said;
/// - `id` of the line, otherwise its number, and `metric`, otherwise qa_f1.
/// `fields` renames any of these.  Other fields are ignored.  Reads what `to_json_line` writes.
/// Refuses, with file, line and field, what is missing or of the wrong type, and unknown names in
/// `fields`.
std::vector<Dialogue> read_custom(const std::filesystem::path& file, const FieldNames& fields,
                                  const std::string& name, std::size_t limit);

}  // namespace turnbench
