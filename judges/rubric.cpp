#include "judges/rubric.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/fill_template.h"
#include "harness/experiment/manifest.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxScale = 1000;
constexpr double kMaxTemperature = 10;
constexpr double kMaxTokens = 1 << 20;

double number_of(const std::string& text, double low, double high, const std::string& place) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !(*value >= low && *value <= high)) {
    throw input_error("{}: found \"{}\", expected a number from {} to {}", place,
                      printable(shorten(text, 40)), low, high);
  }
  return *value;
}

std::string one_of(const std::string& value, const std::vector<std::string_view>& known,
                   const std::string& place) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return value;
  throw input_error("{}: found \"{}\", expected {}", place, printable(shorten(value, 40)),
                    nearest_or_all(value, known));
}

void read_key(Rubric& out, const std::string& key, const std::string& value,
              const std::string& place) {
  one_of(key, {"reply", "scale", "dimensions", "score", "turns", "temperature", "max_tokens"},
         place);
  if (key == "reply") {
    out.reply = one_of(value, {"json", "yes-no"}, place) == "json" ? Rubric::Reply::kJson
                                                                   : Rubric::Reply::kYesNo;
  } else if (key == "scale") {
    const std::vector<std::string> ends = split(value, " to ");
    if (ends.size() != 2) {
      throw input_error("{}: found \"{}\", expected LOW to HIGH", place,
                        printable(shorten(value, 40)));
    }
    out.low = number_of(trim(ends[0]), 0, kMaxScale, place);
    out.high = number_of(trim(ends[1]), 0, kMaxScale, place);
    if (out.low >= out.high) {
      throw input_error("{}: found {} to {}, expected a rising scale", place, out.low, out.high);
    }
  } else if (key == "dimensions") {
    for (const std::string& name : split(value, ",")) out.dimensions.push_back(trim(name));
  } else if (key == "score") {
    out.overall = value == "mean" ? "" : value;
  } else if (key == "turns") {
    out.last_turn = one_of(value, {"all", "last"}, place) == "last";
  } else if (key == "temperature") {
    out.temperature = number_of(value, 0, kMaxTemperature, place);
  } else {
    out.max_tokens = static_cast<int>(number_of(value, 1, kMaxTokens, place));
  }
}

/// "[guidance task=NAME]", "[guidance id=*ENDING]" or "[guidance]".
Rubric::Guidance guidance_of(const std::string& line, const std::string& place) {
  constexpr std::string_view kTask = "task=", kId = "id=*";
  Rubric::Guidance out;
  const std::string condition = trim(line.substr(9, line.size() - 10));
  if (condition.starts_with(kTask)) {
    out.task = condition.substr(kTask.size());
  } else if (condition.starts_with(kId)) {
    out.id_ending = condition.substr(kId.size());
  }
  if (out.task.empty() && out.id_ending.empty() && !condition.empty()) {
    throw input_error("{}: found \"{}\", expected task=NAME or id=*ENDING", place,
                      printable(shorten(condition, 40)));
  }
  return out;
}

void check(const Rubric& r, const std::string& source) {
  const auto need = [&](bool holds, std::string_view found, std::string_view expected) {
    if (!holds) throw input_error("{}: found {}, expected {}", source, found, expected);
  };
  need(!r.prompt.empty(), "no [prompt]", "one");
  if (r.reply == Rubric::Reply::kYesNo) {
    need(r.dimensions.empty() && r.overall.empty() && r.low == 0 && r.high == 1,
         "a scale, dimensions or a score", "none with reply: yes-no");
  } else {
    need(!r.dimensions.empty(), "no dimensions", "at least one");
    std::set<std::string> names;
    for (const std::string& d : r.dimensions) {
      const std::string name = normalized_name(d);
      need(!name.empty() && names.insert(name).second, "an empty or repeated dimension", "names");
    }
    need(r.overall.empty() ||
             std::find(r.dimensions.begin(), r.dimensions.end(), r.overall) != r.dimensions.end(),
         "a score that is no dimension", "mean, or one of the dimensions");
  }
  TemplateValues values;
  for (std::string_view field : prompt_fields()) values.emplace_back(field, "");
  fill_template(r.prompt, values, source + ": [prompt]");
  need(r.prompt.find("{answer}") != std::string::npos, "no {answer} in [prompt]", "it there");
  const bool guided = r.prompt.find("{guidance}") != std::string::npos;
  const bool has_default =
      !r.guidance.empty() && r.guidance.back().task.empty() && r.guidance.back().id_ending.empty();
  need(guided == !r.guidance.empty(), "{guidance} or [guidance] alone", "both or neither");
  need(!guided || has_default, "no [guidance] without a condition", "one, after the others");
}

}  // namespace

std::string normalized_name(std::string_view name) {
  std::string out;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != ' ' && c != '_' && c != '-') out += c;
  }
  return out;
}

const std::vector<std::string_view>& prompt_fields() {
  static const std::vector<std::string_view> fields = {
      "history", "message", "context", "question", "reference", "answer", "guidance"};
  return fields;
}

std::string Rubric::metric(std::string_view dimension) const {
  std::string out = std::string(kJudgePrefix) + name;
  return dimension.empty() ? out : out + ":" + replace_all(dimension, " ", "-");
}

Rubric parse_rubric(const std::string& text, const std::string& name, const std::string& source) {
  require_utf8(text, source);
  Rubric out;
  out.name = name;
  out.text = text;
  out.hash = hash_text(text);
  std::string* section = nullptr;
  std::set<std::string> keys;
  std::size_t number = 0;
  for (const std::string& line : split(text, "\n")) {
    const std::string place = fmt::format("{}: line {}", source, ++number), content = trim(line);
    if (content == "[prompt]") {
      section = &out.prompt;
    } else if (content.starts_with("[guidance") && content.ends_with("]")) {
      out.guidance.push_back(guidance_of(content, place));
      section = &out.guidance.back().text;
    } else if (section != nullptr) {
      *section += line + "\n";
    } else if (!content.empty() && content[0] != '#') {
      const std::size_t colon = content.find(':');
      if (colon == std::string::npos) {
        throw input_error("{}: found \"{}\", expected key: value", place,
                          printable(shorten(content, 40)));
      }
      const std::string key = trim(content.substr(0, colon));
      if (!keys.insert(key).second) {
        throw input_error("{}: found {} twice, expected it once", place, printable(key));
      }
      read_key(out, key, trim(content.substr(colon + 1)), place);
    }
  }
  out.prompt = trim(out.prompt);
  for (Rubric::Guidance& g : out.guidance) g.text = trim(g.text);
  check(out, source);
  if (out.reply == Rubric::Reply::kJson && !keys.contains("scale")) {
    throw input_error("{}: found no scale, expected LOW to HIGH", source);
  }
  return out;
}

fs::path rubrics_directory() {
  return project_directory("judges/rubrics");
}

std::vector<std::string> rubric_names() {
  std::vector<std::string> out;
  const fs::path directory = rubrics_directory();
  if (directory.empty()) return out;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".txt") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Rubric load_rubric(const std::string& name_or_file) {
  fs::path file = name_or_file;
  if (file.extension() != ".txt") {
    const std::vector<std::string> names = rubric_names();
    if (std::find(names.begin(), names.end(), name_or_file) == names.end()) {
      throw input_error("--rubric: found \"{}\", expected a file NAME.txt, or {}",
                        printable(shorten(name_or_file, 60)),
                        nearest_or_all(name_or_file, {names.begin(), names.end()}));
    }
    file = rubrics_directory() / (name_or_file + ".txt");
  }
  return parse_rubric(read_file(file), file.stem().string(), file.string());
}

}  // namespace turnbench
