// The times of the runs that filled a store.

#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

constexpr const char* kRunTimeSchema = R"(
CREATE TABLE IF NOT EXISTS run_time (
  experiment TEXT NOT NULL, manifest_hash TEXT NOT NULL, runs INTEGER NOT NULL,
  units INTEGER NOT NULL, seconds REAL NOT NULL, worker_seconds REAL NOT NULL,
  engine_seconds REAL NOT NULL, PRIMARY KEY (experiment, manifest_hash),
  FOREIGN KEY (experiment, manifest_hash) REFERENCES experiment ON DELETE CASCADE) WITHOUT ROWID;
)";

}  // namespace

void Store::add_run_time(const std::string& experiment, const RunTime& time) {
  Transaction transaction(*db_);
  db_->execute(kRunTimeSchema);
  (db_->prepare(
       fmt::format("INSERT INTO run_time SELECT ?1, manifest_hash, ?2, ?3, ?4, ?5, ?6 FROM "
                   "experiment WHERE name = ?1 AND manifest_hash = {} "
                   "ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, "
                   "units = units + excluded.units, seconds = seconds + excluded.seconds, "
                   "worker_seconds = worker_seconds + excluded.worker_seconds, "
                   "engine_seconds = engine_seconds + excluded.engine_seconds",
                   kLatestManifestSql))
   << experiment << static_cast<std::int64_t>(time.runs) << static_cast<std::int64_t>(time.units)
   << time.seconds << time.worker_seconds << time.engine_seconds)
      .run();
  transaction.commit();
}

Store::RunTime Store::run_time(const std::string& experiment) const {
  RunTime out;
  if (!db_->has("run_time")) return out;
  Statement s = db_->prepare(
      fmt::format("SELECT runs, units, seconds, worker_seconds, engine_seconds FROM run_time "
                  "WHERE experiment = ?1 AND manifest_hash = {}",
                  kLatestManifestSql));
  s << experiment;
  if (!s.next()) return out;
  out.runs = static_cast<std::size_t>(s.integer(0));
  out.units = static_cast<std::size_t>(s.integer(1));
  out.seconds = s.real(2);
  out.worker_seconds = s.real(3);
  out.engine_seconds = s.real(4);
  return out;
}

}  // namespace turnbench
