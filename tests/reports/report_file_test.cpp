// The files that `report -o` may replace.

#include "reports/report_file.h"

#include <gtest/gtest.h>

#include "common/file.h"
#include "hand_made_store.h"
#include "reports/render.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

TEST(ReportFile, RecognisesEveryFormat) {
  HandMadeStore hand;
  hand.add(HandMadeStore::key("tiny-fact", "begin", "full"), "a", 1, 1);
  Results results(hand.store(), "hand");
  for (const char* format : {"md", "tex", "html", "json", "svg"})
    EXPECT_TRUE(is_report(render_report(results, {format, false}))) << format;
  EXPECT_TRUE(is_report(render_report(results, {"csv", true})));
  results.keep_table(0);
  EXPECT_TRUE(is_report(render_report(results, {"csv", false})));
  // Output of older versions: comments and several tables.
  EXPECT_TRUE(is_report("# All\n" + render_csv(results) + "\n# Each\n" + render_csv(results)));
  EXPECT_TRUE(is_report(""));
}

TEST(ReportFile, RecognisesSmokeRunsAndLabelsWithCommas) {
  std::string manifest = test::kManifest;
  manifest.insert(manifest.find("\"models\""), "\"smoke\": \"Smoke\", ");
  HandMadeStore hand(manifest, "", {"full", "snapkv:budget=64,window=8", "streamingllm"});
  Results results(hand.store(), "hand");
  results.keep_table(0);
  for (const bool is_long : {false, true})
    EXPECT_TRUE(is_report(render_report(results, {"csv", is_long}))) << is_long;
  EXPECT_TRUE(is_report("a,\"x,y\",\"x,y low\",\"x,y high\",\"x,y n\",\"x,y failed\"\n"));
}

TEST(ReportFile, DoesNotRecogniseOtherFiles) {
  for (const std::string& text :
       {std::string(test::kManifest), std::string(test::kPublished), std::string("old"),
        std::string("# Notes\n\nMeans of 95% intervals\n"), std::string("<!doctype html>\n<p>mine"),
        std::string("\\begin{tabular}{l}"), std::string("low,high,n\n"), std::string("####"),
        std::string("#"), std::string("% notes\n% turnbench report\n"),
        std::string("{\"cells\": []}"), std::string("{\"cells\": "),
        std::string("<svg xmlns=\"http://www.w3.org/2000/svg\"/>")}) {
    EXPECT_FALSE(is_report(text)) << text;
  }
}

TEST(ReportFile, DoesNotRecogniseTextWithAReportInIt) {
  HandMadeStore hand;
  hand.add(HandMadeStore::key("tiny-fact", "begin", "full"), "a", 1, 1);
  const std::string report = render_report(Results(hand.store(), "hand"), {"md", false});
  ASSERT_TRUE(is_report(report));
  const std::string table = report.substr(report.find("\n\n") + 2);
  EXPECT_FALSE(is_report("# Notes\n\nFirst run.\n\nSecond run.\n\n" + table));
  EXPECT_FALSE(is_report("# Notes\n\n- first run\n- second run\n\n" + report));
  EXPECT_FALSE(is_report(report + "\n# Discussion\n\nThe difference is small.\n"));
}

TEST(ReportFile, NeverReplacesStores) {
  const test::TemporaryDirectory directory;
  for (const std::string& text : {std::string("SQLite format 3\0 and pages", 25),
                                  std::string("\x28\xb5\x2f\xfd compressed")}) {
    const std::filesystem::path file = directory.path("results.md");
    write_file(file, text);
    for (const bool force : {false, true}) {
      EXPECT_EQ(test::message_of([&] { write_report(file, "% turnbench report\n1", force); }),
                "--output: found the store " + file.string() + ", expected another file");
    }
    EXPECT_EQ(read_file(file), text);
  }
}

TEST(ReportFile, OnlyForceReplacesOtherFiles) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path("m.json");
  write_report(file, "% turnbench report\n1", false);
  write_report(file, "% turnbench report\n2", false);
  EXPECT_EQ(read_file(file), "% turnbench report\n2");
  write_file(file, test::kManifest);
  const std::string message =
      test::message_of([&] { write_report(file, "% turnbench report\n3", false); });
  EXPECT_NE(message.find("m.json: found a file that is no report, expected another name, or "
                         "--force to replace it"),
            std::string::npos)
      << message;
  EXPECT_EQ(read_file(file), test::kManifest);
  write_report(file, "% turnbench report\n3", true);
  EXPECT_EQ(read_file(file), "% turnbench report\n3");
}

}  // namespace
}  // namespace turnbench
