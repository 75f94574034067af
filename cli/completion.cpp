#include <fmt/format.h>

#include "cli/help_entries.h"
#include "cli/manual.h"
#include "common/command.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// All commands, outer ones first.
void collect(const HelpCommand& command, std::vector<const HelpCommand*>& out) {
  out.push_back(&command);
  for (const HelpCommand& each : command.commands) collect(each, out);
}

std::vector<const HelpCommand*> all_commands(const HelpCommand& program) {
  std::vector<const HelpCommand*> out;
  collect(program, out);
  return out;
}

/// The words of a command as the scripts join them: " method pqcache".
std::string path_of(const HelpCommand& command) {
  std::string out;
  for (const std::string& word : command.words) out += " " + word;
  return out;
}

/// The names that begin with two hyphens.
std::vector<std::string> long_names(const HelpOption& option) {
  std::vector<std::string> out;
  for (const std::string& name : option.names) {
    if (name.starts_with("--")) out.push_back(name);
  }
  return out;
}

std::vector<std::string> values_of_arguments(const HelpCommand& command) {
  std::vector<std::string> out;
  for (const HelpOption& option : command.options) {
    if (option.is_argument) out.insert(out.end(), option.values.begin(), option.values.end());
  }
  return out;
}

/// The part that both shells understand: `variable` becomes the words of the command before the
/// cursor.
std::string find_path(const HelpCommand& program, const std::string& variable,
                      const std::string& words, const std::string& first,
                      const std::string& cursor) {
  std::vector<std::string> paths;
  for (const HelpCommand* command : all_commands(program)) {
    if (!command->words.empty()) paths.push_back(shell_quote(path_of(*command)));
  }
  return fmt::format(
      "  for ((i = {2}; i < {3}; i++)); do\n    case \"${0} ${{{1}[i]}}\" in\n      {4}) "
      "{0}=\"${0} ${{{1}[i]}}\" ;;\n    esac\n  done\n",
      variable, words, first, cursor, join(paths, " | "));
}

/// An entry of zsh's _describe: "name:description".
std::string described(const std::string& name, const std::string& description) {
  return shell_quote(replace_all(name, ":", "\\:") + ":" + description);
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  const HelpCommand program = help_entries(app);
  std::string of_commands, of_values;
  for (const HelpCommand* command : all_commands(program)) {
    std::vector<std::string> words = values_of_arguments(*command);
    for (const HelpCommand& each : command->commands) words.push_back(each.words.back());
    for (const HelpOption& option : command->options) {
      const std::vector<std::string> names = long_names(option);
      words.insert(words.end(), names.begin(), names.end());
      for (const std::string& name : names) {
        if (option.values.empty()) continue;
        of_values +=
            fmt::format("    {}) words={} ;;\n", shell_quote(path_of(*command) + " " + name),
                        shell_quote(join(option.values, " ")));
      }
    }
    of_commands += fmt::format("    {}) words={} ;;\n", shell_quote(path_of(*command)),
                               shell_quote(join(words, " ")));
  }
  return "# Completion of turnbench for bash; files where no word fits.\n_turnbench() {\n"
         "  local path= words= i\n" +
         find_path(program, "path", "COMP_WORDS", "1", "COMP_CWORD") + "  case $path in\n" +
         of_commands + "  esac\n  case \"$path ${COMP_WORDS[COMP_CWORD - 1]}\" in\n" + of_values +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
         "}\ncomplete -o default -F _turnbench turnbench\n";
}

std::string zsh_completion(const CLI::App& app) {
  const HelpCommand program = help_entries(app);
  std::string of_commands, of_values;
  for (const HelpCommand* command : all_commands(program)) {
    std::vector<std::string> words = values_of_arguments(*command), options;
    for (std::string& word : words) word = shell_quote(word);
    for (const HelpCommand& each : command->commands)
      words.push_back(described(each.words.back(), each.description));
    for (const HelpOption& option : command->options) {
      for (const std::string& name : long_names(option)) {
        options.push_back(described(name, option.description));
        if (option.values.empty()) continue;
        of_values +=
            fmt::format("    {}) words_=({}) ;;\n", shell_quote(path_of(*command) + " " + name),
                        join(option.values, " "));
      }
    }
    of_commands +=
        fmt::format("    {}) words_=({}) options_=({}) ;;\n", shell_quote(path_of(*command)),
                    join(words, " "), join(options, " "));
  }
  return "#compdef turnbench\n# Completion of turnbench for zsh; files where no word fits.\n"
         "_turnbench() {\n  local path_= i\n  local -a words_ options_\n" +
         find_path(program, "path_", "words", "2", "CURRENT") + "  case $path_ in\n" + of_commands +
         "  esac\n  case \"$path_ ${words[CURRENT - 1]}\" in\n" + of_values +
         "  esac\n  if [[ ${words[CURRENT]} == -* ]]; then\n"
         "    _describe -o option options_\n  elif (( ${#words_} )); then\n"
         "    _describe word words_ || _files\n  else\n    _files\n  fi\n}\n_turnbench \"$@\"\n";
}

}  // namespace turnbench
