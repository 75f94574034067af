#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench {

/// Serializes on one line; bytes that are not UTF-8 become U+FFFD.
std::string dump(const OrderedJson& json);

/// Prints JSON documents as one document, an array.
void print_documents(std::vector<std::string> documents);

/// Prints problems to stderr, one per line after `title`: the first 20, and the number of the
/// remaining ones, followed by `more`.
void print_problems(std::string_view title, const std::vector<std::string>& lines,
                    std::string_view more = "more");

/// Reads a file, or standard input for "" and "-".
std::string read_input(const std::string& file);
/// As `read_input`.
/// @throws Error (input) if it is not UTF-8.
std::string read_utf8_input(const std::string& file);
/// The name of such an input in messages.
std::string input_name(const std::string& file);

}  // namespace turnbench
