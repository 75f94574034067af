#include "methods/method.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "inference/policy/policy_checks.h"
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
    case ParameterInfo::Kind::kMethod: {
      const Method method = Method::parse(text, where, folder);
      refuse_before_question(method, where);
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

bool is_placement(std::string_view name) {
  const auto& all = placement_parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const ParameterInfo& p) { return p.name == name; });
}

std::string value_text(const JsonView& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_number()) return value.json().dump();
  value.fail("a string, a number, true or false");
}

/// Weights of the layers in the text form of their parameter.
std::string weights_text(const JsonView& value) {
  if (!value.is_array()) return value_text(value);
  std::string out;
  for (const JsonView& item : value.items()) out += (out.empty() ? "" : "/") + value_text(item);
  return out;
}

}  // namespace

const MethodInfo& find_method(const std::string& name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const MethodInfo& m : all_methods()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  throw input_error("{}: found the unknown method \"{}\", expected {}", where,
                    printable(shorten(name, 40)), nearest_or_listed(name, names, "methods"));
}

int Budget::tokens(int n) const {
  // 0.29 * 100 is slightly below 29 due to rounding.
  return is_ratio ? static_cast<int>(std::floor(value * n + 1e-9)) : static_cast<int>(value);
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
                             const std::string& where, const std::filesystem::path& folder) {
  std::vector<std::string_view> known;
  for (const ParameterInfo& p : declared) known.push_back(p.name);
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
  return values_.find(name)->second;
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

const std::vector<ParameterInfo>& placement_parameters() {
  using Kind = ParameterInfo::Kind;
  static const std::vector<ParameterInfo> parameters = {
      {"placement", Kind::kChoice, "device", "device|host",
       "where keys and values are stored while an answer is decoded"},
      {"cache_tokens", Kind::kInteger, "0", "tokens",
       "size of the device cache per KV head and layer, with placement=host; demand-lru, "
       "demand-mass: at least as many tokens as a step can load, 0: exactly as many"},
      {"cache_block", Kind::kInteger, "128", "tokens",
       "block size of the device cache, unless the method defines its own blocks; "
       "cache_rule=previous: 1 unless given",
       1},
      {"cache_rule", Kind::kChoice, "lru", "lru|lfu|demand-lru|demand-mass|previous",
       "which blocks stay on the device; lru, lfu: blocks are inserted after a step and replace "
       "the least recently or least frequently inserted ones; demand-lru, demand-mass: all blocks "
       "that a step reads are loaded before it; previous: those that the previous step read"},
      {"cache_insert", Kind::kInteger, "32", "blocks",
       "blocks inserted into the device cache after a step (lru, lfu)"}};
  return parameters;
}

const ParameterInfo& compress_parameter() {
  static const ParameterInfo parameter = {
      "compress", ParameterInfo::Kind::kChoice, "prompt", "prompt|before_question",
      "when tokens are evicted: at the end of a prompt, or when it has been computed up to the "
      "turn's question (query-agnostic); then the question and all text behind it are kept, and a "
      "budget that is a share refers to the text before it"};
  return parameter;
}

void refuse_before_question(const Method& method, const std::string& where) {
  if (!method.policies().evicts_before_question) return;
  throw input_error(
      "{}: found {}=before_question, expected none: only the methods of a manifest evict before "
      "questions, which are known there",
      where, compress_parameter().name);
}

std::string Method::Part::canonical() const {
  std::string settings = parameters.canonical();
  if (evicts_before_question) {
    settings +=
        fmt::format("{}{}=before_question", settings.empty() ? "" : ",", compress_parameter().name);
  }
  return std::string(info->name) + (settings.empty() ? "" : ":" + settings);
}

namespace {

/// Removes the compress parameter from a method's settings.  Returns whether it is before_question.
bool take_compress(std::map<std::string, std::string>& given, const std::string& where) {
  const ParameterInfo& p = compress_parameter();
  const auto found = given.find(std::string(p.name));
  if (found == given.end()) return false;
  const std::string value = check_value(p, found->second, fmt::format("{}: {}", where, p.name), {});
  given.erase(found);
  return value != p.fallback;
}

/// Refuses compress=before_question for a method that does not evict at the end of prompts only.
void check_compress(const MethodInfo& info, const Policies& policies, const std::string& where) {
  const bool once = policies.eviction && !policies.eviction->evicts_in_answers();
  if (once) return;
  throw input_error(
      "{}: {}: {}: found before_question with a method that {}, expected one that "
      "evicts at the end of prompts only",
      where, info.name, compress_parameter().name,
      policies.eviction ? "also evicts while it decodes" : "evicts nothing");
}

Placement placement_of(const Parameters& p) {
  using Rule = Residency::Rule;
  static const std::map<std::string, Rule> rules = {{"lru", Rule::kLru},
                                                    {"lfu", Rule::kLfu},
                                                    {"demand-lru", Rule::kDemandLru},
                                                    {"demand-mass", Rule::kDemandMass},
                                                    {"previous", Rule::kPrevious}};
  return {.host = p.choice("placement") == "host",
          .rule = rules.at(p.choice("cache_rule")),
          .cache_tokens = p.integer("cache_tokens"),
          .cache_block = p.integer("cache_block"),
          .insert_blocks = p.integer("cache_insert")};
}

}  // namespace

void Method::add(const MethodInfo& info, const Spec& spec, const std::string& where,
                 const std::filesystem::path& folder) {
  std::map<std::string, std::string> own, placed;
  for (const auto& item : spec.given) (is_placement(item.first) ? placed : own).insert(item);
  const std::string place = where + ": " + spec.name;
  const bool before_question = take_compress(own, place);
  parts_.push_back(
      {&info, Parameters::check(info.parameters, own, place, folder), {}, before_question});
  // The settings of all parts override the defaults of all parts.
  for (const auto& [name, value] : placed) {
    const auto [known, is_new] = given_placement_.emplace(name, value);
    if (!is_new && known->second != value) {
      throw input_error("{}: found {}={} and {}={}, expected one placement", where, name,
                        known->second, name, value);
    }
  }
  default_placement_.insert(info.placement.begin(), info.placement.end());
  const bool is_given = !placed.empty();
  placed = given_placement_;
  placed.insert(default_placement_.begin(), default_placement_.end());
  if (placed.empty()) return;
  // Rule kPrevious keeps single tokens unless blocks are requested.
  const auto rule = placed.find("cache_rule");
  if (rule != placed.end() && rule->second == "previous") placed.emplace("cache_block", "1");
  const auto& declared = placement_parameters();
  const Parameters p = Parameters::check(declared, placed, place);
  placement_ = placement_of(p);
  if (is_given) parts_.back().placement = p;
  const std::string usual = Parameters::check(declared, default_placement_, place).canonical();
  placement_text_ =
      p.canonical() == usual ? "" : p.canonical().substr(std::string_view("placement=").size());
}

void Method::require_useful_parts(const std::string& where) const {
  std::set<std::string_view> names;
  for (const Part& part : parts_) {
    if (!names.insert(part.info->name).second)
      throw input_error("{}: found {} twice in \"{}\", expected it once", where, part.info->name,
                        label_);
  }
  if (parts_.size() > 1 && names.contains("full")) {
    throw input_error("{}: found full with others in \"{}\", expected it alone: it decides nothing",
                      where, label_);
  }
  if (placement_.host) return;
  const auto& declared = placement_parameters();
  const Parameters usual = Parameters::check(declared, default_placement_, where),
                   given = Parameters::check(declared, given_placement_, where);
  for (const auto& [name, unchecked] : given_placement_) {
    const std::string& value = given.values().find(name)->second;
    if (name == "placement" || value == usual.values().find(name)->second) continue;
    throw input_error(
        "{}: {}: found {} with placement=device in \"{}\", expected placement=host: the device has "
        "no cache otherwise",
        where, name, value, label_);
  }
}

void Method::finish(std::string label, const std::string& where) {
  label_ = std::move(label);
  require_useful_parts(where);
  // The order in which the parts are written has no effect, so it is not part of the method's name.
  std::vector<std::pair<Part, Policies>> made;
  for (Part& part : parts_) {
    Policies p = with_error_prefix(where, [&] { return part.info->make(part.parameters); });
    if (part.evicts_before_question) check_compress(*part.info, p, where);
    made.emplace_back(std::move(part), std::move(p));
  }
  const auto rank = [](const Policies& p) {
    return p.has_sparse_prefill() ? 0 : p.eviction ? 1 : p.selection ? 2 : p.codec ? 3 : 0;
  };
  std::stable_sort(made.begin(), made.end(),
                   [&](const auto& a, const auto& b) { return rank(a.second) < rank(b.second); });
  parts_.clear();
  std::string_view prefill, eviction, selection, codec;  // methods that supply these policies
  const auto decide = [&](std::string_view& by, std::string_view name, const char* what) {
    if (!by.empty()) {
      throw input_error("{}: found {} and {} in \"{}\", which both decide {}, expected one of them",
                        where, by, name, label_, what);
    }
    by = name;
  };
  bool selects_in_prefill = false;
  for (auto& [part, p] : made) {
    const std::string text = part.canonical();
    const auto glue = [](std::string& to, const std::string& piece) {
      to += (to.empty() ? "" : "+") + piece;
    };
    glue(name_, std::string(part.info->name));
    glue(canonical_, text);
    eager_ |= part.info->name == "full-eager";
    if (p.has_sparse_prefill() || p.codec) glue(prefill_key_, text);
    if (p.has_sparse_prefill()) decide(prefill, part.info->name, "the prefill");
    if (p.codec) decide(codec, part.info->name, "how keys and values are stored");
    if (p.eviction) decide(eviction, part.info->name, "what is evicted");
    if (p.selection) {
      decide(selection, part.info->name, "what steps read");
      with_error_prefix(where, [&, &selected = *p.selection, name = std::string(part.info->name)] {
        check_cache_rule(selected, placement_.rule, name);
      });
    }
    selects_in_prefill |= p.selects_in_prefill();
    parts_.push_back(std::move(part));
  }
  if (selects_in_prefill && !eviction.empty()) {
    throw input_error(
        "{}: found {}, which selects in prompts, with {}, which evicts, in \"{}\", expected no "
        "eviction: what it selects from is the whole prompt",
        where, selection, eviction, label_);
  }
  if (!placement_text_.empty()) {  // "host,cache_tokens=..."
    const std::size_t comma = placement_text_.find(',');
    canonical_ += "@" + placement_text_.substr(0, comma);
    if (placement_.host) canonical_ += ":" + placement_text_.substr(comma + 1);
  }
  policies_ = std::make_shared<const Policies>(make());
  with_error_prefix(where, [&] { check_codec(*policies_); });
}

Spec Spec::parse(const std::string& text, const std::string& where) {
  const std::size_t colon = text.find(':');
  Spec out{trim(text.substr(0, colon)), {}};
  if (colon == std::string::npos) return out;
  const std::string_view method = method_in(text);
  std::string_view settings = std::string_view(text).substr(colon + 1);
  if (!method.empty()) {
    out.given.emplace(kMethodParameter, trim(method));
    settings.remove_suffix(std::min(settings.size(), method.size() + kMethodParameter.size() + 2));
    if (settings.empty()) return out;
  }
  for (const std::string& setting : split(settings, ",")) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw input_error("{}: found \"{}\", expected NAME=VALUE", where,
                        printable(shorten(setting, 40)));
    }
    if (!out.given.emplace(trim(setting.substr(0, equals)), trim(setting.substr(equals + 1)))
             .second) {
      throw input_error("{}: found \"{}\" twice, expected it once", where,
                        printable(setting.substr(0, equals)));
    }
  }
  return out;
}

Spec Spec::parse(const JsonView& object, const std::string& what) {
  if (!object.is_object()) object.fail(what);
  Spec out{object.at("name").as_string(), {}};
  for (const std::string& key : object.keys()) {
    if (key == "name") continue;
    out.given[key] = key == "layers" ? weights_text(object.at(key)) : value_text(object.at(key));
  }
  return out;
}

std::string Spec::text() const {
  std::string out = name;
  const auto add = [&](const std::string& key, const std::string& value) {
    out += (out.size() == name.size() ? ":" : ",") + key + "=" + value;
  };
  for (const auto& [key, value] : given) {
    if (key != kMethodParameter) add(key, value);
  }
  const auto method = given.find(std::string(kMethodParameter));
  if (method != given.end()) add(method->first, method->second);
  return out;
}

Method Method::parse(const std::string& spec, const std::string& where,
                     const std::filesystem::path& folder) {
  Method out;
  for (const std::string& text : split(spec, "+")) {
    const Spec part = Spec::parse(text, where);
    out.add(find_method(part.name, where), part, where, folder);
  }
  out.finish(spec, where);
  return out;
}

Method Method::of(const MethodInfo& info) {
  Method out;
  const Spec spec{std::string(info.name), {}};
  out.add(info, spec, "method", {});
  out.finish(spec.name, "method");
  return out;
}

Method Method::parse(const JsonView& json, const std::filesystem::path& folder) {
  const std::string where = json.source() + ": " + json.path();
  if (json.is_string()) return parse(json.as_string(), where, folder);
  Method out;
  if (json.is_object() && json.has("method")) {
    json.require_known_keys({"label", "method"});
    out = parse(json.at("method"), folder);
    out.label_ = json.at("label").as_string();
    if (trim(out.label_).empty()) json.at("label").fail("a name for tables");
    return out;
  }
  std::string label;
  const std::vector<JsonView> parts = json.is_array() ? json.items() : std::vector<JsonView>{json};
  if (parts.empty()) json.fail("at least one method");
  for (const JsonView& object : parts) {
    const Spec part = Spec::parse(object, "a method: a string, an object, or an array of objects");
    label += (label.empty() ? "" : "+") + part.text();
    const std::string place = object.source() + ": " + object.path();
    out.add(find_method(part.name, place), part, place, folder);
  }
  out.finish(label, where);
  return out;
}

std::optional<std::string> Method::setting(std::string_view name) const {
  if (name == "name") return name_;
  const ParameterInfo& compress = compress_parameter();
  if (name == compress.name && policies_->eviction)
    return policies_->evicts_before_question ? "before_question" : std::string(compress.fallback);
  for (const Part& part : parts_) {
    const auto found = part.parameters.values().find(name);
    if (found != part.parameters.values().end()) return found->second;
  }
  return std::nullopt;
}

Policies Method::make() const {
  Policies out;
  for (const Part& part : parts_) {
    Policies p = part.info->make(part.parameters);
    if (p.prefill) out.prefill = std::move(p.prefill);
    if (p.eviction) out.eviction = std::move(p.eviction);
    if (p.selection) out.selection = std::move(p.selection);
    if (p.codec) out.codec = std::move(p.codec);
    out.evicts_before_question |= part.evicts_before_question;
  }
  out.placement = placement_;
  out.method = name_;
  return out;
}

std::string_view method_in(std::string_view canonical) {
  for (const char before : {':', ','}) {
    const std::string key = before + std::string(kMethodParameter) + "=";
    const std::size_t at = canonical.find(key);
    if (at != std::string_view::npos) return canonical.substr(at + key.size());
  }
  return {};
}

std::optional<std::string> setting_in(std::string_view canonical, std::string_view name) {
  if (const std::string_view method = method_in(canonical); !method.empty()) {
    if (name == kMethodParameter) return std::string(method);
    canonical.remove_suffix(method.size() + kMethodParameter.size() + 2);
    const std::optional<std::string> own = setting_in(canonical, name);
    return own ? own : setting_in(method, name);
  }
  std::vector<std::string> names;
  const std::string_view methods =
      canonical.substr(0, std::min(canonical.find("@host:"), canonical.find("@device")));
  for (const std::string& part : split(methods, "+")) {
    const std::size_t colon = part.find(':');
    names.push_back(part.substr(0, colon));
    if (colon == std::string::npos) continue;
    for (const std::string& setting : split(std::string_view(part).substr(colon + 1), ",")) {
      const std::size_t equals = setting.find('=');
      if (equals != std::string::npos && setting.substr(0, equals) == name)
        return setting.substr(equals + 1);
    }
  }
  return name == "name" ? std::optional(join(names, "+")) : std::nullopt;
}

}  // namespace turnbench
