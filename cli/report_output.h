#pragma once

#include <span>
#include <string>

#include "cli/cli.h"
#include "harness/store/store.h"

namespace turnbench {

// What the commands that print reports have in common.

/// --metric and --postprocess: other scores than the cells' own.
void add_score_choice(CLI::App& command, ScoreChoice& choice);
/// @throws Error (input) for a postprocess without a metric.
void check_score_choice(const ScoreChoice& choice);

/// Rejects --json with another format than `of_json`.
void check_json(const CommonOptions& common, const CLI::Option& format, const std::string& value,
                const std::string& of_json = "json");

/// The format of an output: that of --format or --json, else that of the file name's ending; the
/// first of `formats` for names without an ending.  `value` is that of --format.
/// @throws Error (input) for --json with another format, without both for an ending that is none of
/// the formats, and for an ending that names another format than the one that was asked for.
std::string chosen_format(const CommonOptions& common, const CLI::Option& format,
                          const std::string& value, const std::string& file,
                          std::span<const char* const> formats);

/// The experiment that `asked` names; if it is empty, the latest.
/// @throws Error (input) if the store has none.
std::string asked_or_latest(const Store& store, const std::string& asked);

/// Prints a report, or writes it to a file, which `force` replaces whatever it is.
void print_or_write(const std::string& text, const std::string& file, bool force);

}  // namespace turnbench
