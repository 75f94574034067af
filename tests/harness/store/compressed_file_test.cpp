#include "harness/store/compressed_file.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include "common/file.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {
namespace {

std::string numbers(int last) {
  std::string out;
  for (int i = 0; i <= last; ++i) out += std::to_string(i) + "\n";
  return out;
}

/// A frame without its size, as programs write it that compress a pipe.
std::string streamed(const std::string& text) {
  ZSTD_CStream* stream = ZSTD_createCStream();
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer input{text.data(), text.size(), 0};
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  ZSTD_compressStream2(stream, &output, &input, ZSTD_e_continue);
  ZSTD_compressStream2(stream, &output, &input, ZSTD_e_end);
  ZSTD_freeCStream(stream);
  return out.substr(0, output.pos);
}

class CompressedFile : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string text_ = numbers(100'000);
};

TEST_F(CompressedFile, HasTheContentOfTheOriginal) {
  for (const std::string& text : {text_, std::string()}) {
    const std::string small = compressed(text);
    EXPECT_LE(small.size(), text.size() / 2 + 16);
    EXPECT_EQ(decompress_file(directory_.write("b.zst", small)), text);
  }
}

TEST_F(CompressedFile, NameDecides) {
  EXPECT_TRUE(is_compressed("a b/c.db.zst"));
  EXPECT_FALSE(is_compressed("a.zst/c.db"));
}

TEST_F(CompressedFile, MayHaveSeveralFramesWithoutTheirSizes) {
  const std::string first = streamed(text_);
  ASSERT_EQ(ZSTD_getFrameContentSize(first.data(), first.size()), ZSTD_CONTENTSIZE_UNKNOWN);
  EXPECT_EQ(decompress_file(directory_.write("a", first + streamed("end"))), text_ + "end");
}

TEST_F(CompressedFile, DamagedOnesAreRefused) {
  const std::string whole = streamed(text_);
  for (const std::size_t size : {std::size_t{4}, whole.size() / 2, whole.size() - 1}) {
    const std::string file = directory_.write("a", whole.substr(0, size));
    EXPECT_EQ(message_of([&] { decompress_file(file); }),
              file + ": found a damaged compressed file (its end is missing), expected a whole one")
        << size;
  }
  std::string damaged = whole;
  damaged[4] = '\xFF';
  EXPECT_TRUE(message_of([&] {
                decompress_file(directory_.write("a", damaged));
              }).starts_with(directory_.path("a") + ": found a damaged compressed file ("));
}

}  // namespace
}  // namespace turnbench::test
