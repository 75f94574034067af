// Plans as data, and runs of their shards.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "harness/store/store.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

constexpr const char* kPartsManifest = R"({"name": "parts", "models": ["tiny"], "datasets": [
    {"name": "tiny-fact", "limit": 4, "length": 300}, {"name": "tiny-list", "limit": 2, "length": 240}],
  "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=40,window=8"],
  "max_new_tokens": 6)";

class ShardedRun : public testing::Test {
 protected:
  Finished run(const std::string& db, Arguments more = {}) const {
    more.insert(more.begin(), {"run", manifest_, "--db", file(db)});
    return run_program(more);
  }
  std::string file(const std::string& name) const { return directory_.path(name); }
  std::vector<Json> plan(Arguments more = {}) const {
    more.insert(more.begin(), {"plan", manifest_, "--out", file("plan.jsonl"), "--quiet"});
    const Finished planned = run_program(more);
    EXPECT_EQ(planned.code, 0) << planned.err;
    std::vector<Json> out;
    for_each_line(file("plan.jsonl"), [&](std::string_view line, std::size_t) {
      out.push_back(parse_json(line, "plan.jsonl"));
    });
    return out;
  }
  Json status(const std::string& db, int code) const {
    const Finished status = run_program({"status", file(db), "--json"});
    EXPECT_EQ(status.code, code) << status.err;
    return status.json()[0];
  }

  TemporaryDirectory directory_;
  std::string manifest_ = directory_.write("m.json", std::string(kPartsManifest) + "}");
};

std::vector<std::string> keys_in_lines(const std::vector<Json>& lines) {
  std::vector<std::string> out;
  for (const Json& line : lines) out.push_back(line["key"]);
  std::sort(out.begin(), out.end());
  return out;
}

TEST_F(ShardedRun, PlanListsUnits) {
  const std::vector<Json> lines = plan({"--no-measure"});
  ASSERT_EQ(lines.size(), 12u);
  const std::vector<std::string> keys = keys_in_lines(lines);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 12u);
  for (const Json& line : lines) {
    EXPECT_EQ(line["experiment"], "parts");
    EXPECT_EQ(line["model"], "tiny");
    EXPECT_EQ(line["dialogues"].size(), 1u);
    ASSERT_EQ(line["cells"].size(), 2u);
    EXPECT_EQ(line["cells"][1]["method"], "snapkv:budget=40,window=8");
    for (const char* part : {"engine", "prompts", "methods/full", "methods/snapkv"})
      EXPECT_TRUE(line["sources"].contains(part)) << part;
    EXPECT_TRUE(line["seconds"].is_null()) << "nothing was measured";
    EXPECT_GT(line["operations"], 1e6);
    EXPECT_GT(line["memory_bytes"], 1e6);
    EXPECT_EQ(line["stored"], false);
  }
  EXPECT_GT(plan()[0]["seconds"], 0);
  // What is stored changes this field alone.
  ASSERT_EQ(run("a.db", {"--limit", "1", "--quiet"}).code, 0);
  std::vector<Json> again = plan({"--no-measure", "--db", file("a.db")});
  EXPECT_EQ(std::count_if(again.begin(), again.end(),
                          [](const Json& line) { return line["stored"] == true; }),
            4);
  for (Json& line : again) {
    EXPECT_EQ(line["seconds"].is_null(), false) << "the store has times";
    line["stored"] = false;
    line["seconds"] = nullptr;
  }
  EXPECT_EQ(again, lines);
}

TEST_F(ShardedRun, PlanRefusesAnOutputItCannotWrite) {
  const Malformed cases[] = {
      {"no folder",
       [](const TemporaryDirectory& d) {
         return Arguments{"plan", d.write("m.json", std::string(kPartsManifest) + "}"), "--out",
                          d.path("none/plan.jsonl")};
       },
       "--out: found "},
      {"a folder",
       [](const TemporaryDirectory& d) {
         return Arguments{"plan", d.write("m.json", std::string(kPartsManifest) + "}"), "--out",
                          d.path("")};
       },
       "--out: found "},
      {"the manifest",
       [](const TemporaryDirectory& d) {
         const std::string manifest = d.write("m.json", std::string(kPartsManifest) + "}");
         return Arguments{"plan", manifest, "--out", manifest};
       },
       "m.json: found a file that is no plan, expected another name"},
  };
  expect_refusals(cases);
  const Finished full = run_program({"plan", manifest_, "--no-measure", "--out", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("/dev/full"), std::string::npos) << full.err;
}

/// Adds the results in `path` to `all`, without times.
void add_results(const std::string& path, Dump& all) {
  Dump part = dump(path);
  for (const char* table : {"record", "score", "counter"}) {
    std::vector<std::string>& rows = all[table];
    rows.insert(rows.end(), part[table].begin(), part[table].end());
    std::sort(rows.begin(), rows.end());
  }
}

// The units of the shards are disjoint, complete and balanced, and their results are those of one
// run, whatever the number of shards.
TEST_F(ShardedRun, GiveTheResultsOfOneRun) {
  ASSERT_EQ(run("want.db", {"--quiet"}).code, 0);
  Dump want;
  add_results(file("want.db"), want);
  const std::vector<Json> lines = plan({"--no-measure"});
  std::map<std::string, double> costs;
  for (const Json& line : lines) costs[line["key"]] = line["operations"];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::vector<int> counts = {3};  // programs start slowly
#else
  const std::vector<int> counts = {1, 3, 8};
#endif
  for (const int count : counts) {
    Dump got;
    std::vector<std::string> keys;
    std::vector<double> totals;
    for (int i = 1; i <= count; ++i) {
      const std::string db = fmt::format("{}of{}.db", i, count);
      const Finished part = run(db, {"--shard", fmt::format("{}/{}", i, count), "--quiet"});
      ASSERT_EQ(part.code, 0) << part.err;
      add_results(file(db), got);
      const std::vector<StoredShard> shards = Store::open(file(db)).shards("parts");
      ASSERT_EQ(shards.size(), 1u);
      totals.push_back(0);
      for (const StoredShard::Unit& unit : shards[0].units) {
        keys.push_back(unit.key);
        totals.back() += costs.at(unit.key);
      }
      EXPECT_EQ(
          keys_in_lines(plan({"--no-measure", "--shard", fmt::format("{}/{}", i, count)})).size(),
          shards[0].units.size());
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(keys, keys_in_lines(lines)) << count << " shards";
    double largest = 0;
    for (const auto& [key, cost] : costs) largest = std::max(largest, cost);
    const auto [least, most] = std::minmax_element(totals.begin(), totals.end());
    EXPECT_LE(*most - *least, largest) << count << " shards";
    expect_same(got, want);
  }
}

TEST_F(ShardedRun, StatusCountsTheUnitsOfAShard) {
  const Finished first = run("a.db", {"--shard", "1/3"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Json state = status("a.db", 0);
  ASSERT_EQ(state["shards"].size(), 1u);
  const Json& shard = state["shards"][0];
  EXPECT_EQ(shard["shard"], 1);
  EXPECT_EQ(shard["shards"], 3);
  const int units = shard["units"];
  EXPECT_GT(units, 0);
  EXPECT_EQ(shard["done"], units);
  EXPECT_EQ(shard["failed"].get<int>() + shard["missing"].get<int>(), 0);
  EXPECT_GT(state["pending"], 0) << "of other shards";
  const std::string line =
      fmt::format("shard 1/3: {0} units, {0} done, 0 failed, 0 missing", units);
  EXPECT_TRUE(first.out.starts_with("parts: " + line + "\n")) << first.out;
  EXPECT_NE(first.out.find("turnbench merge ALL.db"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find("| method |"), std::string::npos) << "no tables of a part";
  EXPECT_NE(run_program({"status", file("a.db")}).out.find("  " + line + "\n"), std::string::npos);
  EXPECT_NE(run_program({"report", file("a.db")}).out.find("Partial"), std::string::npos);
  // Another shard in the same store, then the last: tables again.
  const Json second = run("a.db", {"--shard", "2/3", "--json", "--quiet"}).json();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0]["experiment"], "parts");
  EXPECT_EQ(second[0]["shard"], 2);
  EXPECT_EQ(second[0]["done"], second[0]["units"]);
  EXPECT_EQ(status("a.db", 0)["shards"].size(), 2u);
  const Finished last = run("a.db", {"--shard", "3/3"});
  ASSERT_EQ(run("want.db").code, 0);
  EXPECT_EQ(last.out, run("want.db").out);
  EXPECT_EQ(status("a.db", 0)["pending"], 0);
  // A run of the whole manifest is no shard.
  EXPECT_EQ(run("a.db").code, 0);
  EXPECT_TRUE(status("a.db", 0)["shards"].empty());
}

TEST_F(ShardedRun, MissingAndFailedUnitsAreCounted) {
  ASSERT_EQ(run("a.db", {"--shard", "1/2", "--quiet"}).code, 0);
  const int units = status("a.db", 0)["shards"][0]["units"];
  execute(
      file("a.db"),
      "DELETE FROM record WHERE (cell, dialogue) IN (SELECT cell, dialogue FROM record LIMIT 1);"
      "UPDATE record SET status = 'error', error = 'e' WHERE (cell, dialogue) IN "
      "(SELECT cell, max(dialogue) FROM record WHERE cell = (SELECT max(cell) FROM record))");
  const Json shard = status("a.db", 1)["shards"][0];
  EXPECT_EQ(shard["missing"], 1);
  EXPECT_EQ(shard["failed"], 1);
  EXPECT_EQ(shard["done"], units - 2);
  // Both are of this shard alone: another one leaves its failures.
  EXPECT_EQ(run("a.db", {"--shard", "2/2", "--retry", "--quiet"}).code, 0);
  EXPECT_EQ(status("a.db", 1)["shards"][0]["failed"], 1);
  const Finished retried = run_program({"status", file("a.db"), "retry", "--quiet"});
  EXPECT_EQ(retried.code, 0) << retried.err;
  const Json first = status("a.db", 1)["shards"][0];
  EXPECT_EQ(first["failed"], 0);
  EXPECT_EQ(first["missing"], 1) << "only failed records are computed again";
  EXPECT_EQ(run("a.db", {"--shard", "1/2", "--quiet"}).code, 0);
  const Json shards = status("a.db", 0)["shards"];
  for (const Json& each : shards) EXPECT_EQ(each["done"], each["units"]);
}

TEST_F(ShardedRun, StatusShowsTheTimeOfRuns) {
  ASSERT_EQ(run("a.db", {"--shard", "1/2", "--quiet"}).code, 0);
  const auto time = [&] {
    return run_program({"status", file("a.db"), "--time", "--json"}).json()[0]["time"];
  };
  const Json first = time();
  EXPECT_EQ(first["runs"], 1);
  EXPECT_GT(first["seconds"], 0);
  EXPECT_GT(first["engine_seconds"], 0);
  EXPECT_GT(first["outside_seconds"], 0);
  EXPECT_DOUBLE_EQ(first["engine_seconds"].get<double>() + first["outside_seconds"].get<double>(),
                   first["worker_seconds"]);
  ASSERT_EQ(run("a.db", {"--quiet"}).code, 0);
  const Json both = time();
  EXPECT_EQ(both["runs"], 2);
  EXPECT_EQ(both["units"], 12);
  ASSERT_EQ(run("a.db", {"--quiet"}).code, 0);
  EXPECT_EQ(time(), both) << "nothing ran";
  EXPECT_NE(
      run_program({"status", file("a.db"), "--time"}).out.find("  time: 12 units in 2 runs, "),
      std::string::npos);
  EXPECT_FALSE(status("a.db", 0).contains("time"));
}

TEST_F(ShardedRun, BadValuesAreRefused) {
  for (const char* value : {"", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "a/b", "1/ 3", "+1/3",
                            "1/1000000", "99999999999999999999/3"}) {
    SCOPED_TRACE(value);
    const Finished bad = run("none.db", {"--shard", value});
    EXPECT_EQ(bad.code, 2);
    EXPECT_EQ(bad.err, fmt::format("turnbench: --shard: found \"{}\", expected I/N with 1 <= I <= "
                                   "N <= 100000\n",
                                   value));
    EXPECT_FALSE(path_exists(file("none.db")));
  }
}

}  // namespace
}  // namespace turnbench::test
