#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Chats in ShareGPT's form, a JSON array or jsonl of {"conversations": [{"from", "value"}]};
/// `role` and `content` are read as well.  What a user (human, user) says is a question without
/// context; the answer (gpt, assistant, chatgpt, bard, bing) that follows is its reference.  A chat
/// ends before the first message that breaks this order (system messages at its beginning are left
/// out), and is left out if nothing is left.  Refuses messages without both texts, with file and
/// place, and a file without a usable chat.
std::vector<Dialogue> read_sharegpt(const std::filesystem::path& file, const std::string& name,
                                    std::size_t limit);

}  // namespace turnbench
