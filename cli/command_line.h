#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace turnbench {

// Validators of option values.  Their messages have the usual form "OPTION: found X, expected Y".

/// Accepts an integer from `min` to `max` in decimal digits.
CLI::Validator whole_number(std::int64_t min, std::int64_t max);
/// Accepts a finite number from `min` to `max`.
CLI::Validator number(double min, double max);
/// Accepts a difference of scores: a number between 0 and 100.
CLI::Validator score_points();
/// Refuses an empty text.
CLI::Validator not_empty();
/// Accepts one of `words`; the message for others suggests the nearest.
CLI::Validator one_of(std::vector<std::string> words);

/// Whether the command line has a word where the name of a command is expected, and no command has
/// this name.
bool names_unknown_command(const CLI::App& app);

/// Converts a parse error to an Error that names the word, its place and the expected value, with
/// the nearest known name.
Error usage_error(const CLI::App& app, const CLI::ParseError& refusal);

}  // namespace turnbench
