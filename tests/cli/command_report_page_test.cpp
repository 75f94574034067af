// The experiments of `report --format html`.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/json.h"
#include "program.h"
#include "small_store.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {
namespace {

/// A store with the experiments small and later.
class ReportPage : public testing::Test {
 protected:
  ReportPage() {
    Json manifest = Json::parse(small_manifest());
    manifest["name"] = "later";
    manifest.erase("published");
    const Finished run =
        run_program({"run", directory_.write("later.json", manifest.dump()), "--db", db_});
    EXPECT_EQ(run.code, 0) << run.err;
  }

  Finished report(Arguments more) const {
    more.insert(more.begin(), {"report", db_});
    return run_program(more);
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.write("s.db", small_store());
};

bool has(const Finished& page, const char* experiment) {
  return page.out.find(std::string("<section class=\"experiment\" id=\"x-") + experiment + "\"") !=
         std::string::npos;
}

TEST_F(ReportPage, ShowsAllExperimentsByDefault) {
  const Finished all = report({"--format", "html"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(has(all, "small") && has(all, "later"));
  EXPECT_EQ(report({"--format", "html", "--experiment", "small", "--experiment", "later"}).out,
            all.out);
  const Finished one = report({"--format", "html", "--experiment", "small"});
  EXPECT_TRUE(has(one, "small") && !has(one, "later"));
  const Finished table = report({"--format", "html", "--table", "1"});
  EXPECT_TRUE(!has(table, "small") && has(table, "later")) << "tables are of one experiment";
}

TEST_F(ReportPage, OtherFormsShowTheLatest) {
  EXPECT_EQ(report({}).out, report({"--experiment", "later"}).out);
  EXPECT_EQ(report({"--format", "html", "--metric", "qa_f1"}).out,
            report({"--format", "html", "--metric", "qa_f1", "--experiment", "later"}).out);
}

TEST_F(ReportPage, RefusesSeveralExperimentsElsewhere) {
  const Arguments both = {"--experiment", "small", "--experiment", "later"};
  const auto refusal = [&](Arguments more) {
    more.insert(more.end(), both.begin(), both.end());
    const Finished refused = report(more);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    return refused.err;
  };
  EXPECT_NE(refusal({}).find("--experiment: found 2 experiments with the format md, expected one"),
            std::string::npos);
  EXPECT_NE(refusal({"--format", "html", "--table", "1"}).find("with --table, expected one"),
            std::string::npos);
  EXPECT_NE(refusal({"--format", "html", "--metric", "qa_f1"}).find("with --metric, expected one"),
            std::string::npos);
  EXPECT_NE(refusal({"--format", "html", "--experiment", "small"})
                .find("--experiment: found \"small\" twice, expected it once"),
            std::string::npos);
  const Finished unknown = report({"--format", "html", "--experiment", "x"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("found no experiment \"x\""), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace turnbench::test
