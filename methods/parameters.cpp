#include "methods/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "methods/method.h"
#include "methods/parts/draft_checkpoint.h"

namespace turnbench {
namespace {

/// A decimal number, or two with a slash: 0.0078125 or 1/128.
std::optional<double> number_of(const std::string& text) {
  double value = 0, divisor = 1;
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc() && result.ptr != end && *result.ptr == '/')
    result = std::from_chars(result.ptr + 1, end, divisor);
  value /= divisor;
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

double parse_number(const std::string& text, const std::string& where) {
  if (const auto value = number_of(text)) return *value;
  throw input_error("{}: found \"{}\", expected a number", where, printable(shorten(text, 40)));
}

/// A share has a decimal point, a slash or a %, or is below 1 (1e-3); other numbers are tokens.
Budget parse_budget(const std::string& text, const std::string& where) {
  std::string number = text;
  const bool percent = !number.empty() && number.back() == '%';
  if (percent) number.pop_back();
  const double value = parse_number(number, where);
  const bool ratio = percent || value < 1 || number.find_first_of("./") != std::string::npos;
  const double share = percent ? value / 100 : value;
  if (!(value > 0) || (ratio && share > 1) || (!ratio && value != std::floor(value)) ||
      value > 1e9) {
    throw input_error(
        "{}: found \"{}\", expected a whole number of tokens from 1 to 10^9, or a share: 0.2, 1/5, "
        "20%, at most 1.0",
        where, printable(shorten(text, 40)));
  }
  return {ratio, ratio ? share : value};
}

std::optional<LayerRule> layer_rule_of(const std::string& text) {
  using Kind = LayerRule::Kind;
  if (text == "equal") return LayerRule{};
  const std::vector<std::string> parts = split(text, "/");
  if (parts[0] == "pyramid") {
    const std::optional<double> beta = parts.size() == 1 ? LayerRule{}.beta : number_of(parts[1]);
    if (parts.size() > 2 || !beta || *beta < 1 || *beta > 10000 || *beta != std::floor(*beta))
      return std::nullopt;
    return LayerRule{.kind = Kind::kPyramid, .beta = static_cast<int>(*beta), .weights = {}};
  }
  LayerRule out{.kind = Kind::kList, .weights = {}};
  double sum = 0;
  for (const std::string& part : parts) {
    const auto weight = number_of(part);
    if (!weight || *weight < 0) return std::nullopt;
    out.weights.push_back(*weight);
    sum += *weight;
  }
  if (sum > 0 && sum < 1e9) return out;
  return std::nullopt;
}

LayerRule parse_layers(const std::string& text, const std::string& where) {
  if (auto rule = layer_rule_of(text)) return *std::move(rule);
  throw input_error(
      "{}: found \"{}\", expected equal, pyramid, pyramid/BETA, or a weight for each layer: "
      "w0/w1/...",
      where, printable(shorten(text, 40)));
}

constexpr int kMostLayers = 1 << 16;

/// At least one layer, or none for "auto".
std::vector<int> parse_layer_list(const std::string& text, const std::string& where) {
  std::vector<int> out;
  if (text == "auto") return out;
  for (const std::string& part : split(text, "/")) {
    const auto layer = turnbench::parse_number<std::int64_t>(part);
    if (!layer || *layer < 0 || *layer > kMostLayers || (!out.empty() && *layer <= out.back())) {
      throw input_error("{}: found \"{}\", expected auto or ascending layers: 2/8/18", where,
                        printable(shorten(text, 40)));
    }
    out.push_back(static_cast<int>(*layer));
  }
  return out;
}

std::string layers_text(const LayerRule& rule) {
  switch (rule.kind) {
    case LayerRule::Kind::kEqual:
      return "equal";
    case LayerRule::Kind::kPyramid:
      return fmt::format("pyramid/{}", rule.beta);
    case LayerRule::Kind::kList:
      break;
  }
  return fmt::format("{}", fmt::join(rule.weights, "/"));
}

/// PATH#HASH with the first digits of hash(path), or the word for "no path".  Refuses a text with
/// another hash.
template <typename Hash>
std::string pinned_path(const std::string& text, std::string_view none, const std::string& where,
                        const Hash& hash) {
  std::string path = text.substr(0, text.find('#'));
  if (path == none) return path;
  std::string pinned =
      path + "#" + with_error_prefix(where, [&] { return hash(path); }).substr(0, 12);
  if (text != path && text != pinned)
    throw input_error("{}: found the file {}, expected {}", where, pinned, printable(text));
  return pinned;
}

/// The draft that the value of a parameter names: `tiny`, or a directory.
DraftCheckpoint open_draft(const std::string& name, const std::filesystem::path& folder) {
  return name == "tiny" ? DraftCheckpoint::of_tiny() : DraftCheckpoint::open(folder / name);
}

/// The value in canonical form; refuses values that do not fit the declaration.
std::string check_value(const ParameterInfo& p, const std::string& text, const std::string& where,
                        const std::filesystem::path& folder) {
  switch (p.kind) {
    case ParameterInfo::Kind::kBudget: {
      const Budget b = parse_budget(text, where);
      return b.is_ratio && b.value == 1 ? "100%" : fmt::format("{}", b.value);  // 1: one token
    }
    case ParameterInfo::Kind::kInteger:
    case ParameterInfo::Kind::kNumber: {
      const double value = parse_number(text, where);
      const bool whole = p.kind == ParameterInfo::Kind::kInteger;
      if (value < p.min || value > p.max || (whole && value != std::floor(value))) {
        throw input_error("{}: found {}, expected {} from {} to {}", where, text,
                          whole ? "a whole number" : "a number", p.min, p.max);
      }
      return fmt::format("{}", value);
    }
    case ParameterInfo::Kind::kFlag:
      if (text == "true" || text == "1") return "true";
      if (text == "false" || text == "0") return "false";
      throw input_error("{}: found \"{}\", expected true or false", where,
                        printable(shorten(text, 40)));
    case ParameterInfo::Kind::kChoice:
    case ParameterInfo::Kind::kScorer: {
      const std::vector<std::string> choices = split(unit_or_values(p), "|");
      if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
      throw input_error("{}: found \"{}\", expected one of: {}", where,
                        printable(shorten(text, 40)), join(choices, ", "));
    }
    case ParameterInfo::Kind::kLayers:
      return layers_text(parse_layers(text, where));
    case ParameterInfo::Kind::kLayerList: {
      const std::vector<int> layers = parse_layer_list(text, where);
      return layers.empty() ? text : fmt::format("{}", fmt::join(layers, "/"));
    }
    case ParameterInfo::Kind::kMethod: {
      const Method method = Method::parse(text, where, folder);
      refuse_compression_within_prompts(method, where);
      if (method.canonical().find('@') == std::string::npos) return method.canonical();
      throw input_error("{}: found a placement, expected none: it changes no attention", where);
    }
    case ParameterInfo::Kind::kFile:
      return pinned_path(text, "none", where, [&](const std::string& path) {
        return hash_text(read_file(folder / path));
      });
    case ParameterInfo::Kind::kDraft:
      return pinned_path(text, p.unit, where, [&](const std::string& path) {
        return open_draft(path, folder).content_hash();
      });
  }
  return text;
}

/// Refuses a non-default value that has no effect.
void require_effect(const Parameters& values, const ParameterInfo& p, const std::string& where) {
  if (has_effect(p, values.values())) return;
  std::vector<std::string> found;
  for (const std::string& condition : split(p.only_with, "|")) {
    const std::string other = condition.substr(0, condition.find('='));
    found.push_back(other + "=" + values.values().find(other)->second);
  }
  throw input_error("{}: found it with {}, expected it with {} only: it does nothing otherwise",
                    where, join(found, " and "), replace_all(p.only_with, "|", " or "));
}

}  // namespace

int Budget::tokens(int n) const {
  return is_ratio ? whole_tokens(value * n) : static_cast<int>(value);
}

int whole_tokens(double tokens) {
  constexpr double kRounding = 1e-9;  // 0.29 * 100 is slightly below 29
  return static_cast<int>(std::floor(tokens + kRounding));
}

std::string unit_or_values(const ParameterInfo& p) {
  if (p.kind != ParameterInfo::Kind::kScorer) return std::string(p.unit);
  std::vector<std::string_view> names;
  for (const MethodInfo& m : all_methods()) {
    if (m.scorer) names.push_back(m.name);
  }
  return join(names, "|");
}

bool has_effect(const ParameterInfo& p, const ParameterValues& values) {
  const std::vector<std::string> conditions = split(p.only_with, "|");
  return p.only_with.empty() ||
         std::any_of(conditions.begin(), conditions.end(), [&](const std::string& condition) {
           const std::size_t equals = condition.find('=');
           const auto found = values.find(condition.substr(0, equals));
           return found != values.end() && found->second == condition.substr(equals + 1);
         });
}

std::vector<ParameterInfo> and_also(std::vector<ParameterInfo> list,
                                    const std::vector<ParameterInfo>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

Parameters Parameters::check(const std::vector<ParameterInfo>& declared,
                             const std::map<std::string, std::string>& given,
                             const std::string& where, const std::filesystem::path& folder,
                             const std::vector<ParameterInfo>& others) {
  std::vector<std::string_view> known;
  for (const ParameterInfo& p : and_also(declared, others)) known.push_back(p.name);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest_name(name, known);
    throw input_error("{}: found the unknown parameter \"{}\", expected {}", where,
                      printable(shorten(name, 40)),
                      known.empty()  ? "none"
                      : near.empty() ? "one of: " + join(known, ", ")
                                     : "\"" + near + "\"");
  }
  Parameters out;
  out.folder_ = folder;
  for (const ParameterInfo& p : declared) {
    const std::string name(p.name);
    const auto found = given.find(name);
    if (found == given.end() && p.fallback.empty()) {
      throw input_error("{}: found no parameter \"{}\", expected one ({})", where, name,
                        p.description);
    }
    const std::string text = found == given.end() ? std::string(p.fallback) : found->second;
    out.values_[name] = check_value(p, text, where + ": " + name, folder);
    if (!out.canonical_.empty()) out.canonical_ += ",";
    out.canonical_ += name + "=" + out.values_[name];
  }
  for (const ParameterInfo& p : declared) {
    const std::string name(p.name), place = where + ": " + name;
    if (!p.only_with.empty() &&
        out.values_[name] != check_value(p, std::string(p.fallback), place, folder))
      require_effect(out, p, place);
  }
  return out;
}

const std::string& Parameters::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  throw runtime_error(
      "found no parameter \"{}\" among those of the method ({}), expected one of them", name,
      canonical_.empty() ? "none" : canonical_);
}

Budget Parameters::budget(std::string_view name) const {
  return parse_budget(text(name), std::string(name));
}
int Parameters::integer(std::string_view name) const {
  return static_cast<int>(number(name));
}
double Parameters::number(std::string_view name) const {
  return parse_number(text(name), std::string(name));
}
bool Parameters::flag(std::string_view name) const {
  return text(name) == "true";
}
const std::string& Parameters::choice(std::string_view name) const {
  return text(name);
}

LayerRule Parameters::layers(std::string_view name) const {
  return parse_layers(text(name), std::string(name));
}

std::vector<int> Parameters::layer_list(std::string_view name) const {
  return parse_layer_list(text(name), std::string(name));
}

std::optional<std::filesystem::path> Parameters::file(std::string_view name) const {
  const std::string& value = text(name);
  if (value == "none") return std::nullopt;
  return folder_ / value.substr(0, value.find('#'));
}

std::shared_ptr<const DraftCheckpoint> Parameters::draft(std::string_view name) const {
  const std::string& value = text(name);
  const std::size_t hash = value.find('#');
  if (hash == std::string::npos) return nullptr;
  return std::make_shared<const DraftCheckpoint>(open_draft(value.substr(0, hash), folder_));
}

}  // namespace turnbench
