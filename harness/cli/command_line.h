#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace turnbench {

// Checks of option values.  Their refusals read "OPTION: found X, expected Y", as all others do.

/// Decimal digits from `min` to `max`, and nothing else.
CLI::Validator whole_number(std::int64_t min, std::int64_t max);
/// A finite number from `min` to `max`.
CLI::Validator number(double min, double max);
/// One of a few words; refuses others with the nearest.
CLI::Validator one_of(std::vector<std::string> words);

/// What the parser's refusal of a command line means: which word was found where, and what was
/// expected there, with the nearest known name.
Error usage_error(const CLI::App& app, const CLI::ParseError& refusal);

}  // namespace turnbench
