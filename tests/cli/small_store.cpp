#include "tests/cli/small_store.h"

#include <sqlite3.h>

#include <stdexcept>

#include "common/file.h"

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

void execute(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  const int opened = sqlite3_open(file.c_str(), &db);
  const int done =
      opened != SQLITE_OK ? opened : sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  const std::string message = sqlite3_errmsg(db);
  sqlite3_close(db);
  if (done != SQLITE_OK) throw std::runtime_error(sql + ": " + message);
}

}  // namespace turnbench::test
