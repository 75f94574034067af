#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/store/sqlite.h"

namespace turnbench {

/// Adds dialogues to a store, within a transaction of the caller.
class DialogueWriter {
 public:
  explicit DialogueWriter(const Database& db);
  /// Returns false if the dataset has a dialogue of this id, which stays as it is.
  /// @throws Error (runtime) if the dataset has too many dialogues
  bool add(const std::string& dataset, const std::string& id, std::int64_t turns,
           std::string_view json);

 private:
  const Database& db_;
  Statement find_, next_, write_;
};

}  // namespace turnbench
