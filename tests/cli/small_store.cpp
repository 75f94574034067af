#include "tests/cli/small_store.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/file.h"
#include "harness/store/packed_text.h"
#include "tests/harness/store/writable_views.h"

namespace turnbench::test {

std::string small_manifest() {
  return R"({"name": "small", "title": "A small one", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 2, "length": 120, "turns": 2, "seed": 1}],
    "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=64,window=8"],
    "max_new_tokens": 4, "published": "small.csv",
    "tables": [{"title": "All", "rows": ["method"], "columns": ["position"], "difference_to": "full"}]})";
}

const std::string& small_store() {
  static const std::string bytes = [] {
    const TemporaryDirectory d;
    d.write("small.csv", "method,position,value\nfull,end,12.5\n");
    const Finished run =
        run_program({"run", d.write("m.json", small_manifest()), "--db", d.path("s.db")});
    if (run.code != 0) throw std::runtime_error("the small manifest fails: " + run.err);
    return read_file(d.path("s.db"));
  }();
  return bytes;
}

void expand_dialogues(const std::string& file) {
  const Database db(file, Database::Mode::kReadWrite);
  std::vector<std::array<std::string, 3>> dialogues;  // dataset, id, JSON
  Statement read = db.prepare("SELECT dataset, id, json FROM dialogue WHERE typeof(json) = 'blob'");
  while (read.next()) dialogues.push_back({read.text(0), read.text(1), unpacked_text(read, 2)});
  Statement write = db.prepare("UPDATE dialogue SET json = ?3 WHERE dataset = ?1 AND id = ?2");
  for (const auto& [dataset, id, json] : dialogues) (write << dataset << id << json).run();
}

void execute(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  int done = sqlite3_open(file.c_str(), &db);
  // Fails, and changes nothing, if the file has no such views.
  if (done == SQLITE_OK &&
      sqlite3_exec(db, writable_views_sql().c_str(), nullptr, nullptr, nullptr) == SQLITE_OK &&
      sql.find("json") != std::string::npos)
    expand_dialogues(file);
  if (done == SQLITE_OK) done = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  const std::string message = sqlite3_errmsg(db);
  sqlite3_close(db);
  if (done != SQLITE_OK) throw std::runtime_error(sql + ": " + message);
}

std::function<Arguments(const TemporaryDirectory&)> with_small_store(Arguments words) {
  return [words = std::move(words)](const TemporaryDirectory& directory) {
    const std::string db = directory.write("s.db", small_store());
    Arguments out = words;
    std::replace(out.begin(), out.end(), std::string("DB"), db);
    return out;
  };
}

}  // namespace turnbench::test
