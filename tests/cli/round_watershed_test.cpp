// method round watershed: its measures and its refusals.

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

const Arguments kTiny = {"method",    "round",     "watershed", "--model",   "tiny",
                         "--dataset", "tiny-fact", "--turns",   "4",         "--length",
                         "120",       "--limit",   "2",         "--threads", "1"};

Arguments with(Arguments more) {
  Arguments out = kTiny;
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(RoundWatershed, MeasuresEveryLayer) {
  const Json got = run_program(with({"--shares", "--json"})).json();
  EXPECT_EQ(got["layers"], 4);
  EXPECT_EQ(got["dialogues"], 2);
  EXPECT_EQ(got["divergence"]["all"].size(), 3u);
  EXPECT_EQ(got["divergence"]["last"].size(), 3u);
  EXPECT_EQ(got["question_to_answer"].size(), 4u);
  ASSERT_EQ(got["watershed"].size(), 4u);
  const Json& readings = got["watershed"];
  for (const std::size_t i : {0u, 1u, 2u, 3u}) {
    EXPECT_EQ(readings[i]["tokens"], i < 2 ? "last" : "all");
    EXPECT_EQ(readings[i]["rule"], i % 2 == 0 ? "minimum" : "drop");
  }
  ASSERT_EQ(got["shares"].size(), 2u);
  for (const Json& layer : got["shares"][1]["answer"]) {
    ASSERT_EQ(layer.size(), 3u) << "rounds before the last question";
    EXPECT_NEAR(layer[0].get<double>() + layer[1].get<double>() + layer[2].get<double>(), 1, 1e-9);
  }
}

TEST(RoundWatershed, ShowsThePublishedLayer) {
  const TemporaryDirectory directory;
  const std::string csv = directory.write("t.csv", "model,value,note\nmine,3,\"4 layers: 25%\"\n");
  const Finished text = run_program(with({"--published", csv, "--name", "mine"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("L_w"), std::string::npos);
  EXPECT_NE(text.out.find("published                3   4 layers: 25%"), std::string::npos)
      << text.out;
  const Finished none = run_program(with({"--published", csv}));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("found no number for the model tiny"), std::string::npos) << none.err;
}

TEST(RoundWatershed, RefusesDialoguesWithoutRounds) {
  Arguments arguments = kTiny;
  arguments[8] = "2";
  const Finished got = run_program(arguments);
  EXPECT_EQ(got.code, 2);
  EXPECT_NE(got.err.find("tiny-fact: found 2 dialogues with fewer than 3 turns and 0 that exceed"),
            std::string::npos)
      << got.err;
}

}  // namespace
}  // namespace turnbench::test
