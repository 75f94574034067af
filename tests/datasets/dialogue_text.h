#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue_io.h"

namespace turnbench::test {

/// Dialogues as JSON lines, in the program's own format.
inline std::string lines_of(const std::vector<Dialogue>& dialogues) {
  std::string out;
  for (const Dialogue& dialogue : dialogues) out += to_json_line(dialogue) + "\n";
  return out;
}

inline std::string without_space(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::string_view(" \t\r\n\f\v").find(c) == std::string_view::npos) out += c;
  }
  return out;
}

}  // namespace turnbench::test
