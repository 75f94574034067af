// Claims on units: who may run what.

#include "harness/store/claims.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "common/text.h"
#include "harness/store/store.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

using std::chrono::milliseconds;

/// A process of another machine.
const std::string kOther = "elsewhere 7 1234";

class ClaimsOfAStore : public testing::Test {
 protected:
  std::string owner_of(const std::string& unit) const {
    const Database db(db_, Database::Mode::kReadWrite);
    Statement s = db.prepare("SELECT owner FROM claim WHERE unit = ?");
    s << unit;
    return s.next() ? s.text(0) : "";
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.write("s.db", small_store());
};

TEST_F(ClaimsOfAStore, ExcludeOtherProcesses) {
  Claims other(db_, kLease, kOther);
  {
    Claims own(db_);
    EXPECT_TRUE(own.claim("a"));
    EXPECT_TRUE(own.claim("a")) << "it is this process's";
    EXPECT_EQ(owner_of("a"), this_process());
    EXPECT_FALSE(other.claim("a"));
    EXPECT_TRUE(other.claim("b"));
    EXPECT_FALSE(own.claim("b"));
    own.release("b");
    EXPECT_EQ(owner_of("b"), kOther) << "only its owner releases it";
    own.release("a");
    EXPECT_TRUE(other.claim("a"));
    EXPECT_TRUE(own.claim("c"));
  }
  EXPECT_EQ(owner_of("c"), "") << "released with its claims";
  EXPECT_EQ(owner_of("a"), kOther);
}

TEST_F(ClaimsOfAStore, ExpireUnlessTheyAreRenewed) {
  Claims own(db_), other(db_, milliseconds(1500), kOther);
  ASSERT_TRUE(other.claim("a"));
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(milliseconds(510));
    other.renew();
    EXPECT_FALSE(own.claim("a")) << i;
  }
  std::this_thread::sleep_for(milliseconds(1600));
  EXPECT_TRUE(own.claim("a"));
  other.renew();
  EXPECT_FALSE(other.claim("a")) << "it is lost";
}

TEST_F(ClaimsOfAStore, OfAnEndedProcessAreVoid) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::string process = this_process();
  std::vector<std::string> parts = split(process, " ");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_FALSE(has_ended(process));
  EXPECT_TRUE(has_ended(parts[0] + " " + parts[1] + " 1")) << "another process had this number";
  EXPECT_FALSE(has_ended(kOther)) << "unknown";
  Claims own(db_);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Claims ended(db_, kLease, parts[0] + " " + std::to_string(child) + " " + parts[2]);
  ASSERT_TRUE(ended.claim("a"));
  EXPECT_TRUE(own.claim("a"));
}

TEST_F(ClaimsOfAStore, FindStoredResults) {
  Claims claims(db_);
  const Store store = Store::open(db_);
  const Cell cell = store.cells("small").front();
  const auto turns = store.turn_counts(cell.dataset_hash);
  ASSERT_EQ(turns.size(), 2u);
  const std::string dialogue = turns.begin()->first;
  EXPECT_TRUE(claims.has_results(cell.key, cell.method_canonical, dialogue, 2));
  EXPECT_FALSE(claims.has_results(cell.key, cell.method_canonical, dialogue, 3));
  EXPECT_FALSE(claims.has_results(cell.key, cell.method_canonical, "none", 2));
  execute(db_, "UPDATE environment SET json = replace(json, '\"engine\": \"', '\"engine\": \"x')");
  Claims later(db_);
  EXPECT_FALSE(later.has_results(cell.key, cell.method_canonical, dialogue, 2)) << "stale";
}

}  // namespace
}  // namespace turnbench::test
