#include "metrics/porter_stemmer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"

namespace turnbench {
namespace {

TEST(PorterStemmer, GivesTheStemsOfNltk) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/official/porter_stemmer.json";
  const Json golden = parse_json(read_file(path), path);
  ASSERT_GT(golden.at("stems").size(), 2000u);
  for (const Json& pair : golden.at("stems"))
    EXPECT_EQ(porter_stem(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair[0];
}

TEST(PorterStemmer, LeavesShortWordsAndOtherTexts) {
  for (const char* word : {"", "s", "es", "\xFF", "123", "été"}) EXPECT_EQ(porter_stem(word), word);
}

}  // namespace
}  // namespace turnbench
