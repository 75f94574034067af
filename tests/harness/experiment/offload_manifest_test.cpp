// Methods in host memory through the program: their records and tables.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

Json offload_manifest() {
  return {{"name", "small"},
          {"models", {"tiny"}},
          {"datasets", {{{"name", "tiny-fact"}, {"limit", 1}, {"length", 300}, {"turns", 2}}}},
          {"methods",
           {"full", "pqcache:budget=0.2,b=4,cache_tokens=32,cache_block=8",
            "pqcache:budget=0.2,b=4,placement=device"}},
          {"isolated", true},
          {"link_gbps", 0.02},
          {"max_new_tokens", 6},
          {"tables",
           {{{"rows", "method"}, {"columns", "turn"}, {"value", "tt2t"}},
            {{"rows", "method"}, {"columns", "turn"}, {"value", "hit_rate"}},
            {{"rows", "method"}, {"columns", "turn"}, {"value", "step_bytes"}},
            {{"rows", "method"}, {"columns", "turn"}, {"value", "decode_peak_bytes"}}}}};
}

class OffloadManifest : public testing::Test {
 protected:
  Finished run(const Json& manifest) {
    return run_program({"run", directory_.write("m.json", manifest.dump()), "--db", db_});
  }
  TemporaryDirectory directory_;
  std::string db_ = directory_.path("a.db");
};

TEST_F(OffloadManifest, RecordsTransfersAndTimes) {
  const Finished first = run(offload_manifest());
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* title : {"time to the second token", "that were on the device",
                            "transferred over the link in a decode step"})
    EXPECT_NE(first.out.find(title), std::string::npos) << first.out;
  // Two of three methods keep everything on the device; all have times.
  for (const char* value : {"longer than what they read have hit_rate.", "have step_bytes."})
    EXPECT_NE(first.out.find(value), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find("have tt2t"), std::string::npos) << first.out;
  // Two turns of one method.
  for (const char* name : {"index_bytes", "kv_fetch_bytes", "cache_fill_bytes", "writeback_bytes",
                           "cache_hits", "cache_misses", "hit_rate", "step_bytes"})
    EXPECT_EQ(count(db_, fmt::format("SELECT count(*) FROM counter WHERE name = '{}'", name)), 2)
        << name;
  for (const char* name : {"link", "link_throttled"})
    EXPECT_EQ(count(db_, fmt::format("SELECT count(*) FROM timing WHERE name = '{}' AND value > 0",
                                     name)),
              2)
        << name;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM counter WHERE name = 'kmeans_iterations'"), 4);
  for (const char* name : {"tt2t", "tpot", "decode_rate", "answer_rate"})
    EXPECT_EQ(count(db_, fmt::format("SELECT count(*) FROM timing WHERE name = '{}'", name)), 6);
  // Every step and layer of the method on the host, in agreement with the sums.
  const std::vector<std::string> lines = split(run_program({"ledger", db_, "--layers"}).out, "\n");
  const int layers = static_cast<int>(count(db_, "SELECT count(*) FROM ledger")) == 2 ? 4 : 0;
  EXPECT_EQ(std::ssize(lines), 2 + 2 * 6 * layers);  // header, and an empty last line
  double hits = 0;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], ",");
    hits += std::stod(fields[fields.size() - 3]);
  }
  EXPECT_EQ(hits, count(db_, "SELECT sum(value) FROM counter WHERE name = 'cache_hits'"));
  const Finished json = run_program({"ledger", db_, "--method", "pqcache", "--json"});
  const OrderedJson step = OrderedJson::parse(split(json.out, "\n")[1]);
  EXPECT_EQ(step["step"], 1);
  EXPECT_GT(step["writeback_bytes"], 0);
  EXPECT_EQ(step["history"], "reprefill");
  EXPECT_EQ(run_program({"ledger", db_, "--method", "snapkv"}).code, 2);
  const Finished none = run_program({"ledger", db_, "--method", "full"});
  EXPECT_EQ(none.lines().size(), 1u) << none.out;
  EXPECT_NE(none.err.find("no chosen cell of experiment"), std::string::npos) << none.err;
  // The place of keys and values changes no answer.
  EXPECT_EQ(count(db_,
                  "SELECT count(DISTINCT answer) FROM record WHERE turn = 0 AND cell IN "
                  "(SELECT key FROM cell WHERE method LIKE 'pqcache%')"),
            1);
}

// An eviction that does not evict answers does not change the device cache of a selection.
TEST_F(OffloadManifest, DeviceCachesWorkWithAnEviction) {
  const std::string cache = ",placement=host,cache_tokens=256,cache_block=16,cache_rule=lfu";
  const Json manifest = {
      {"name", "m"},
      {"models", {"tiny"}},
      {"datasets", {{{"name", "tiny-list"}, {"limit", 1}, {"length", 900}}}},
      {"methods",
       {"sentencekv:budget=0.3" + cache, "snapkv:budget=60%+oracle:budget=1/5,sinks=2" + cache}}};
  const Finished done = run(manifest);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count(db_,
                  "SELECT count(*) FROM (SELECT cell, sum(value) AS hits FROM counter "
                  "WHERE name = 'cache_hits' GROUP BY cell) WHERE hits > 0"),
            2);
}

// Counters are the same in shared runs, and are shown next to the published number.
TEST_F(OffloadManifest, CountsWithoutIsolation) {
  Json manifest = offload_manifest();
  manifest.erase("isolated");
  manifest.erase("link_gbps");
  const auto show = [&](const char* value) {
    manifest["tables"] = {{{"rows", "method"}, {"columns", "dataset"}, {"value", value}}};
    return run(manifest);
  };
  EXPECT_NE(show("tt2t").err.find("found \"tt2t\", expected score, or \"isolated\": true"),
            std::string::npos);
  for (const char* value : {"kv_bytes", "step_bytes"}) EXPECT_EQ(show(value).code, 0) << value;
  manifest["published"] = "numbers.csv";
  directory_.write("numbers.csv", "method,value,metric\n\"" +
                                      manifest["methods"][1].get<std::string>() +
                                      "\",0.625,hit_rate\n");
  ASSERT_EQ(show("hit_rate").code, 0);
  const Finished report = run_program({"report", db_, "--format", "csv"});
  EXPECT_NE(report.out.find("published"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find(",0.6250,"), std::string::npos) << report.out;
}

// Refusals of a run, before the run: the same message, after the file and the place.
TEST_F(OffloadManifest, PlanRejectsInvalidCombinations) {
  Json manifest = offload_manifest();
  manifest.erase("tables");
  const auto refused = [&](const std::string& method, const std::string& expected) {
    manifest["methods"] = {"full", method};
    const std::string path = directory_.write("p.json", manifest.dump());
    const Finished got = run_program({"plan", path});
    EXPECT_EQ(got.code, expected.empty() ? 0 : 2) << got.err;
    if (expected.empty()) return;
    EXPECT_EQ(got.err, "turnbench: " + path + ": /methods/1: " + expected + "\n");
  };
  refused(
      "shadowkv:cache_rule=lru",
      "shadowkv: found a cache_rule other than previous, expected cache_rule=previous, which keeps "
      "the computed keys for the next step");
  refused("adakv:budget=64+shadowkv",
          "adakv+shadowkv: found an eviction whose heads keep unequal numbers of tokens, expected "
          "equally many in all KV sets of a layer, which the selection needs");
  refused("adakv:budget=64+clusterkv", "");
  for (const char* name : {"shadowkv", "clusterkv"}) {
    for (const char* evicting : {"h2o", "tova", "streamingllm", "keyformer"})
      refused(fmt::format("{}:budget=64+{}", evicting, name),
              fmt::format("{}+{}: found an eviction while decoding, expected none, or history "
                          "compress_once: the selection needs whole answers",
                          evicting, name));
  }
  const Finished generated = run_program({"generate", "--model", "tiny", "--ids", "5,6,7",
                                          "--method", "h2o:budget=64+shadowkv:budget=32"});
  EXPECT_EQ(generated.code, 2);
  EXPECT_EQ(generated.err,
            "turnbench: h2o+shadowkv: found an eviction while decoding, expected none, or history "
            "compress_once: the selection needs whole answers\n");
  EXPECT_EQ(generated.out, "");
  manifest["history"] = "compress_once";
  refused("h2o:budget=64+shadowkv", "");
}

TEST_F(OffloadManifest, RejectsMeaninglessSettings) {
  const auto refused = [&](const char* key, const Json& value, const char* expected) {
    Json manifest = offload_manifest();
    manifest[key] = value;
    const Finished got = run(manifest);
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find(expected), std::string::npos) << got.err;
  };
  refused("isolated", false, "/link_gbps: found 0.02, expected \"isolated\": true with it");
  refused("link_gbps", -1, "/link_gbps: found -1, expected a number of 1e9 bytes/s");
  Json contradicts = offload_manifest();
  contradicts["history"] = "recompress";
  contradicts["methods"] = {"pqcache", "pqcache:mt=reprefill"};
  const Finished got = run(contradicts);
  EXPECT_EQ(got.code, 2);
  EXPECT_NE(got.err.find("/history: found recompress with the method pqcache:mt=reprefill, "
                         "expected reprefill"),
            std::string::npos)
      << got.err;
  refused("methods", {"pqcache:mt=perturn"},
          "/history: found reprefill with the method pqcache:mt=perturn, expected compress_once or "
          "recompress");
}

}  // namespace
}  // namespace turnbench::test
