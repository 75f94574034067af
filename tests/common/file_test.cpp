#include "common/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/process_memory.h"

namespace turnbench {
namespace {

TEST(MappedFile, ForgottenPartsLeaveMemoryAndComeBack) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "turnbench_mapped_file_test";
  constexpr std::size_t kSize = std::size_t{64} << 20;
  std::string content(kSize, 'a');
  for (std::size_t i = 0; i < kSize; i += 4096) content[i] = static_cast<char>('a' + i / 4096 % 26);
  std::ofstream(path, std::ios::binary) << content;
  {
    const MappedFile file(path);
    const std::string hash = hash_bytes(file.bytes());
    EXPECT_EQ(hash, hash_text(content));
    const std::size_t before = resident_bytes();
    file.forget(file.bytes().subspan(100, kSize - 1000));  // whole pages only
    EXPECT_LT(resident_bytes() + kSize / 2, before);
    EXPECT_EQ(hash_bytes(file.bytes()), hash);
    file.forget(file.bytes().first(10));  // no whole page
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace turnbench
