#include "cli/help_entries.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench {
namespace {

/// The words of a validator's description, "md|csv|json"; none if it is of another kind.
std::vector<std::string> values_in(const std::string& type) {
  const std::string choices = type.substr(type.find(':') + 1);
  if (type.find(':') == std::string::npos || choices.find('|') == std::string::npos) return {};
  std::vector<std::string> out = split(choices, "|");
  const auto is_word = [](const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
  };
  return std::all_of(out.begin(), out.end(), is_word) ? out : std::vector<std::string>();
}

HelpOption entry_of(const CLI::Option& option) {
  HelpOption out;
  out.is_argument = option.get_positional();
  out.is_required = option.get_required();
  out.takes_value = option.get_items_expected_max() > 0;
  out.description = option.get_description();
  out.default_value = option.get_default_str();
  out.values = values_in(option.get_type_name());
  if (out.is_argument) {
    out.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  }
  return out;
}

HelpCommand entries_of(const CLI::App& app, const std::vector<std::string>& words) {
  HelpCommand out;
  out.words = words;
  out.description = app.get_description();
  out.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.options.push_back(entry_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    std::vector<std::string> name = words;
    name.push_back(command->get_name());
    out.commands.push_back(entries_of(*command, name));
  }
  return out;
}

}  // namespace

HelpCommand help_entries(const CLI::App& app) {
  return entries_of(app, {});
}

}  // namespace turnbench
