// The numbers of models/tiny/README.md, checked on a sample of the dialogues.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "reports/pivot.h"
#include "runners/runner.h"
#include "tests/cli/program.h"

namespace turnbench {
namespace {

const std::vector<std::string> kPositions = {"begin", "middle", "end"};

/// The card's rows "| fact-1k | 98.1 [95.4, 99.2] | ... |": dataset -> mean by position.
std::map<std::string, std::vector<double>> stated() {
  std::map<std::string, std::vector<double>> out;
  for (const std::string& line :
       split(read_file(TURNBENCH_SOURCE_DIR "/models/tiny/README.md"), "\n")) {
    const std::vector<std::string> fields = split(line, "|");
    if (fields.size() < 5 || !trim(fields[1]).ends_with("k")) continue;
    for (std::size_t i = 2; i < 5; ++i) out[trim(fields[1])].push_back(std::stod(fields[i]));
  }
  return out;
}

TEST(TinyCard, HoldsOnASample) {
  const auto card = stated();
  const char* path_of_manifest = TURNBENCH_SOURCE_DIR "/experiments/tiny.json";
  OrderedJson json = OrderedJson::parse(read_file(path_of_manifest));
  OrderedJson sample = OrderedJson::array();
  for (const OrderedJson& dataset : json["datasets"]) {
    const std::string label = dataset["label"];
    ASSERT_TRUE(card.contains(label)) << label;
    if (label.ends_with("-1k")) sample.push_back(dataset);
  }
  json["datasets"] = sample;
  Manifest manifest = parse_manifest(json.dump(), "sample");
  manifest.path = path_of_manifest;
  const Plan plan = make_plan(resolve_experiment(manifest, {}, 4));
  const test::TemporaryDirectory directory;
  Store store = Store::create(directory.path("card.db"));
  store.add_experiment(stored_experiment(plan));
  run_plan(
      plan, store, {}, [] { return false; }, [](const Progress&) {});
  const Results results(store, "tiny");
  for (std::size_t p = 0; p < kPositions.size(); ++p) {
    double mean = 0, expected = 0;
    int count = 0;
    for (const Cell& cell : results.cells()) {
      if (cell.position != kPositions[p]) continue;
      const Stratum& stratum = results.stratum(cell.key, -1);
      EXPECT_EQ(stratum.failed, 0u);
      mean += estimate({&stratum}).mean;
      expected += card.at(cell.dataset)[p];
      ++count;
    }
    ASSERT_EQ(count, 4);
    // Sixteen dialogues with about forty turns: two standard errors of a score near 95 are 7.
    EXPECT_NEAR(mean / count, expected / count, 8) << kPositions[p];
    EXPECT_GE(expected / count, 95) << kPositions[p];
  }
}

}  // namespace
}  // namespace turnbench
