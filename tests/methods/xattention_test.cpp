// XAttention, compared with its official code and with a plain reference.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/json.h"
#include "golden_layer.h"
#include "prefill_reference.h"

namespace turnbench {
namespace {

using namespace test;

TEST(XAttention, ChoosesTheBlocksOfTheOfficialCode) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/xattention.json";
  const Json golden = parse_json(read_file(path), path);
  for (const Json& c : golden.at("cases")) {
    const auto spec = c.at("method").get<std::string>();
    SCOPED_TRACE(spec);
    GoldenLayer layer(c, c.at("heads"), c.at("kv_heads"));
    const std::vector<HeadPattern> patterns = plan(spec, layer);
    ASSERT_EQ(patterns.size(), c.at("blocks").size());
    for (std::size_t h = 0; h < patterns.size(); ++h) {
      const auto want = c.at("blocks")[h].get<std::vector<std::vector<std::int32_t>>>();
      EXPECT_EQ(patterns[h].blocks, want) << "head " << h;
    }
  }
}

TEST(XAttention, ShortPromptsAreDense) {
  Layer layer(1, 1, 16, 256, 256, 1);
  EXPECT_TRUE(plan("xattention", layer).empty());
  Layer longer(1, 1, 16, 257, 257, 1);
  EXPECT_EQ(plan("xattention", longer).size(), 1u);
}

TEST(XAttention, CoveringEverythingEqualsFullAttention) {
  Layer layer(1, 2, 32, 900, 900, 2);
  for (const HeadPattern& p : plan("xattention:gamma=1.001", layer))
    EXPECT_EQ(pattern_pairs(p, {0, 900}), 900 * 901 / 2);
}

TEST(XAttention, LaterTurnsCanBeDense) {
  Layer layer(1, 1, 16, 700, 300, 3);
  EXPECT_FALSE(plan("xattention", layer).empty());
  EXPECT_TRUE(plan("xattention:followup=dense", layer).empty());
}

/// Whether each row block computes each key block, of a grid that begins at `begin`: [row
/// block][key block], for one head.  Sums over pairs of tokens.
std::vector<std::vector<bool>> plain_blocks(const Layer& layer, int h, double gamma, int stride,
                                            int block, int begin) {
  const int d = layer.shape.head_dim, first = layer.n - layer.rows;
  const auto vector = [&](const std::vector<float>& of, int width, int token, int at) {
    const float* x = of.data() + token * width + at;
    return std::vector<double>(x, x + d);
  };
  const auto score = [&](int query, int key) {
    if (query < first || query >= layer.n || key < 0 || key >= layer.n) return 0.0;
    const auto q = vector(layer.queries, layer.shape.heads * d, query, h * d),
               k = vector(layer.keys[h / layer.shape.group()], d, key, 0);
    return std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
  };
  const int blocks = (layer.n - begin + block - 1) / block;
  std::vector<std::vector<bool>> out(static_cast<std::size_t>(blocks),
                                     std::vector<bool>(static_cast<std::size_t>(blocks)));
  for (int r = (first - begin) / block; r < blocks; ++r) {
    std::vector<double> sums(static_cast<std::size_t>(r) + 1);
    for (int row = begin + r * block; row < std::min(begin + (r + 1) * block, layer.n);
         row += stride) {
      std::vector<double> weights;
      for (int key = begin; key <= row; key += stride) {
        double sum = 0;
        for (int t = 0; t < stride; ++t) sum += score(row + stride - 1 - t, key + t);
        // A group of the grid's lead may have no key.
        weights.push_back(key + stride <= 0 ? 0 : std::exp(sum / stride / std::sqrt(d)));
      }
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::size_t g = 0; g < weights.size(); ++g)
        sums[g / static_cast<std::size_t>(block / stride)] += weights[g] / total;
    }
    std::vector<std::pair<double, int>> others;  // largest first, then the earlier block
    for (int c = 0; c < r; ++c) others.emplace_back(-sums[c], c);
    std::sort(others.begin(), others.end());
    const double wanted = gamma * std::accumulate(sums.begin(), sums.end(), 0.0);
    out[r][0] = out[r][r] = true;
    for (std::size_t i = 0; i < others.size(); ++i) {
      double before = i == 0 ? 0 : sums[r];  // without the block just before this one
      for (std::size_t j = 0; j + 1 < i; ++j) before -= others[j].first;
      if (before < wanted) out[r][others[i].second] = true;
    }
  }
  return out;
}

TEST(XAttention, EqualsAPlainReferenceInLaterTurns) {
  constexpr int kStride = 8, kBlock = 64;
  for (const auto& [n, rows] : {std::pair(700, 700), {700, 290}, {451, 200}}) {
    SCOPED_TRACE(fmt::format("n {} rows {}", n, rows));
    Layer layer(1, 2, 16, n, rows, 7);
    const auto patterns = plan("xattention:gamma=0.5,stride=8,block=64", layer);
    const int lead = (kBlock - (n - rows) % kBlock) % kBlock;
    std::vector<std::vector<std::vector<bool>>> blocks;  // of each head
    for (int h = 0; h < layer.shape.heads; ++h)
      blocks.push_back(plain_blocks(layer, h, 0.5, kStride, kBlock, -lead));
    expect_equal(layer, patterns, [&](int h, int i, int j) -> bool {
      return blocks[h][(i + lead) / kBlock][(j + lead) / kBlock];
    });
  }
}

}  // namespace
}  // namespace turnbench
