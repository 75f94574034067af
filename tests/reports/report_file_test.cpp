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
