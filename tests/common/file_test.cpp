#include "common/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/process_memory.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, ReleasedPagesAreFreedAndReadAgain) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path("mapped");
  constexpr std::size_t kSize = std::size_t{64} << 20;
  std::string content(kSize, 'a');
  for (std::size_t i = 0; i < kSize; i += 4096) content[i] = static_cast<char>('a' + i / 4096 % 26);
  std::ofstream(path, std::ios::binary) << content;
  {
    const MappedFile file(path);
    const std::string hash = hash_bytes(file.bytes());
    EXPECT_EQ(hash, hash_text(content));
    const std::size_t before = resident_bytes();
    file.release_pages(file.bytes().subspan(100, kSize - 1000));  // whole pages only
    EXPECT_LT(resident_bytes() + kSize / 2, before);
    EXPECT_EQ(hash_bytes(file.bytes()), hash);
    file.release_pages(file.bytes().first(10));  // less than a page
  }
}

class WriteFile : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(directory_))
      out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  const test::TemporaryDirectory own_;
  const fs::path& directory_ = own_.path();
};

TEST_F(WriteFile, FollowsAndPreservesLinks) {
  fs::create_directory(directory_ / "d");
  write_file(directory_ / "d/target", "old");
  fs::permissions(directory_ / "d/target", fs::perms(0640));
  fs::create_symlink("d/target", directory_ / "link");
  fs::create_symlink("link", directory_ / "second");
  fs::create_symlink("d/new", directory_ / "dangling");
  write_file(directory_ / "second", "one");
  EXPECT_TRUE(fs::is_symlink(directory_ / "second") && fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(read_file(directory_ / "d/target"), "one");
  EXPECT_EQ(fs::status(directory_ / "d/target").permissions(), fs::perms(0640));
  write_file(directory_ / "dangling", "two");
  EXPECT_TRUE(fs::is_symlink(directory_ / "dangling"));
  EXPECT_EQ(read_file(directory_ / "d/new"), "two");
  fs::create_symlink("loop", directory_ / "loop");
  EXPECT_NE(test::message_of([&] { write_file(directory_ / "loop", "x"); }, ErrorKind::kRuntime)
                .find("loop: cannot be written: "),
            std::string::npos);
  EXPECT_EQ(names(), (std::vector<std::string>{"d", "dangling", "link", "loop", "second"}));
}

TEST_F(WriteFile, WritesThroughPipesAndDevices) {
  const fs::path fifo = directory_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(fifo); });
  write_file(fifo, "through the pipe");
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(fifo));
  fs::create_symlink("/dev/null", directory_ / "null");
  write_file(directory_ / "null", "gone");
  EXPECT_TRUE(fs::is_symlink(directory_ / "null"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_NE(
      test::message_of([] { write_file("/dev/full", "x"); }, ErrorKind::kRuntime).find("No space"),
      std::string::npos);
  EXPECT_EQ(names(), (std::vector<std::string>{"fifo", "null"}));
}

TEST_F(WriteFile, RefusesDirectories) {
  EXPECT_EQ(test::message_of([&] { write_file(directory_, "x"); }),
            directory_.string() + ": found a directory, expected a file");
}

// A limit on the size of files makes a write fail as a full disk does.
TEST_F(WriteFile, OwnFilesAreReplacedAndOthersAreNot) {
  const fs::path path = directory_ / "file";
  bool asked = false;
  const auto refusal = [&](bool is_own) {
    asked = false;
    return test::message_of(
        [&] { require_own_file(path, "plan", [&] { return asked = true, is_own; }); });
  };
  EXPECT_EQ(refusal(false), "no error");  // there is no file
  std::ofstream(path) << "";
  EXPECT_EQ(refusal(false), "no error");
  EXPECT_FALSE(asked);
  std::ofstream(path) << "text";
  EXPECT_EQ(refusal(true), "no error");
  EXPECT_TRUE(asked);
  EXPECT_EQ(refusal(false),
            path.string() + ": found a file that is no plan, expected another name");
}

TEST_F(WriteFile, LeavesNoFileAfterAFailure) {
  write_file(directory_ / "old", "whole");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string messages;
  for (const char* name : {"old", "new"}) {
    messages += test::message_of([&] { write_file(directory_ / name, std::string(5000, 'x')); },
                                 ErrorKind::kRuntime);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(messages.find("old: cannot be written: File too large"), std::string::npos) << messages;
  EXPECT_EQ(names(), std::vector<std::string>{"old"});
  EXPECT_EQ(read_file(directory_ / "old"), "whole");
}

TEST(Paths, InvalidNamesDoNotExist) {
  const std::string too_long(300, 'x');  // too long for a file name
  for (const std::filesystem::path& path :
       {std::filesystem::path("/no/such"), std::filesystem::path(too_long),
        std::filesystem::path(too_long) / "a"}) {
    EXPECT_FALSE(path_exists(path));
    EXPECT_FALSE(directory_exists(path));
    EXPECT_FALSE(regular_file_exists(path));
    EXPECT_THROW(list_directory(path), Error);
    EXPECT_THROW(read_file(path), Error);
  }
  EXPECT_TRUE(directory_exists("/"));
  EXPECT_FALSE(regular_file_exists("/"));
  EXPECT_TRUE(regular_file_exists("/proc/self/exe"));
}

TEST(Paths, EntriesAreInTheOrderOfTheirNames) {
  const test::TemporaryDirectory own;
  const fs::path& directory = own.path();
  for (const char* name : {"b", "a.txt", "c", "B"}) std::ofstream(directory / name) << name;
  const std::vector<std::filesystem::path> want = {directory / "B", directory / "a.txt",
                                                   directory / "b", directory / "c"};
  EXPECT_EQ(list_directory(directory), want);
}

}  // namespace
}  // namespace turnbench
