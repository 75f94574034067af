// The shards of manifests that a store has run.

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "harness/store/schema.h"
#include "harness/store/shard_progress.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

// Only stores of shards have this table.
constexpr const char* kShardSchema = R"(
CREATE TABLE IF NOT EXISTS shard (
  experiment TEXT NOT NULL, manifest_hash TEXT NOT NULL, shards INTEGER NOT NULL,
  shard INTEGER NOT NULL, dialogue_limit INTEGER NOT NULL, units TEXT NOT NULL,
  PRIMARY KEY (experiment, manifest_hash, shards, shard),
  FOREIGN KEY (experiment, manifest_hash) REFERENCES experiment ON DELETE CASCADE) WITHOUT ROWID;
)";

/// Units as JSON; most units of a shard have the same cells as others.
std::string to_text(const std::vector<StoredShard::Unit>& units) {
  std::map<std::vector<std::string>, std::size_t> known;
  Json cells = Json::array(), list = Json::array();
  for (const StoredShard::Unit& unit : units) {
    const auto [at, is_new] = known.try_emplace(unit.cells, known.size());
    if (is_new) cells.push_back(unit.cells);
    list.push_back({{"key", unit.key}, {"dialogues", unit.dialogues}, {"cells", at->second}});
  }
  return Json{{"cells", cells}, {"units", list}}.dump(-1, ' ', false,
                                                      Json::error_handler_t::replace);
}

std::vector<StoredShard::Unit> parse_units(const std::string& text, const std::string& place) {
  const Json json = parse_json(text, place);
  const JsonView view(json, place);
  std::vector<std::vector<std::string>> cells;
  for (const JsonView& list : view.at("cells").items()) cells.push_back(list.as_strings());
  std::vector<StoredShard::Unit> out;
  for (const JsonView& unit : view.at("units").items()) {
    const std::int64_t index = unit.at("cells").as_integer(0, std::ssize(cells) - 1);
    out.push_back({unit.at("key").as_string(), cells[index], unit.at("dialogues").as_strings()});
  }
  return out;
}

}  // namespace

void Store::put_shard(const std::string& experiment, const StoredShard& shard) {
  Transaction transaction(*db_);
  db_->execute(kShardSchema);
  (db_->prepare(fmt::format("INSERT OR REPLACE INTO shard SELECT ?1, manifest_hash, ?2, ?3, ?4, ?5 "
                            "FROM experiment WHERE name = ?1 AND manifest_hash = {}",
                            kLatestManifestSql))
   << experiment << shard.shard.count << shard.shard.index << static_cast<std::int64_t>(shard.limit)
   << to_text(shard.units))
      .run();
  transaction.commit();
}

void Store::remove_shards(const std::string& experiment) {
  if (!db_->has("shard")) return;
  Transaction transaction(*db_);
  (db_->prepare(fmt::format("DELETE FROM shard WHERE experiment = ?1 AND manifest_hash = {}",
                            kLatestManifestSql))
   << experiment)
      .run();
  transaction.commit();
}

int Store::forget_failed(const std::string& experiment, const StoredShard& shard) {
  Transaction transaction(*db_);
  const std::vector<Failure> failed = failures_of(*this, experiment, shard);
  forget_dialogues(failed);
  transaction.commit();
  return static_cast<int>(failed.size());
}

std::vector<StoredShard> Store::shards(const std::string& experiment) const {
  std::vector<StoredShard> out;
  if (!db_->has("shard")) return out;
  Statement s = db_->prepare(
      fmt::format("SELECT shard, shards, dialogue_limit, units FROM shard WHERE experiment = ?1 "
                  "AND manifest_hash = {} ORDER BY shards, shard",
                  kLatestManifestSql));
  s << experiment;
  while (s.next()) {
    const Shard shard{static_cast<int>(s.integer(0)), static_cast<int>(s.integer(1))};
    out.push_back({shard, static_cast<std::size_t>(s.integer(2)),
                   parse_units(s.text(3), fmt::format("{}: shard {}/{} of {}", path(), shard.index,
                                                      shard.count, experiment))});
  }
  return out;
}

}  // namespace turnbench
