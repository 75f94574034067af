#include "harness/store/sqlite.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/store/compressed_file.h"
#include "harness/store/file_system.h"

namespace turnbench {
namespace {

constexpr int kBusyMilliseconds = 30'000;  // another process may be writing
// With a rollback journal, readers and writers wait for each other, too.
constexpr int kRollbackBusyMilliseconds = 300'000;

Error not_writable(const std::string& path, std::string_view why) {
  return runtime_error("{}: cannot be written ({})", path, why);
}

/// Converts an SQLite failure to an Error: a file that is not a store is invalid input.
Error sqlite_failure(sqlite3* db, const std::string& path) {
  const int reason = errno, code = sqlite3_errcode(db) & 0xFF;
  if (code == SQLITE_READONLY) return not_writable(path, sqlite3_errmsg(db));
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_CANTOPEN) {
    return input_error("{}: found no usable database ({}), expected a turnbench store", path,
                       sqlite3_errmsg(db));
  }
  if (code == SQLITE_IOERR && reason != 0)
    return runtime_error("{}: {} ({})", path, sqlite3_errmsg(db), std::strerror(reason));
  return runtime_error("{}: {}", path, sqlite3_errmsg(db));
}

/// SQLite's name for a path: one that begins with "file:" would be a URI, which Debian's SQLite
/// accepts everywhere.
std::string plain_name(const std::string& path) {
  return path.starts_with("file:") ? "./" + path : path;
}

/// SQLite's name for a file that does not change while it is open: it is read without locks, and no
/// other files are searched or created.
std::string immutable_name(const std::string& path) {
  std::string out = "file://";
  for (char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#') {
      out += fmt::format("%{:02x}", c);
    } else {
      out += c;
    }
  }
  return out + "?immutable=1";
}

}  // namespace

bool is_sqlite(const std::filesystem::path& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::string head(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == kMagic;
}

Statement::Statement(sqlite3* db, const std::string& path, std::string_view sql)
    : db_(db), path_(path) {
  if (sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr) !=
      SQLITE_OK) {
    // The statements are correct, so the file lacks a table or a column that they name.
    if (sqlite3_errcode(db) == SQLITE_ERROR) {
      throw input_error("{}: found no usable table ({}), expected the tables of a turnbench store",
                        path_, sqlite3_errmsg(db));
    }
    throw sqlite_failure(db, path_);
  }
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

void Statement::bound(int code) {
  if (code == SQLITE_OK) return;
  throw runtime_error("{}: value {} of \"{}\": {}", path_, bound_,
                      printable(shorten(sqlite3_sql(statement_), 60)), sqlite3_errstr(code));
}

Statement& Statement::operator<<(std::string_view text) {
  bound(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
  return *this;
}

Statement& Statement::operator<<(Blob blob) {
  bound(sqlite3_bind_blob64(statement_, ++bound_, blob.bytes.data(), blob.bytes.size(),
                            SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::operator<<(std::int64_t value) {
  bound(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}

Statement& Statement::operator<<(double value) {
  bound(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}

bool Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  throw sqlite_failure(db_, path_);
}

void Statement::reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
}

void Statement::run() {
  while (next()) {
  }
  reset();
}

std::string_view Statement::view(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (data == nullptr) return "";
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string_view Statement::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (data == nullptr) return "";
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Statement::text(int column) const {
  return std::string(view(column));
}

void Statement::require_number(int column) const {
  const int type = sqlite3_column_type(statement_, column);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) return;
  throw input_error("{}: {}: found a {}, expected a number", path_,
                    sqlite3_column_name(statement_, column),
                    type == SQLITE_TEXT   ? "text"
                    : type == SQLITE_BLOB ? "blob"
                                          : "null");
}

std::int64_t Statement::integer(int column) const {
  require_number(column);
  return sqlite3_column_int64(statement_, column);
}
double Statement::real(int column) const {
  require_number(column);
  return sqlite3_column_double(statement_, column);
}
bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

bool Statement::is_blob(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_BLOB;
}

std::string Statement::name(int column) const {
  return sqlite3_column_name(statement_, column);
}

Database::Database(const std::filesystem::path& path, Mode mode) : path_(path.string()) {
  // SQLite creates no permanent files for these names.
  if (path_.empty() || path_.front() == ':') {
    throw input_error("store: found the name \"{}\", expected a file", printable(path_));
  }
  if (!path_exists(path)) {
    if (mode != Mode::kCreate)
      throw input_error("{}: found no such file, expected a turnbench store", path_);
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (!directory_exists(folder))
      throw input_error("{}: found no folder {}, expected one", path_, folder.string());
    if (access(folder.c_str(), W_OK | X_OK) != 0) throw not_writable(path_, std::strerror(errno));
  }
  if (directory_exists(path))
    throw input_error("{}: found a folder, expected a turnbench store", path_);
  if (is_compressed(path)) {
    if (mode != Mode::kReadOnly) {
      throw input_error(
          "{}: found the name of a compressed store, which can only be read, expected another one "
          "(`turnbench copy` decompresses stores)",
          path_);
    }
    open_compressed();
    return;
  }
  open(plain_name(path_), SQLITE_OPEN_READWRITE | (mode == Mode::kCreate     ? SQLITE_OPEN_CREATE
                                                   : mode == Mode::kReadOnly ? SQLITE_OPEN_NOMUTEX
                                                                             : 0));
  if (mode == Mode::kReadOnly) {
    open();
  } else {
    require_writable();
  }
}

void Database::require_writable() {
  const auto refuse = [this](const char* why) {
    close();
    throw not_writable(path_, why);
  };
  if (sqlite3_db_readonly(db_, "main") == 1) refuse("the file or its file system is read-only");
  // A store in WAL mode needs additional files in the same directory.
  sqlite3_exec(db_, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr);
  if ((sqlite3_errcode(db_) & 0xFF) != SQLITE_CANTOPEN) return;
  if (shared_file_system_of(path_).empty()) refuse("no file can be created in its folder");
  // Until `prepare_for_writing` replaces the write-ahead log, which does not work here.
  execute("PRAGMA locking_mode=EXCLUSIVE");
}

void Database::open(const std::string& name, int flags) {
  if (sqlite3_open_v2(name.c_str(), &db_, flags, nullptr) != SQLITE_OK) {
    const Error error = sqlite_failure(db_, path_);
    close();
    throw error;
  }
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
}

void Database::open_compressed() {
  if (is_sqlite(path_)) {
    throw input_error(
        "{}: found a store that is not compressed, expected a name that does not end in .zst",
        path_);
  }
  std::string content = decompress_file(path_);
  if (content.size() < 100)
    throw input_error("{}: found no database in it, expected a store", path_);
  // A copy in memory has no write-ahead log (sqlite.org/c3ref/deserialize.html).
  content[18] = content[19] = 1;
  open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX);
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(content.size()));
  int code = SQLITE_NOMEM;
  if (copy != nullptr) {
    std::copy(content.begin(), content.end(), copy);
    const auto size = static_cast<sqlite3_int64>(content.size());
    code = sqlite3_deserialize(db_, "main", copy, size, size,
                               SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  }
  if (code == SQLITE_OK) return;
  close();
  throw runtime_error("{}: cannot be opened in memory ({})", path_, sqlite3_errstr(code));
}

void Database::close() {
  sqlite3_close(db_);
  db_ = nullptr;
}

void Database::open() {
  const auto size_of = [this](const char* suffix) {
    std::error_code none;
    const std::uintmax_t size = std::filesystem::file_size(path_ + suffix, none);
    return none ? 0 : size;
  };
  const bool unmerged = size_of("-wal") > 0 || size_of("-journal") > 0,
             shared = std::filesystem::exists(path_ + "-shm"),
             writable = sqlite3_db_readonly(db_, "main") == 0;
  // Readers of a file in WAL mode share an index file, which the first reader creates.  If the
  // database file is read-only, SQLite would never remove the index, so none is created in this
  // case.
  int code = SQLITE_READONLY;
  if (writable || shared || unmerged) {
    sqlite3_exec(db_, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr);
    code = sqlite3_errcode(db_);
  }
  if (code != SQLITE_READONLY && code != SQLITE_CANTOPEN)
    return;  // readable, or another error, which is reported on use
  close();
  if (unmerged) {
    throw input_error(
        "{}: found unmerged changes ({}-wal) that cannot be read here, expected a store closed by "
        "its last writer, or a writable folder",
        path_, std::filesystem::path(path_).filename().string());
  }
  open(immutable_name(path_), SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI);
}

std::unique_ptr<Database> Database::copy_in_memory() const {
  std::unique_ptr<Database> copy(new Database(path_));
  copy->open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  sqlite3_backup* backup = sqlite3_backup_init(copy->db_, "main", db_, "main");
  if (backup != nullptr) {
    sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
  }
  if (sqlite3_errcode(copy->db_) != SQLITE_OK) throw sqlite_failure(copy->db_, path_);
  return copy;
}

std::string Database::bytes() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> data(
      sqlite3_serialize(db_, "main", &size, 0), sqlite3_free);
  if (data == nullptr) throw memory_error("{}: the system has no more memory", path_);
  return {reinterpret_cast<const char*>(data.get()), static_cast<std::size_t>(size)};
}

std::string Database::journal() const {
  Statement mode = prepare("PRAGMA journal_mode");
  return mode.next() ? mode.text(0) : "";
}

bool Database::set_journal(const std::string& mode) {
  // SQLite does not wait for a lock when the journal mode changes, so that two programs that create
  // the same file at the same time would collide.
  const std::string sql = "PRAGMA journal_mode=" + mode;
  int code = SQLITE_BUSY;
  for (int waited = 0; waited < kBusyMilliseconds; waited += sqlite3_sleep(10)) {
    code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_BUSY) break;
  }
  if (code == SQLITE_BUSY) throw sqlite_failure(db_, path_);
  // The files of the new mode are opened by the next access.
  if (code == SQLITE_OK) code = sqlite3_exec(db_, "PRAGMA user_version", nullptr, nullptr, nullptr);
  return code == SQLITE_OK && journal() == mode;
}

void Database::use_rollback_journal() {
  if (!set_journal("delete")) {
    // In this mode, the index of a write-ahead log is not shared, and needs no file.
    execute("PRAGMA locking_mode=EXCLUSIVE");
    if (!set_journal("delete")) throw sqlite_failure(db_, path_);
    execute("PRAGMA locking_mode=NORMAL; PRAGMA user_version");
  }
  sqlite3_busy_timeout(db_, kRollbackBusyMilliseconds);
  execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;");
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(db_) == 0;
}

void Database::prepare_for_writing() {
  prepared_ = true;
  if (*sqlite3_db_filename(db_, "main") == '\0') {  // in memory, without a journal file
    execute("PRAGMA foreign_keys=ON");
    return;
  }
  const std::string_view shared = shared_file_system_of(path_);
  Statement pages = prepare("PRAGMA page_count");
  const bool is_empty = pages.next() && pages.integer(0) == 0;
  pages.reset();
  // A store that was created with a rollback journal keeps it: while one program tries whether a
  // log works, others could not open the store.
  const bool keeps = !is_empty && journal() == "delete";
  if (shared.empty() && !keeps && set_journal("wal")) {
    execute("PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;");
    return;
  }
  use_rollback_journal();
  const std::string why = !shared.empty()
                              ? fmt::format("because a write-ahead log does not work on {}", shared)
                          : keeps ? "as when it was created"
                                  : "because a write-ahead log does not work here";
  journal_note_ = fmt::format(
      "{}: uses a rollback journal, {}: readers and writers wait for each other", path_, why);
}

Database::~Database() {
  close();
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw sqlite_failure(db_, path_);
  }
}

bool Database::can_write() {
  const int code = sqlite3_exec(db_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  if ((code & 0xFF) == SQLITE_BUSY) throw sqlite_failure(db_, path_);
  if (code != SQLITE_OK) return false;
  execute("ROLLBACK");
  return true;
}

int Database::changes() const {
  return sqlite3_changes(db_);
}

bool Database::has(std::string_view name) const {
  return (prepare("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?")
          << name)
      .next();
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    db_.execute("ROLLBACK");
  } catch (const Error&) {  // the file is gone or full: nothing was committed in either case
  }
}

void Transaction::commit() {
  db_.execute("COMMIT");
  open_ = false;
}

}  // namespace turnbench
