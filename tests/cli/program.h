#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

using Arguments = std::vector<std::string>;

/// The result of a program.  `code` is 128 + the signal that ended it, if one did.
struct Finished {
  int code = 0;
  std::string out, err;

  Json json() const { return parse_json(out, "stdout"); }
  std::vector<std::string> lines() const;  ///< of stdout
};

/// Runs the built program in the working directory of the test until it ends; `out` is the file for
/// its stdout instead of the result.
Finished run_program(const Arguments& arguments, std::string_view input = "",
                     const std::string& out = "");

/// The built program while it runs; killed if nobody waits for it.
class Program {
 public:
  /// out, err: files for its streams instead of the result.
  explicit Program(const Arguments& arguments, std::string_view input = "",
                   const std::string& out = "", const std::string& err = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  int pid() const { return pid_; }
  Finished wait();

 private:
  TemporaryDirectory streams_;
  std::string out_, err_;  ///< files for the streams that are not in the result
  int pid_ = 0;
};

/// A damaged input: creates its files and returns the arguments of the program.  The refusal must
/// contain `expected`, besides "found" and "expected".
struct Malformed {
  const char* name;
  std::function<Arguments(const TemporaryDirectory&)> make;
  const char* expected;
};

/// Each case is refused: exit code 2, one line on stderr, nothing on stdout, no changed and no new
/// files.
void expect_refusals(std::span<const Malformed> cases);

}  // namespace turnbench::test
