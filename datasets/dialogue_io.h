#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// A dialogue as one line of jsonl, without the newline:
/// {"id", "dataset", "task", "metric", "turns": [{"instruction", "contexts": [{"source", "text"}],
/// "question", "position", "references", "relevance", "max_new_tokens", "classes", "gold"}]},
/// "has_gold" where it is false, and "answer_prefix" where there is one.  The same dialogue gives
/// the same bytes on every machine.
std::string to_json_line(const Dialogue& dialogue);

/// Parses a line of `to_json_line`; `source` names it in messages.  Throws as `for_each_dialogue`.
Dialogue parse_dialogue(std::string_view line, const std::string& source);

void write_dialogues(const std::filesystem::path& path, std::span<const Dialogue> dialogues);

/// Reads a file that `to_json_line` wrote, one dialogue at a time.  `task`, `instruction`,
/// `gold`, `has_gold` and `answer_prefix` are optional (defaults: empty, empty, the first
/// reference, true, empty).
/// @throws Error (input), with file, line and field, for unknown keys, wrong types, a repeated id,
/// a dialogue without turns, a turn without references, a relevant source that no paragraph of this
/// or an earlier turn has, and an empty file.
void for_each_dialogue(const std::filesystem::path& path,
                       const std::function<void(Dialogue&&)>& visit);
std::vector<Dialogue> read_dialogues(const std::filesystem::path& path);

}  // namespace turnbench
