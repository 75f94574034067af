#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Our name of a field -> its name in the file.
using FieldNames = std::map<std::string, std::string>;

/// Reads dialogues from a jsonl file in our own format.  A line is an object with `turns`, a list
/// of objects, or it is itself the only turn.  A turn has:
/// - `question` (text) and `references` (a text or a non-empty list of texts), both required;
/// - `context`: a text (cut into paragraphs at blank lines and sentences), or a list of paragraphs:
///   texts, or {"source", "text"}.  The default source is "turn-T#P";
/// - `instruction`, `position`, `classes`, `relevance`, `gold`, `has_gold`, `answer_prefix`,
///   `max_new_tokens` as in dialogue_io.h.  Without `relevance` all paragraphs of the turn are
///   relevant.
/// A line also has `id` (default: its number) and `metric` (default: qa_f1).  `fields` renames any
/// of these.  Other fields are ignored.  Files of `to_json_line` can be read as well.
/// @throws Error (input), with file, line and field, for missing fields and wrong types, and for
/// unknown names in `fields`.
std::vector<Dialogue> read_custom(const std::filesystem::path& file, const FieldNames& fields,
                                  const std::string& name, std::size_t limit);

}  // namespace turnbench
