// The progress of `run` on a terminal, and what other programs read instead.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "common/text.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// A terminal of 24 rows; collects what a program writes to it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : controller_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(grantpt(controller_), 0);
    EXPECT_EQ(unlockpt(controller_), 0);
    char path[256];
    EXPECT_EQ(ptsname_r(controller_, path, sizeof(path)), 0);
    name_ = path;
    device_ = open(path, O_RDWR | O_NOCTTY);  // so that reading goes on until the end
    const winsize size{24, columns, 0, 0};
    EXPECT_EQ(ioctl(device_, TIOCSWINSZ, &size), 0);
    reader_ = std::thread([this] {
      char buffer[4096];
      for (ssize_t n; (n = read(controller_, buffer, sizeof(buffer))) > 0;)
        text_.append(buffer, static_cast<std::size_t>(n));
    });
  }
  ~Terminal() { end(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  const std::string& name() const { return name_; }
  /// All that was written; closes the terminal.
  std::string end() {
    if (device_ >= 0) {
      close(device_);
      device_ = -1;
      reader_.join();
      close(controller_);
    }
    return text_;
  }

 private:
  int controller_, device_ = -1;
  std::string name_, text_;
  std::thread reader_;
};

std::string manifest(bool isolated) {
  return std::string(R"({"name": "m", "models": ["tiny"],
    "positions": ["begin", "end"], "max_new_tokens": 8, )") +
         // Long enough for several refreshes of the display, which are a second apart.
         (isolated ? R"("datasets": [{"name": "tiny-fact", "limit": 10, "length": 900}],
                        "isolated": true, )"
                   : R"("datasets": [{"name": "tiny-fact", "limit": 30, "length": 900}], )") +
         R"("methods": ["full", "snapkv:budget=40,window=8"]})";
}

struct Shown {
  Finished run;
  std::string terminal;
};

Shown run_on_terminal(bool isolated, unsigned short columns = 100) {
  const TemporaryDirectory directory;
  Terminal terminal(columns);
  Program program({"run", directory.write("m.json", manifest(isolated)), "--db",
                   directory.path("a.db"), "--threads", "1", "--workers", "1"},
                  "", directory.path("out"), terminal.name());
  Finished run = program.wait();
  return {run, terminal.end()};
}

TEST(RunDisplay, ShowsProgressAndTheMeansSoFar) {
  const Shown shown = run_on_terminal(false);
  EXPECT_EQ(shown.run.code, 0);
  EXPECT_EQ(shown.terminal.find("0 of 60 units"), std::string("\r\033[J").size())
      << "before the first unit ends: " << shown.terminal;
  EXPECT_NE(shown.terminal.find(" of 60 units, "), std::string::npos) << shown.terminal;
  EXPECT_NE(shown.terminal.find(" tokens/s"), std::string::npos);
  EXPECT_NE(shown.terminal.find("\nmeans so far, x100"), std::string::npos) << shown.terminal;
  EXPECT_NE(shown.terminal.find("   begin     end"), std::string::npos);
  EXPECT_NE(shown.terminal.find("\nsnapkv:budget=40,window=8 "), std::string::npos);
  // It goes back to its first line, and erases all of them at the end.
  EXPECT_NE(shown.terminal.find("\033[3A\r\033[J"), std::string::npos);
  const std::size_t last = shown.terminal.rfind("\033[J");
  EXPECT_EQ(shown.terminal.find("means so far", last), std::string::npos);
  EXPECT_NE(shown.terminal.find("60 units done in", last), std::string::npos);
}

TEST(RunDisplay, FitsANarrowTerminal) {
  const Shown shown = run_on_terminal(false, 40);
  for (const std::string& line : split(shown.terminal, "\n")) {
    const std::size_t start = line.rfind("\033[J");
    if (line.find("units done in") != std::string::npos) break;  // after the display
    const std::string text =
        trim(start == std::string::npos ? line : line.substr(start + std::string("\033[J").size()));
    std::size_t columns = 0;
    for (const char c : text) columns += !is_utf8_continuation(c);
    EXPECT_LE(columns, 40u) << text;
  }
}

TEST(RunDisplay, DoesNotReadTheStoreWhileTimesAreMeasured) {
  const Shown shown = run_on_terminal(true);
  EXPECT_EQ(shown.run.code, 0);
  EXPECT_NE(shown.terminal.find(" of 20 units, "), std::string::npos) << shown.terminal;
  EXPECT_EQ(shown.terminal.find("means so far"), std::string::npos);
}

TEST(RunDisplay, IsForTerminalsOnly) {
  const TemporaryDirectory directory;
  const Finished run = run_program({"run", directory.write("m.json", manifest(false)), "--db",
                                    directory.path("a.db"), "--limit", "4"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err.find("means so far"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find('\033'), std::string::npos) << run.err;
}

}  // namespace
}  // namespace turnbench::test
