#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Numbers of turns, both ends included.
struct RoundRange {
  std::size_t least = 1, most = std::numeric_limits<std::size_t>::max();
};

/// Reads chats in ShareGPT's form, a JSON array or jsonl of {"conversations": [{"from", "value"}]};
/// the keys `role` and `content` are accepted as well.  A message of the user (human, user) is a
/// question without context; the answer that follows (gpt, assistant, chatgpt, bard, bing) is its
/// reference.  System messages at the beginning are skipped.  A chat is cut before the first
/// message that breaks this order, and skipped if its number of turns is then 0 or outside
/// `rounds`.
/// @throws Error (input), with file and place, for messages without both texts, and for a file
/// without a usable chat.
std::vector<Dialogue> read_sharegpt(const std::filesystem::path& file, const std::string& name,
                                    std::size_t limit, RoundRange rounds = {});

}  // namespace turnbench
