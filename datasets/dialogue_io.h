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
/// "question", "position", "references", "relevance", "max_new_tokens", "classes", "gold"}]}.
/// The same dialogue gives the same bytes everywhere.
std::string to_json_line(const Dialogue& dialogue);

/// Reads one back; `source` names it in messages.  Refuses as `for_each_dialogue` does.
Dialogue parse_dialogue(std::string_view line, const std::string& source);

void write_dialogues(const std::filesystem::path& path, std::span<const Dialogue> dialogues);

/// Reads what `to_json_line` writes, one dialogue at a time.  `task`, `instruction` and `gold` may
/// be missing (empty, empty, the first reference).  Refuses, with file, line and field: unknown
/// keys, wrong types, an id that was there before, no turns, a turn without references, a relevant
/// source that no paragraph of this or an earlier turn has; and an empty file.
void for_each_dialogue(const std::filesystem::path& path,
                       const std::function<void(Dialogue&&)>& take);
std::vector<Dialogue> read_dialogues(const std::filesystem::path& path);

}  // namespace turnbench
