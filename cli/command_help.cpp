#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/manual.h"
#include "common/text.h"
#include "harness/store/provenance.h"

namespace turnbench {

void add_help_command(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* other : app.get_subcommands({})) names.push_back(other->get_name());
  auto name = std::make_shared<std::string>(), format = std::make_shared<std::string>("text");
  CLI::App* command = app.add_subcommand(
      "help",
      "Print the help of a command, or that of all as a manual page or completions of a shell");
  command->group("");  // --help has the same texts
  command->add_option("command", *name, "command; default: an overview")
      ->check(one_of(std::move(names)))
      ->excludes(command->add_option("--format", *format, "text, man, bash or zsh")
                     ->check(one_of({"text", "man", "bash", "zsh"})));
  command->callback([&app, name, format] {
    if (*format == "text") {
      const CLI::App& of = name->empty() ? app : *app.get_subcommand(*name);
      const std::string title = app.get_name() + (name->empty() ? "" : " " + *name);
      fmt::print("{}", app.get_formatter()->make_help(&of, title, CLI::AppFormatMode::Normal));
    } else {
      fmt::print("{}", *format == "man" ? manual_page(app, split(build_description(), ",").front())
                       : *format == "bash" ? bash_completion(app)
                                           : zsh_completion(app));
    }
  });
}

}  // namespace turnbench
