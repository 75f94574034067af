#include "methods/method.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {
namespace {

bool is_placement(std::string_view name) {
  const auto& all = placement_parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const ParameterInfo& p) { return p.name == name; });
}

/// The settings that state when a method evicts.
struct Compression {
  bool before_question = false;
  int block = 0;
};

/// Removes these settings from those of a method.
Compression take_compression(std::map<std::string, std::string>& given, const std::string& where) {
  const ParameterInfo &compress = compress_parameter(), &block = compress_block_parameter();
  std::map<std::string, std::string> own;
  for (const ParameterInfo* p : {&compress, &block}) {
    const auto found = given.find(std::string(p->name));
    if (found == given.end()) continue;
    own.insert(*found);
    given.erase(found);
  }
  const Parameters checked = Parameters::check({compress, block}, own, where);
  return {checked.choice(compress.name) != compress.fallback, checked.integer(block.name)};
}

/// Refuses compress=before_question for a method that does not evict at the end of prompts only,
/// and compress_block for one that evicts nothing or cannot be called within a prompt.
void check_compression(const Method::Part& part, const Policies& policies,
                       const std::string& where) {
  const EvictionPolicy* eviction = policies.eviction.get();
  const auto refuse = [&](const ParameterInfo& p, const std::string& value, const char* does,
                          const char* expected) {
    throw input_error("{}: {}: {}: found {} with a method that {}, expected one that {}", where,
                      part.info->name, p.name, value, does, expected);
  };
  if (part.evicts_before_question && (eviction == nullptr || eviction->evicts_in_answers())) {
    refuse(compress_parameter(), "before_question",
           eviction ? "also evicts while it decodes" : "evicts nothing",
           "evicts at the end of prompts only");
  }
  if (part.compress_block == 0) return;
  const std::string tokens = std::to_string(part.compress_block);
  if (eviction == nullptr) refuse(compress_block_parameter(), tokens, "evicts nothing", "evicts");
  const auto scoring = eviction->scoring_passes(std::numeric_limits<int>::max());
  if (scoring != nullptr && !scoring->works_in_blocks()) {
    refuse(compress_block_parameter(), tokens, "computes the prompt again to score its tokens",
           "does not");
  }
}

Placement placement_of(const Parameters& p) {
  using Rule = Residency::Rule;
  static const std::map<std::string, Rule> rules = {{"lru", Rule::kLru},
                                                    {"lfu", Rule::kLfu},
                                                    {"demand-lru", Rule::kDemandLru},
                                                    {"previous", Rule::kPrevious}};
  return {.host = p.choice("placement") == "host",
          .rule = rules.at(p.choice("cache_rule")),
          .cache_tokens = p.integer("cache_tokens"),
          .cache_block = p.integer("cache_block"),
          .insert_blocks = p.integer("cache_insert")};
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

const std::vector<ParameterInfo>& placement_parameters() {
  using Kind = ParameterInfo::Kind;
  static const std::vector<ParameterInfo> parameters = {
      {"placement", Kind::kChoice, "device", "device|host",
       "where keys and values are stored while an answer is decoded"},
      {"cache_tokens", Kind::kInteger, "0", "tokens",
       "size of the device cache per KV head and layer, with placement=host; demand-lru: at least "
       "as many tokens as a step can load, 0: exactly as many"},
      {"cache_block", Kind::kInteger, "128", "tokens",
       "block size of the device cache, unless the method defines its own blocks; "
       "cache_rule=previous: 1 unless given",
       1},
      {"cache_rule", Kind::kChoice, "lru", "lru|lfu|demand-lru|previous",
       "which blocks stay on the device; lru, lfu: blocks are inserted after a step and replace "
       "the least recently or least frequently inserted ones; demand-lru: all blocks that a step "
       "reads are loaded before it; previous: those that the previous step read"},
      {"cache_insert", Kind::kInteger, "32", "blocks",
       "blocks inserted into the device cache after a step (lru, lfu)"}};
  return parameters;
}

const ParameterInfo& compress_parameter() {
  static const ParameterInfo parameter = {
      "compress", ParameterInfo::Kind::kChoice, "prompt", "prompt|before_question",
      "when tokens are evicted: at the end of a prompt, or when it has been computed up to the "
      "turn's question (query-agnostic); then the question and all text after it are kept, and a "
      "budget that is a share refers to the text before it"};
  return parameter;
}

const ParameterInfo& compress_block_parameter() {
  static const ParameterInfo parameter = {"compress_block", ParameterInfo::Kind::kInteger, "0",
                                          "tokens",
                                          "the prompt is computed in blocks of this many tokens, "
                                          "with an eviction after each, so that the "
                                          "cache need not hold the whole prompt; a budget that is "
                                          "a share refers to the prompt up to the "
                                          "end of the block; 0: no blocks"};
  return parameter;
}

void refuse_compression_within_prompts(const Method& method, const std::string& where) {
  const Policies& p = method.policies();
  if (p.evicts_before_question) {
    throw input_error(
        "{}: found {}=before_question, expected none: only the methods of a manifest evict before "
        "questions, which are known there",
        where, compress_parameter().name);
  }
  if (p.compress_block > 0) {
    throw input_error(
        "{}: found {}={}, expected 0: only the methods of a manifest compute prompts in blocks",
        where, compress_block_parameter().name, p.compress_block);
  }
}

std::string Method::Part::canonical() const {
  std::string settings = parameters.canonical();
  const auto add = [&](const ParameterInfo& p, const std::string& value) {
    settings += fmt::format("{}{}={}", settings.empty() ? "" : ",", p.name, value);
  };
  if (evicts_before_question) add(compress_parameter(), "before_question");
  if (compress_block > 0) add(compress_block_parameter(), std::to_string(compress_block));
  return std::string(info->name) + (settings.empty() ? "" : ":" + settings);
}

std::string Method::Part::prefill_key() const {
  if (info->prefill_of.empty()) return canonical();
  const MethodInfo& other = find_method(std::string(info->prefill_of), std::string(info->name));
  std::string out(other.name);
  for (const ParameterInfo& p : other.parameters) {
    out += fmt::format("{}{}={}", out.size() == other.name.size() ? ":" : ",", p.name,
                       parameters.values().find(p.name)->second);
  }
  return out;
}

void Method::add(const MethodInfo& info, const Spec& spec, const std::string& where,
                 const std::filesystem::path& folder) {
  std::map<std::string, std::string> own, placed;
  for (const auto& item : spec.given) (is_placement(item.first) ? placed : own).insert(item);
  const std::string place = where + ": " + spec.name;
  const Compression compression = take_compression(own, place);
  const auto others =
      and_also({compress_parameter(), compress_block_parameter()}, placement_parameters());
  parts_.push_back({&info,
                    Parameters::check(info.parameters, own, place, folder, others),
                    {},
                    compression.before_question,
                    compression.block});
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
    check_compression(part, p, where);
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
    if (p.has_sparse_prefill() || p.row_codec() != nullptr) glue(prefill_key_, part.prefill_key());
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
  if (policies_->compress_block > 0 && (policies_->prefill || policies_->selection)) {
    throw input_error(
        "{}: {}: found {} in \"{}\", with a method that {}, expected none: it needs whole prompts",
        where, compress_block_parameter().name, policies_->compress_block, label_,
        policies_->selection ? "selects tokens" : "decides the prefill");
  }
  with_error_prefix(where, [&] { check_codec(*policies_); });
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
  if (name == compress_block_parameter().name && policies_->eviction)
    return std::to_string(policies_->compress_block);
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
    out.compress_block = std::max(out.compress_block, part.compress_block);
  }
  out.placement = placement_;
  out.method = name_;
  return out;
}

}  // namespace turnbench
