#include "tests/fuzz/manifest_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "common/text.h"
#include "datasets/catalog.h"
#include "harness/experiment/manifest.h"
#include "methods/method.h"
#include "metrics/metric.h"
#include "probes/probe.h"

namespace turnbench::fuzz {
namespace {

using Values = std::vector<OrderedJson>;

const Values& odd_values() {
  static const Values values = {nullptr,
                                true,
                                -1,
                                0,
                                1,
                                2.5,
                                1e308,
                                INT64_MAX,
                                UINT64_MAX,
                                "",
                                "x",
                                "tiny",
                                "a\nb",
                                "\x01",
                                "none",
                                "-1",
                                "1e999",
                                "0x10",
                                "../..",
                                std::string(300, 'y'),
                                OrderedJson::array(),
                                OrderedJson::object(),
                                OrderedJson::array({OrderedJson::array({nullptr})}),
                                OrderedJson{{"name", 1}},
                                OrderedJson{{"name", "full"}, {"name ", "x"}},
                                "\u4E2D\u0130"};
  return values;
}

/// Usually a valid value of a key; `bad` values have the right type but are invalid.
OrderedJson value(Draw& draw, const Values& good, const Values& bad = odd_values()) {
  if (!draw.wrong(12)) return draw.of(good);
  return draw.of(draw.below(2) == 0 ? bad : odd_values());
}

/// A value or a list of values.
OrderedJson one_or_more(Draw& draw, const Values& good, const Values& bad = odd_values()) {
  if (draw.below(2) == 0) return value(draw, good, bad);
  OrderedJson out = OrderedJson::array();
  for (std::size_t n = 1 + draw.below(good.size()); n > 0; --n) {
    const OrderedJson item = value(draw, good, bad);
    if (std::find(out.begin(), out.end(), item) == out.end() || draw.wrong(8)) out.push_back(item);
  }
  return out;
}

/// A value of a parameter: near its bounds, its default, or one of its choices.
OrderedJson parameter(Draw& draw, const ParameterInfo& info) {
  using Kind = ParameterInfo::Kind;
  if (!info.fallback.empty() && draw.rarely(4)) return info.fallback;
  const auto bounded = [&](double x) { return std::clamp(x, info.min, info.max); };
  const auto whole = [&](double x) { return static_cast<std::int64_t>(bounded(x)); };
  switch (info.kind) {
    case Kind::kBudget:
      return value(draw, {64, 8, 32, "1/5", "20%", 300, "0.5", 1, "100%"}, {0, "1/0", -1, "2/1"});
    case Kind::kInteger:
      return value(draw, {whole(4), whole(info.min), whole(16), whole(64), whole(300), whole(1e6)},
                   {info.min - 1, info.max + 1, 2.5});
    case Kind::kNumber:
      return value(draw, {bounded(0.5), bounded(0.1), bounded(1), info.min, bounded(0.999999)},
                   {info.min - 1, info.max * 2 + 1, "nan"});
    case Kind::kFlag:
      return value(draw, {true, false, "true", "false"});
    case Kind::kChoice:
    case Kind::kScorer: {
      Values words;
      for (const std::string& word : split(unit_or_values(info), "|")) words.push_back(word);
      return value(draw, words);
    }
    case Kind::kFile:
      return value(draw, {"none"}, {"/no/such/file", "/dev/null", "/"});
    case Kind::kDraft:
      return value(draw, {info.unit, "tiny"}, {"/no/such/directory", "/dev/null", "/"});
    case Kind::kMethod:
      return value(draw, {"full", "snapkv:budget=24,window=4", "minference+h2o:budget=24"},
                   {"none", "", "full:placement=host", "output-error:method=full"});
    case Kind::kLayers:
      return value(draw, {"equal", "pyramid", "4/3/2/1"}, {"1/1", "0/0/0/0", "1/2/3/4/5"});
    case Kind::kLayerList:
      return value(draw, {"auto", "0", "1/2", "0/1/3"}, {"2/1", "4", "0/", "-1"});
  }
  return nullptr;
}

/// {"name": ...} with some of the parameters.
template <typename Info>
OrderedJson part(Draw& draw, const std::vector<Info>& registry) {
  const Info& info = draw.of(registry);
  OrderedJson out = {{"name", info.name}};
  for (const ParameterInfo& p : info.parameters) {
    const bool required = p.fallback.empty();
    if (required ? !draw.wrong(16) : draw.rarely(3)) out[std::string(p.name)] = parameter(draw, p);
  }
  if constexpr (std::is_same_v<Info, MethodInfo>) {
    for (const ParameterInfo& p : placement_parameters()) {
      if (draw.rarely(12)) out[std::string(p.name)] = parameter(draw, p);
    }
    for (const ParameterInfo& p : {compress_parameter(), compress_block_parameter()}) {
      if (draw.rarely(12)) out[std::string(p.name)] = parameter(draw, p);
    }
  }
  if (draw.wrong(40)) out["no_such_parameter"] = 1;
  return out;
}

/// The same method or probe in the syntax of the command line.
std::string spec_of(const OrderedJson& part) {
  std::string out = part["name"], separator = ":";
  for (const auto& [key, given] : part.items()) {
    if (key == "name") continue;
    out += separator + key + "=" + (given.is_string() ? given.get<std::string>() : given.dump());
    separator = ",";
  }
  return out;
}

OrderedJson method(Draw& draw, std::size_t index) {
  if (draw.wrong(40)) return draw.of(odd_values());
  OrderedJson out = part(draw, all_methods());
  switch (draw.below(6)) {
    case 0:
      return spec_of(out);
    case 1:
      return spec_of(out) + "+" + spec_of(part(draw, all_methods()));
    case 2:
      return OrderedJson::array({out, part(draw, all_methods())});
    case 3:
      return {{"label", fmt::format("method {}", index)}, {"method", out}};
    case 4:
      return {{"label", value(draw, {"a", "b 1", "b 2", "b 3"}, {"", "full"})},
              {"method", spec_of(out)}};
    default:
      return out;
  }
}

OrderedJson methods(Draw& draw) {
  OrderedJson out = OrderedJson::array();
  for (std::size_t n = 1 + draw.below(4); n > 0; --n) out.push_back(method(draw, n));
  return draw.wrong(40) ? out[0] : out;
}

OrderedJson probes(Draw& draw) {
  OrderedJson out = OrderedJson::array();
  for (std::size_t n = 1 + draw.below(3); n > 0; --n) {
    const OrderedJson probe = part(draw, all_probes());
    out.push_back(draw.below(2) == 0 ? OrderedJson(spec_of(probe)) : probe);
  }
  return out;
}

OrderedJson model(Draw& draw, std::size_t index) {
  if (index == 0 && draw.below(4) == 0) return "tiny";
  OrderedJson out;
  for (const std::string& key : drawn_keys("models")) {
    if (key == "name") out[key] = value(draw, {fmt::format("model {}", index)}, {"tiny"});
    if (key == "path") out[key] = value(draw, {"tiny"}, {"/no/such", "random:none.json"});
    if (draw.below(3) != 0) continue;
    if (key == "dtype") out[key] = value(draw, {"auto", "f32", "f16", "bf16"});
    if (key == "kv_dtype") out[key] = value(draw, {"f32", "f16", "bf16"});
    if (key == "math") out[key] = value(draw, {"f32"}, {"bf16-linear", "bf16"});
    if (key == "template") out[key] = value(draw, {"auto", "none"}, {"llama3", "chatml", "jinja"});
  }
  return out;
}

Values metric_names() {
  Values out;
  for (const Metric& metric : all_metrics()) out.push_back(metric.name);
  return out;
}

const Dataset& any_dataset(Draw& draw) {
  std::vector<const Dataset*> all, with_length;
  for (const Dataset& d : all_datasets()) {
    all.push_back(&d);
    if (d.has_length && !d.needs_source) with_length.push_back(&d);
  }
  return *draw.of(draw.rarely(4) ? all : with_length);
}

OrderedJson dataset(Draw& draw, std::size_t index) {
  const Dataset& d = any_dataset(draw);
  if (draw.rarely(12)) return d.name;
  OrderedJson out;
  for (const std::string& key : drawn_keys("datasets")) {
    if (key == "name") out[key] = value(draw, {d.name});
    if (key == "label") out[key] = fmt::format("set {}", draw.wrong(8) ? 0 : index);
    if (key == "limit") out[key] = value(draw, {1, 2, 3});
    // Mostly short, because the time of a run grows with the number of tokens.
    if (key == "length" && d.has_length) {
      const int least = d.min_turn_length * std::max(3, d.turns);
      out[key] = value(draw, {least, least + 10, 2200}, {1, 90, -1});
    }
    if (draw.below(5) != 0) continue;
    if (key == "task") out[key] = value(draw, {"a task", "", "qa"});
    if (key == "metric") out[key] = value(draw, metric_names());
    if (key == "postprocess")
      out[key] = value(draw, {"none", "first_line", "last_value", "all_values"});
    if (key == "seed") out[key] = value(draw, {0, 1, INT64_MAX});
    if (key == "turns") out[key] = value(draw, {d.turns == 1 ? 1 : 2, 0}, {3, 16, 17});
    if (key == "depth" && (d.has_depth || draw.wrong(2)))
      out[key] = value(draw, {50, 0, 100, 33.3}, {101});
    const bool other = draw.wrong(2);  // for keys that most datasets refuse
    if (key == "source" && other) out[key] = value(draw, {"/no/such", "published.csv", ""});
    if (key == "fields" && other)
      out[key] = OrderedJson{{value(draw, {"question", "nothing"}).dump(), value(draw, {"q"})}};
    if (key == "official_prompts") out[key] = value(draw, {false}, {true});
    if (key == "leave_out" && other) out[key] = value(draw, {"/no/such", "published.csv", ""});
    if (key == "only" && (!d.needs_source || other)) out[key] = value(draw, {d.task, ""}, {"x"});
  }
  return out;
}

OrderedJson table(Draw& draw, const OrderedJson& methods, bool is_alone, bool has_fidelity) {
  Values dimensions = {"method.name"};
  for (std::string_view name : table_dimensions()) dimensions.push_back(name);
  Values values = {"score", "judge:round-attention"}, labels;
  for (const TableValue& v : table_values()) {
    if (v.is_measured ? is_alone : has_fidelity) values.push_back(v.name);
  }
  for (const OrderedJson& m : methods) {
    if (m.is_string()) labels.push_back(m);
    if (m.is_object() && m.contains("label")) labels.push_back(m["label"]);
  }
  if (labels.empty()) labels.push_back("");
  // A dimension is used in rows or in columns.
  const std::size_t cut = 1 + draw.below(dimensions.size() - 1);
  const Values rows(dimensions.begin(), dimensions.begin() + static_cast<std::ptrdiff_t>(cut)),
      columns(dimensions.begin() + static_cast<std::ptrdiff_t>(cut), dimensions.end());
  const Values bad = {"method.budget", "method.eta", "method.none", "method.", "value"};
  OrderedJson out = OrderedJson::object();
  for (const std::string& key : drawn_keys("tables")) {
    if (draw.below(3) == 0) continue;
    if (key == "title") out[key] = value(draw, {"A title", "", "<b>&|"});
    if (key == "value" && !draw.rarely(4))
      out[key] = value(draw, draw.rarely(3) ? metric_names() : values);
    if (key == "values" && (!out.contains("value") || draw.wrong(8)))
      out[key] = one_or_more(draw, values, metric_names());
    if (key == "methods") out[key] = one_or_more(draw, labels, {"snapkv", "none", 1});
    if (key == "rows") out[key] = one_or_more(draw, draw.wrong(8) ? columns : rows, bad);
    if (key == "columns") out[key] = one_or_more(draw, columns, bad);
    if (key == "difference_to") {
      const OrderedJson rule = {{"method", value(draw, labels, {"snapkv", "quest:budget=1"})},
                                {"same", one_or_more(draw, {"budget"}, {"window", "eta", ""})}};
      out[key] = draw.below(3) == 0 ? rule : value(draw, labels);
      if (draw.rarely(3)) out[key] = OrderedJson::array({out[key], value(draw, labels)});
    }
  }
  return out;
}

}  // namespace

const std::vector<std::string>& drawn_keys(std::string_view where) {
  static const std::vector<std::string> manifest = {
      "name",           "title",       "description",    "models",
      "datasets",       "methods",     "probes",         "positions",
      "history",        "answers",     "isolated",       "alone",
      "link_gbps",      "fidelity",    "max_new_tokens", "max_prompt_tokens",
      "past_positions", "temperature", "seed",           "system_prompt",
      "tables",         "published",   "smoke"};
  static const std::vector<std::string> models = {"name",     "path", "dtype",
                                                  "kv_dtype", "math", "template"};
  static const std::vector<std::string> datasets = {
      "name",  "label",  "task",  "source", "metric",           "postprocess", "limit",    "seed",
      "turns", "length", "depth", "fields", "official_prompts", "only",        "leave_out"};
  static const std::vector<std::string> tables = {"title",   "value",   "values",       "rows",
                                                  "columns", "methods", "difference_to"};
  return where.empty()         ? manifest
         : where == "models"   ? models
         : where == "datasets" ? datasets
                               : tables;
}

OrderedJson draw_manifest(Draw& draw, const std::string& published) {
  OrderedJson out;
  for (const std::string& key : drawn_keys("")) {
    // Required keys are rarely omitted, others often.
    if (key == "name") out[key] = value(draw, {"m", "a.b_c-D1"}, {"a b", "\u00E4", ""});
    if (key == "models") {
      out[key] = OrderedJson::array({model(draw, 0)});
      if (draw.rarely(6)) out[key].push_back(model(draw, 1));
      if (draw.rarely(16)) out[key] = model(draw, 0);
    }
    if (key == "datasets") {
      out[key] = OrderedJson::array({dataset(draw, 1)});
      if (draw.rarely(4)) out[key].push_back(dataset(draw, 2));
      if (draw.rarely(16)) out[key] = dataset(draw, 1);
    }
    if (key == "methods" && !draw.rarely(12)) out[key] = methods(draw);
    if (key == "probes" && (draw.rarely(6) || !out.contains("methods"))) out[key] = probes(draw);
    if (draw.below(4) != 0) continue;
    if (key == "title") out[key] = value(draw, {"A title", ""});
    if (key == "description") out[key] = value(draw, {"A paragraph.", ""});
    if (key == "positions") out[key] = one_or_more(draw, {"begin", "middle", "end"});
    if (key == "history")
      out[key] = one_or_more(draw, {"reprefill", "compress_once", "recompress", "dense"});
    if (key == "answers") out[key] = one_or_more(draw, {"own", "gold"});
    const bool other_name = key == "alone" && (!out.contains("isolated") || draw.wrong(4));
    if (key == "isolated" || other_name) {
      out[key] = value(draw, {true, false});
      out["max_new_tokens"] = value(draw, {4, 2}, {1, 0});
    }
    if (key == "link_gbps" && (out.contains("isolated") || draw.wrong(4)))
      out[key] = value(draw, {4, 16.5}, {0, -1});
    if (key == "fidelity" &&
        (!(out.contains("isolated") || out.contains("alone")) || draw.wrong(4)))
      out[key] = value(draw, {"full", "gold"}, {"own", true});
    if (key == "max_new_tokens" && !out.contains(key))
      out[key] = value(draw, {4, 1, 20, 0, 1'000'000});
    if (key == "max_prompt_tokens") out[key] = value(draw, {300, 0, 1000}, {64, 1, 100'000'000});
    if (key == "past_positions") out[key] = value(draw, {true, false});
    if (key == "temperature") out[key] = value(draw, {0, 0.7, 100, 1e-30});
    if (key == "seed") out[key] = value(draw, {0, 1, INT64_MAX});
    if (key == "system_prompt") out[key] = value(draw, {""}, {"Be brief."});
    if (key == "tables") {
      const auto is_true = [&](const char* name) {
        return out.value(name, OrderedJson(false)) == true;
      };
      const bool isolated = is_true("isolated") || is_true("alone");
      const OrderedJson methods = out.value("methods", OrderedJson());
      const bool fidelity = out.contains("fidelity");
      out[key] = OrderedJson::array({table(draw, methods, isolated, fidelity)});
      if (draw.rarely(3)) out[key].push_back(table(draw, methods, isolated, fidelity));
    }
    if (key == "published" && !draw.rarely(3))
      out[key] = value(draw, {published, ""}, {"none.csv", "."});
    if (key == "smoke") out[key] = value(draw, {"", "a warning"});
  }
  if (draw.wrong(24)) out.erase(draw.of(drawn_keys("")));
  if (draw.wrong(40)) out["no_such_key"] = 1;
  return out;
}

}  // namespace turnbench::fuzz
