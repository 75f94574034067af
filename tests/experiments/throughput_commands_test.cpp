// The throughput commands of experiments/specontext/README.md.  Tests that their methods exist and
// that they run the systems as in the paper.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/text.h"
#include "methods/method.h"

namespace turnbench::test {
namespace {

std::string readme() {
  return read_file(TURNBENCH_SOURCE_DIR "/experiments/specontext/README.md");
}

std::string replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

/// Replaces the placeholders of a directory and of the requests of a batch.
std::string filled_in(const std::string& spec) {
  return replaced(replaced(spec, "head=DIR", "head=random"), "requests=(\\$R|R)", "requests=4");
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  std::vector<std::string> out;
  const std::regex regex(pattern);
  for (auto i = std::sregex_iterator(text.begin(), text.end(), regex); i != std::sregex_iterator();
       ++i)
    out.push_back((*i)[1]);
  return out;
}

/// The commands of the page, each on one line.
std::vector<std::string> commands() {
  std::vector<std::string> out;
  for (const std::string& line : split(replaced(readme(), "\\\\\n +", ""), "\n")) {
    if (line.find("bench throughput") != std::string::npos) out.push_back(line);
  }
  return out;
}

TEST(ThroughputCommands, NameMethodsAndSettingsThatExist) {
  std::size_t parsed = 0;
  for (const std::string& command : commands()) {
    for (const std::string& spec : matches(command, "--method ([^ ]+)")) {
      EXPECT_NO_THROW(Method::parse(filled_in(spec))) << spec;
      ++parsed;
    }
  }
  EXPECT_EQ(parsed, 11u) << "of the three commands";
  const std::vector<std::string> steps = matches(readme(), "\\| `(specontext:[^`]+)` \\|");
  EXPECT_EQ(steps.size(), 3u) << "of figure 11";
  for (const std::string& spec : steps) EXPECT_NO_THROW(Method::parse(filled_in(spec))) << spec;
}

// Sections 7.1 to 7.5: the whole system with adaptive placement (C3), budgets of 2,048 tokens,
// baselines that keep all generated tokens, ShadowKV's offloading code.
TEST(ThroughputCommands, RunTheSystemsOfThePaper) {
  ASSERT_EQ(commands().size(), 3u) << "table 3, figures 10(a) and 10(b)";
  for (const std::string& command : commands()) {
    SCOPED_TRACE(command);
    const std::vector<std::string> batch = matches(command, "--batch ([^ ]+)");
    ASSERT_EQ(batch.size(), 1u);
    bool has_system = false;
    for (const std::string& spec : matches(command, "--method ([^ ]+)")) {
      const Method method = Method::parse(filled_in(spec));
      const auto expect = [&](const char* name, const char* setting, const char* value) {
        if (method.name() == name) {
          EXPECT_EQ(method.setting(setting), value) << spec;
        }
      };
      for (const char* name : {"quest", "clusterkv", "shadowkv", "specontext"})
        expect(name, "budget", "2048");
      expect("quest", "retain_generated", "true");
      expect("clusterkv", "window", "0");
      expect("shadowkv", "class", "offload");
      if (method.name() != "specontext") continue;
      has_system = true;
      EXPECT_GT(std::stod(*method.setting("memory")), 0);
      EXPECT_EQ(matches(spec, "requests=([^,]+)"), batch);
    }
    EXPECT_TRUE(has_system);
  }
}

}  // namespace
}  // namespace turnbench::test
