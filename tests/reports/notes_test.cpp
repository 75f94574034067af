// Remarks below the tables of a report.

#include "reports/notes.h"

#include <gtest/gtest.h>

#include <string>

#include "common/text.h"
#include "tests/reports/hand_made_store.h"

namespace turnbench::test {
namespace {

TEST(Notes, NameTheBackendsOfResults) {
  HandMadeStore hand;
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 0);
  const auto has = [&](const std::string& text) {
    return join(notes(Results(hand.store(), "hand")), "\n").find(text) != std::string::npos;
  };
  EXPECT_FALSE(has("backends"));
  const auto computed_by = [&](const std::string& id, const std::string& backend) {
    hand.execute("INSERT INTO environment (id, json) VALUES ('" + id + "', '{\"backend\": \"" +
                 backend +
                 "\"}'); UPDATE record_data SET environment = (SELECT max(number) FROM "
                 "environment) WHERE id = (SELECT max(id) FROM record_data)");
  };
  computed_by("another", "cpu, SSE4, 64 threads");  // rounds as any other processor
  EXPECT_FALSE(has("backends"));
  computed_by("card", "cuda:0, a card");
  EXPECT_TRUE(has("The results are from several backends (cpu, cuda), which round differently."));
}

}  // namespace
}  // namespace turnbench::test
