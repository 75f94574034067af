#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace turnbench {

/// Whether a file begins as SQLite's files do.
bool is_sqlite(const std::filesystem::path& path);

/// A prepared statement: bind values in order with `<<`, then call `run`, or `next` and read the
/// columns.  The database must outlive it.
/// @throws Error (runtime) for every error of SQLite: a value that is too large, too many values, a
/// value bound before all rows are read.
class Statement {
 public:
  /// Bytes that are not text.
  struct Blob {
    std::string_view bytes;
  };

  /// path: of the database, for messages; as long-lived as the database.
  Statement(sqlite3* db, const std::string& path, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& operator<<(std::string_view text);
  Statement& operator<<(const char* text) { return *this << std::string_view(text); }
  Statement& operator<<(std::int64_t value);
  Statement& operator<<(int value) { return *this << static_cast<std::int64_t>(value); }
  Statement& operator<<(double value);
  Statement& operator<<(Blob blob);

  bool next();   ///< steps to the next row; false at the end
  void reset();  ///< ends the execution, so that values can be bound again
  void run();    ///< executes and resets

  std::string text(int column) const;
  std::string_view view(int column) const;   ///< as `text`, valid until the next step
  std::string_view bytes(int column) const;  ///< content of a blob, valid until the next step
  /// `integer` and `real` throw if the value is not a number.
  std::int64_t integer(int column) const;
  double real(int column) const;
  bool is_null(int column) const;
  bool is_blob(int column) const;
  std::string name(int column) const;                ///< of the column
  const std::string& path() const { return path_; }  ///< of the database

 private:
  void bound(int code);
  void require_number(int column) const;

  sqlite3* db_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// One SQLite file.
class Database {
 public:
  enum class Mode {
    kCreate,
    kReadWrite,
    /// Also opens read-only files, files in read-only directories, and compressed files
    /// (compressed_file.h), of which it reads a copy in memory.  Single-threaded.
    kReadOnly
  };
  Database(const std::filesystem::path& path, Mode mode);
  ~Database();
  /// A copy in memory.
  std::unique_ptr<Database> copy_in_memory() const;
  /// The content of the file, also of a database in memory.
  std::string bytes() const;
  /// Sets the pragmas for writing a store: a write-ahead log, or a rollback journal where the log
  /// does not work.  The mode is stored in the file, so call this only after checking that the file
  /// is a store.
  void prepare_for_writing();
  bool is_prepared_for_writing() const { return prepared_; }
  bool in_transaction() const;
  /// Whether a transaction can begin.
  /// @throws Error (runtime) if another process keeps the file locked.
  bool can_write();
  /// Why there is no write-ahead log, as one line; empty if there is one.
  const std::string& journal_note() const { return journal_note_; }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  Statement prepare(std::string_view sql) const { return Statement(db_, path_, sql); }
  /// The number of rows that the last statement inserted, changed or deleted.
  int changes() const;
  /// Whether there is a table or view of this name.
  bool has(std::string_view name) const;
  const std::string& path() const { return path_; }

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  void open(const std::string& name, int flags);
  void open_compressed();
  void close();
  void open();
  /// @throws Error (runtime) if the file, or the files that SQLite creates next to it, cannot be
  /// written.
  void require_writable();
  std::string journal() const;  ///< the journal mode: "wal", "delete"
  /// Sets the journal mode, and accesses the file in this mode.  Returns whether that works.
  bool set_journal(const std::string& mode);
  /// Replaces a write-ahead log, which need not be usable, by a rollback journal.
  void use_rollback_journal();

  sqlite3* db_ = nullptr;
  std::string path_, journal_note_;
  bool prepared_ = false;
};

/// A transaction; rolls back when destroyed unless committed.
class Transaction {
 public:
  explicit Transaction(Database& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace turnbench
