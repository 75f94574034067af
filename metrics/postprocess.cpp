#include "metrics/postprocess.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// The text after the last " is ", or the whole text.
std::string_view value_of(std::string_view text) {
  constexpr std::string_view kIs = " is ";
  const std::size_t at = text.rfind(kIs);
  return at == text.npos ? text : text.substr(at + kIs.size());
}

std::string first_line(std::string_view answer) {
  const std::size_t start = std::min(answer.find_first_not_of('\n'), answer.size());
  return std::string(answer.substr(start, answer.find('\n', start) - start));
}

std::string last_value(std::string_view answer) {
  const std::string_view value = value_of(answer);
  if (value.size() == answer.size()) return std::string(answer);
  std::string out = trim(value);
  if (out.ends_with('.')) out.pop_back();
  return trim(out);
}

std::string all_values(std::string_view answer) {
  std::vector<std::string> values;
  while (!answer.empty()) {
    const std::string_view clause = answer.substr(0, answer.find_first_of(",."));
    answer.remove_prefix(std::min(clause.size() + 1, answer.size()));
    std::string value = trim(value_of(clause));
    if (!value.empty()) values.push_back(std::move(value));
  }
  return join(values, " ");
}

}  // namespace

const std::vector<Postprocess>& all_postprocesses() {
  static const std::vector<Postprocess> all = {
      {"all_values",
       "of every clause between commas and full stops the text after its last \" is \" (the clause "
       "itself if there is none), joined by spaces",
       all_values},
      {"first_line", "first line after leading newlines (LongBench's few-shot tasks)", first_line},
      {"last_value",
       "the text after the last \" is \", without a final full stop; the whole answer if there is "
       "none",
       last_value},
      {"none", "the answer, unchanged",
       [](std::string_view answer) { return std::string(answer); }},
  };
  return all;
}

const Postprocess& find_postprocess(std::string_view name, const std::string& where) {
  std::vector<std::string_view> known;
  for (const Postprocess& postprocess : all_postprocesses()) {
    if (postprocess.name == name) return postprocess;
    known.push_back(postprocess.name);
  }
  throw input_error("{}: found the post-processing \"{}\", expected {}", where,
                    printable(shorten(name, 60)), nearest_or_all(name, known));
}

}  // namespace turnbench
