#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace turnbench {

/// A prepared statement: bind in order with `<<`, then `run` or `next` and the columns.  What
/// SQLite refuses is an Error (runtime): a value too large, one more than the statement has, one
/// while it still has rows.
class Statement {
 public:
  Statement(sqlite3* db, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& operator<<(std::string_view text);
  Statement& operator<<(const char* text) { return *this << std::string_view(text); }
  Statement& operator<<(std::int64_t value);
  Statement& operator<<(int value) { return *this << static_cast<std::int64_t>(value); }
  Statement& operator<<(double value);

  bool next();   ///< steps to the next row; false at the end
  void reset();  ///< ends it, and makes it ready to be bound again
  void run();    ///< executes and resets

  std::string text(int column) const;
  std::int64_t integer(int column) const;  ///< refuses what is no number, as `real` does
  double real(int column) const;
  bool is_null(int column) const;

 private:
  void bound(int code);
  void require_number(int column) const;

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// One SQLite file.
class Database {
 public:
  enum class Mode {
    kCreate,
    kExisting,
    kRead  ///< also where nobody may write: a read-only file, or one in a read-only folder
  };
  Database(const std::filesystem::path& path, Mode mode);
  ~Database();
  /// Sets the modes that a store is written in.  WAL mode is a property of the file: only after one
  /// knows whose it is.
  void prepare_for_writing();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  Statement prepare(std::string_view sql) const { return Statement(db_, sql); }
  /// Rows that the last statement inserted, changed or deleted.
  int changes() const;
  const std::string& path() const { return path_; }

 private:
  void open(const std::string& name, int flags);
  void close();
  void open();

  sqlite3* db_ = nullptr;
  std::string path_;
};

/// Rolls back unless committed.
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
