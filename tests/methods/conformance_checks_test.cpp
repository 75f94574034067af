// The checks for every method detect typical errors of a selection policy.

#include <gtest/gtest.h>

#include <string>

#include "tests/inference/test_policies.h"
#include "tests/methods/block_top_k.h"
#include "tests/methods/conformance.h"

namespace turnbench::test {
namespace {

using Fault = BlockTopK::Fault;

Candidate block_top_k(Fault fault) {
  return {"block-top-k", [fault] {
            Policies out = selecting(std::make_unique<BlockTopK>(fault));
            out.method = "block-top-k";
            return out;
          }};
}

/// The errors that a check finds in the method with this fault.
std::string finding(ConformanceChecks::Check check, Fault fault) {
  ConformanceChecks checks;
  return checks.finding(check, block_top_k(fault));
}

void expect_found(ConformanceChecks::Check check, Fault fault, const std::string& message) {
  const std::string found = finding(check, fault);
  EXPECT_NE(found.find(message), std::string::npos)
      << "found \"" << found << "\", expected \"" << message << "\"";
}

TEST(ConformanceChecks, AcceptACorrectMethod) {
  ConformanceChecks checks;
  for (const auto& [name, check] : ConformanceChecks::all())
    EXPECT_EQ(checks.finding(check, block_top_k(Fault::kNone)), "") << name;
}

TEST(ConformanceChecks, RejectAGapInThePinnedTokens) {
  expect_found(&ConformanceChecks::placements_agree, Fault::kGapInPinned,
               "that are not on the device, whose step buffer has 16 slots");
}

TEST(ConformanceChecks, RejectTooFewPinnedTokens) {
  expect_found(&ConformanceChecks::placements_agree, Fault::kTooFewPinned,
               "pinned tokens of KV set 0, the device has 2 slots for them");
}

TEST(ConformanceChecks, RejectTooFewStepTokens) {
  expect_found(&ConformanceChecks::placements_agree, Fault::kTooFewStepTokens, "block-top-k: ");
}

TEST(ConformanceChecks, RejectAnIndexWithoutTheAnswer) {
  expect_found(&ConformanceChecks::steps_extend_the_index, Fault::kStaleIndex,
               "found other slots than an index over all");
}

TEST(ConformanceChecks, RejectPinsOfTheCurrentTokenOnly) {
  expect_found(&ConformanceChecks::placements_agree, Fault::kPinsTheCurrentOnly,
               "found slot 0 of KV set 0, expected pinned slots or those from 2 to");
}

TEST(ConformanceChecks, RejectHostKeysInABackendsOperation) {
  if (is_emulated()) {  // the backend refuses them itself
    expect_found(&ConformanceChecks::placements_agree, Fault::kGivesHostKeys,
                 "in host memory, expected device memory");
  } else {
    expect_found(&ConformanceChecks::keeps_to_device_memory, Fault::kGivesHostKeys,
                 "read_rows: found a KV set");
  }
}

}  // namespace
}  // namespace turnbench::test
