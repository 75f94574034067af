// The line under the tables that says what their numbers are.

#include <gtest/gtest.h>

#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

/// The first table, of scores by position, with these dialogues of each of its two datasets.
std::string report(const std::vector<std::string>& dialogues, double margin) {
  HandMadeStore hand;
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* position : {"begin", "end"}) {
      for (const std::string& dialogue : dialogues) {
        hand.add(HandMadeStore::key(dataset, position, "full"), dialogue, 1, .5);
        hand.add(HandMadeStore::key(dataset, position, "snapkv:budget=64"), dialogue, .5, .5);
      }
    }
  }
  Results results(hand.store(), "hand");
  results.keep_table(0);
  return render_markdown(results, {.margin = margin});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Caption, SaysWhyIntervalsAndEquivalenceAreMissing) {
  const std::string one = report({"a"}, 5);
  EXPECT_TRUE(has(one, "\nMeans x100 over dialogues; ")) << one;
  EXPECT_TRUE(has(one, "named under the table, with its p (sign flips, ")) << one;
  EXPECT_TRUE(has(one, " Intervals need two dialogues of each dataset.")) << one;
  EXPECT_TRUE(has(one, " Equivalence is tested for scores with two dialogues of each dataset."))
      << one;
  EXPECT_FALSE(has(report({"a"}, 0), "Equivalence"));
}

TEST(Caption, NamesIntervalsAndTheMargin) {
  const std::string two = report({"a", "b"}, 5);
  EXPECT_TRUE(has(two, "\nMeans x100 with 95% intervals over dialogues; ")) << two;
  EXPECT_TRUE(has(two, "with its interval and its p (sign flips, ")) << two;
  EXPECT_TRUE(has(two, "; equivalence: p of two one-sided tests, within 5 points.")) << two;
  EXPECT_FALSE(has(two, "two dialogues")) << two;
}

}  // namespace
}  // namespace turnbench
