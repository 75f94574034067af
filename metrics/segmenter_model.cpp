#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/python_text.h"
#include "common/text.h"
#include "metrics/segmenter.h"

namespace turnbench {
namespace {

constexpr double kImpossible = -3.14e100;
constexpr std::array<const char*, 4> kStates = {"B", "E", "M", "S"};
constexpr std::uint8_t kBegin = 0, kEnd = 1, kMiddle = 2, kSingle = 3;

/// The possible predecessors of each state.
constexpr std::array<std::array<std::uint8_t, 2>, 4> kBefore = {
    {{kEnd, kSingle}, {kBegin, kMiddle}, {kBegin, kMiddle}, {kEnd, kSingle}}};

/// A file with one Python dictionary, "P={...}", of strings and numbers: JSON except for its
/// quotes.
Json read_dictionary(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  const std::size_t brace = text.find('{');
  if (brace == std::string::npos) {
    throw input_error("{}: found no '{{', expected a Python dictionary", path.string());
  }
  return parse_json(python::replace_all(std::string_view(text).substr(brace), "'", "\""),
                    path.string());
}

}  // namespace

SegmenterModel SegmenterModel::read(const std::filesystem::path& folder) {
  SegmenterModel model;
  const std::filesystem::path start_path = folder / "prob_start.py";
  const std::filesystem::path transition_path = folder / "prob_trans.py";
  const std::filesystem::path emission_path = folder / "prob_emit.py";
  const Json start = read_dictionary(start_path);
  const Json transition = read_dictionary(transition_path);
  const Json emission = read_dictionary(emission_path);
  for (std::size_t s = 0; s < 4; ++s) {
    model.start[s] = JsonView(start, start_path.string()).at(kStates[s]).as_number();
    const JsonView row = JsonView(transition, transition_path.string()).at(kStates[s]);
    for (std::size_t to = 0; to < 4; ++to) {
      model.transition[s][to] = row.get(kStates[to], kImpossible);
    }
    const JsonView characters = JsonView(emission, emission_path.string()).at(kStates[s]);
    for (const std::string& key : characters.keys()) {
      std::size_t used = 0;
      const char32_t c = key.empty() ? 0 : next_code_point(key, used);
      if (key.empty() || used != key.size()) characters.fail("keys of one character");
      constexpr States kNone = {kImpossible, kImpossible, kImpossible, kImpossible};
      model.emission.try_emplace(c, kNone).first->second[s] = characters.at(key).as_number();
    }
  }
  return model;
}

std::vector<std::size_t> SegmenterModel::word_ends(std::u32string_view text) const {
  if (text.empty()) return {};
  const auto emitted = [&](std::size_t i, std::size_t state) {
    const auto found = emission.find(text[i]);
    return found == emission.end() ? kImpossible : found->second[state];
  };
  std::vector<std::array<std::uint8_t, 4>> from(text.size());  // [i][s]: the state before s at i
  States score;
  for (std::size_t s = 0; s < 4; ++s) score[s] = start[s] + emitted(0, s);
  for (std::size_t i = 1; i < text.size(); ++i) {
    States next;
    for (std::size_t s = 0; s < 4; ++s) {
      const double emission_here = emitted(i, s);
      const auto reach = [&](std::uint8_t before) {
        return score[before] + transition[before][s] + emission_here;
      };
      const auto [first, second] = kBefore[s];
      from[i][s] = reach(second) >= reach(first) ? second : first;
      next[s] = reach(from[i][s]);
    }
    score = next;
  }
  std::vector<std::size_t> ends;
  std::uint8_t state = score[kSingle] >= score[kEnd] ? kSingle : kEnd;
  for (std::size_t i = text.size(); i > 0; --i) {
    if (state == kSingle || state == kEnd) ends.push_back(i);
    state = from[i - 1][state];
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace turnbench
