#include "harness/store/merge.h"

#include <memory>
#include <optional>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "harness/store/cell_summary.h"
#include "harness/store/merge_plans.h"
#include "harness/store/merge_sources.h"
#include "harness/store/schema.h"
#include "harness/store/unit_rows.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// Opens a store and begins a transaction, so that everything is read in one state.  Null for a
/// store that a run left before its first write.
std::unique_ptr<Database> open_to_read(const fs::path& path) {
  auto db = std::make_unique<Database>(path, Database::Mode::kReadOnly);
  if (is_new(*db)) return nullptr;
  check_schema(*db);
  db->execute("BEGIN");
  return db;
}

/// A defect of the database file, or an empty text.
std::string defect_of(const Database& store) {
  try {
    Statement check = store.prepare("PRAGMA quick_check(1)");
    if (!check.next() || check.view(0) == "ok") return "";
    return replace_all(check.text(0), "\n", " ");
  } catch (const Error& error) {  // a defect of the schema
    return error.what();
  }
}

/// Damaged pages can hide rows: a merge would take a store with fewer results for a complete one.
/// @throws Error (input) if a database file has a defect
void require_intact(const std::vector<fs::path>& stores) {
  std::vector<std::string> defects(stores.size());
  ThreadPool pool;
  pool.parallel_for(stores.size(), [&](std::size_t i, int) {
    if (const auto db = open_to_read(stores[i])) defects[i] = defect_of(*db);
  });
  for (std::size_t i = 0; i < stores.size(); ++i) {
    if (defects[i].empty()) continue;
    throw input_error(
        "{}: found a defect of the database file ({}), expected an intact store: `turnbench doctor "
        "STORE` shows all of them",
        stores[i].string(), printable(defects[i]));
  }
}

void check_inputs(const fs::path& out, const std::vector<fs::path>& stores) {
  for (const fs::path& store : stores) {
    std::error_code ignored;
    if (store == out || fs::equivalent(store, out, ignored)) {
      throw input_error(
          "{}: found the same store as OUT and as {}, expected it once: OUT keeps what it has",
          out.string(), store.string());
    }
    open_to_read(store);
  }
  require_intact(stores);
}

/// The first row of a table, or of all tables, without what it refers to: "a row of cell without
/// its model".
std::optional<std::string> missing_reference(const Database& store, const std::string& table = "") {
  Statement missing =
      store.prepare(table.empty() ? "PRAGMA foreign_key_check"
                                  : fmt::format("PRAGMA foreign_key_check({})", table));
  if (!missing.next()) return std::nullopt;
  return fmt::format("a row of {} without its {}", missing.text(0), missing.text(2));
}

/// Removes the files of a store that did not exist before, unless it is complete.
class NewFiles {
 public:
  explicit NewFiles(const fs::path& path) : path_(path_exists(path) ? "" : path.string()) {}
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles() {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      if (!path_.empty()) fs::remove(path_ + suffix, ignored);
    }
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

/// Reads the stores one after the other, through connections of their own: SQLite attaches ten
/// files at most.
class Merge {
 public:
  Merge(Database& out, const std::vector<fs::path>& stores)
      : out_(out), stores_(stores), plans_(out), rows_(out), writer_(out) {
    sources_.add(out);
  }

  MergeSummary run() {
    for (next_ = 0; next_ < stores_.size(); ++next_) {
      summary_.stores.push_back({.path = stores_[next_].string()});
      const auto db = open_to_read(stores_[next_]);
      if (!db) continue;
      sources_.add(*db);
      plans_.add(*db);
      add_units(*db);
    }
    plans_.finish();
    check_references();
    store_summaries();
    summary_.notes = plans_.notes();
    Statement units = out_.prepare(fmt::format("SELECT count(*) FROM ({})", units_sql(out_)));
    summary_.units = units.next() ? static_cast<std::size_t>(units.integer(0)) : 0;
    return std::move(summary_);
  }

 private:
  void add_units(const Database& store) {
    UnitReader reader(store);
    std::size_t records = 0;
    Statement units = store.prepare(units_sql(store));
    while (units.next()) {
      const std::string cell = units.text(0), dialogue = units.text(1);
      const UnitRows unit = reader.read(cell, dialogue);
      records += unit.turns.size();
      add_unit(store, cell, dialogue, unit);
    }
    Statement all = store.prepare(has_compact_tables(store) ? "SELECT count(*) FROM record_data"
                                                            : "SELECT count(*) FROM record");
    const std::size_t stored = all.next() ? static_cast<std::size_t>(all.integer(0)) : 0;
    if (stored == records) return;
    throw runtime_error(
        "{}: found {} records of unknown cells or dialogues, expected complete stores: `turnbench "
        "doctor STORE` shows them",
        store.path(), stored - records);
  }

  void add_unit(const Database& store, const std::string& cell, const std::string& dialogue,
                const UnitRows& unit) {
    MergeSummary::OfStore& count = summary_.stores.back();
    ++count.units;
    const UnitRows known = rows_.read(cell, dialogue);
    if (known.turns.empty()) {
      writer_.add(cell, dialogue, unit);
      ++count.added;
    } else if (unit.failed() && !known.failed()) {
      ++count.failed_lost;
    } else if (known.failed() && !unit.failed()) {
      writer_.remove(cell, dialogue);
      writer_.add(cell, dialogue, unit);
      ++count.replaced;
    } else if (known.failed()) {
      ++count.equal;
    } else {
      if (const auto difference = difference_between(known, unit))
        refuse(store, cell, dialogue, *difference);
      const auto [scores, judgements] = writer_.complete(cell, dialogue, known, unit);
      ++count.equal;
      count.scores += scores;
      count.judgements += judgements;
    }
  }

  /// Of the rows that are copied without a search for what they refer to.
  void check_references() const {
    for (const char* table : {"dialogue", "cell", "experiment_cell", "judgement_data"}) {
      if (const auto missing = missing_reference(out_, table)) refuse_incomplete(*missing);
    }
  }

  /// Names the store that lacks a row, instead of the merged one.
  [[noreturn]] void refuse_incomplete(std::string missing) const {
    std::string path = out_.path();
    for (const fs::path& store : stores_) {
      const auto db = open_to_read(store);
      const auto of_store = db ? missing_reference(*db) : std::nullopt;
      if (!of_store) continue;
      path = db->path();
      missing = *of_store;
      break;
    }
    throw runtime_error(
        "{}: found {}, expected complete stores: `turnbench doctor STORE` shows all such rows",
        path, missing);
  }

  /// So that reports and the status need not compute them.
  void store_summaries() {
    std::vector<std::string> cells;
    Statement all = out_.prepare("SELECT key FROM cell");
    while (all.next()) cells.push_back(all.text(0));
    cell_summaries(out_, cells);
  }

  [[noreturn]] void refuse(const Database& store, const std::string& cell,
                           const std::string& dialogue, const UnitDifference& d) const {
    throw runtime_error(
        "{}: found other results than in {}, expected the same: {}, dialogue {}, turn {}: {} is {} "
        "instead of {}",
        store.path(), origin_of(cell, dialogue), cell_label(store, cell), printable(dialogue),
        d.turn + 1, d.field, d.second, d.first);
  }

  /// The store that a unit of the merged store comes from.
  std::string origin_of(const std::string& cell, const std::string& dialogue) const {
    for (std::size_t i = 0; i < next_; ++i) {
      const auto db = open_to_read(stores_[i]);
      if (!db) continue;
      const UnitRows unit = UnitReader(*db).read(cell, dialogue);
      // Its results are those of the merged store: otherwise it would have been refused.
      if (!unit.turns.empty() && !unit.failed()) return db->path();
    }
    return out_.path();
  }

  Database& out_;
  const std::vector<fs::path>& stores_;
  std::size_t next_ = 0;  ///< index of the store that is being added
  MergedSources sources_;
  MergedPlans plans_;
  UnitReader rows_;
  UnitWriter writer_;
  MergeSummary summary_;
};

}  // namespace

MergeSummary merge_stores(const fs::path& out, const std::vector<fs::path>& stores) {
  check_inputs(out, stores);
  NewFiles files(out);
  Database db(out, Database::Mode::kCreate);
  if (!is_new(db)) check_schema(db);
  db.prepare_for_writing();
  // Each store adds rows between those of the others, to pages all over the file.
  db.execute("PRAGMA cache_size=-65536");  // KiB
  // The search for what each row refers to takes a tenth of the time, and rows are added together
  // with their record.
  db.execute("PRAGMA foreign_keys=OFF");
  Transaction transaction(db);
  migrate(db);
  MergeSummary summary = Merge(db, stores).run();
  transaction.commit();
  files.keep();
  return summary;
}

}  // namespace turnbench
