#include "inference/attention/attention_pattern.h"

#include <gtest/gtest.h>

#include <random>

#include "reference.h"

namespace turnbench {
namespace {

using test::band;

HeadPattern line_pattern(std::vector<std::int32_t> columns, std::vector<std::int32_t> offsets,
                         HeadPattern::Granularity granularity) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kVerticalSlash;
  p.columns = std::move(columns);
  p.offsets = std::move(offsets);
  p.granularity = granularity;
  return p;
}

std::int64_t count(const HeadPattern& p, const PatternPass& pass) {
  std::int64_t pairs = 0;
  for (int i = pass.first_position; i < pass.first_position + pass.rows; ++i) {
    for (int j = 0; j <= i; ++j) pairs += pattern_contains(p, pass, i, j);
  }
  return pairs;
}

// A-shape: n = 8, n_init = 1, n_local = 3.
TEST(AttentionPattern, AShape) {
  const HeadPattern p = band(1, 3, 0);
  const PatternPass pass{0, 8};
  std::vector<int> row5;
  for (int j = 0; j < 8; ++j) {
    if (pattern_contains(p, pass, 5, j)) row5.push_back(j);
  }
  EXPECT_EQ(row5, (std::vector<int>{0, 3, 4, 5}));
  EXPECT_EQ(count(p, pass), 26);
  EXPECT_EQ(pattern_pairs(p, pass), 26);
}

// The same with the last two rows dense.
TEST(AttentionPattern, TriShape) {
  EXPECT_EQ(count(band(1, 3, 2), {0, 8}), 33);
  EXPECT_EQ(pattern_pairs(band(1, 3, 2), {0, 8}), 33);
}

// MInference: the keys that the block kernel reads.
TEST(AttentionPattern, VerticalSlashBlocks) {
  std::vector<std::int32_t> keys, want;
  pattern_keys(line_pattern({3, 130}, {0, 150}, HeadPattern::Granularity::kBlock64), {0, 256}, 3,
               keys);
  want = {3};
  for (int k = 42; k < 106; ++k) want.push_back(k);
  want.push_back(130);
  for (int k = 192; k < 256; ++k) want.push_back(k);
  EXPECT_EQ(keys, want);

  const HeadPattern second = line_pattern({3, 100}, {0, 70}, HeadPattern::Granularity::kBlock64);
  pattern_keys(second, {0, 128}, 1, keys);
  want.clear();
  for (int k = 0; k < 128; ++k) want.push_back(k);
  EXPECT_EQ(keys, want);
  pattern_keys(second, {0, 128}, 0, keys);
  want.resize(64);
  EXPECT_EQ(keys, want);
}

HeadPattern key_blocks(int size, int rows_per_list, const PatternPass& pass, unsigned seed) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBlocks;
  p.block_size = size;
  p.block_rows = rows_per_list;
  std::mt19937 random(seed);
  for (int r = 0; r < pass.rows; r += rows_per_list) {
    std::vector<std::int32_t>& list = p.blocks.emplace_back();
    for (int b = 0; b * size < pass.first_position + pass.rows + size; ++b) {
      if (random() % 3 == 0) list.push_back(b);
    }
  }
  return p;
}

const std::vector<PatternPass> kPasses = {{0, 1}, {0, 300}, {77, 210}, {128, 130}, {100, 1}};

// A grid line is at the first row; the blocks tile all positions.
TEST(BlockGrid, FollowsThePass) {
  for (int size : {32, 64, 128}) {
    for (int first : {0, 1, 31, 64, 77, 128, 200}) {
      const BlockGrid grid(size, first);
      EXPECT_EQ(grid.begin(grid.block_of(first)), first);
      EXPECT_EQ(grid.block_of(0), 0);
      for (int j = 0; j < 500; ++j) {
        EXPECT_LE(grid.begin(grid.block_of(j)), j);
        EXPECT_GT(grid.end(grid.block_of(j)), j);
        EXPECT_EQ((j - first) / size - (j < first && (j - first) % size != 0),
                  grid.block_of(j) - grid.block_of(first));
      }
    }
  }
}

TEST(AttentionPattern, KeyBlocksOfAnySize) {
  for (const PatternPass& pass : kPasses) {
    for (const auto& [size, rows] :
         {std::pair{32, 64}, {128, 128}, {32, 512}, {64, 64}, {16, 128}}) {
      const HeadPattern p = key_blocks(size, rows, pass, 5);
      const BlockGrid grid(size, pass.first_position);
      for (int i = pass.first_position; i < pass.first_position + pass.rows; ++i) {
        const auto& list = p.blocks[(i - pass.first_position) / rows];
        for (int j = 0; j <= i; ++j) {
          ASSERT_EQ(pattern_contains(p, pass, i, j),
                    std::binary_search(list.begin(), list.end(), grid.block_of(j)));
        }
      }
    }
  }
}

// The functions that kernels use, and the counts, agree with the pairs of the pattern.
TEST(AttentionPattern, MasksAndCountsAgreeWithThePairs) {
  for (const PatternPass& pass : kPasses) {
    for (const HeadPattern& p :
         {HeadPattern{}, band(3, 20, 0), band(5, 100, 70), band(0, 1, 1), band(200, 1, 0),
          line_pattern({1, 90}, {0, 40}, HeadPattern::Granularity::kLine),
          line_pattern({0, 3, 64, 250}, {0, 1, 63, 64, 200, 299}, HeadPattern::Granularity::kLine),
          line_pattern({1, 90}, {0, 40, 41, 250}, HeadPattern::Granularity::kBlock64),
          key_blocks(32, 64, pass, 1), key_blocks(128, 128, pass, 2)}) {
      EXPECT_EQ(pattern_pairs(p, pass), count(p, pass));
      std::vector<std::int32_t> keys;
      for (int block = 0; block * kPatternBlock < pass.rows; ++block) {
        const bool partial = pattern_keys(p, pass, block, keys);
        const PatternMask mask(p, pass, block);
        const int first = pass.first_position + block * kPatternBlock;
        const int end = std::min(first + kPatternBlock, pass.first_position + pass.rows);
        for (int i = first; i < end; ++i) {
          for (std::int32_t j : keys) {
            const bool has = pattern_contains(p, pass, i, j);
            ASSERT_EQ(partial ? mask.contains(i, j) : j <= i, has);
            if (mask.contains_all(j, j) && j <= i) {
              ASSERT_TRUE(has);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionPattern, BlocksCoverTheirLines) {
  const std::vector<std::int32_t> columns = {0, 7, 64, 200}, offsets = {0, 1, 63, 64, 65, 130};
  for (const PatternPass pass : {PatternPass{0, 300}, PatternPass{77, 210}, PatternPass{100, 1}}) {
    const HeadPattern exact = line_pattern(columns, offsets, HeadPattern::Granularity::kLine);
    const HeadPattern block = line_pattern(columns, offsets, HeadPattern::Granularity::kBlock64);
    for (int i = pass.first_position; i < pass.first_position + pass.rows; ++i) {
      for (int j = 0; j <= i; ++j) {
        if (pattern_contains(exact, pass, i, j)) {
          EXPECT_TRUE(pattern_contains(block, pass, i, j)) << i << " " << j;
        }
      }
    }
    EXPECT_EQ(pattern_pairs(exact, pass), count(exact, pass));
    EXPECT_EQ(pattern_pairs(block, pass), count(block, pass));
  }
}

TEST(AttentionPattern, KeysOfABlockAreTheUnionOfItsRows) {
  for (const HeadPattern& p : {band(3, 20, 0), band(5, 100, 70),
                               line_pattern({1, 90}, {0, 40}, HeadPattern::Granularity::kLine)}) {
    const PatternPass pass{33, 200};
    for (int block = 0; block * kPatternBlock < pass.rows; ++block) {
      std::vector<std::int32_t> keys, want;
      pattern_keys(p, pass, block, keys);
      const int first = pass.first_position + block * kPatternBlock;
      const int end = std::min(first + kPatternBlock, pass.first_position + pass.rows);
      for (int j = 0; j < end; ++j) {
        bool any = false;
        for (int i = first; i < end; ++i) any |= pattern_contains(p, pass, i, j);
        if (any) want.push_back(j);
      }
      EXPECT_EQ(keys, want) << block;
    }
  }
}

}  // namespace
}  // namespace turnbench
