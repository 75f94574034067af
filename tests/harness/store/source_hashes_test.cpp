// Which sources decide what: cmake/source_hashes.cmake over a small tree.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "common/file.h"
#include "common/text.h"
#include "tests/harness/cli/program.h"

namespace turnbench::test {
namespace {

class SourceTree : public testing::Test {
 protected:
  SourceTree() {
    for (const char* file :
         {"inference/engine.cpp", "inference/cpu/gemm.cpp", "inference/cuda/gemm.cu",
          "inference/tokenizer/bpe.cpp", "harness/unit/unit.cpp", "harness/unit/prompt.cpp",
          "datasets/a.cpp", "metrics/f1.cpp", "methods/scores.cpp", "probes/mean.h"})
      directory_.write(file, "\n");
    directory_.write("methods/scores.h", "#include \"methods/budget_sharing.h\"\n");
    directory_.write("methods/budget_sharing.h", "\n");
    directory_.write("methods/snapkv.cpp",
                     "#include \"methods/scores.h\"\nMethodInfo snapkv() {\n}\n");
    directory_.write("methods/a_shape.cpp",
                     "MethodInfo a_shape() {\n}\nMethodInfo tri_shape() {\n}\n");
    directory_.write("probes/coverage.cpp",
                     "#include \"probes/mean.h\"\n#include \"methods/budget_sharing.h\"\n"
                     "ProbeInfo coverage() {\n}\n");
  }

  /// Part -> hash, as the script writes them.
  std::map<std::string, std::string> hashes() const {
    const std::string out = directory_.path("state.out");
    const std::string command = "cmake -DSOURCE=" + directory_.path("") + " -DOUTPUT=" + out +
                                " -P " TURNBENCH_SOURCE_DIR "/cmake/source_hashes.cmake";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::map<std::string, std::string> result;
    for (const std::string& line : split(read_file(out), "\n")) {
      const std::vector<std::string> words = split(line, "\"");
      if (words.size() == 5) result[words[1]] = words[3];
    }
    return result;
  }

  /// The parts that a change of a file changes.
  std::vector<std::string> changed_by(const std::string& file) const {
    const auto before = hashes();
    directory_.write(file, read_file(directory_.path(file)) + "// changed\n");
    std::vector<std::string> out;
    for (const auto& [part, hash] : hashes()) {
      if (before.at(part) != hash) out.push_back(part);
    }
    return out;
  }

  TemporaryDirectory directory_;
};

TEST_F(SourceTree, EachFileTouchesWhatItDecides) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(hashes().size(), 9u);
  EXPECT_EQ(changed_by("inference/engine.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("inference/cpu/gemm.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("harness/unit/unit.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("inference/cuda/gemm.cu"), Parts{"cuda"});
  EXPECT_EQ(changed_by("inference/tokenizer/bpe.cpp"), Parts{"prompts"});
  EXPECT_EQ(changed_by("harness/unit/prompt.cpp"), Parts{"prompts"});
  EXPECT_EQ(changed_by("datasets/a.cpp"), Parts{"datasets"});
  EXPECT_EQ(changed_by("metrics/f1.cpp"), Parts{"metrics"});
  EXPECT_EQ(changed_by("methods/snapkv.cpp"), Parts{"methods/snapkv"});
  EXPECT_EQ(changed_by("methods/scores.cpp"), Parts{"methods/snapkv"});
  EXPECT_EQ(changed_by("methods/a_shape.cpp"), (Parts{"methods/a-shape", "methods/tri-shape"}));
  EXPECT_EQ(changed_by("methods/budget_sharing.h"), (Parts{"methods/snapkv", "probes/coverage"}));
  EXPECT_EQ(changed_by("probes/mean.h"), Parts{"probes/coverage"});
}

TEST_F(SourceTree, IsWrittenOnlyWhenItChanges) {
  hashes();
  const auto first = std::filesystem::last_write_time(directory_.path("state.out"));
  hashes();
  EXPECT_EQ(std::filesystem::last_write_time(directory_.path("state.out")), first);
}

}  // namespace
}  // namespace turnbench::test
