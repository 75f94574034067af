#include "common/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kNotFound = 127;

std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& words) {
  std::array<int, 2> out{};
  if (pipe2(out.data(), O_CLOEXEC) != 0)
    throw runtime_error("{}: cannot be started ({})", words.front(), std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  CommandResult result;
  if (failed == 0) result.out = read_all(out[0]);
  close(out[0]);
  if (failed == ENOENT) return {kNotFound, ""};
  if (failed != 0)
    throw runtime_error("{}: cannot be started ({})", words.front(), std::strerror(failed));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string shell_quote(std::string_view word) {
  return "'" + replace_all(word, "'", "'\\''") + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@";
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    out.push_back(plain ? word : shell_quote(word));
  }
  return join(out, " ");
}

}  // namespace turnbench
