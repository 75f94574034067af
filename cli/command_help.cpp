#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/manual.h"
#include "common/text.h"
#include "harness/store/provenance.h"

namespace turnbench {

void add_help_command(CLI::App& app) {
  auto format = std::make_shared<std::string>("text");
  CLI::App* command = app.add_subcommand(
      "help", "Print the help of all commands as a manual page or as completions of a shell");
  command->group("");  // for the installation
  command->add_option("--format", *format, "text, man, bash or zsh")
      ->check(one_of({"text", "man", "bash", "zsh"}));
  command->callback([&app, format] {
    if (*format == "text") {
      fmt::print("{}", app.help());
    } else {
      fmt::print("{}", *format == "man" ? manual_page(app, split(build_description(), ",").front())
                       : *format == "bash" ? bash_completion(app)
                                           : zsh_completion(app));
    }
  });
}

}  // namespace turnbench
