#include "harness/store/store_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/error.h"
#include "common/file.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

Error not_written(const fs::path& path) {
  return runtime_error("{}: cannot be written ({})", path.string(), std::strerror(errno));
}

/// Waits until a file, or the entries of a directory, are on disk.
void sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw not_written(path);
  const bool done = fsync(fd) == 0 || errno == EINVAL;  // EINVAL: no such call for directories
  close(fd);
  if (!done) throw not_written(path);
}

/// Whether the file is a store that may be replaced.
/// @throws Error (input) if it is a database of another program, or a store of a newer version.
bool is_replaceable(const fs::path& path) {
  if (!is_sqlite(path)) return false;
  const Database db(path, Database::Mode::kReadOnly);
  if (!is_new(db)) check_schema(db);
  return true;
}

void check_target(const fs::path& from, const fs::path& to) {
  if (to.empty()) throw input_error("copy: found an empty name, expected a file to write");
  std::error_code ignored;
  if (fs::equivalent(from, to, ignored))
    throw input_error("{}: found the store itself, expected another file", to.string());
  if (directory_exists(to))
    throw input_error("{}: found a directory, expected a file", to.string());
  const fs::path folder = to.has_parent_path() ? to.parent_path() : ".";
  if (!directory_exists(folder))
    throw input_error("{}: found no such folder, expected an existing one", folder.string());
  for (const char* suffix : {"-wal", "-journal"}) {
    const fs::path log = to.string() + suffix;
    if (!path_exists(log)) continue;
    throw input_error(
        "{}: found {}, expected a store that no program has open (if a killed run left the file, "
        "`turnbench status` of the store removes it)",
        to.string(), log.filename().string());
  }
  require_own_file(to, "store", [&] { return is_replaceable(to); });
}

/// Removes a partial copy, unless it was renamed.
struct PartialCopy {
  fs::path path;
  ~PartialCopy() {
    std::error_code ignored;
    fs::remove(path, ignored);
    fs::remove(path.string() + "-journal", ignored);
  }
};

/// Removes the claims of the runs that use the store, and counts its records.
std::size_t finish_copy(const fs::path& path) {
  Database db(path, Database::Mode::kReadWrite);
  if (db.has("claim")) db.execute("DELETE FROM claim");
  if (!db.has("record")) return 0;  // killed before its first write
  Statement count = db.prepare("SELECT count(*) FROM record");
  count.next();
  return static_cast<std::size_t>(count.integer(0));
}

}  // namespace

std::size_t copy_store(const fs::path& from, const fs::path& to) {
  Store::open(from);  // throws if it is no store
  check_target(from, to);
  const Database db(from, Database::Mode::kReadOnly);
  // One name, so that killed copies leave at most one file.
  const PartialCopy partial{to.string() + ".partial"};
  std::error_code ignored;
  fs::remove(partial.path, ignored);
  const int fd = open(partial.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw not_written(to);
  close(fd);
  (db.prepare("VACUUM INTO ?") << fs::absolute(partial.path).string()).run();
  const std::size_t records = finish_copy(partial.path);
  sync(partial.path);
  if (std::rename(partial.path.c_str(), to.c_str()) != 0) throw not_written(to);
  sync(to.has_parent_path() ? to.parent_path() : ".");
  return records;
}

}  // namespace turnbench
