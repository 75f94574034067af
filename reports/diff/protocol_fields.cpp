#include "reports/diff/protocol_fields.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "harness/store/provenance.h"
#include "methods/method.h"

namespace turnbench {
namespace {

std::string text_of(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void add_json(ProtocolFields& out, const std::string& name, const OrderedJson& value) {
  if (!value.is_object()) {
    out.emplace_back(name, text_of(value));
    return;
  }
  for (const auto& [key, inner] : value.items())
    add_json(out, name.empty() ? key : name + "." + key, inner);
}

void add_card(ProtocolFields& out, const Cell& cell) {
  const OrderedJson card = OrderedJson::parse(cell.protocol_text, nullptr, false);
  if (card.is_object()) {
    add_json(out, "", card);
  } else {
    out.emplace_back("card", cell.protocol);  // hash of a damaged card
  }
}

/// "snapkv:budget=64,window=8" -> method: snapkv, method.budget: 64, method.window: 8.  For
/// composed methods the names of settings contain the method: "method.snapkv.window".
void add_method(ProtocolFields& out, const std::string& name, std::string_view canonical) {
  const std::string_view beside = method_in(canonical);
  if (!beside.empty()) canonical = canonical.substr(0, canonical.find(beside));
  const std::size_t placed =
      std::min({canonical.find("@host"), canonical.find("@device"), canonical.size()});
  const std::vector<std::string> parts = split(canonical.substr(0, placed), "+");
  std::vector<std::string> names;
  ProtocolFields settings;
  const auto add_settings = [&](const std::string& prefix, std::string_view text) {
    for (const std::string& setting : split(text, ",")) {
      const std::size_t equals = setting.find('=');
      if (equals == std::string::npos || equals + 1 == setting.size()) continue;
      settings.emplace_back(prefix + setting.substr(0, equals), setting.substr(equals + 1));
    }
  };
  for (const std::string& part : parts) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    names.push_back(part.substr(0, colon));
    if (colon == part.size()) continue;
    add_settings(parts.size() > 1 ? name + "." + names.back() + "." : name + ".",
                 std::string_view(part).substr(colon + 1));
  }
  out.emplace_back(name, join(names, "+"));
  out.insert(out.end(), settings.begin(), settings.end());
  settings.clear();
  if (placed < canonical.size()) {
    const std::string_view placement = canonical.substr(placed + 1);
    const std::size_t colon = std::min(placement.find(':'), placement.size());
    out.emplace_back(name + ".placement", placement.substr(0, colon));
    if (colon < placement.size()) add_settings(name + ".", placement.substr(colon + 1));
    out.insert(out.end(), settings.begin(), settings.end());
  }
  if (!beside.empty()) add_method(out, name + ".method", beside);
}

void add_environments(ProtocolFields& out, const Store& store, const Cell& cell) {
  std::vector<std::string> parts = deciding_parts(cell.method_canonical);
  if (!parts.empty()) parts.emplace_back("cuda");
  std::map<std::string, std::set<std::string>> sources, other;
  const std::vector<std::string> described = {"build", "backend", "system", "processors"};
  for (const std::string& text : store.environments(store.environments_of(cell.key))) {
    for (const auto& [part, hash] : sources_of(text)) sources[part].insert(hash);
    const OrderedJson card = OrderedJson::parse(text, nullptr, false);
    for (const std::string& name : described) {
      if (card.is_object() && card.contains(name)) other[name].insert(text_of(card[name]));
    }
  }
  sources["datasets"] = {store.dataset_sources(cell.dataset_hash)};
  sources["metrics"] = store.score_sources(cell);
  parts.insert(parts.end(), {"datasets", "metrics"});
  const auto add = [&](const std::string& name, const std::set<std::string>& values) {
    const std::string all = join(values, "; ");
    if (!all.empty()) out.emplace_back(name, all);
  };
  for (const std::string& part : parts) add("sources." + part, sources[part]);
  for (const std::string& name : described) add(name, other[name]);
}

std::map<std::string, std::string> by_name(const ProtocolFields& fields) {
  return {fields.begin(), fields.end()};
}

std::vector<std::string> names_of(const ProtocolFields& fields) {
  std::vector<std::string> out;
  for (const auto& [name, value] : fields) out.push_back(name);
  return out;
}

}  // namespace

ProtocolFields protocol_fields(const Store& store, const Cell& cell, bool of_records) {
  ProtocolFields out;
  add_card(out, cell);
  out.emplace_back("position", cell.position);
  out.emplace_back("history", cell.history);
  out.emplace_back("answers", cell.answers);
  std::string_view canonical = cell.method_canonical;
  if (is_probe(cell)) canonical.remove_prefix(kProbePrefix.size());
  if (is_imported(cell)) {
    out.emplace_back("method", canonical);
  } else {
    add_method(out, is_probe(cell) ? "probe" : "method", canonical);
  }
  if (of_records) add_environments(out, store, cell);
  return out;
}

std::vector<FieldChange> changed_fields(const ProtocolFields& first, const ProtocolFields& second) {
  const std::map<std::string, std::string> ours = by_name(first), theirs = by_name(second);
  std::vector<std::string> names;
  merge_in_order(names, names_of(first));
  merge_in_order(names, names_of(second));
  const auto value = [](const std::map<std::string, std::string>& of, const std::string& name) {
    const auto found = of.find(name);
    return found == of.end() ? std::string("-") : found->second;
  };
  std::vector<FieldChange> out;
  for (const std::string& name : names) {
    FieldChange change{name, value(ours, name), value(theirs, name)};
    if (change.first != change.second) out.push_back(std::move(change));
  }
  return out;
}

void merge_in_order(std::vector<std::string>& list, const std::vector<std::string>& names) {
  auto next = list.begin();
  for (const std::string& name : names) {
    const auto known = std::find(list.begin(), list.end(), name);
    next = (known == list.end() ? list.insert(next, name) : known) + 1;
  }
}

}  // namespace turnbench
