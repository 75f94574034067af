#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/file.h"
#include "common/text.h"

namespace turnbench::test {

namespace fs = std::filesystem;

std::vector<std::string> Finished::lines() const {
  std::vector<std::string> out_lines = split(out, "\n");
  if (out_lines.back().empty()) out_lines.pop_back();
  return out_lines;
}

Program::Program(const Arguments& arguments, std::string_view input, const std::string& out_file,
                 const std::string& err_file)
    : out_(out_file), err_(err_file) {
  const std::string in = streams_.write("in", input),
                    out = out_file.empty() ? streams_.path("out") : out_file,
                    err = err_file.empty() ? streams_.path("err") : err_file;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in.c_str(), O_RDONLY, 0);
  for (const auto& [stream, path] : {std::pair(STDOUT_FILENO, &out), {STDERR_FILENO, &err}}) {
    posix_spawn_file_actions_addopen(&actions, stream, path->c_str(), O_WRONLY | O_CREAT, 0600);
  }
  std::vector<std::string> words = {TURNBENCH_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(std::string("cannot start ") + argv[0]);
}

Program::~Program() {
  if (pid_ == 0) return;
  signal(SIGKILL);
  wait();
}

void Program::signal(int number) const {
  ::kill(pid_, number);
}

Finished Program::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {code, out_.empty() ? read_file(streams_.path("out")) : "",
          err_.empty() ? read_file(streams_.path("err")) : ""};
}

Finished run_program(const Arguments& arguments, std::string_view input, const std::string& out) {
  return Program(arguments, input, out).wait();
}

void expect_refusals(std::span<const Malformed> cases) {
  for (const Malformed& c : cases) {
    SCOPED_TRACE(c.name);
    const TemporaryDirectory directory;
    const Arguments arguments = c.make(directory);
    const auto before = directory.content();
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    for (const char* part : {"turnbench: ", "found ", "expected ", c.expected}) {
      EXPECT_NE(run.err.find(part), std::string::npos) << part << "\n" << run.err;
    }
    EXPECT_TRUE(directory.content() == before) << "files were changed or made";
  }
}

}  // namespace turnbench::test
