// method kascade-decode calibrate: the file of anchors that it writes, and its refusals.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "methods/parts/anchor_map.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// changed: values of options instead of those below.
Arguments calibration(const std::string& file,
                      const std::map<std::string, std::string>& changed = {}) {
  std::map<std::string, std::string> options = {
      {"--dataset", "tiny-list"}, {"--turns", "1"},    {"--length", "80"}, {"--limit", "2"},
      {"--threads", "1"},         {"--percent", "40"}, {"--anchors", "2"}, {"-o", file}};
  for (const auto& [name, value] : changed) options[name] = value;
  Arguments out = {"method", "kascade-decode", "calibrate", "--model", "tiny"};
  for (const auto& [name, value] : options) out.insert(out.end(), {name, value});
  return out;
}

TEST(CalibrateKascade, WritesAMapThatTheMethodReads) {
  const TemporaryDirectory directory;
  const std::string file = directory.path("tiny.anchors");
  Arguments arguments = calibration(file);
  arguments.push_back("--json");
  const Json got = run_program(arguments).json();
  EXPECT_EQ(got["dialogues"], 2);
  EXPECT_EQ(got["file"], file);
  ASSERT_EQ(got["similarity"].size(), 4u);
  const AnchorMap map = AnchorMap::load(file);
  EXPECT_NO_THROW(map.check_shape(4, 2));
  EXPECT_EQ(got["anchors"].get<std::vector<int>>(), map.anchors);
  EXPECT_EQ(got["heads"].get<std::vector<std::vector<int>>>(), map.heads);
  EXPECT_EQ(map.anchors.size(), 2u);
  double kept = 0, most = 0;
  for (std::size_t l = 0; l < 4; ++l) {
    const std::size_t anchor = l < static_cast<std::size_t>(map.anchors[1]) ? 0 : map.anchors[1];
    kept += got["similarity"][anchor][l].get<double>();
    most += got["similarity"][l][l].get<double>();
    for (std::size_t later = 0; later < l; ++later)
      EXPECT_EQ(got["similarity"][l][later], 0) << l << " " << later;
  }
  EXPECT_NEAR(got["retained"].get<double>(), kept / most, 1e-12);
  const Finished used = run_program(
      {"generate", "--model", "tiny", "--prompt", directory.write("prompt.txt", "a b c"),
       "--max-tokens", "2", "--threads", "1", "--method", "kascade-decode:budget=2,map=" + file});
  EXPECT_EQ(used.code, 0) << used.err;
  EXPECT_EQ(run_program(calibration(file)).code, 0) << "it replaces a file of its own";
}

TEST(CalibrateKascade, SaysIfLayersHaveNoSimilarity) {
  const TemporaryDirectory directory;
  const Finished got =
      run_program(calibration(directory.path("a"), {{"--percent", "1"}, {"--queries", "200"}}));
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_NE(got.out.find("The similarities between layers are 0"), std::string::npos) << got.out;
}

TEST(CalibrateKascade, Refuses) {
  const TemporaryDirectory directory;
  const std::string other = directory.write("notes.txt", "mine\n"),
                    file = directory.path("tiny.anchors");
  const auto refused = [&](const Arguments& arguments, const std::string& message) {
    const Finished got = run_program(arguments);
    EXPECT_EQ(got.code, 2) << got.out;
    EXPECT_NE(got.err.find(message), std::string::npos) << got.err;
  };
  refused(calibration(file, {{"--anchors", "5"}}),
          "--anchors: found 5, expected at most the model's 4 layers");
  refused(calibration(other), "notes.txt");
  EXPECT_EQ(read_file(other), "mine\n");
  refused(calibration(file, {{"--length", "2"}}), "--dataset: tiny-list: found the length 2 for 1");
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace turnbench::test
