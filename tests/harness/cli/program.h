#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench::test {

using Arguments = std::vector<std::string>;

/// What the program left behind.  `code` is 128 + the signal that ended it, if one did.
struct Finished {
  int code = 0;
  std::string out, err;

  Json json() const { return parse_json(out, "stdout"); }
  std::vector<std::string> lines() const;  ///< of stdout
};

/// Runs the built program in the working directory of the test to its end; `out` is where its
/// stdout goes, if not into the result.
Finished run_program(const Arguments& arguments, std::string_view input = "",
                     const std::string& out = "");

/// A directory of its own that goes when the object goes.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file, with the directories above it, and returns its path.
  std::string write(const std::string& name, std::string_view content) const;
  /// Every file's path and content.
  std::map<std::string, std::string> content() const;

 private:
  std::filesystem::path path_;
};

/// The built program while it runs; killed if nobody waits for it.
class Program {
 public:
  explicit Program(const Arguments& arguments, std::string_view input = "",
                   const std::string& out = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  Finished wait();

 private:
  TemporaryDirectory streams_;
  std::string out_;  ///< where stdout goes, if not into the result
  int pid_ = 0;
};

/// A damaged input: makes its files, says how the program is called with them, and what the refusal
/// must say beside "found" and "expected".
struct Malformed {
  const char* name;
  std::function<Arguments(const TemporaryDirectory&)> make;
  const char* expected;
};

/// Each case is refused: exit code 2, one line on stderr, nothing on stdout, and every file is as
/// it was, with none beside it.
void expect_refusals(std::span<const Malformed> cases);

}  // namespace turnbench::test
