#pragma once

#include <sys/types.h>

#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "harness/store/sqlite.h"

namespace turnbench {

/// Notices when others change a store, or replace its file.
class StoreVersion {
 public:
  /// @throws Error (input) if the file is not a store
  explicit StoreVersion(std::string path);
  /// A text that changes with the store.  It is also different for each object.
  std::string now();

 private:
  using File = std::pair<dev_t, ino_t>;
  File file() const;
  void open();

  std::string path_;
  std::unique_ptr<Database> db_;
  File file_{};
  std::time_t started_;
  int opened_ = 0;
};

}  // namespace turnbench
