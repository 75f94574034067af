#include "cli/input_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/text.h"
#include "reports/escape.h"

namespace turnbench {
namespace {

constexpr std::size_t kShownProblems = 20;

}  // namespace

std::string dump(const OrderedJson& json) {
  return escape_json(json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

void print_documents(std::vector<std::string> documents) {
  for (std::string& document : documents) document = trim(document);
  fmt::print("[{}]\n", join(documents, ",\n"));
}

void print_problems(std::string_view title, const std::vector<std::string>& lines,
                    std::string_view more) {
  const std::size_t shown = std::min(lines.size(), kShownProblems);
  for (std::size_t i = 0; i < shown; ++i) fmt::print(stderr, "{}: {}\n", title, one_line(lines[i]));
  if (lines.size() > shown) fmt::print(stderr, "{}: {} {}\n", title, lines.size() - shown, more);
}

std::string read_input(const std::string& file) {
  if (!file.empty() && file != "-") return read_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::string read_utf8_input(const std::string& file) {
  std::string text = read_input(file);
  require_utf8(text, input_name(file));
  return text;
}

std::string input_name(const std::string& file) {
  return file.empty() || file == "-" ? "stdin" : file;
}

}  // namespace turnbench
