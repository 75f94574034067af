// KIVI against its official code, and the rows that a sequence has encoded after each step.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "inference/engine/memory_estimate.h"
#include "inference/model/dtype.h"
#include "tests/inference/conversation.h"
#include "tests/inference/guarded_backend.h"
#include "tests/methods/codec_rows.h"
#include "tests/methods/conformance.h"

namespace turnbench::test {
namespace {

std::unique_ptr<GroupCodec> kivi(int bits, int group, int residual = 128) {
  return codec_of<GroupCodec>(
      fmt::format("kivi:bits={},group={},residual={}", bits, group, residual));
}

/// A group as it is stored.
struct Group {
  float scale, least;
  std::vector<int> integers;
};

Group read_group(std::span<const std::byte> bytes, int bits, int elements) {
  std::uint16_t header[2];
  std::memcpy(header, bytes.data(), sizeof header);
  Group out{f16_to_float(header[0]), f16_to_float(header[1]), {}};
  for (int i = 0; i < elements; ++i) {
    const auto at = static_cast<std::size_t>(i * bits);
    const int byte = std::to_integer<int>(bytes[sizeof header + at / 8]);
    out.integers.push_back(byte >> (at % 8) & ((1 << bits) - 1));
  }
  return out;
}

TEST(Kivi, QuantisesAsTheOfficialCode) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/kivi.json";
  const Json golden = parse_json(read_file(path), path);
  EXPECT_EQ(golden["cases"].size(), 54u);
  for (const Json& c : golden["cases"]) {
    const int bits = c["bits"], group = c["group"];
    const bool is_key = c["kind"] == "key";
    const KvRow kind = is_key ? KvRow::kKey : KvRow::kValue;
    SCOPED_TRACE(fmt::format("{} bits, groups of {}, {}", bits, group, c["kind"].dump()));
    const auto codec = kivi(bits, group, group);
    const auto rows = c["rows"].get<std::vector<std::vector<float>>>();
    const auto integers = c["integers"].get<std::vector<std::vector<int>>>();
    const auto scales = c["scales"].get<std::vector<float>>(),
               least = c["least"].get<std::vector<float>>();
    const auto dims = static_cast<int>(rows[0].size()), together = codec->group(kind);
    EXPECT_EQ(together, is_key ? group : 1);
    const std::size_t row_bytes = codec->row_bytes(kind, dims),
                      stored = static_cast<std::size_t>(4 + group * bits / 8);
    std::size_t groups = 0;
    for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(together)) {
      std::vector<float> elements, read(static_cast<std::size_t>(together * dims));
      for (int r = 0; r < together; ++r) {
        const auto& row = rows[first + static_cast<std::size_t>(r)];
        elements.insert(elements.end(), row.begin(), row.end());
      }
      Bytes bytes(row_bytes * static_cast<std::size_t>(together));
      codec->encode(kind, {elements.data(), together, dims}, bytes);
      codec->decode(kind, bytes, {read.data(), together, dims});
      for (int g = 0; g < (is_key ? dims : dims / group); ++g, ++groups) {
        const Group got =
            read_group(std::span(bytes).subspan(static_cast<std::size_t>(g) * stored), bits, group);
        EXPECT_EQ(got.scale, scales[groups]);
        EXPECT_EQ(got.least, least[groups]);
        for (int i = 0; i < group; ++i) {
          const int r = is_key ? i : 0, d = is_key ? g : g * group + i;
          const int want =
              integers[first + static_cast<std::size_t>(r)][static_cast<std::size_t>(d)];
          EXPECT_EQ(got.integers[static_cast<std::size_t>(i)], want);
          EXPECT_EQ(read[static_cast<std::size_t>(r * dims + d)],
                    got.scale * static_cast<float>(want) + got.least);
        }
      }
    }
    EXPECT_EQ(groups, scales.size());
  }
}

TEST(Kivi, StoresEqualElementsAndWhatIsNotANumber) {
  const auto codec = kivi(2, 16, 16);
  const auto read_back = [&](std::vector<float> values) {
    Bytes bytes(codec->row_bytes(KvRow::kValue, static_cast<int>(values.size())));
    const MatrixView row(values.data(), 1, static_cast<std::int64_t>(values.size()));
    codec->encode(KvRow::kValue, row, bytes);
    codec->decode(KvRow::kValue, bytes, row);
    return values;
  };
  EXPECT_EQ(read_back(std::vector<float>(32, -1.5f)), std::vector<float>(32, -1.5f));
  for (const float x : {INFINITY, -INFINITY, NAN, 70000.0f}) {
    std::vector<float> row(20, 1.0f);  // a group, and one of four elements
    row[17] = x;
    const std::vector<float> got = read_back(row);
    for (std::size_t d = 0; d < 20; ++d) EXPECT_EQ(std::isnan(got[d]), d >= 16) << x << " " << d;
  }
  using Both = std::pair<std::size_t, std::size_t>;
  const auto bytes = [](int bits, int group, int head_dim) {
    const auto codec = kivi(bits, group);
    return Both(codec->row_bytes(KvRow::kKey, head_dim), codec->row_bytes(KvRow::kValue, head_dim));
  };
  EXPECT_EQ(bytes(2, 32, 64), Both(24, 24));
  EXPECT_EQ(bytes(4, 32, 128), Both(80, 80));
  EXPECT_EQ(bytes(2, 64, 40), Both(13, 14)) << "keys: 12.5 bytes; values: 4 + 10";
  EXPECT_EQ(bytes(2, 64, 80), Both(25, 28)) << "values: groups of 64 and 16";
}

class KiviCache : public testing::Test {
 protected:
  void SetUp() override {
    if (is_emulated()) GTEST_SKIP() << "codecs need the CPU backend";
  }

  static constexpr int kResidual = 64, kPrompt = 200;
  Machine machine_{"llama3"};
  const std::vector<int> prompt_ = synthetic_tokens(kPrompt, 1), answer_ = synthetic_tokens(70, 2);
};

// Of n tokens, the keys below the largest multiple of `residual` are encoded, and all values but
// the newest `residual` ones.  The encoded rows of the prompt are those that full attention has,
// encoded; the newest rows are elements.
TEST_F(KiviCache, EncodesTheRowsThatLeaveTheResidual) {
  const auto codec = kivi(4, 32, kResidual);
  Conversation full(machine_.engine, Policies()),
      encoded(machine_.engine, Method::parse("kivi:bits=4,residual=64").make());
  EXPECT_EQ(full.turn(prompt_), encoded.turn(prompt_)) << "the prefill is exact";
  const ModelShape& shape = machine_.engine.shape();
  const auto dims = static_cast<std::int64_t>(shape.head_dim);
  const auto check = [&](int tokens) {
    for (int l = 0; l < shape.layers; ++l) {
      const LayerKv& kv = encoded.sequence.at(l).kv;
      ASSERT_NE(kv.newest(), nullptr);
      for (std::size_t s = 0; s < kv.sets().size(); ++s) {
        const KvHeadCache& set = kv.sets()[s];
        const NewestTokens::OfSet& of = kv.newest()->of[s];
        EXPECT_EQ(set.size(), tokens);
        EXPECT_EQ(of.encoded_rows(KvRow::kKey), tokens / kResidual * kResidual);
        EXPECT_EQ(of.encoded_rows(KvRow::kValue), tokens - kResidual);
        EXPECT_EQ(of.first % kPageTokens, 0);
        EXPECT_LE(tokens - of.first, kResidual + kPageTokens);
        for (const KvRow kind : {KvRow::kKey, KvRow::kValue}) {
          const int group = codec->group(kind);
          const std::size_t bytes = set.layout().row_bytes(kind) * static_cast<std::size_t>(group);
          std::vector<float> memory(static_cast<std::size_t>(group * dims));
          const MatrixView rows(memory.data(), group, dims);
          for (int slot = 0; slot < std::min(kPrompt, of.encoded_rows(kind)) / group * group;
               slot += group) {
            for (int r = 0; r < group; ++r)
              full.sequence.sets(l)[s].read(kind, slot + r, rows.row(r));
            Bytes want(bytes);
            codec->encode(kind, rows, want);
            EXPECT_EQ(std::memcmp(set.row(kind, slot), want.data(), bytes), 0) << slot;
          }
          for (int slot = of.encoded_rows(kind); slot < kPrompt; ++slot) {
            std::vector<float> want(static_cast<std::size_t>(dims)), got(want);
            full.sequence.sets(l)[s].read(kind, slot, want.data());
            kv.newest()->elements[s].read(kind, slot - of.first, got.data());
            EXPECT_EQ(got, want) << slot;
          }
        }
      }
    }
  };
  check(kPrompt);
  for (std::size_t i = 0; i < answer_.size(); ++i) {
    encoded.answer(answer_[i]);
    check(kPrompt + static_cast<int>(i) + 1);
  }
}

TEST_F(KiviCache, CountsEncodedRowsAndElements) {
  const ModelShape& shape = machine_.engine.shape();
  const std::size_t element = static_cast<std::size_t>(shape.head_dim) * sizeof(float),
                    key = kivi(2, 32)->row_bytes(KvRow::kKey, shape.head_dim),
                    value = kivi(2, 32)->row_bytes(KvRow::kValue, shape.head_dim),
                    sets = static_cast<std::size_t>(shape.layers * shape.kv_heads);
  {
    Conversation c(machine_.engine, Method::parse("kivi:residual=64").make());
    c.turn(prompt_);
    // 192 keys and 136 values are encoded; 8 keys and 64 values are elements.
    EXPECT_EQ(c.sequence.kv_bytes(), sets * (192 * key + 136 * value + 72 * element));
    EXPECT_EQ(c.sequence.resident_kv_bytes(), c.sequence.kv_bytes());
    EXPECT_EQ(machine_.engine.memory().kv_bytes(), c.sequence.page_bytes());
  }
  EXPECT_EQ(machine_.engine.memory().kv_bytes(), 0u);
}

// Keys beyond the range of float16.
TEST_F(KiviCache, ReportsKeysThatCannotBeEncoded) {
  Conversation c(machine_.engine, Method::parse("kivi:residual=64").make());
  c.turn(prompt_);
  NewestTokens& newest = *c.sequence.at(1).kv.newest();
  const int head_dim = machine_.engine.shape().head_dim, tokens = newest.elements[0].size();
  std::vector<float> large(static_cast<std::size_t>(tokens * head_dim), 1e6f);
  newest.elements[0].write(0, {large.data(), tokens, head_dim});
  try {
    for (const int token : answer_) c.answer(token);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("kivi: layer 1, set 0: found a key that is not finite"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(KiviCache, RefusesWhatItCannotBeCombinedWith) {
  const auto message = [](const std::string& spec) {
    try {
      Method::parse(spec);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(message("kivi+h2o:budget=64").find("an eviction in decode steps"), std::string::npos);
  EXPECT_NE(message("kivi:placement=host").find("placement=host"), std::string::npos);
  EXPECT_NE(message("kivi+loopserve-prefill").find("recompute_answer=false"), std::string::npos);
  EXPECT_EQ(message("kivi+loopserve-prefill:recompute_answer=false"), "");
  EXPECT_NE(message("kivi+int8").find("how keys and values are stored"), std::string::npos);
  EXPECT_NE(message("kivi:residual=48").find("found 48, expected a multiple"), std::string::npos);
  Conversation c(machine_.engine, Method::parse("kivi:residual=64").make());
  c.turn(prompt_);
  EXPECT_THROW(c.sequence.truncate(kPrompt - 20), Error) << "192 keys are encoded";
  c.answer(1);
  c.sequence.truncate(kPrompt);
}

}  // namespace
}  // namespace turnbench::test
