#include "harness/store/store_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "harness/store/compressed_file.h"
#include "harness/store/dialogue_writer.h"
#include "harness/store/packed_text.h"
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
  if (!is_sqlite(path) && !is_compressed(path)) return false;
  std::optional<Database> db;
  bool is_empty = false;
  try {
    db.emplace(path, Database::Mode::kReadOnly);
    is_empty = is_new(*db);
  } catch (const Error&) {
    if (is_compressed(path)) return false;  // damaged, or the content is something else
    throw;
  }
  if (!is_empty) check_schema(*db);
  return true;
}

/// The file that the copy replaces, or a new one.
fs::path target_of(const fs::path& from, const fs::path& name) {
  if (name.empty()) throw input_error("copy: found an empty name, expected a file to write");
  std::error_code ignored;
  const fs::path to =
      fs::is_symlink(name, ignored) && path_exists(name) ? fs::canonical(name) : name;
  if (fs::equivalent(from, to, ignored))
    throw input_error("{}: found the store itself, expected another file", to.string());
  if (directory_exists(to))
    throw input_error("{}: found a directory, expected a file", to.string());
  if (path_exists(to) && !regular_file_exists(to))
    throw input_error("{}: found no regular file, expected one", to.string());
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
  return to;
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

void remove_texts(Database& db) {
  Statement dialogues = db.prepare("SELECT json, dataset, id FROM dialogue");
  Statement update = db.prepare("UPDATE dialogue SET json = ? WHERE dataset = ? AND id = ?");
  while (dialogues.next()) {
    const std::string json = without_texts(unpacked_text(dialogues, 0));
    (update << PackedText(json) << dialogues.view(1) << dialogues.view(2)).run();
  }
}

/// The text with the last component of the path that begins at `begin`, before `end`.
std::string without_folder(const std::string& text, std::size_t begin, std::string_view end) {
  const std::size_t size = text.find(end, begin), last = text.rfind('/', size);
  if (size == std::string::npos || last == std::string::npos || last < begin) return text;
  return text.substr(0, begin) + text.substr(last + 1);
}

/// Removes the folders of imported predictions from environment cards.
void remove_prediction_paths(Database& db) {
  Statement rows = db.prepare("SELECT id, json FROM environment");
  Statement update = db.prepare("UPDATE environment SET json = ? WHERE id = ?");
  while (rows.next()) {
    OrderedJson card = OrderedJson::parse(rows.view(1), nullptr, false);
    if (!card.is_object() || !card.contains("imported")) continue;
    OrderedJson& imported = card["imported"];
    if (!imported.is_object() || !imported.contains("file") || !imported["file"].is_string())
      continue;
    imported["file"] = fs::path(imported["file"].get<std::string>()).filename().string();
    (update << card.dump(1) << rows.view(0)).run();
  }
}

/// Removes folders from the descriptions that resolve_experiment writes.
void remove_paths(Database& db) {
  db.execute("UPDATE experiment SET directory = ''");
  remove_prediction_paths(db);
  for (const char* table : {"model", "dataset"}) {
    Statement rows = db.prepare(fmt::format("SELECT hash, description FROM {}", table));
    Statement update =
        db.prepare(fmt::format("UPDATE {} SET description = ? WHERE hash = ?", table));
    while (rows.next()) {
      const std::string text = rows.text(1);
      constexpr std::string_view kSource = ": source ";
      const std::size_t source = text.find(kSource);
      (update << (source == std::string::npos
                      ? without_folder(text, 0, ": ")
                      : without_folder(text, source + kSource.size(), ", seed "))
              << rows.view(0))
          .run();
    }
  }
}

/// The content of a copy, in memory: what it leaves out is never on the disk of the copy.
std::unique_ptr<Database> edited(const Database& db, const CopyOptions& options) {
  std::unique_ptr<Database> out = db.copy_in_memory();
  if (out->has("claim")) out->execute("DELETE FROM claim");
  if (options.without_texts && out->has("dialogue")) {
    Transaction transaction(*out);
    migrate(*out);  // the hashes of the texts
    transaction.commit();
    remove_texts(*out);
  }
  if (options.without_paths && out->has("experiment")) remove_paths(*out);
  out->execute("VACUUM");
  return out;
}

std::size_t count_records(const Database& db) {
  if (!db.has("record")) return 0;  // killed before its first write
  Statement count = db.prepare("SELECT count(*) FROM record");
  count.next();
  return static_cast<std::size_t>(count.integer(0));
}

void write_compressed(const Database& db, const fs::path& path, const fs::path& to) {
  const std::string content = db.bytes();
  if (content.size() > kLargestContent) {
    throw input_error("{}: found {} bytes to compress, expected at most {}", to.string(),
                      content.size(), kLargestContent);
  }
  const std::string small = compressed(content);
  std::ofstream file(path, std::ios::binary);
  file.write(small.data(), std::ssize(small));
  file.close();
  if (!file) throw not_written(to);
}

void write_plain(const Database& db, const fs::path& path, const fs::path& to) {
  try {
    (db.prepare("VACUUM INTO ?") << fs::absolute(path).string()).run();
    Database copy(path, Database::Mode::kReadWrite);
    if (copy.has("claim")) copy.execute("DELETE FROM claim");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRuntime) throw;
    std::string_view why = error.what();
    if (why.starts_with(db.path() + ": ")) why.remove_prefix(db.path().size() + 2);
    throw runtime_error("{}: cannot be written ({})", to.string(), why);
  }
}

}  // namespace

std::size_t copy_store(const fs::path& from, const fs::path& name, const CopyOptions& options) {
  Store::open(from);  // throws if it is no store
  const fs::path to = target_of(from, name);
  const Database db(from, Database::Mode::kReadOnly);
  const bool is_edited = is_compressed(to) || options.without_texts || options.without_paths;
  const std::unique_ptr<Database> content =
      is_edited ? with_error_prefix(from.string(), [&] { return edited(db, options); }) : nullptr;
  const fs::path path = fmt::format("{}.{}.partial", to.string(), getpid());
  const auto mode = static_cast<mode_t>(fs::status(from).permissions()) & 0666;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) throw not_written(to);
  close(fd);
  const PartialCopy partial{path};
  if (is_compressed(to)) {
    write_compressed(*content, path, to);
  } else {
    write_plain(is_edited ? *content : db, path, to);
  }
  const std::size_t records = count_records(is_edited ? *content : db);
  sync(path);
  if (std::rename(path.c_str(), to.c_str()) != 0) throw not_written(to);
  sync(to.has_parent_path() ? to.parent_path() : ".");
  return records;
}

}  // namespace turnbench
