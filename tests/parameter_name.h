#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace turnbench::test {

/// Names a test by the text that it is given, in what gtest allows: letters, digits, underscores.
inline std::string parameter_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  const auto is_other = [](unsigned char c) { return std::isalnum(c) == 0; };
  std::replace_if(name.begin(), name.end(), is_other, '_');
  return name;
}

}  // namespace turnbench::test
