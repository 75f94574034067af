#include "harness/store/packed_text.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {
namespace {

class PackedTexts : public testing::Test {
 protected:
  PackedTexts() { db_.execute("CREATE TABLE t (x TEXT)"); }
  /// What a text is after it was stored, and as what it was stored.
  std::pair<std::string, std::string> stored(const std::string& text) {
    db_.execute("DELETE FROM t");
    Statement write = db_.prepare("INSERT INTO t VALUES (?)");
    (write << PackedText(text)).run();
    Statement read = db_.prepare("SELECT x, typeof(x), length(x) FROM t");
    if (!read.next()) return {};
    size_ = read.integer(2);
    return {unpacked_text(read, 0), read.text(1)};
  }

  TemporaryDirectory directory_;
  Database db_ = Database(directory_.path("t.db"), Database::Mode::kCreate);
  std::int64_t size_ = 0;
};

TEST_F(PackedTexts, ShortOnesStayReadable) {
  for (const std::string& text : {std::string(), std::string("short"), std::string(1024, 'x')})
    EXPECT_EQ(stored(text), std::pair(text, std::string("text")));
}

TEST_F(PackedTexts, LongOnesAreCompressed) {
  std::string text;
  while (text.size() < 100'000)
    text += "What the witness saw on day " + std::to_string(text.size());
  EXPECT_EQ(stored(text), std::pair(text, std::string("blob")));
  EXPECT_LT(size_, 30'000);
  const std::string with_nul = std::string(2000, '\0') + "end";
  EXPECT_EQ(stored(with_nul), std::pair(with_nul, std::string("blob")));
}

TEST_F(PackedTexts, AreNotCompressedWhereThatMakesThemLarger) {
  std::string text;  // 7 bits of 7: nothing to gain but the eighth
  Random random = Random::from({1});
  while (text.size() < 1100) text += static_cast<char>(1 + random.below(127));
  const auto [back, type] = stored(text);
  EXPECT_EQ(back, text);
  EXPECT_TRUE(type == "text" || size_ < 1100);
}

TEST_F(PackedTexts, DamagedOnesAreRefused) {
  for (const char* sql : {"INSERT INTO t VALUES (x'00ff')", "INSERT INTO t VALUES (x'')",
                          "INSERT INTO t VALUES (x'28b52ffd2005010000')"}) {
    db_.execute("DELETE FROM t");
    db_.execute(sql);
    const std::string message = message_of([&] {
      Statement read = db_.prepare("SELECT x FROM t");
      read.next();
      unpacked_text(read, 0);
    });
    EXPECT_NE(message.find("t.db: x: found "), std::string::npos) << sql << message;
    EXPECT_NE(message.find("cannot be decompressed, expected a text"), std::string::npos);
  }
}

}  // namespace
}  // namespace turnbench::test
