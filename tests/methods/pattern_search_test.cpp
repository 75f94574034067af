// The search for MInference's patterns.

#include "methods/prefill/pattern_search.h"

#include <gtest/gtest.h>

#include <numbers>
#include <numeric>

#include "common/error.h"
#include "common/file.h"
#include "layer.h"
#include "methods/method.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using test::best;
using test::Layer;
using Kind = MInferenceConfig::Kind;
using Head = MInferenceConfig::Head;
using Mask = std::vector<std::vector<char>>;

FoundPatterns search(Layer& layer, PatternSearch::Settings settings) {
  FoundPatterns found;
  PatternSearch policy(std::move(settings), found);
  for (int l = 0; l < layer.shape.layers; ++l) EXPECT_TRUE(policy.plan(layer.view(l)).empty());
  return found;
}

/// A reference of a candidate's cells.
Mask reference_mask(Layer& layer, int h, const Head& c) {
  const int n = layer.n, d = layer.shape.head_dim;
  const auto size = static_cast<std::size_t>(n);
  Mask mask(size, std::vector<char>(size));
  std::vector<double> vert(size), diag(size);
  for (int i = n - 64; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      vert[j] += layer.probability(h, i, j);
      diag[i - j] += layer.probability(h, i, j);
    }
  }
  std::fill_n(vert.begin(), 30, 1e9);
  std::fill_n(diag.begin(), 30, 1e9);
  const auto columns = best(vert, c.vertical), offsets = best(diag, c.slash);
  const auto pooled = [&](std::span<const float> rows, std::size_t stride, std::size_t at,
                          int block) {
    std::vector<double> out(static_cast<std::size_t>(d));
    for (int i = block * 32; i < std::min(n, block * 32 + 32); ++i) {
      for (std::size_t x = 0; x < out.size(); ++x)
        out[x] += static_cast<double>(rows[static_cast<std::size_t>(i) * stride + at + x]) / 32;
    }
    return out;
  };
  const int blocks = (n + 31) / 32;
  const auto width = static_cast<std::size_t>(d),
             heads = static_cast<std::size_t>(layer.shape.heads);
  for (int i = 0; i < n; ++i) {
    std::vector<char>& row = mask[i];
    for (int j = 0; j <= i; ++j) {
      char& cell = row[j];
      if (c.kind == Kind::kStream) cell = j < c.vertical || i - j < c.slash;
      if (c.kind == Kind::kVerticalSlash) {
        cell = std::binary_search(columns.begin(), columns.end(), j) ||
               std::binary_search(offsets.begin(), offsets.end(), i - j);
      }
    }
    if (c.kind != Kind::kBlockSparse) continue;
    const auto q =
        pooled(layer.queries, heads * width, static_cast<std::size_t>(h) * width, i / 32);
    std::vector<double> logits;
    for (int b = 0; b <= i / 32; ++b) {
      const auto k = pooled(layer.keys[h / layer.shape.group()], width, 0, b);
      logits.push_back(std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
    }
    for (int b : best(logits, blocks / 8)) {
      for (int j = b * 32; j <= std::min(i, b * 32 + 31); ++j) row[j] = 1;
    }
  }
  return mask;
}

const std::vector<Head> kSmall = {
    {Kind::kStream, 5, 40}, {Kind::kVerticalSlash, 45, 60}, {Kind::kBlockSparse, 0, 0}};

TEST(PatternSearch, RecallEqualsTheDenseReference) {
  Layer layer(2, 2, 16, 400, 400, 5);
  for (const Head& c : kSmall) {
    const FoundPatterns found = search(layer, {.first_row = 150, .candidates = {c}});
    for (int h = 0; h < 4; ++h) {
      const Mask mask = reference_mask(layer, h, c);
      double want = 0;
      for (std::size_t i = 150; i < 400; ++i) {
        for (std::size_t j = 0; j <= i; ++j)
          want += mask[i][j] * layer.probability(h, static_cast<int>(i), static_cast<int>(j)) / 250;
      }
      EXPECT_NEAR(found[0][h].score, want, 1e-5) << name_of(c.kind);
    }
  }
}

TEST(PatternSearch, OutputsEqualTheDenseReference) {
  Layer layer(2, 2, 16, 300, 300, 5);
  for (const Head& c : kSmall) {
    const FoundPatterns found = search(
        layer, {.objective = PatternObjective::kOutput, .first_row = 150, .candidates = {c}});
    for (int h = 0; h < 4; ++h) {
      const Mask mask = reference_mask(layer, h, c);
      const std::vector<float>& values = layer.values[h / 2];
      int want = 0;
      for (std::size_t i = 150; i < 300; ++i) {
        std::vector<double> dense(16), sparse(16);
        double mass = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          const double p = layer.probability(h, static_cast<int>(i), static_cast<int>(j));
          mass += mask[i][j] * p;
          for (std::size_t d = 0; d < 16; ++d) {
            dense[d] += p * static_cast<double>(values[j * 16 + d]);
            sparse[d] += mask[i][j] * p * static_cast<double>(values[j * 16 + d]);
          }
        }
        for (std::size_t d = 0; d < 16; ++d)
          want += std::abs((mass > 0 ? sparse[d] / mass : 0) - dense[d]) > 5e-3;
      }
      EXPECT_NEAR(found[0][h].score, want, 3) << name_of(c.kind);
    }
  }
}

/// Three heads over 5000 tokens with constructed attention: sinks with a window, lines, blocks.
class PlantedLayer : public Layer {
 public:
  static constexpr int kTokens = 5000, kDim = 64;
  using Vector = std::vector<double>;

  PlantedLayer() : Layer(3, 1, kDim, kTokens, kTokens, 1) {
    shape.layers = 1;
    std::mt19937_64 random(7);
    plant_window();
    plant_lines(random);
    plant_blocks(random);
  }

 private:
  /// Logit of a pair: query . key.
  void set(int head, int token, const Vector& query, const Vector& key) {
    float* q = queries.data() + static_cast<std::size_t>((token * 3 + head) * kDim);
    std::vector<float> k(kDim);
    for (std::size_t d = 0; d < kDim; ++d) {
      q[d] = static_cast<float>(query[d] * std::sqrt(static_cast<double>(kDim)));
      k[d] = static_cast<float>(key[d]);
    }
    sets[head].write(token, {k.data(), 1, kDim});
  }

  /// cos and sin of the frequencies at `place`, so that the product of two vectors is 1 for equal
  /// places.
  static void add_phases(Vector& v, const Vector& frequencies, double place, double scale) {
    const double norm = std::sqrt(static_cast<double>(frequencies.size()));
    for (std::size_t f = 0; f < frequencies.size(); ++f) {
      v[2 * f] = scale * std::cos(frequencies[f] * place) / norm;
      v[2 * f + 1] = scale * std::sin(frequencies[f] * place) / norm;
    }
  }

  /// 100 sinks, and a bell-shaped logit with a width of 600 tokens.
  void plant_window() {
    Vector frequencies;  // of a bell: quantiles of the normal distribution
    for (int f = 0; f < 31; ++f) {
      double x = 0;
      for (int step = 0; step < 50; ++step)
        x -= (0.5 * std::erfc(-x / std::numbers::sqrt2) - (f + 0.5) / 31) /
             (std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi));
      frequencies.push_back(x / 600);
    }
    for (int i = 0; i < kTokens; ++i) {
      Vector q(kDim), k(kDim);
      add_phases(q, frequencies, i, 8);
      add_phases(k, frequencies, i, 1);
      q[62] = 8;
      k[62] = i < 100;
      set(0, i, q, k);
    }
  }

  /// 20 columns, and the diagonal 1200 tokens back.
  void plant_lines(std::mt19937_64& random) {
    Vector frequencies;
    for (int f = 0; f < 31; ++f)
      frequencies.push_back(std::uniform_real_distribution<double>(0, std::numbers::pi)(random));
    std::set<int> columns;
    while (columns.size() < 20) columns.insert(200 + static_cast<int>(random() % 2000));
    for (int i = 0; i < kTokens; ++i) {
      Vector q(kDim), k(kDim);
      add_phases(q, frequencies, i, 16);
      add_phases(k, frequencies, i + 1200, 1);
      q[62] = 11;
      k[62] = columns.contains(i);
      set(1, i, q, k);
    }
  }

  /// Each block of 32 rows attends to three blocks of 32 keys.
  void plant_blocks(std::mt19937_64& random) {
    std::normal_distribution<double> normal(0, 1 / std::sqrt(static_cast<double>(kDim)));
    std::vector<Vector> directions;
    Vector q(kDim);
    for (int i = 0; i < kTokens; ++i) {
      if (i % 32 == 0) {
        Vector& direction = directions.emplace_back(kDim);
        for (double& x : direction) x = normal(random);
        q.assign(kDim, 0);
        for (int k = 0; k < 3; ++k) {
          const Vector& other = directions[random() % directions.size()];
          for (std::size_t d = 0; d < kDim; ++d) q[d] += 10 * other[d];
        }
      }
      set(2, i, q, directions.back());
    }
  }
};

// Distinguishes sinks and window, lines, and blocks.
TEST(PatternSearch, PlantedHeadsGetTheirPatterns) {
  PlantedLayer layer;
  const FoundPatterns found =
      search(layer, {.candidates = pattern_candidates(PatternObjective::kRecall)});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].size(), 3u);
  EXPECT_EQ(name_of(found[0][0].pattern.kind), "stream_llm");
  EXPECT_EQ(name_of(found[0][1].pattern.kind), "vertical_and_slash");
  EXPECT_EQ(name_of(found[0][2].pattern.kind), "block_sparse");
  for (const FoundPattern& p : found[0]) {
    EXPECT_GT(p.score, 0.9) << name_of(p.pattern.kind);
    EXPECT_LE(p.score, 1 + 1e-5);
  }
}

// All sizes cover a short prompt: the first candidate is selected, without any loss.
TEST(PatternSearch, TiesGoToTheFirstCandidate) {
  Layer layer(1, 1, 16, 700, 700, 5);
  const auto candidates = pattern_candidates(PatternObjective::kRecall);
  const FoundPatterns found = search(layer, {.first_row = 500, .candidates = candidates});
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(found[3][0].pattern.kind, Kind::kStream);
  EXPECT_NEAR(found[3][0].score, 1, 1e-5);
  const FoundPatterns outputs = search(
      layer, {.objective = PatternObjective::kOutput, .first_row = 500, .candidates = candidates});
  EXPECT_EQ(outputs[3][0].pattern.kind, Kind::kStream);
  EXPECT_EQ(outputs[3][0].score, 0);
}

TEST(PatternSearch, ShortPromptsAreRefused) {
  Layer layer(1, 1, 16, 100, 100, 5);
  FoundPatterns found;
  PatternSearch policy({.candidates = kSmall}, found);
  EXPECT_THROW(policy.plan(layer.view()), Error);
}

// The sizes of both variants, and the format of the published files.
TEST(PatternSearch, Candidates) {
  EXPECT_EQ(pattern_candidates(PatternObjective::kRecall).size(), 6u);
  EXPECT_EQ(pattern_candidates(PatternObjective::kOutput).size(), 8u);
  const Head stream = as_vertical_slash({Kind::kStream, 100, 800});
  EXPECT_EQ(stream.kind, Kind::kVerticalSlash);
  EXPECT_EQ(stream.vertical, 100);
  EXPECT_EQ(stream.slash, 800);
  const Head blocks = as_vertical_slash({Kind::kBlockSparse, 1, 1});
  EXPECT_EQ(blocks.kind, Kind::kVerticalSlash);
  EXPECT_EQ(blocks.vertical, 1000);
  EXPECT_EQ(blocks.slash, 6096);
}

// `minference` reads the result of the search.
TEST(PatternSearch, FilesRoundTrip) {
  const FoundPatterns found = {
      {{{Kind::kStream, 100, 800}, 0.75}, {{Kind::kVerticalSlash, 500, 700}, 1}},
      {{{Kind::kBlockSparse, 1000, 6096}, 0.5}, {{Kind::kVerticalSlash, 3500, 100}, 0.25}}};
  const std::string text = pattern_file(found);
  EXPECT_EQ(
      text,
      "[\n"
      " {\"0\":[\"stream_llm\",100,800,0.75],\"1\":[\"vertical_and_slash\",500,700,1.0]},\n"
      " {\"0\":[\"block_sparse\",1000,6096,0.5],\"1\":[\"vertical_and_slash\",3500,100,0.25]}\n"
      "]\n");
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("patterns.json", text);
  const MInferenceConfig config = MInferenceConfig::load(path, 1);
  config.check_shape({.layers = 2, .heads = 2, .kv_heads = 1, .head_dim = 8});
  for (int l = 0; l < 2; ++l) {
    for (int h = 0; h < 2; ++h) {
      const Head &got = config.head(l, h), &want = found[l][h].pattern;
      EXPECT_EQ(got.kind, want.kind);
      EXPECT_EQ(got.vertical, want.vertical);
      EXPECT_EQ(got.slash, want.slash);
    }
  }
  EXPECT_NO_THROW(Method::parse("minference:config=" + path));
}

}  // namespace
}  // namespace turnbench
