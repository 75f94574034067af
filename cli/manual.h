#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace turnbench {

// The help of all commands in other forms.  Hidden commands and options are left out.

/// A page for man(1).
std::string manual_page(const CLI::App& app, const std::string& version);

/// Completion of commands, options and values for bash and zsh.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace turnbench
