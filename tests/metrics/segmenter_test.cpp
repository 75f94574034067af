#include "metrics/segmenter.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "metrics/metric.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

const fs::path kDictionary = TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba";

TEST(Segmenter, WordsConcatenateToTheText) {
  const Segmenter segmenter = Segmenter::from_jieba(kDictionary);
  for (const std::string text :
       {"", "北京大学生活，AT&T 12.5%\r\n\r龘靐", "\xFF中\x80国", "a.b c", "🙂🙂"}) {
    EXPECT_EQ(join(segmenter.cut(text), ""), text);
  }
  const auto cut = [&](std::string_view text) { return join(segmenter.cut(text), "|"); };
  EXPECT_EQ(cut("a 7.25%\r\n \n"), "a| |7.25%|\r\n| |\n");
  EXPECT_EQ(cut("。。"), "。|。");
}

/// A copy of the synthetic dictionary with one file replaced.
class BrokenJieba : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        (std::string("turnbench_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::copy(kDictionary, folder_, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string message_with(const std::string& file, const std::string& content) {
    write_file(folder_ / file, content);
    try {
      Segmenter::from_jieba(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return std::string(error.what()).substr(folder_.string().size() + 1);
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(BrokenJieba, DictionaryLinesAreChecked) {
  EXPECT_EQ(message_with("dict.txt", "中 3 n\n国\n"),
            "dict.txt: line 2: found \"国\", expected a word and its frequency");
  EXPECT_EQ(message_with("dict.txt", "中 x n\n"),
            "dict.txt: line 1: found \"中 x n\", expected a word and its frequency");
  EXPECT_EQ(message_with("dict.txt", "中 9223372036854775807 n\n国 1 n\n"),
            "dict.txt: line 2: found \"国 1 n\", expected a word and its frequency");
  EXPECT_EQ(message_with("dict.txt", "\xFF 3 n\n"),
            "dict.txt: line 1: found \"\\xff 3 n\", expected a word and its frequency");
  EXPECT_EQ(message_with("dict.txt", ""), "dict.txt: found no word, expected jieba's dictionary");
}

TEST_F(BrokenJieba, ModelFilesAreChecked) {
  EXPECT_EQ(message_with("finalseg/prob_start.py", "P="),
            "finalseg/prob_start.py: found no '{', expected a Python dictionary");
  EXPECT_EQ(message_with("finalseg/prob_start.py", "P={'B': -1.0}").substr(0, 23),
            "finalseg/prob_start.py:");
}

TEST_F(BrokenJieba, EmissionKeysAreSingleCharacters) {
  EXPECT_EQ(message_with("finalseg/prob_emit.py", "P={'B': {'ab': -1}, 'M':{}, 'E':{}, 'S':{}}")
                .substr(0, 22),
            "finalseg/prob_emit.py:");
}

TEST(Segmenter, ChineseMetricsRequireADictionary) {
  const std::vector<std::string> references = {"中国"}, classes;
  for (const char* name : {"qa_f1_zh", "rouge_zh"}) {
    try {
      find_metric(name, "test").score({"中国", references, classes});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(std::string(error.what()),
                std::string("metric ") + name +
                    ": found no dictionary of Chinese words, expected the folder of jieba 0.42.1 "
                    "with dict.txt and finalseg/");
    }
  }
}

}  // namespace
}  // namespace turnbench
