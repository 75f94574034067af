// Fuzzes replies of judges and rubrics.  If the first line names a rubric of the project, the rest
// is a reply; if it is "rubric", the rest is a rubric.
#include "judges/reply.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "tests/fuzz/fuzz.h"

namespace turnbench::fuzz {
namespace {

std::map<std::string, Rubric, std::less<>> read_rubrics() {
  std::map<std::string, Rubric, std::less<>> out;
  for (const auto& entry :
       std::filesystem::directory_iterator(TURNBENCH_SOURCE_DIR "/judges/rubrics")) {
    const Rubric rubric = load_rubric(entry.path().string());
    out[rubric.name] = rubric;
  }
  return out;
}

/// Requires either an error without scores, or scores within the scale.
void check(const Rubric& rubric, const ParsedReply& reply) {
  if (!reply.error.empty()) {
    const bool is_line = is_valid_utf8(reply.error) && reply.error.find('\n') == std::string::npos;
    require(is_line, reply.error);
    require(reply.value == 0 && reply.scores.empty(), "numbers beside an error");
    return;
  }
  const auto on_scale = [&](double x) { return x >= rubric.low && x <= rubric.high; };
  require(on_scale(reply.value), fmt::format("a value of {}", reply.value));
  require(reply.scores.size() == rubric.dimensions.size(), "other scores than dimensions");
  for (std::size_t i = 0; i < reply.scores.size(); ++i) {
    require(reply.scores[i].name == rubric.dimensions[i], reply.scores[i].name);
    require(on_scale(reply.scores[i].value), fmt::format("a score of {}", reply.scores[i].value));
  }
}

/// Requires that a reply with the best scores is valid for an accepted rubric, and that dimensions
/// have different metrics.
void check_full_marks(const Rubric& rubric) {
  Json marks = Json::object();
  std::set<std::string> metrics;
  for (const std::string& dimension : rubric.dimensions) {
    marks[dimension] = rubric.high;
    require(metrics.insert(rubric.metric(dimension)).second, rubric.metric(dimension));
  }
  // A dimension's name must not start a <think> block.
  const std::string text = replace_all(marks.dump(), "<", "\\u003c");
  const ParsedReply reply =
      parse_reply(rubric, rubric.reply == Rubric::Reply::kYesNo ? "Yes." : text);
  require(reply.error.empty(), reply.error);
  check(rubric, reply);
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  static const auto rubrics = fuzz::read_rubrics();
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view name = fuzz::take_line(text);
  if (name == "rubric") {
    fuzz::expect_value_or_refusal(
        [&] { fuzz::check_full_marks(parse_rubric(std::string(text), "r", "r.txt")); });
  } else if (const auto found = rubrics.find(name); found != rubrics.end()) {
    fuzz::check(found->second, parse_reply(found->second, text));
  }
  return 0;
}
