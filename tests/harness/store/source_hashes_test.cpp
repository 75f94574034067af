// The assignment of sources to parts: the tool of the build, on a small tree and on this project.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "methods/method.h"
#include "probes/probe.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

/// The tool's output for a tree: for each part its name, its hash, and its files.
struct Part {
  std::string name, hash;
  std::set<std::string> files;
};
std::vector<Part> parts_of(const std::string& tree, const std::string& out) {
  const std::string command = "'" TURNBENCH_SOURCE_HASHES "' '" + tree + "' '" + out + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<Part> result;
  for (const std::string& line : split(read_file(out), "\n")) {
    const std::vector<std::string> words = split(line, "\"");
    if (words.size() != 5) continue;
    const std::vector<std::string> files = split(words[4].substr(words[4].find("//") + 2), " ");
    result.push_back({words[1], words[3], {files.begin(), files.end()}});
  }
  return result;
}

class SourceTree : public testing::Test {
 protected:
  SourceTree() {
    for (const char* file :
         {"inference/engine/engine.cpp", "inference/cpu/gemm.cpp", "inference/cuda/gemm.cu",
          "text/tokenizer/bpe.cpp", "harness/run/unit.cpp", "harness/run/prompt.cpp",
          "datasets/a.cpp", "metrics/f1.cpp", "methods/parts/scores.cpp", "probes/mean.h",
          "common/text.cpp", "common/random.h", "common/thread_pool.cpp"})
      directory_.write(file, "\n");
    directory_.write("methods/parts/scores.h", "#include \"methods/parts/budget_sharing.h\"\n");
    directory_.write("methods/parts/budget_sharing.h", "\n");
    directory_.write("methods/eviction/snapkv.cpp",
                     "#include \"methods/parts/scores.h\"\nMethodInfo snapkv() {\n}\n");
    directory_.write("methods/prefill/a_shape.cpp",
                     "MethodInfo a_shape() {\n}\nMethodInfo tri_shape() {\n}\n");
    directory_.write("probes/coverage.cpp",
                     "#include \"probes/mean.h\"\n#include \"methods/parts/budget_sharing.h\"\n"
                     "ProbeInfo coverage() {\n}\n");
  }

  /// Part -> hash, from the tool's output.
  std::map<std::string, std::string> hashes() const {
    std::map<std::string, std::string> result;
    for (const Part& part : parts_of(directory_.path(""), directory_.path("state.out")))
      result[part.name] = part.hash;
    return result;
  }

  /// The parts whose hash changes when lines are added to a file.
  std::vector<std::string> changed_by(const std::string& file,
                                      const std::string& lines = "int changed;\n") const {
    const auto before = hashes();
    directory_.write(file, read_file(directory_.path(file)) + lines);
    std::vector<std::string> out;
    for (const auto& [part, hash] : hashes()) {
      if (before.at(part) != hash) out.push_back(part);
    }
    return out;
  }

  TemporaryDirectory directory_;
};

TEST_F(SourceTree, EachFileChangesItsParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(hashes().size(), 9u);
  EXPECT_EQ(changed_by("inference/engine/engine.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("inference/cpu/gemm.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("harness/run/unit.cpp"), Parts{"engine"});
  EXPECT_EQ(changed_by("inference/cuda/gemm.cu"), Parts{"cuda"});
  EXPECT_EQ(changed_by("text/tokenizer/bpe.cpp"), Parts{"prompts"});
  EXPECT_EQ(changed_by("harness/run/prompt.cpp"), Parts{"prompts"});
  EXPECT_EQ(changed_by("datasets/a.cpp"), Parts{"datasets"});
  EXPECT_EQ(changed_by("metrics/f1.cpp"), Parts{"metrics"});
  EXPECT_EQ(changed_by("common/text.cpp"), (Parts{"datasets", "metrics", "prompts"}));
  EXPECT_EQ(changed_by("common/random.h"), (Parts{"datasets", "engine"}));
  EXPECT_EQ(changed_by("common/thread_pool.cpp"), Parts{});
  EXPECT_EQ(changed_by("methods/eviction/snapkv.cpp"), Parts{"methods/snapkv"});
  EXPECT_EQ(changed_by("methods/parts/scores.cpp"), Parts{"methods/snapkv"});
  EXPECT_EQ(changed_by("methods/prefill/a_shape.cpp"),
            (Parts{"methods/a-shape", "methods/tri-shape"}));
  EXPECT_EQ(changed_by("methods/parts/budget_sharing.h"),
            (Parts{"methods/snapkv", "probes/coverage"}));
  EXPECT_EQ(changed_by("probes/mean.h"), Parts{"probes/coverage"});
}

TEST_F(SourceTree, CommentsAndWhiteSpaceChangeNoPart) {
  const std::string comments = "\n// changed\n/* twice */   \n";
  for (const char* file :
       {"inference/engine/engine.cpp", "inference/cuda/gemm.cu", "harness/run/prompt.cpp",
        "datasets/a.cpp", "metrics/f1.cpp", "methods/eviction/snapkv.cpp",
        "methods/parts/budget_sharing.h", "probes/mean.h"})
    EXPECT_EQ(changed_by(file, comments), std::vector<std::string>{}) << file;
}

TEST_F(SourceTree, IsWrittenOnlyWhenItChanges) {
  hashes();
  const auto first = std::filesystem::last_write_time(directory_.path("state.out"));
  hashes();
  EXPECT_EQ(std::filesystem::last_write_time(directory_.path("state.out")), first);
}

std::string git(const std::string& tree, const std::string& arguments) {
  return "git -C '" + tree + "' -c user.name=a -c user.email=a@b.c " + arguments;
}

TEST_F(SourceTree, NamesTheCommitOfItsCheckout) {
  const std::string tree = directory_.path(""), out = directory_.path("state.out");
  const auto state = [&] {
    parts_of(tree, out);
    return split(split(read_file(out), "return {")[1], ", {")[0];
  };
  if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no git";
  EXPECT_EQ(state(), "\"\", false");
  directory_.write(".gitignore", "state.out\n");
  ASSERT_EQ(std::system((git(tree, "init -q") + " && " + git(tree, "add -A") + " && " +
                         git(tree, "commit -q -m first"))
                            .c_str()),
            0);
  const std::string committed = state();
  EXPECT_TRUE(std::regex_match(committed, std::regex("\"[0-9a-f]{40}\", false"))) << committed;
  directory_.write("datasets/a.cpp", "int changed;\n");
  EXPECT_EQ(state(), replace_all(committed, "false", "true"));
  // A folder in another project's checkout has no commit.
  const std::string inner = directory_.path("inner");
  fs::create_directory(inner);
  parts_of(inner, out);
  EXPECT_NE(read_file(out).find("return {\"\", false"), std::string::npos);
}

/// The headers of methods/ and probes/ that the files of a part include, and the sources of these
/// headers, if they are missing in the part's files.
std::set<std::string> missing_in(const Part& part) {
  const fs::path root = TURNBENCH_SOURCE_DIR;
  const std::regex include("(^|\\n)\\s*#\\s*include\\s*[\"<]([^\">]+)[\">]");
  std::set<std::string> out;
  for (const std::string& file : part.files) {
    if (file.empty()) continue;
    const std::string text = read_file(root / file);
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
      const std::string header = (*it)[2];
      if (!header.starts_with("methods/") && !header.starts_with("probes/")) continue;
      const std::string source = fs::path(header).replace_extension(".cpp");
      if (!part.files.contains(header)) out.insert(header);
      if (fs::exists(root / source) && !part.files.contains(source)) out.insert(source);
    }
  }
  return out;
}

/// The file that describes a method or probe: "MethodInfo tri_shape() {".
bool is_described_in(const Part& part, const std::string& name) {
  for (const std::string& file : part.files) {
    if (file.ends_with(".cpp") &&
        read_file(fs::path(TURNBENCH_SOURCE_DIR) / file)
                .find("Info " + replace_all(name, "-", "_") + "()") != std::string::npos)
      return true;
  }
  return false;
}

class Sources : public testing::Test {
 protected:
  const Part& part(const std::string& name) const {
    for (const Part& p : parts_) {
      if (p.name == name) return p;
    }
    throw std::out_of_range("no hash of " + name);
  }
  const TemporaryDirectory directory_;
  const std::vector<Part> parts_ = parts_of(TURNBENCH_SOURCE_DIR, directory_.path("state.out"));
};

TEST_F(Sources, MethodsAndProbesHaveAllIncludedFiles) {
  const auto check = [&](const std::string& folder, const std::string& name) {
    const Part& p = part(folder + name);
    EXPECT_TRUE(is_described_in(p, name)) << p.name;
    EXPECT_EQ(missing_in(p), std::set<std::string>{}) << p.name;
  };
  for (const MethodInfo& method : all_methods()) check("methods/", std::string(method.name));
  for (const ProbeInfo& probe : all_probes()) check("probes/", std::string(probe.name));
}

TEST_F(Sources, MissingFileIsDetected) {
  Part p = part("methods/sentencekv");
  ASSERT_EQ(p.files.erase("methods/eviction/snapkv.cpp"), 1u);
  EXPECT_EQ(missing_in(p), std::set<std::string>{"methods/eviction/snapkv.cpp"});
  ASSERT_EQ(p.files.erase("methods/parts/scores.h"), 1u);
  EXPECT_EQ(missing_in(p),
            (std::set<std::string>{"methods/parts/scores.h", "methods/eviction/snapkv.cpp"}));
}

TEST_F(Sources, EveryFolderBelongsToAPart) {
  // Registries, checks at the start and before a run, the base class of the example in
  // CONTRIBUTING.md, and the search, whose pattern file has a separate hash.  Actions are in no
  // part: see below.
  std::set<std::string> known = {"methods/registry.cpp",
                                 "methods/registry_checks.cpp",
                                 "methods/model_check.h",
                                 "methods/model_check.cpp",
                                 "methods/parts/block_selection.h",
                                 "methods/parts/block_selection.cpp",
                                 "methods/prefill/pattern_search.h",
                                 "methods/prefill/pattern_search.cpp",
                                 "probes/registry.cpp"};
  for (const Part& p : parts_) known.insert(p.files.begin(), p.files.end());
  const fs::path root = TURNBENCH_SOURCE_DIR;
  for (const char* folder :
       {"datasets", "harness/run", "inference", "methods", "metrics", "probes", "text"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string file = fs::relative(entry.path(), root);
      if (file.starts_with("methods/actions")) continue;
      EXPECT_TRUE(entry.is_directory() || known.contains(file)) << file;
    }
  }
}

TEST_F(Sources, OfActionsAreInNoPart) {
  for (const Part& p : parts_) {
    for (const std::string& file : p.files)
      EXPECT_FALSE(file.starts_with("methods/actions/")) << p.name << " has " << file;
  }
}

/// A copy of the sources that have hashes, in which one of them is edited.
class EditedSources : public testing::Test {
 protected:
  EditedSources() {
    const fs::path root = TURNBENCH_SOURCE_DIR;
    for (const Part& p : parts_of(root, directory_.path("state.out"))) {
      for (const std::string& file : p.files) {
        if (!path_exists(directory_.path(file))) directory_.write(file, read_file(root / file));
      }
    }
  }

  /// The parts that change when the first match of `from` in a file is replaced by `to`.
  std::set<std::string> changed_by(const std::string& file, const char* from,
                                   const char* to) const {
    const std::string text = read_file(directory_.path(file));
    const std::string edited =
        std::regex_replace(text, std::regex(from), to, std::regex_constants::format_first_only);
    EXPECT_NE(edited, text) << file << " has no " << from;
    const auto before = parts_of(directory_.path(""), directory_.path("state.out"));
    directory_.write(file, edited);
    const auto after = parts_of(directory_.path(""), directory_.path("state.out"));
    directory_.write(file, text);
    EXPECT_EQ(before.size(), after.size());
    std::set<std::string> out;
    for (std::size_t i = 0; i < before.size() && i < after.size(); ++i) {
      EXPECT_EQ(before[i].name, after[i].name);
      if (before[i].hash != after[i].hash) out.insert(after[i].name);
    }
    return out;
  }

  const TemporaryDirectory directory_;
};

TEST_F(EditedSources, OnlyChangedTokensOfAnInterfaceMakeResultsStale) {
  using Parts = std::set<std::string>;
  const std::string file = "inference/policy/policy.h";
  EXPECT_EQ(changed_by(file, "\n", "\n// A comment.\n"), Parts{});
  EXPECT_EQ(changed_by(file, "// ", "// Another comment: "), Parts{});
  EXPECT_EQ(changed_by(file, " = 0;", "\n    = 0;"), Parts{});
  EXPECT_EQ(changed_by(file, " = 0;", " = 7;"), Parts{"engine"});
  EXPECT_EQ(changed_by(file, "\n", "\n#define A B\n"), Parts{"engine"});
}

TEST_F(EditedSources, ChangedConstantMakesItsMethodsStale) {
  const auto changed = changed_by("methods/eviction/snapkv.cpp", "\"[0-9]+\"", "\"9999\"");
  EXPECT_TRUE(changed.contains("methods/snapkv"));
  EXPECT_TRUE(changed.contains("methods/sentencekv"));
  EXPECT_FALSE(changed.contains("engine"));
  EXPECT_FALSE(changed.contains("methods/h2o"));
  EXPECT_EQ(changed_by("methods/eviction/snapkv.cpp", "return ", "return  "),
            std::set<std::string>{});
}

}  // namespace
}  // namespace turnbench::test
