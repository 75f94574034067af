#include "datasets/word_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "datasets/filler.h"
#include "longbench_samples.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

constexpr WordListTask kWordListTasks[] = {WordListTask::kCommon, WordListTask::kFrequent};

BuildOptions word_list_options(int turns, int length, std::size_t limit = 4,
                               std::uint64_t seed = 3) {
  return {.turns = turns, .seed = seed, .limit = limit, .length = length};
}

std::vector<Dialogue> make(WordListTask task, const BuildOptions& options) {
  return make_word_lists(task, std::string(name_of(task)), options);
}

/// The words of every list in order, collected from the turns so far.
using Lists = std::map<std::string, std::vector<std::string>>;

void read(const Turn& turn, Lists& lists) {
  std::string label;
  for (const Paragraph& p : turn.contexts) {
    for (const std::string& line : split(p.text, "\n")) {
      if (line.starts_with("[")) {
        label = line.substr(1, line.find_first_of(",]") - 1);
        continue;
      }
      for (const std::string& word : split(line, " ")) lists[label].push_back(word);
    }
  }
}

/// The `count` most frequent words.  Expects that each is more frequent than any other word.
std::set<std::string> most_frequent(const std::vector<std::string>& words, std::size_t count) {
  std::map<std::string, int> occurs;
  for (const std::string& word : words) {
    if (word != "...") ++occurs[word];
  }
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [word, n] : occurs) ranked.emplace_back(n, word);
  std::sort(ranked.rbegin(), ranked.rend());
  EXPECT_GT(ranked.at(count - 1).first, ranked.at(count).first);
  std::set<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.insert(ranked[i].second);
  return out;
}

/// Removes the numbers of "1. quiet-river 2. ..." and expects them to be consecutive.
std::vector<std::string> without_numbers(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    EXPECT_EQ(words[i], std::to_string(i / 2 + 1) + ".");
    out.push_back(words[i + 1]);
  }
  return out;
}

TEST(WordLists, CountingTheTextAnswersEveryQuestion) {
  for (WordListTask task : kWordListTasks) {
    const bool common = task == WordListTask::kCommon;
    for (int turns : {1, 3, 16}) {
      for (int length : {700, 1500, 6000}) {
        for (const Dialogue& d : make(task, word_list_options(turns, length * turns, 2))) {
          SCOPED_TRACE(d.id);
          Lists lists;
          std::set<std::string> words;
          std::size_t total = 0;
          for (std::size_t j = 0; j < d.turns.size(); ++j) {
            const Turn& turn = d.turns[j];
            read(turn, lists);
            total += count_words_and_marks(turn.instruction) + count_words_and_marks(turn.question);
            const std::string label = "List " + std::string(1, static_cast<char>('A' + j));
            EXPECT_NE(turn.question.find(label), std::string::npos);
            ASSERT_TRUE(lists.contains(label));
            const auto list = common ? without_numbers(lists[label]) : lists[label];
            EXPECT_EQ(most_frequent(list, common ? 10 : 3),
                      std::set<std::string>(turn.references.begin(), turn.references.end()));
            EXPECT_EQ(turn.references.size(), common ? 10u : 3u);
            for (const std::string& word : turn.references) {
              EXPECT_EQ(turn.question.find(word), std::string::npos);
            }
            for (const std::string& word : std::set<std::string>(list.begin(), list.end())) {
              EXPECT_TRUE(word == "..." || words.insert(word).second) << "in two lists: " << word;
            }
            for (const Paragraph& p : turn.contexts) total += count_words_and_marks(p.text);
            EXPECT_LE(turn.relevance.size(), j + 1);
            for (const std::string& source : turn.relevance) {
              EXPECT_TRUE(source.starts_with(fmt::format("list-{}#", static_cast<char>('A' + j))));
            }
          }
          // The length does not include headings, and words with less than one occurrence are
          // omitted.
          EXPECT_LE(total, static_cast<std::size_t>((length + 12 * turns) * turns));
          EXPECT_GE(total, static_cast<std::size_t>(length * turns) * 8 / 10);
        }
      }
    }
  }
}

TEST(WordLists, CommonWordsOccurTenTimesAsOften) {
  for (const auto& [length, times] : std::map<int, int>{{2000, 1}, {8000, 3}, {200000, 6}}) {
    Lists lists;
    read(make(WordListTask::kCommon, word_list_options(1, length, 1))[0].turns[0], lists);
    std::map<std::string, int> occurs;
    for (const std::string& word : without_numbers(lists.at("List A"))) ++occurs[word];
    std::map<int, int> counts;
    for (const auto& [word, n] : occurs) ++counts[n];
    ASSERT_EQ(counts.size(), 2u) << length;
    EXPECT_EQ(counts.begin()->first, times);
    EXPECT_EQ(counts.rbegin()->first, 10 * times);
    EXPECT_EQ(counts.rbegin()->second, 10);
  }
}

TEST(WordLists, FrequenciesFollowZipf) {
  Lists lists;
  read(make(WordListTask::kFrequent, word_list_options(1, 20000, 1))[0].turns[0], lists);
  std::map<std::string, int> occurs;
  for (const std::string& word : lists.at("List A")) ++occurs[word];
  std::vector<int> counts;
  for (const auto& [word, n] : occurs) counts.push_back(n);
  std::sort(counts.rbegin(), counts.rend());
  EXPECT_EQ(counts[0], occurs["..."]);
  for (std::size_t r = 1; r < 20; ++r) {
    EXPECT_NEAR(counts[r - 1], counts[0] / static_cast<double>(r * r), 1) << r;
  }
}

TEST(WordLists, TheSameSeedGivesTheSameBytesOnEveryMachine) {
  std::string all;
  for (WordListTask task : kWordListTasks) {
    all += test::lines_of(make(task, word_list_options(1, 1000))) +
           test::lines_of(make(task, word_list_options(3, 3000)));
    EXPECT_NE(test::lines_of(make(task, word_list_options(1, 1000, 2, 4))),
              test::lines_of(make(task, word_list_options(1, 1000, 2))));
    EXPECT_TRUE(test::lines_of(make(task, word_list_options(1, 1000, 5)))
                    .starts_with(test::lines_of(make(task, word_list_options(1, 1000, 2)))));
  }
  EXPECT_EQ(hash_text(all), "10e6c579be0427283f82a7afbeb8d3cf");
}

TEST(WordLists, RejectsTooShortLengths) {
  EXPECT_EQ(test::message_of([] { make(WordListTask::kCommon, word_list_options(2, 1399)); }),
            "common-words: found the length 1399 for 2 turns, expected at least 1400");
  EXPECT_EQ(test::message_of([] { make(WordListTask::kFrequent, word_list_options(17, 20000)); }),
            "frequent-words: found 17 turns, expected from 1 to 16");
}

}  // namespace
}  // namespace turnbench
