#include "reports/method_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/text.h"
#include "harness/store/method_settings.h"

namespace turnbench {
namespace {

/// A setting of a part of a method: "sinks" of "oracle".
using Setting = std::pair<std::string, std::string>;  // part, parameter

/// A label that is the text of its method.
struct Written {
  struct Part {
    std::string name;
    std::vector<std::pair<std::string, std::string>> settings;  ///< as written
  };
  std::string label;
  std::vector<Part> parts;
  std::map<Setting, std::string> values;  ///< of all parameters, defaults included

  std::string family() const {
    std::vector<std::string> names;
    for (const Part& part : parts) names.push_back(part.name);
    std::sort(names.begin(), names.end());
    return join(names, "+");
  }
  std::string text(const std::set<Setting>& without) const {
    std::string out;
    for (const Part& part : parts) {
      out += (out.empty() ? "" : "+") + part.name;
      const char* separator = ":";
      for (const auto& [name, value] : part.settings) {
        if (without.contains({part.name, name})) continue;
        out += separator + name + "=" + value;
        separator = ",";
      }
    }
    return out;
  }
};

/// nullopt if the label is not the text of the cell's method.
std::optional<Written> written_in(const Cell& cell) {
  if (is_probe(cell) || is_imported(cell)) return std::nullopt;
  const MethodSettings settings = MethodSettings::parse(cell.method_canonical);
  Written out;
  out.label = cell.method;
  for (const std::string& text : split(cell.method, "+")) {
    const std::size_t colon = text.find(':');
    Written::Part& part = out.parts.emplace_back();
    part.name = text.substr(0, colon);
    const auto own =
        std::find_if(settings.parts.begin(), settings.parts.end(),
                     [&](const MethodSettings::Part& p) { return p.name == part.name; });
    if (own == settings.parts.end()) return std::nullopt;
    for (const auto& values : {settings.placement, std::map<std::string, std::string>(
                                                       own->values.begin(), own->values.end())}) {
      for (const auto& [name, value] : values) out.values[{part.name, name}] = value;
    }
    if (colon == std::string::npos) continue;
    for (const std::string& setting : split(text.substr(colon + 1), ",")) {
      const std::size_t equals = setting.find('=');
      if (equals == std::string::npos) return std::nullopt;
      part.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
      if (!out.values.contains({part.name, part.settings.back().first})) return std::nullopt;
    }
  }
  if (out.parts.size() != settings.parts.size()) return std::nullopt;
  return out;
}

/// The settings that labels of one family can do without: `all` methods with the same part have
/// them in common.
std::set<Setting> common_settings(const std::vector<const Written*>& family,
                                  const std::vector<Written>& all,
                                  const std::map<std::string, std::set<std::string>>& written) {
  std::set<Setting> out;
  for (const Written* method : family) {
    for (const Written::Part& part : method->parts) {
      for (const auto& [name, value] : part.settings) {
        const Setting setting{part.name, name};
        const std::string& own = method->values.at(setting);
        const bool is_common = std::all_of(all.begin(), all.end(), [&](const Written& other) {
          const auto found = other.values.find(setting);
          return found == other.values.end() || found->second == own;
        });
        if (is_common && written.at(name).size() == 1) out.insert(setting);
      }
    }
  }
  return out;
}

}  // namespace

MethodLabels::MethodLabels(const std::vector<Cell>& methods, const std::set<std::string>& given) {
  std::vector<Written> all;
  for (const Cell& cell : methods) {
    short_[cell.method] = cell.method;
    std::optional<Written> written = written_in(cell);
    if (written && !given.contains(cell.method)) all.push_back(*std::move(written));
  }
  std::map<std::string, std::set<std::string>> values;  // by parameter: those that labels contain
  std::map<std::string, std::vector<const Written*>> families;
  for (const Written& method : all) {
    families[method.family()].push_back(&method);
    for (const Written::Part& part : method.parts) {
      for (const auto& [name, value] : part.settings)
        values[name].insert(method.values.at({part.name, name}));
    }
  }
  std::map<std::string, std::set<Setting>> without;  // by family
  for (const auto& [name, family] : families) {
    const std::set<Setting> common = common_settings(family, all, values);
    std::map<std::string, std::string> shorter = short_;
    for (const Written* method : family) shorter[method->label] = method->text(common);
    std::set<std::string> distinct;
    for (const auto& [label, text] : shorter) distinct.insert(text);
    if (distinct.size() < shorter.size()) continue;
    short_ = std::move(shorter);
    without[name] = common;
  }
  std::vector<std::string> texts;  // in the order of the methods
  std::map<std::string, std::vector<std::string>> names;
  for (const Written& method : all) {
    for (const Written::Part& part : method.parts) {
      for (const auto& [name, value] : part.settings) {
        if (!without[method.family()].contains({part.name, name})) continue;
        const std::string text = name + "=" + value;
        if (!names.contains(text)) texts.push_back(text);
        std::vector<std::string>& of = names[text];
        if (std::find(of.begin(), of.end(), part.name) == of.end()) of.push_back(part.name);
      }
    }
  }
  std::vector<std::string> owners;  // in the order of their first settings
  std::map<std::string, std::vector<std::string>> settings;
  for (const std::string& text : texts) {
    const std::string owner = join(names[text], ", ");
    if (!settings.contains(owner)) owners.push_back(owner);
    settings[owner].push_back(text);
  }
  for (std::string& owner : owners) owner = join(settings[owner], ", ") + " of " + owner;
  left_out_ = join(owners, "; ");
}

const std::string& MethodLabels::of(const std::string& label) const {
  const auto found = short_.find(label);
  return found == short_.end() ? label : found->second;
}

const std::string& MethodLabels::whole(const std::string& text) const {
  const auto found = std::find_if(short_.begin(), short_.end(),
                                  [&](const auto& entry) { return entry.second == text; });
  return found == short_.end() ? text : found->first;
}

MethodFilter named_method(const std::string& text, const std::vector<Cell>& cells) {
  const MethodFilter filter(text);
  for (const Cell& cell : cells) {
    if (filter.matches(cell)) return filter;
  }
  return MethodFilter(MethodLabels(cells, {}).whole(text));
}

}  // namespace turnbench
