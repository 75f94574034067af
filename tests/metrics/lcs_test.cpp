#include "metrics/lcs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"

namespace turnbench {
namespace {

using Words = std::vector<std::uint32_t>;
using Table = std::vector<std::vector<std::size_t>>;

Table plain_table(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> columns) {
  Table table(rows.size() + 1, std::vector<std::size_t>(columns.size() + 1));
  for (std::size_t i = 1; i <= rows.size(); ++i) {
    for (std::size_t j = 1; j <= columns.size(); ++j) {
      table[i][j] = rows[i - 1] == columns[j - 1] ? table[i - 1][j - 1] + 1
                                                  : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  return table;
}

struct Walk {
  std::size_t steps = 0;
  std::vector<std::size_t> columns;
};

Walk plain_walk(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> columns) {
  const Table table = plain_table(rows, columns);
  Walk walk;
  for (std::size_t i = rows.size(), j = columns.size(); i > 0 && j > 0; ++walk.steps) {
    if (rows[i - 1] == columns[j - 1]) {
      walk.columns.push_back(j - 1);
      --i, --j;
    } else if (table[i - 1][j] > table[i][j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  std::reverse(walk.columns.begin(), walk.columns.end());
  return walk;
}

Words random_words(Random& random, std::size_t length, std::size_t vocabulary) {
  Words out;
  for (std::size_t i = 0; i < length; ++i) {
    out.push_back(static_cast<std::uint32_t>(random.below(vocabulary)));
  }
  return out;
}

TEST(Lcs, LengthEqualsThePlainAlgorithm) {
  Random random(1);
  for (int trial = 0; trial < 500; ++trial) {
    const std::size_t vocabulary = 1 + random.below(30);
    const Words a = random_words(random, random.below(200), vocabulary);
    const Words b = random_words(random, random.below(200), vocabulary);
    EXPECT_EQ(lcs_length(a, b, vocabulary), plain_table(a, b).back().back());
  }
  for (std::size_t length : {63, 64, 65, 127, 128, 129}) {  // around multiples of the word size
    const Words same(length, 0);
    EXPECT_EQ(lcs_length(same, same, 1), length);
    EXPECT_EQ(lcs_length(same, Words{}, 1), 0u);
  }
}

TEST(Lcs, SequencesInParallelEqualEachAlone) {
  Random random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t vocabulary = 1 + random.below(20);
    WordSequences columns;
    for (std::size_t k = random.below(8) + 1; k > 0; --k) {
      const Words words = random_words(random, random.below(70), vocabulary);
      columns.words.insert(columns.words.end(), words.begin(), words.end());
      columns.ends.push_back(columns.words.size());
    }
    const Words rows = random_words(random, random.below(90), vocabulary);
    LcsTable table(columns, vocabulary);
    table.compute(rows, rows.size());
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const Walk expected = plain_walk(rows, columns[k]);
      EXPECT_EQ(table.length(k), expected.columns.size());
      std::vector<bool> matched(columns.words.size());
      EXPECT_EQ(table.backtrack(k, 1000, matched), expected.steps);
      std::vector<std::size_t> places;
      for (std::size_t c = 0; c < matched.size(); ++c) {
        if (matched[c]) places.push_back(c - columns.begin(k));
      }
      EXPECT_EQ(places, expected.columns);
      // If only the last rows are stored, a walk within them is unchanged; a longer walk stops.
      LcsTable partial(columns, vocabulary);
      partial.compute(rows, 20);
      std::vector<bool> again(columns.words.size());
      const std::size_t steps = partial.backtrack(k, 20, again);
      if (expected.steps <= 20) {
        EXPECT_EQ(steps, expected.steps);
        EXPECT_EQ(again, matched);
      } else {
        EXPECT_GT(steps, 20u);
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
