#pragma once

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/json.h"

namespace turnbench {

/// A value, or an array of distinct values.
template <typename T, typename Parse>
std::vector<T> one_or_more(const JsonView& json, const Parse& parse) {
  std::vector<T> out;
  std::set<std::string> seen;
  const auto add = [&](const JsonView& item) {
    out.push_back(parse(item));
    if (!seen.insert(item.json().dump()).second) item.fail("each value once");
  };
  if (!json.is_array()) {
    add(json);
  } else {
    for (const JsonView& item : json.items()) add(item);
  }
  if (out.empty()) json.fail("at least one value");
  return out;
}

}  // namespace turnbench
