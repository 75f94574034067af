#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/error.h"

namespace turnbench::test {

/// The message of the Error that `action` throws, which is to be of that kind; "no error" if it
/// throws none.
template <typename Action>
[[nodiscard]] std::string message_of(const Action& action, ErrorKind kind = ErrorKind::kInput) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "no error";
}

}  // namespace turnbench::test
