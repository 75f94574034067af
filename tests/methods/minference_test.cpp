// MInference, compared with plain references.

#include <filesystem>

#include "common/error.h"
#include "common/file.h"
#include "prefill_reference.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using namespace test;
using Ints = std::vector<std::int32_t>;

struct Lines {
  Ints columns, offsets;
};

/// The columns and offsets that a head selects from its last rows.
Lines reference_lines(Layer& layer, int h, int vertical, int slash) {
  std::vector<double> vert(static_cast<std::size_t>(layer.n)), diag(vert.size());
  for (int i = layer.n - std::min(64, layer.rows); i < layer.n; ++i) {
    for (int j = 0; j <= i; ++j) {
      vert[j] += layer.probability(h, i, j);
      diag[i - j] += layer.probability(h, i, j);
    }
  }
  for (int j = 0; j < std::min(30, layer.n); ++j) vert[j] = 1e9;
  for (int o = 0; o < std::min(100, layer.n); ++o) diag[o] = 1e9;
  return {best(vert, std::max(vertical, 30)), best(diag, std::max(slash, 50))};
}

bool contains(const Ints& sorted, int x) {
  return std::binary_search(sorted.begin(), sorted.end(), x);
}

/// The keys that the block kernel reads for the row block that ends before `end`, computed in the
/// same way as in the kernel that creates the indices.
Ints reference_block(const Lines& lines, int end) {
  std::vector<std::pair<int, int>> ranges;
  for (auto o = lines.offsets.rbegin(); o != lines.offsets.rend(); ++o) {
    if (*o >= end) continue;
    const int stop = std::max(end - *o, 64);
    if (ranges.empty() || stop > ranges.back().second + 64) {
      ranges.emplace_back(stop - 64, stop);
    } else if (stop > ranges.back().second) {
      ranges.back().second += 64;
    }
  }
  std::set<std::int32_t> keys;
  for (const auto& [begin, stop] : ranges) {
    for (int k = begin; k < stop; ++k) keys.insert(k);
  }
  for (int column : lines.columns) {
    if (column < ranges.back().second) keys.insert(column);
  }
  return {keys.begin(), keys.end()};
}

TEST(MInference, LinesEqualTheirMask) {
  for_each_size([](Layer& layer) {
    std::vector<Lines> lines;
    for (int h = 0; h < layer.shape.heads; ++h) lines.push_back(reference_lines(layer, h, 60, 150));
    expect_equal(layer, plan("minference:vertical=60,slash=150,vs_mask=line", layer),
                 [&](int h, int i, int j) {
                   const Lines& l = lines[h];
                   return contains(l.columns, j) || contains(l.offsets, i - j);
                 });
  });
}

TEST(MInference, BlocksEqualTheSupersetOfTheKernel) {
  for_each_size([](Layer& layer) {
    const int first = layer.n - layer.rows;
    std::vector<std::vector<Ints>> keys;  // [head][row block]
    for (int h = 0; h < layer.shape.heads; ++h) {
      const Lines lines = reference_lines(layer, h, 40, 110);
      keys.emplace_back();
      for (int r = first; r < layer.n; r += 64)
        keys.back().push_back(reference_block(lines, r + 64));
    }
    expect_equal(layer, plan("minference:vertical=40,slash=110", layer),
                 [&](int h, int i, int j) { return contains(keys[h][(i - first) / 64], j); });
  });
}

// Worked examples of this computation, also of the reference above.
TEST(MInference, WorkedExamples) {
  const Ints third = reference_block({{3, 130}, {0, 150}}, 256);
  EXPECT_EQ(third.size(), 130u);
  EXPECT_TRUE(contains(third, 3) && contains(third, 42) && contains(third, 105) &&
              contains(third, 130) && contains(third, 192) && !contains(third, 191));
  EXPECT_EQ(reference_block({{3, 100}, {0, 70}}, 128).size(), 128u);
  EXPECT_EQ(reference_block({{3, 100}, {0, 70}}, 64).size(), 64u);
}

// v >= n or s >= n: VS(1000, 6096) is dense up to 6096 tokens.
TEST(MInference, ManyLinesAreFullAttention) {
  for (const char* spec : {"minference:vertical=300", "minference:slash=300"}) {
    Layer layer(1, 2, 32, 200, 200, 9);
    for (const HeadPattern& p : plan(spec, layer)) EXPECT_EQ(pattern_pairs(p, {0, 200}), 20100);
  }
}

class PatternFile : public testing::Test {
 protected:
  std::string spec(const std::string& json, const std::string& more = "") const {
    return "minference:config=" + directory_.write("patterns.json", json) + more;
  }
  std::string message_of(const std::string& json, const std::string& more = "") const {
    Layer layer(1, 3, 16, 300, 300, 3);
    return test::message_of([&] { plan(spec(json, more), layer); });
  }
  const test::TemporaryDirectory directory_;
};

// A head's entry, the default for a missing entry, and the ratio.  The test layer has 4 layers of 3
// heads.
TEST_F(PatternFile, GivesEachHeadItsPattern) {
  const std::string json =
      R"([{"0": ["vertical_and_slash", 100, 400, 0.9], "2": ["stream_llm", 20, 60, 1]}, {}, {},
          {"1": ["block_sparse", 1000, 6096, 1.0]}])";
  Layer layer(1, 3, 16, 1000, 1000, 3);
  auto heads = plan(spec(json, ",vs_mask=line"), layer, 0);
  EXPECT_EQ(heads[0].columns.size(), 100u);
  EXPECT_EQ(heads[0].offsets.size(), 400u);
  EXPECT_EQ(heads[1].columns.size(), 1000u);  // (1000, 6096), at most the existing ones
  EXPECT_EQ(heads[2].kind, HeadPattern::Kind::kBand);
  EXPECT_EQ(heads[2].sinks, 20);
  EXPECT_EQ(heads[2].local, 60);
  EXPECT_EQ(plan(spec(json), layer, 3)[1].kind, HeadPattern::Kind::kBlocks);
  heads = plan(spec(json, ",ratio=0.5,vs_mask=line"), layer, 0);
  EXPECT_EQ(heads[0].columns.size(), 50u);
  EXPECT_EQ(heads[0].offsets.size(), 200u);
  EXPECT_EQ(heads[1].columns.size(), 500u);
}

TEST_F(PatternFile, BadFilesAreRefusedWithTheirPlace) {
  EXPECT_NE(message_of("{}").find("expected an array with one object"), std::string::npos);
  EXPECT_NE(message_of("[{}]").find("found 1 layers, expected the model's 4"), std::string::npos);
  EXPECT_NE(message_of(R"([{}, {}, {}, {"7": ["stream_llm", 1, 2, 3]}])").find("[3]: found head 7"),
            std::string::npos);
  EXPECT_NE(message_of(R"([{"x": ["stream_llm", 1, 2, 3]}])").find("a query head's number"),
            std::string::npos);
  EXPECT_NE(message_of(R"([{"0": ["diagonal", 1, 2, 3]}])").find("vertical_and_slash, stream_llm"),
            std::string::npos);
  EXPECT_NE(message_of(R"([{"0": ["stream_llm", 1]}])").find("[type, vertical_size"),
            std::string::npos);
  EXPECT_NE(message_of(R"([{"0": ["vertical_and_slash", 30, 99, 1]}])").find("at least 100"),
            std::string::npos);
  EXPECT_NE(message_of(R"([{"0": ["vertical_and_slash", 30, 150, 1]}])", ",ratio=0.5")
                .find("slash size of 75"),
            std::string::npos);
}

// The canonical name contains the hash of the file; it is refused if the file has another content.
TEST_F(PatternFile, IsPartOfTheMethodsIdentity) {
  const std::string four = "[{}, {}, {}, {}]";
  const std::string first = Method::parse(spec(four)).canonical();
  EXPECT_EQ(Method::parse(first).canonical(), first);
  const std::string second =
      Method::parse(spec(R"([{"0": ["stream_llm", 1, 2, 3]}, {}, {}, {}])")).canonical();
  EXPECT_NE(first, second);
  EXPECT_THROW(Method::parse(first), Error);
  std::filesystem::remove(directory_.path("patterns.json"));
  EXPECT_THROW(Method::parse("minference:config=" + directory_.path("patterns.json")), Error);
}

// Mean pooling over 64 with zeros for missing rows, the 100 best block logits, the diagonal not
// forced.
TEST_F(PatternFile, BlockSparseHeads) {
  const int n = 64 * 120 + 13;
  Layer layer(1, 1, 16, n, n, 11);
  const auto p = plan(spec(R"([{"0": ["block_sparse", 1, 1, 1]}, {}, {}, {}])"), layer)[0];
  const auto mean = [&](std::span<const float> rows, int block) {
    std::vector<double> out(16);
    for (int i = block * 64; i < std::min(n, block * 64 + 64); ++i) {
      for (int d = 0; d < 16; ++d) out[d] += rows[i * 16 + d] / 64.0;
    }
    return out;
  };
  std::vector<std::vector<double>> k;
  for (int b = 0; b <= 120; ++b) k.push_back(mean(layer.keys[0], b));
  bool diagonal_missing = false;
  for (int r = 0; r <= 120; ++r) {
    const std::vector<double> q = mean(layer.queries, r);
    std::vector<double> logits;
    for (int c = 0; c <= r; ++c) {
      double dot = 0;
      for (std::size_t d = 0; d < 16; ++d) dot += q[d] * k[c][d];
      logits.push_back(dot);
    }
    EXPECT_TRUE(same_by_score(p.blocks[r], best(logits, 100), logits));
    diagonal_missing |= !contains(p.blocks[r], r);
  }
  EXPECT_TRUE(diagonal_missing);
}

TEST(MInference, LaterTurnsAndLowLayersCanBeDense) {
  Layer layer(1, 1, 16, 400, 100, 6);
  EXPECT_TRUE(plan("minference:followup=dense", layer).empty());
  EXPECT_TRUE(plan("minference:starting_layer=1", layer, 0).empty());
  EXPECT_EQ(plan("minference:starting_layer=1", layer, 1).size(), 1u);
  EXPECT_FALSE(Method::parse("minference").make().prefill->reuses_cached_prompt());
}

}  // namespace
}  // namespace turnbench
