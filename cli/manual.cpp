#include "cli/manual.h"

#include <fmt/format.h>

#include "cli/help_entries.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// Text for troff: no escapes, no requests, and hyphens that can be searched and copied.
std::string troff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '"') {
      out += "\\(dq";
    } else {
      out += c;
    }
  }
  return out;
}

/// Lines as they are.
std::string verbatim(const std::string& text) {
  return ".PP\n.nf\n" + troff(text) + "\n.fi\n";
}

std::string describe(const HelpOption& option) {
  std::string name = join(option.names, ", ");
  if (option.takes_value && !option.is_argument)
    name += " " + (option.values.empty() ? "VALUE" : join(option.values, "|"));
  std::string out = ".TP\n\\fB" + troff(name) + "\\fR\n" +
                    troff(option.description.empty() ? "(no description)" : option.description);
  if (!option.default_value.empty()) out += troff(" (default: " + option.default_value + ")");
  if (option.is_required) out += " (required)";
  return out + "\n";
}

std::string describe(const HelpCommand& command) {
  std::string out =
      ".SS " + troff(join(command.words, " ")) + "\n" + troff(command.description) + "\n";
  for (const HelpOption& option : command.options) out += describe(option);
  if (!command.footer.empty()) out += verbatim(command.footer);
  for (const HelpCommand& each : command.commands) out += describe(each);
  return out;
}

}  // namespace

std::string manual_page(const CLI::App& app, const std::string& version) {
  const HelpCommand program = help_entries(app);
  std::string out = fmt::format(
      ".TH TURNBENCH 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\nturnbench \\- KV\\-cache and "
      "sparse\\-attention methods on multi\\-turn long\\-context dialogues\n.SH SYNOPSIS\n"
      "\\fBturnbench\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n{}\n",
      troff(version), troff(program.description));
  out += verbatim(program.footer);
  out += ".SH OPTIONS\n";
  for (const HelpOption& option : program.options) out += describe(option);
  out += ".SH COMMANDS\n";
  for (const HelpCommand& command : program.commands) out += describe(command);
  out += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : {std::pair("TURNBENCH_MODELS", "directory of models, by name"),
                                      {"TURNBENCH_DATA", "directory of datasets, by name"}})
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", name, meaning);
  return out;
}

}  // namespace turnbench
