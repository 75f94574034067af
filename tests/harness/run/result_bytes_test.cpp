// Results on their way from a worker process to its parent.

#include "runners/result_bytes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"

namespace turnbench::test {
namespace {

SentResult example() {
  Record record{.cell = "c",
                .dialogue = "d",
                .turn = 2,
                .status = Record::Status::kOutOfMemory,
                .error = "too little memory",
                .prompt_hash = "0123",
                .prompt_tokens = 7,
                .truncated_tokens = 1,
                .answer = std::string("\xff\0 no UTF-8", 11),
                .answer_tokens = {3, -1},
                .stopped = true,
                .counters = {{"kv_tokens", 0.1}, {"nothing", std::nan("")}},
                .timings = {{"policy", 1e-300}},
                .ledger = std::string(3, '\0')};
  SentResult out;
  out.unit.records = {Record{}, std::move(record)};
  out.unit.prefilled_tokens = std::int64_t{1} << 40;
  out.unit.decoded_tokens = 5;
  out.unit.engine_seconds = 0.25;
  out.unit.lost_device = "gone";
  out.unit.batch_error = "together";
  out.scores = {{"c", "d", 2, "f1", "none", 0.5}};
  return out;
}

TEST(ResultBytes, KeepEveryMember) {
  const SentResult sent = example(), received = result_from_bytes(to_bytes(sent));
  ASSERT_EQ(received.unit.records.size(), 2u);
  EXPECT_EQ(received.unit.records[0].cell, "");
  EXPECT_EQ(received.unit.records[0].status, Record::Status::kOk);
  const Record &a = sent.unit.records[1], &b = received.unit.records[1];
  EXPECT_EQ(a.cell, b.cell);
  EXPECT_EQ(a.dialogue, b.dialogue);
  EXPECT_EQ(a.turn, b.turn);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.prompt_hash, b.prompt_hash);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.truncated_tokens, b.truncated_tokens);
  EXPECT_EQ(a.answer, b.answer);
  EXPECT_EQ(a.answer_tokens, b.answer_tokens);
  EXPECT_EQ(a.stopped, b.stopped);
  ASSERT_EQ(b.counters.size(), 2u);
  EXPECT_EQ(b.counters[0].name, "kv_tokens");
  EXPECT_EQ(b.counters[0].value, 0.1);
  EXPECT_TRUE(std::isnan(b.counters[1].value));
  ASSERT_EQ(b.timings.size(), 1u);
  EXPECT_EQ(b.timings[0].value, 1e-300);
  EXPECT_EQ(a.ledger, b.ledger);
  EXPECT_EQ(received.unit.prefilled_tokens, sent.unit.prefilled_tokens);
  EXPECT_EQ(received.unit.decoded_tokens, 5);
  EXPECT_EQ(received.unit.engine_seconds, 0.25);
  EXPECT_EQ(received.unit.lost_device, "gone");
  EXPECT_EQ(received.unit.batch_error, "together");
  ASSERT_EQ(received.scores.size(), 1u);
  EXPECT_EQ(received.scores[0].cell, "c");
  EXPECT_EQ(received.scores[0].dialogue, "d");
  EXPECT_EQ(received.scores[0].turn, 2);
  EXPECT_EQ(received.scores[0].metric, "f1");
  EXPECT_EQ(received.scores[0].postprocess, "none");
  EXPECT_EQ(received.scores[0].value, 0.5);
}

TEST(ResultBytes, RefuseEveryPartOfAResult) {
  const std::vector<std::uint8_t> bytes = to_bytes(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(result_from_bytes({bytes.begin(), bytes.begin() + static_cast<long>(size)}), Error)
        << size << " of " << bytes.size() << " bytes";
  }
}

}  // namespace
}  // namespace turnbench::test
