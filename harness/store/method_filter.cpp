#include "harness/store/method_filter.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "methods/method.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

/// The canonical text of a method or probe; empty if the word is not one.
template <typename Spec>
std::string canonical_of(const std::string& spec) {
  try {
    return Spec::parse(spec).canonical();
  } catch (const Error&) {  // the label of another store's methods, or of imported predictions
    return "";
  }
}

/// Names joined by + from a canonical text.  Values may contain any character: the text after a +
/// is a part only if it is a method.
std::string name_of_canonical(const std::string& canonical) {
  std::string out;
  for (std::size_t begin = 0; begin != std::string::npos;) {
    const std::string name = canonical.substr(begin, canonical.find_first_of(":+@", begin) - begin);
    bool known = begin == 0;
    for (const MethodInfo& info : all_methods()) known |= info.name == name;
    if (known) out += (out.empty() ? "" : "+") + name;
    const std::size_t plus = canonical.find('+', begin);
    begin = plus == std::string::npos ? plus : plus + 1;
  }
  return out;
}

/// Names joined by +, in alphabetical order.
std::string sorted_names(const std::string& names) {
  std::vector<std::string> out = split(names, "+");
  std::sort(out.begin(), out.end());
  return join(out, "+");
}

/// The canonical text of a cell's probe: "probe TEXT", or "probe TEXT over N dialogues HASH".
std::string probe_of(const Cell& cell) {
  const std::string text = cell.method_canonical.substr(cell.method_canonical.find(' ') + 1);
  return text.substr(0, text.find(" over "));
}

}  // namespace

MethodFilter::MethodFilter(std::string spec) : spec_(std::move(spec)) {
  const bool bare = spec_.find_first_of(":@") == std::string::npos;
  if (bare) {  // with its defaults it would match only one setting
    names_ = sorted_names(spec_);
    return;
  }
  method_ = canonical_of<Method>(spec_);
  probe_ = canonical_of<ProbeSpec>(spec_);
}

bool MethodFilter::matches(const Cell& cell) const {
  const std::string& canonical = cell.method_canonical;
  if (cell.method == spec_ || canonical == spec_) return true;
  if (!is_probe(cell)) {
    return (!method_.empty() && canonical == method_) ||
           (!names_.empty() && sorted_names(name_of_canonical(canonical)) == names_);
  }
  const std::string probe = probe_of(cell);
  return (!probe_.empty() && probe == probe_) || probe.substr(0, probe.find(':')) == spec_;
}

std::string nearest_methods(const std::string& spec, const std::set<std::string>& labels) {
  const std::string name = spec.substr(0, spec.find(':'));
  std::vector<std::string_view> all, same;
  for (const std::string& label : labels) {
    all.emplace_back(label);
    if (label == name || label.starts_with(name + ":")) same.emplace_back(label);
  }
  if (same.empty()) return nearest_or_all(spec, all);
  return same.size() == 1 ? "\"" + std::string(same.front()) + "\"" : "one of: " + join(same, ", ");
}

}  // namespace turnbench
