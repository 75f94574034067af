#include "methods/product_quantizer.h"

#include <gtest/gtest.h>

#include "common/thread_pool.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using Floats = std::vector<float>;
using Codes = std::vector<std::uint8_t>;

Codes codes_of(const ProductQuantizer& quantizer) {
  Codes out;
  for (std::int64_t r = 0; r < quantizer.rows(); ++r) {
    const auto row = quantizer.codes(r);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

Floats estimates(const ProductQuantizer& quantizer, std::span<const float> query) {
  Floats out(static_cast<std::size_t>(quantizer.rows()));
  quantizer.estimate(quantizer.lookup_tables(query), 0, out);
  return out;
}

Floats random_integers(std::int64_t count, std::int64_t bound, std::uint64_t seed) {
  Random random(seed);
  Floats out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(random.between(-bound, bound)));
  return out;
}

// A worked example: two partitions of two centroids.
TEST(ProductQuantizer, SumsOneEntryOfEachTable) {
  const Floats rows = {1, 0, 2, 0, 0, 1, 0, -1};
  ProductQuantizer quantizer(4, 2, 1, 2);
  for (const int partition : {0, 1})
    quantizer.train(partition, {rows.data(), 2, 4}, std::vector<std::int32_t>{0, 1}, 9);
  EXPECT_EQ(codes_of(quantizer), (Codes{0, 0, 1, 1}));
  const Floats query = {1, 2, 3, 4};
  EXPECT_EQ(quantizer.lookup_tables(query), (Floats{1, 2, 6, -4}));
  quantizer.append(Floats{0.6f, 0.5f, 0.9f, -0.9f});  // nearer to (0, -1) by 0.82 to 2.02
  quantizer.append(Floats{-1, 0, 3, 7});
  EXPECT_EQ(codes_of(quantizer), (Codes{0, 0, 1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(estimates(quantizer, query), (Floats{7, -2, -3, 8}));
  Floats two(2);
  quantizer.estimate(quantizer.lookup_tables(query), 1, two);
  EXPECT_EQ(two, (Floats{-2, -3}));
  Codes codes(2);
  quantizer.encode(Floats{0.5f, 0.5f, 1, -0.5f}, codes);  // as near to both, in either partition
  EXPECT_EQ(codes, (Codes{0, 0}));
}

// As many centroids as different parts: every row lies on its centroids, also where the first rows
// hold some parts twice and others not at all.
TEST(ProductQuantizer, IsExactWithACentroidForEachDifferentPart) {
  constexpr int kRows = 300, kDim = 12, kPartitions = 3, kBits = 4;
  const Floats parts = random_integers(kPartitions * 16 * kDim / kPartitions, 50, 1);
  Random random(2);
  Floats rows;
  for (int r = 0; r < kRows; ++r) {
    for (std::size_t p = 0; p < kPartitions; ++p) {
      const auto* part = parts.data() + (p * 16 + random.below(16)) * 4;
      rows.insert(rows.end(), part, part + 4);
    }
  }
  const MatrixView<const float> view(rows.data(), kRows, kDim);
  ProductQuantizer quantizer(kDim, kPartitions, kBits, kRows);
  const auto first = draw_rows(random, kRows, 16);
  for (int p = 0; p < kPartitions; ++p) EXPECT_EQ(quantizer.train(p, view, first, 300).inertia, 0);
  const Floats query = random_integers(kDim, 20, 3), got = estimates(quantizer, query);
  for (int r = 0; r < kRows; ++r) {
    float exact = 0;
    for (int i = 0; i < kDim; ++i) exact += query[static_cast<std::size_t>(i)] * view(r, i);
    ASSERT_EQ(got[static_cast<std::size_t>(r)], exact) << r;
  }
}

// What training gives a row is what the row's encoding gives, whether partitions are trained one
// after the other or side by side, with gaps between the rows or without.
TEST(ProductQuantizer, CodesAreThoseOfTheNearestCentroids) {
  constexpr int kRows = 700, kDim = 24, kPartitions = 4;
  const Floats wide = random_integers(kRows * (kDim + 5), 1000, 4);
  const MatrixView<const float> view(wide.data(), kRows, kDim, kDim + 5);
  Random random(5);
  for (const int bits : {1, 5, 8}) {
    const auto first = draw_rows(random, kRows, 1 << bits);
    ProductQuantizer quantizer(kDim, kPartitions, bits, kRows), beside = quantizer,
                                                                coded = quantizer;
    double inertia = 0;
    for (int p = 0; p < kPartitions; ++p) {
      const auto training = quantizer.train(p, view, first, 6);
      EXPECT_GT(training.iterations, 0);
      inertia += training.inertia;
      coded.train(p, view, first, 6);
    }
    Floats packed;
    for (int r = 0; r < kRows; ++r) packed.insert(packed.end(), view.row(r), view.row(r) + kDim);
    ThreadPool pool(3);
    pool.parallel_for(kPartitions, [&](std::size_t p, int) {
      beside.train(static_cast<int>(p), {packed.data(), kRows, kDim}, first, 6);
    });
    for (int r = 0; r < kRows; ++r) coded.append({view.row(r), kDim});
    Codes twice = codes_of(quantizer);
    EXPECT_EQ(codes_of(beside), twice);
    twice.insert(twice.end(), twice.begin(), twice.end());
    EXPECT_EQ(codes_of(coded), twice);

    // A query with a single 1 reads one dimension of each row's centroids.
    double squares = 0;
    for (int i = 0; i < kDim; ++i) {
      Floats query(kDim);
      query[static_cast<std::size_t>(i)] = 1;
      const Floats values = estimates(quantizer, query);
      EXPECT_EQ(estimates(beside, query), values);
      for (int r = 0; r < kRows; ++r) {
        const double off = view(r, i) - values[static_cast<std::size_t>(r)];
        squares += off * off;
      }
    }
    EXPECT_NEAR(squares, inertia, 1e-5 * inertia);
  }
}

TEST(ProductQuantizer, CountsBitsAndBytes) {
  ProductQuantizer quantizer(128, 2, 6, 100);
  EXPECT_EQ(quantizer.bits_per_row(), 12);
  EXPECT_EQ(quantizer.code_bytes(), 200);
  EXPECT_EQ(quantizer.centroid_bytes(), 2 * 64 * (64 + 1) * 4);
  quantizer.append(Floats(128));
  EXPECT_EQ(quantizer.rows(), 101);
  EXPECT_EQ(quantizer.code_bytes(), 202);
}

TEST(ProductQuantizer, Refusals) {
  EXPECT_EQ(test::message_of([] { ProductQuantizer(64, 3, 6, 1); }),
            "product quantizer: found 3 partitions, expected a divisor of 64 dimensions");
  EXPECT_EQ(test::message_of([] { ProductQuantizer(64, 2, 9, 1); }),
            "product quantizer: found 9 bits per code, expected 1 to 8");
  const Floats rows(3 * 4);
  ProductQuantizer quantizer(4, 2, 2, 3);
  EXPECT_EQ(test::message_of([&] {
              quantizer.train(0, {rows.data(), 3, 4}, std::vector<std::int32_t>{0, 1, 2}, 9);
            }),
            "product quantizer: found 3 first rows, expected 4");
  EXPECT_EQ(test::message_of([&] {
              quantizer.train(0, {rows.data(), 3, 4}, std::vector<std::int32_t>{0, 1, 2, 0}, 9);
            }),
            "k-means: found 4 clusters for 3 rows, expected 1 to 3");
}

}  // namespace
}  // namespace turnbench
