// The dialogues in an HTML page: complete, escaped, and left out where they are too large.

#include "reports/html/dialogue_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "hand_made_store.h"
#include "reports/escape.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

std::string key(const char* method) {
  return HandMadeStore::key("tiny-hop", "end", method);
}

Json data_of(const Store& store) {
  const auto text = dialogue_data(store, results_by_metric(store, "hand", {}), 1'000'000);
  return parse_json(text.value(), "data");
}

TEST(DialogueData, HasEveryAnswerWithItsScore) {
  HandMadeStore hand;
  hand.add(key("full"), "b", .25, 1, 100, 0, "yes");
  hand.add(key("snapkv:budget=64"), "b", 0, .333, 100, 0, "no");
  hand.add_failure(key("streamingllm"), "b");
  const Json data = data_of(hand.store());
  EXPECT_EQ(data["metrics"], Json({"qa_f1"}));
  ASSERT_EQ(data["turns"].size(), 2u);
  const auto text = [&](const Json& index) { return data["texts"][index.get<std::size_t>()]; };
  const Json& turn = data["turns"][1];
  EXPECT_EQ(text(turn[0]), "b");
  EXPECT_EQ(turn[1], 1);
  EXPECT_EQ(text(turn[2]), "Question 2 of b?");
  EXPECT_EQ(text(turn[3][0]), "here");
  ASSERT_EQ(turn[4].size(), 3u);
  const std::vector<std::string> methods = {"full", "snapkv:budget=64", "streamingllm"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(data["cells"][turn[4][i][0].get<std::size_t>()],
              Json({"tiny", "tiny-hop", "end", methods[i], "reprefill", "own"}));
  }
  EXPECT_EQ(text(turn[4][0][1]), "yes");
  EXPECT_EQ(turn[4][0][2], Json({"100.0"}));
  EXPECT_EQ(turn[4][1][2], Json({"33.3"}));
  EXPECT_EQ(turn[4][2][1], -1);
  EXPECT_EQ(turn[4][2][2], Json({""}));
  EXPECT_EQ(turn[4][2][5], "out_of_memory");
  EXPECT_EQ(text(turn[4][2][6]), "needs <more> memory");
}

TEST(DialogueData, EndsNoScriptElement) {
  HandMadeStore hand;
  const std::string hostile = "</script><!-- &amp; \u202E\u2028\u200B\U000E0041 \"'\\ \xff";
  hand.add(key("full"), "a", 1, 1, 100, 0, hostile);
  const std::string page = render_html(hand.store(), PageRequest{{"hand"}});
  const std::string start = "class=\"dialogues\">";
  const std::size_t begin = page.find(start) + start.size();
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  for (const char* evil : {"<", ">", "&", "\u202E", "\u2028", "\u200B", "\U000E0041", "\xff"})
    EXPECT_EQ(data.find(evil), std::string::npos) << evil;
  const std::string read = "</script><!-- &amp; \u202E\u2028\u200B\U000E0041 \"'\\ \uFFFD";
  const Json texts = parse_json(data, "page")["texts"];
  EXPECT_NE(std::find(texts.begin(), texts.end(), Json(read)), texts.end());
  EXPECT_EQ(escape_script("[\"é 漢\"]"), "[\"é 漢\"]");
}

TEST(DialogueData, IsLeftOutOfLargePages) {
  HandMadeStore hand;
  hand.add(key("full"), "a", 1, 1, 100, 0, std::string(6'000'000, 'x'));
  hand.add(key("snapkv:budget=64"), "a", 1, 1, 100, 0, std::string(6'000'000, 'y'));
  const std::string page = render_html(hand.store(), PageRequest{{"hand"}});
  EXPECT_LT(page.size(), 10'000'000u);
  EXPECT_EQ(page.find("class=\"dialogues\">"), std::string::npos);
  EXPECT_NE(page.find("Its dialogues are left out, because the page would have more than 10 MB"),
            std::string::npos);
  EXPECT_FALSE(dialogue_data(hand.store(), results_by_metric(hand.store(), "hand", {}), 1'000));
}

TEST(DialogueData, IsTheSameEveryTime) {
  HandMadeStore hand;
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "c", 1, 0);
  EXPECT_EQ(render_html(hand.store(), PageRequest{{"hand"}}),
            render_html(hand.store(), PageRequest{{"hand"}}));
}

}  // namespace
}  // namespace turnbench
