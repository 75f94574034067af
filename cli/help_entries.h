#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace turnbench {

/// An option of a command as its help shows it.
struct HelpOption {
  std::vector<std::string> names;  ///< "--db"; of an argument: its name
  bool is_argument = false, is_required = false, takes_value = false;
  std::string description, default_value;
  std::vector<std::string> values;  ///< if the value is one of few words
};

/// A command with all words of its name; the program has none.
struct HelpCommand {
  std::vector<std::string> words;
  std::string description, footer;
  std::vector<HelpOption> options;
  std::vector<HelpCommand> commands;
};

/// What `app` and its commands show in their help.
HelpCommand help_entries(const CLI::App& app);

}  // namespace turnbench
