#include "methods/parts/kmeans.h"
#include "methods/parts/kmeans_plus_plus.h"
#include "methods/parts/scores.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "common/file.h"
#include "common/json.h"
#include "methods/parts/nearest_centroid.h"
#include "tests/cpu/simd_levels.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using Indices = std::vector<std::int32_t>;

/// Rows without gaps.
struct PackedRows {
  std::vector<float> values;
  std::int64_t dim;
  MatrixView<const float> view() const {
    return {values.data(), static_cast<std::int64_t>(values.size()) / dim, dim};
  }
};

PackedRows random_rows(std::int64_t rows, std::int64_t dim, std::uint64_t seed) {
  Random random(seed);
  PackedRows out{{}, dim};
  for (std::int64_t i = 0; i < rows * dim; ++i)
    out.values.push_back(static_cast<float>(4 * random.uniform() - 1));
  return out;
}

enum class ClusterKind { kEuclidean, kCosine };

/// Lloyd's algorithm by its definition, in double precision and without optimization.
struct PlainKMeans {
  PlainKMeans(ClusterKind kind, const PackedRows& given, const Indices& first)
      : kind(kind), rows(given.view()) {
    for (const std::int32_t r : first) {
      centroids.emplace_back(rows.row(r), rows.row(r) + rows.columns);
    }
    label();
  }

  /// Squared distance, or 1 - cosine.
  double distance(std::int64_t r, const std::vector<double>& c) const {
    double square = 0, product = 0, row = 0, norm = 0;
    for (std::int64_t i = 0; i < rows.columns; ++i) {
      const double x = rows(r, i), y = c[i];
      square += (x - y) * (x - y);
      product += x * y;
      row += x * x;
      norm += y * y;
    }
    if (kind == ClusterKind::kEuclidean) return square;
    return row * norm == 0 ? 1 : 1 - product / std::sqrt(row * norm);
  }

  void label() {
    labels.assign(static_cast<std::size_t>(rows.rows), 0);
    inertia = 0;
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t c = 0; c < centroids.size(); ++c) {
        const double d = distance(r, centroids[c]);
        if (d < least) labels[r] = static_cast<std::int32_t>(c);
        least = std::min(least, d);
      }
      inertia += least;
    }
  }

  /// A cluster without rows keeps its centroid: in the problems below, every Euclidean cluster has
  /// rows.
  void iterate() {
    for (std::size_t c = 0; c < centroids.size(); ++c) {
      std::vector<double> sum(static_cast<std::size_t>(rows.columns));
      double count = 0;
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        if (labels[r] != static_cast<std::int32_t>(c)) continue;
        ++count;
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] += rows(r, static_cast<std::int64_t>(i));
      }
      EXPECT_TRUE(count > 0 || kind == ClusterKind::kCosine);
      for (std::size_t i = 0; i < sum.size() && count > 0; ++i) centroids[c][i] = sum[i] / count;
    }
    label();
  }

  ClusterKind kind;
  MatrixView<const float> rows;
  std::vector<std::vector<double>> centroids;
  Indices labels;
  double inertia = 0;
};

Clusters cluster(ClusterKind kind, MatrixView<const float> rows, const Indices& first,
                 int iterations) {
  return kind == ClusterKind::kEuclidean ? k_means(rows, first, iterations)
                                         : cosine_k_means(rows, first, iterations);
}

/// Rows left over from register tiles; panels that are full, partly full, and more than one.
struct KMeansShape {
  std::int64_t rows, dim, clusters;
  int iterations;
};
const KMeansShape kKMeansShapes[] = {{1, 1, 1, 1},     {6, 3, 6, 3},     {203, 5, 7, 4},
                                     {500, 16, 33, 3}, {402, 64, 64, 2}, {301, 7, 100, 0}};

TEST(KMeans, EqualsThePlainAlgorithm) {
  for (const ClusterKind kind : {ClusterKind::kEuclidean, ClusterKind::kCosine}) {
    for (const KMeansShape& s : kKMeansShapes) {
      SCOPED_TRACE(fmt::format("{} rows of {}, {} clusters, {}", s.rows, s.dim, s.clusters,
                               kind == ClusterKind::kCosine ? "cosine" : "Euclidean"));
      const PackedRows rows = random_rows(s.rows, s.dim, 1);
      Random random(2);
      const Indices first = draw_rows(random, s.rows, s.clusters);
      const Clusters found = cluster(kind, rows.view(), first, s.iterations);
      PlainKMeans plain(kind, rows, first);
      for (int i = 0; i < found.iterations; ++i) plain.iterate();
      EXPECT_EQ(found.labels, plain.labels);
      EXPECT_NEAR(found.inertia, plain.inertia, 1e-6 * plain.inertia + 1e-12);
      ASSERT_EQ(found.centroids.size(), static_cast<std::size_t>(s.clusters * s.dim));
      for (std::size_t k = 0; k < found.centroids.size(); ++k) {
        const std::size_t dim = static_cast<std::size_t>(s.dim);
        ASSERT_NEAR(found.centroids[k], plain.centroids[k / dim][k % dim], 1e-6) << k;
      }
      EXPECT_TRUE(kind == ClusterKind::kEuclidean || found.iterations == s.iterations);
    }
  }
}

/// The rows of tests/golden/make_kmeans_golden.py.
PackedRows golden_rows(Random& random, std::int64_t rows, std::int64_t dim, std::uint64_t blobs) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < dim; ++i) offsets.push_back(random.between(-2000, 2000));
  std::vector<std::vector<std::int64_t>> centres(blobs);
  for (auto& centre : centres) {
    for (std::int64_t i = 0; i < dim; ++i) centre.push_back(random.between(-300, 300));
  }
  PackedRows out{{}, dim};
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto& centre = centres[random.below(blobs)];
    for (std::size_t i = 0; i < centre.size(); ++i) {
      const std::int64_t noise = random.between(-100, 100);
      out.values.push_back(
          static_cast<float>(offsets[i] + centre[i] + noise + random.between(-100, 100)) / 64);
    }
  }
  return out;
}

TEST(KMeans, AgreesWithScikitLearn) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/kmeans.json";
  const Json golden = parse_json(read_file(path), path);
  for (const Json& c : golden.at("cases")) {
    SCOPED_TRACE(c.at("seed").dump());
    Random random = Random::from({c.at("seed").get<std::uint64_t>()});
    const PackedRows rows =
        golden_rows(random, c.at("rows"), c.at("dim"), c.at("blobs").get<std::uint64_t>());
    const auto first = c.at("first").get<Indices>();
    if (std::set(first.begin(), first.end()).size() == first.size()) {
      EXPECT_EQ(draw_rows(random, rows.view().rows, static_cast<std::int64_t>(first.size())),
                first);
    }
    const Clusters found = k_means(rows.view(), first, c.at("max_iterations"));
    const double inertia = c.at("inertia");
    EXPECT_NEAR(found.inertia, inertia, 1e-9 * inertia);
    EXPECT_EQ(found.iterations, c.at("iterations").get<int>());
    std::vector<int> sizes(first.size());
    for (const std::int32_t label : found.labels) ++sizes[label];
    EXPECT_EQ(sizes, c.at("sizes").get<std::vector<int>>());
  }
}

// The definition, with a scan instead of sums of distances.
TEST(KMeansPlusPlus, EqualsThePlainAlgorithm) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Random random(seed);
    const PackedRows rows = golden_rows(random, 80, 3, 5);
    const auto distance = [&](std::int64_t a, std::int64_t b) {
      double sum = 0;
      for (std::int64_t i = 0; i < 3; ++i)
        sum += std::pow(static_cast<double>(rows.view()(a, i)) - rows.view()(b, i), 2);
      return sum;
    };
    const auto to_nearest = [&](std::int64_t row, const Indices& chosen) {
      double out = INFINITY;
      for (const std::int32_t c : chosen) out = std::min(out, distance(row, c));
      return out;
    };
    const auto left = [&](Indices chosen, std::int32_t next) {
      chosen.push_back(next);
      double sum = 0;
      for (int row = 0; row < 80; ++row) sum += to_nearest(row, chosen);
      return sum;
    };
    Random draws(seed), same(seed);
    Indices want = {static_cast<std::int32_t>(draws.below(80))};
    while (want.size() < 12) {
      double all = 0;
      for (int row = 0; row < 80; ++row) all += to_nearest(row, want);
      std::int32_t best = -1;
      for (int trial = 0; trial < 4; ++trial) {  // 2 + floor(log 12)
        double rest = draws.uniform() * all;
        std::int32_t row = 0;
        while (row < 79 && (rest -= to_nearest(row, want)) > 0) ++row;
        if (best < 0 || left(want, row) < left(want, best)) best = row;
      }
      want.push_back(best);
    }
    EXPECT_EQ(k_means_plus_plus(rows.view(), 12, same), want) << seed;
  }
}

TEST(KMeansPlusPlus, ChoosesRowsOfAllDistantGroups) {
  PackedRows rows{{}, 1};
  for (int i = 0; i < 40; ++i) rows.values.push_back(static_cast<float>(1000 * (i % 4) + i));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    std::set<int> groups;
    for (const std::int32_t row : k_means_plus_plus(rows.view(), 4, random)) groups.insert(row % 4);
    EXPECT_EQ(groups.size(), 4u) << seed;
  }
}

TEST(KMeansPlusPlus, AcceptsEqualRows) {
  const PackedRows rows{{2, 2, 2}, 1};
  Random random(1);
  EXPECT_EQ(k_means_plus_plus(rows.view(), 3, random).size(), 3u);
  EXPECT_EQ(test::message_of([&] { k_means_plus_plus(rows.view(), 4, random); }),
            "k-means++: found 4 clusters for 3 rows, expected 1 to 3");
}

// A worked example: without relocation the centroids would be 10, 10 and 0.5.
TEST(KMeans, EmptyClusterTakesTheFarthestRow) {
  const PackedRows rows{{0, 0, 1, 1, 10, 10}, 1};
  const Clusters found = k_means(rows.view(), Indices{4, 5, 0}, 300);
  EXPECT_EQ(found.centroids, (std::vector<float>{10, 1, 0}));
  EXPECT_EQ(found.labels, (Indices{2, 2, 1, 1, 0, 0}));
  EXPECT_EQ(found.inertia, 0);
}

// More clusters than different rows: the centroids of clusters without rows are the largest rows.
TEST(KMeans, MoreClustersThanDifferentRows) {
  const PackedRows rows{{3, 5, 5, 3, 5}, 1};
  const Clusters found = k_means(rows.view(), Indices{0, 1, 2, 3}, 300);
  EXPECT_EQ(found.centroids, (std::vector<float>{3, 5, 5, 5}));
  EXPECT_EQ(found.labels, (Indices{0, 1, 1, 0, 1}));
  EXPECT_EQ(found.inertia, 0);
}

TEST(KMeans, EqualDistancesGoToTheLowestCentroid) {
  const PackedRows rows{{0, 2, 1, 2, 0}, 1};
  EXPECT_EQ(k_means(rows.view(), Indices{1, 0, 3, 4}, 0).labels, (Indices{1, 0, 0, 0, 1}));
  std::vector<float> equal(100 * 3, 1.5f);
  for (std::int64_t count = 1; count <= 100; ++count) {
    const CentroidTable table(MatrixView<const float>(equal.data(), count, 3));
    for (const Nearness nearness : {Nearness::kDistance, Nearness::kProduct}) {
      Indices labels(5, -1);
      nearest_centroids({equal.data(), 5, 3}, table, nearness, labels);
      EXPECT_EQ(labels, Indices(5, 0)) << count;
    }
  }
}

// Centroids are the means of rows, not of their directions: (1, 0) and (0, 3) give (.5, 1.5).
TEST(CosineKMeans, AveragesUnnormalisedRows) {
  const PackedRows rows{{1, 0, 0, 3, -2, 0}, 2};
  const Clusters found = cosine_k_means(rows.view(), Indices{1, 2}, 1);
  EXPECT_EQ(found.labels, (Indices{0, 0, 1}));
  EXPECT_EQ(found.centroids, (std::vector<float>{.5f, 1.5f, -2, 0}));
  EXPECT_EQ(found.iterations, 1);
  EXPECT_NEAR(found.inertia, 2 - .5 / std::sqrt(2.5) - 1.5 / std::sqrt(2.5), 1e-12);
}

// (4, 0) has the direction of (1, 0): the lower cluster gets the rows of both, and the other
// centroid does not change.  The cosine of a zero row with every centroid is 0.
TEST(CosineKMeans, EmptyClusterKeepsItsCentroid) {
  const PackedRows rows{{1, 0, 4, 0, 0, 1, 0, 0}, 2};
  const Clusters found = cosine_k_means(rows.view(), Indices{0, 1, 2}, 1);
  EXPECT_EQ(found.labels, (Indices{0, 0, 2, 0}));
  EXPECT_EQ(found.centroids, (std::vector<float>{5.0f / 3, 0, 4, 0, 0, 1}));
}

TEST(KMeans, IgnoresGapsBetweenRowsAtEverySimdLevel) {
  constexpr std::int64_t kRows = 303, kDim = 19, kGap = 6;
  const PackedRows rows = random_rows(kRows, kDim, 3);
  std::vector<float> wide(kRows * (kDim + kGap), std::numeric_limits<float>::quiet_NaN());
  const MatrixView<float> strided(wide.data(), kRows, kDim, kDim + kGap);
  for (std::int64_t r = 0; r < kRows; ++r) std::copy_n(rows.view().row(r), kDim, strided.row(r));
  Random random(4);
  const Indices first = draw_rows(random, kRows, 40);
  for (const ClusterKind kind : {ClusterKind::kEuclidean, ClusterKind::kCosine}) {
    const Clusters want = cluster(kind, rows.view(), first, 5);
    test::with_each_simd_level([&](std::int64_t target) {
      SCOPED_TRACE(hwy::TargetName(target));
      const Clusters found = cluster(kind, strided, first, 5);
      EXPECT_EQ(found.labels, want.labels);
      EXPECT_EQ(found.centroids, want.centroids);
      EXPECT_EQ(found.inertia, want.inertia);
    });
  }
}

TEST(KMeans, Refusals) {
  const PackedRows rows{{1, 2, 3}, 1};
  EXPECT_EQ(test::message_of([&] {
              k_means(rows.view(), Indices{0, 1, 2, 0}, 9);
            }),
            "k-means: found 4 clusters for 3 rows, expected 1 to 3");
  EXPECT_EQ(test::message_of([&] { cosine_k_means(rows.view(), Indices{}, 9); }),
            "k-means: found 0 clusters for 3 rows, expected 1 to 3");
  EXPECT_EQ(test::message_of([&] { k_means(rows.view(), Indices{3}, 9); }),
            "k-means: found the first row 3, expected 0 to 2");
  EXPECT_EQ(test::message_of(
                [] {
                  const PackedRows bad{{1, 2, INFINITY, 4}, 2};
                  k_means(bad.view(), Indices{0}, 9);
                },
                ErrorKind::kRuntime),
            "k-means: row 1 is not finite");
  EXPECT_EQ(test::message_of([] {
              Random random(1);
              draw_rows(random, 3, 4);
            }),
            "found 4 rows to draw, expected at most 3");
}

}  // namespace
}  // namespace turnbench
