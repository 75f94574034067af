#include "reports/store_version.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/error.h"
#include "harness/store/store.h"

namespace turnbench {

StoreVersion::StoreVersion(std::string path)
    : path_(std::move(path)), started_(std::time(nullptr)) {
  Store::open(path_);  // rejects other files
  open();
}

StoreVersion::File StoreVersion::file() const {
  struct stat status {};
  return stat(path_.c_str(), &status) == 0 ? File(status.st_dev, status.st_ino) : file_;
}

void StoreVersion::open() {
  db_ = std::make_unique<Database>(path_, Database::Mode::kReadOnly);
  file_ = file();
  ++opened_;
}

std::string StoreVersion::now() {
  if (file() != file_) open();
  Statement version = db_->prepare("PRAGMA data_version");
  if (!version.next()) throw runtime_error("{}: has no version", path_);
  // The number only differs within one connection.
  return fmt::format("{:x}-{}-{}", started_, opened_, version.integer(0));
}

}  // namespace turnbench
