// A method that changed nothing is reported, wherever its numbers are shown.

#include "harness/store/inactive_methods.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "methods/method.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

class InactiveMethods : public testing::Test {
 protected:
  Finished run(const Json& methods, Json more = Json::object(), Arguments arguments = {}) {
    Json manifest = {{"name", "m"},
                     {"models", {"tiny"}},
                     {"datasets",
                      {{{"name", "tiny-fact"}, {"limit", 2}, {"length", 200}, {"turns", 2}},
                       {{"name", "tiny-hop"}, {"limit", 1}, {"length", 600}, {"turns", 1}}}},
                     {"methods", methods}};
    manifest.update(more);
    arguments.insert(arguments.begin(),
                     {"run", directory_.write("m.json", manifest.dump()), "--db", db_});
    return run_program(arguments);
  }
  Json status() const { return run_program({"status", db_, "--json"}).json()[0]; }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db");
};

TEST_F(InactiveMethods, AreNamedByRunStatusAndReports) {
  const Finished ran =
      run({"full", "full-eager", "snapkv:budget=4096", "snapkv:budget=64,window=8"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::int64_t longest = count(db_, "SELECT max(prompt_tokens) FROM record");
  const std::string line = fmt::format(
      "snapkv:budget=4096 kept, read and computed as much as full attention in all 5 records of "
      "tiny-fact, tiny-hop: it was not active, its budget was never reached (prompts of at most {} "
      "tokens)",
      longest);
  EXPECT_NE(ran.err.find("m: " + line + "\n"), std::string::npos) << ran.err;
  EXPECT_EQ(status()["inactive"], Json::array({line}));
  EXPECT_NE(run_program({"status", db_}).out.find("\n  " + line + "\n"), std::string::npos);
  for (const char* format : {"md", "html", "tex"}) {
    std::string text = run_program({"report", db_, "--format", format}).out;
    EXPECT_NE(text.find("budget was never reached"), std::string::npos) << format;
  }
  const Json json = run_program({"report", db_, "--json"}).json();
  EXPECT_NE(json["notes"].dump().find(line + "."), std::string::npos);
  EXPECT_EQ(run({"full", "snapkv:budget=4096"}, Json::object(), {"--quiet"}).err, "");
}

// Only if the budget covers a dataset's prompts.
TEST_F(InactiveMethods, AreNamedWithTheirDatasets) {
  ASSERT_EQ(run({"full", "snapkv:budget=300"}, {{"positions", {"begin", "end"}}}).code, 0);
  const std::string fact =
      "SELECT max(r.prompt_tokens) FROM record r JOIN experiment_cell e USING (cell) WHERE "
      "e.dataset = 'tiny-fact'";
  ASSERT_LT(count(db_, fact), 300);
  const Json lines = status()["inactive"];
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].get<std::string>().starts_with(
      "snapkv:budget=300 kept, read and computed as much as full attention in all 8 records of "
      "tiny-fact: it was not active, "))
      << lines;
}

// A method is active if it omits any part of the attention.
TEST_F(InactiveMethods, ExcludeMethodsThatOmitTokens) {
  ASSERT_EQ(run({"snapkv:budget=64", "oracle:budget=64", "a-shape:n_init=4,n_local=32",
                 "streamingllm:budget=0.9"})
                .code,
            0);
  EXPECT_EQ(status()["inactive"], Json::array());
}

TEST_F(InactiveMethods, ExcludeCodecsOfTheCache) {
  ASSERT_EQ(run({"full", "int8", "int8+snapkv:budget=4096"}).code, 0);
  const Json lines = status()["inactive"];
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(
      lines[0].get<std::string>().find(": apart from its codec, it was not active, its budget"),
      std::string::npos)
      << lines;
}

// `infllm` reads all tokens of a short prompt, but at clamped distances.
TEST_F(InactiveMethods, ExcludeMethodsThatClampDistances) {
  ASSERT_EQ(run({"full", "infllm:budget=5"}).code, 0);
  EXPECT_EQ(status()["inactive"], Json::array());
}

// A selection that reads everything and a prefill that computes everything, also with a kept cache.
TEST_F(InactiveMethods, CoverEveryKindAndHistory) {
  const std::vector<std::string> methods = {"snapkv:budget=4096", "quest:budget=4096",
                                            "a-shape:n_init=128,n_local=3968", "h2o:budget=4096",
                                            "full"};
  for (const char* history : {"reprefill", "compress_once", "recompress"}) {
    for (const char* answers : {"own", "gold"}) {
      const Finished ran =
          run(methods, {{"history", history}, {"answers", answers}, {"max_new_tokens", 5}});
      ASSERT_EQ(ran.code, 0) << ran.err;
      ASSERT_GT(count(db_, "SELECT count(*) FROM record WHERE stopped = 0"), 0);
      const Json lines = status()["inactive"];
      ASSERT_EQ(lines.size(), 2u) << history << " " << answers << lines;
      EXPECT_TRUE(lines[0].get<std::string>().starts_with(
          "snapkv:budget=4096, quest:budget=4096, h2o:budget=4096 kept, read and computed as much "
          "as full attention in all 5 records of tiny-fact, tiny-hop: they were not active, their "
          "budgets were never reached (prompts of at most "))
          << lines;
      EXPECT_EQ(lines[1],
                "a-shape:n_init=128,n_local=3968 kept, read and computed as much as full attention "
                "in all 5 records of tiny-fact, tiny-hop: it was not active");
    }
  }
}

TEST_F(InactiveMethods, ExcludeProbes) {
  ASSERT_EQ(run({"full"}, {{"probes", {"coverage:eta=0.1"}}}).code, 0);
  EXPECT_EQ(status()["inactive"], Json::array());
}

// An omission in one answer of many is enough, too.
TEST_F(InactiveMethods, AreAbsentIfOneRecordDiffers) {
  ASSERT_EQ(run({"snapkv:budget=4096"}).code, 0);
  ASSERT_EQ(status()["inactive"].size(), 1u);
  for (const char* name : {"kv_tokens", "attended_tokens", "prefill_pairs_share"}) {
    const std::string where =
        std::string(
            " WHERE turn = 0 AND dialogue = (SELECT min(dialogue) FROM record) AND name = '") +
        name + "'";
    execute(db_, "UPDATE counter SET value = value * 0.99" + where);
    const std::string lines = status()["inactive"].dump();
    EXPECT_EQ(lines.find("records of tiny-fact"), std::string::npos) << name << lines;
    EXPECT_NE(lines.find("in all 1 records of tiny-hop"), std::string::npos) << name << lines;
    execute(db_, "UPDATE counter SET value = value / 0.99" + where);
  }
}

}  // namespace
}  // namespace turnbench::test
