// method minference calibrate: the pattern file that it writes, and its refusals.

#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// Sentences of a synthetic text.
std::string synthetic_text(int sentences) {
  std::string out;
  for (int i = 0; i < sentences; ++i)
    out += "alice has the red book number " + std::to_string(i * 37 % 100) + ". ";
  return out;
}

TEST(Calibrate, WritesAFileForMinference) {
  const TemporaryDirectory d;
  const std::string text = d.write("text.txt", synthetic_text(60)), file = d.path("patterns.json");
  for (const char* objective : {"recall", "output"}) {
    const Finished run =
        run_program({"method", "minference", "calibrate", "--model", "tiny", "--text", text, "-o",
                     file, "--first-row", "200", "--objective", objective, "--json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const Json summary = run.json();
    const Json layers = parse_json(read_file(file), file);
    std::size_t heads = 0;
    for (const Json& layer : layers) {
      for (const Json& head : layer) {
        EXPECT_EQ(head[0], "vertical_and_slash");
        EXPECT_EQ(head.size(), 4u);
      }
      heads += layer.size();
    }
    EXPECT_EQ(summary["heads"], heads);
    EXPECT_GT(summary["tokens"], 200);
  }
  const Finished dense = run_program({"generate", "--model", "tiny", "--prompt", text,
                                      "--max-tokens", "2", "--ignore-eos", "--json"});
  const Finished sparse =
      run_program({"generate", "--model", "tiny", "--prompt", text, "--max-tokens", "2",
                   "--ignore-eos", "--json", "--method", "minference:config=" + file});
  EXPECT_EQ(sparse.code, 0) << sparse.err;  // as many lines as tokens: equal to dense
  EXPECT_EQ(sparse.json()["ids"], dense.json()["ids"]);
}

// On a short prompt a window of 800 covers everything, and it is the first candidate.
TEST(Calibrate, KeepsTypesOnRequest) {
  const TemporaryDirectory d;
  const std::string text = d.write("text.txt", synthetic_text(40)), file = d.path("patterns.json");
  const Finished run =
      run_program({"method", "minference", "calibrate", "--model", "tiny", "--text", text, "-o",
                   file, "--first-row", "100", "--keep-types"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("stream_llm (100, 800)"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("mean recall: 1 over"), std::string::npos) << run.out;
  EXPECT_EQ(parse_json(read_file(file), file)[0]["0"][0], "stream_llm");
}

TEST(Calibrate, Refusals) {
  const TemporaryDirectory d;
  const std::string text = d.write("text.txt", "too short"), file = d.path("patterns.json");
  const auto refusal = [&](const Arguments& more, int code = 2) {
    Arguments arguments = {"method", "minference", "calibrate"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.code, code) << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_NE(refusal({"--model", "tiny", "--text", text, "-o", file})
                .find("expected more than 2500 (--first-row)"),
            std::string::npos);
  EXPECT_NE(refusal({"--model", "tiny", "--text", d.path("none"), "-o", file}).find(d.path("none")),
            std::string::npos);
  EXPECT_NE(refusal({"--model", "tiny", "--text", text}).find("--output"), std::string::npos);
  const std::string manifest = d.write("m.json", "{}");
  EXPECT_NE(refusal({"--model", "tiny", "--text", text, "-o", manifest})
                .find("m.json: found a file that is no file of patterns, expected another name"),
            std::string::npos);
  EXPECT_EQ(read_file(manifest), "{}");
}

}  // namespace
}  // namespace turnbench::test
