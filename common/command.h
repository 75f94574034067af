#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// A command that has ended.
struct CommandResult {
  int code = 0;     ///< exit code; 128 + signal if a signal ended it; 127 if it was not found
  std::string out;  ///< stdout
};

/// Runs a command, which is searched in $PATH, to its end.  It reads nothing from stdin; its stderr
/// is that of this process.
/// @throws Error (runtime) if it cannot be started, for another reason than that it is not found.
CommandResult run_command(const std::vector<std::string>& words);

/// A word that a POSIX shell reads as `word`.
std::string shell_quote(std::string_view word);

/// The words of a command, quoted for a shell where that is necessary.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace turnbench
