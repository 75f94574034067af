// ShadowKV, compared with a reference in double precision, worked examples and full attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "inference/model/rope.h"
#include "methods/method.h"
#include "methods/parts/chunk_landmarks.h"
#include "methods/parts/low_rank_keys.h"
#include "tests/inference/conversation.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/layer.h"

namespace turnbench {
namespace {

using test::Conversation;
using test::Logits;
using test::Machine;
using test::synthetic_tokens;
using Ints = std::vector<std::int32_t>;

constexpr int kChunk = 8;

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(count);
  for (float& x : out) x = draw(engine);
  return out;
}

/// A layer whose sets also have keys before RoPE, and which receives its tokens in parts.
struct RopeLayer : test::Layer {
  RopeLayer(int kv_heads, int group, int head_dim, int tokens, std::uint64_t seed)
      : test::Layer(kv_heads, group, head_dim, tokens, 1, seed) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(tokens));
    std::iota(all.begin(), all.end(), 0);
    cos.resize(all.size() * static_cast<std::size_t>(head_dim / 2));
    sin.resize(cos.size());
    rope_tables(rope_frequencies({}, head_dim), 1, all, cos.data(), sin.data());
    const std::size_t row = static_cast<std::size_t>(head_dim);
    for (std::size_t s = 0; s < keys.size(); ++s) {
      // Keys of adjacent tokens are similar, as in a text.
      std::vector<float>& own = raw.emplace_back(normal(all.size() * row, seed + 31 + s));
      for (std::size_t i = row; i < own.size(); ++i) own[i] += 0.8f * own[i - row];
    }
    cache_all();
  }

  /// Caches `raw` and `values`.
  void cache_all() {
    const std::ptrdiff_t dim = shape.head_dim;
    const auto pool =
        std::make_shared<KvPool>(PageLayout{shape.head_dim, DType::kF32, true}, backend->memory());
    cached.clear();
    for (std::size_t s = 0; s < keys.size(); ++s) {
      KvHeadCache& cache = cached.emplace_back(pool);
      for (std::int32_t j = 0; j < std::ssize(positions); ++j) {
        const float* own = raw[s].data() + j * dim;
        const std::vector<float> key = rotated(own, j);
        std::copy(key.begin(), key.end(), keys[s].begin() + j * dim);
        cache.append(key.data(), values[s].data() + j * dim, own, j);
      }
    }
  }

  std::vector<float> rotated(const float* key, int position) const {
    const int half = shape.head_dim / 2;
    std::vector<float> out(static_cast<std::size_t>(shape.head_dim));
    for (int d = 0; d < half; ++d) {
      const auto at = static_cast<std::size_t>(position * half + d);
      out[d] = key[d] * cos[at] - key[d + half] * sin[at];
      out[d + half] = key[d + half] * cos[at] + key[d] * sin[at];
    }
    return out;
  }
  /// The layer as if it had `tokens` tokens, of which the last ones are an answer.
  LayerView at(int tokens, int answered = 0, int layer = 0) {
    sets = cached;
    for (KvHeadCache& set : sets) set.truncate(tokens);
    n = tokens;
    prompt_tokens = tokens - answered;
    generated = answered;
    return view(layer);
  }
  const float* query(int head) const {
    return queries.data() + (std::ptrdiff_t{n - 1} * shape.heads + head) * shape.head_dim;
  }
  const float* key(int set, int slot) const {
    return keys[set].data() + std::ptrdiff_t{slot} * shape.head_dim;
  }
  RopeTable table() {
    return {{cos.data(), std::ssize(positions), shape.head_dim / 2},
            {sin.data(), std::ssize(positions), shape.head_dim / 2}};
  }

  std::vector<float> cos, sin;
  std::vector<std::vector<float>> raw;  ///< keys before RoPE
  std::vector<KvHeadCache> cached;
};

double dot(const float* a, std::span<const double> b) {
  return std::inner_product(b.begin(), b.end(), a, 0.0);
}

/// The mean of a chunk's keys.
std::vector<double> landmark(const RopeLayer& layer, int set, int chunk, int tokens = kChunk) {
  std::vector<double> out(static_cast<std::size_t>(layer.shape.head_dim));
  for (int j = 0; j < tokens; ++j) {
    for (std::size_t d = 0; d < out.size(); ++d)
      out[d] += double{layer.key(set, chunk * tokens + j)[d]} / tokens;
  }
  return out;
}

/// Chunks [first, end) of a set with the smallest cosine of a key with the landmark.
Ints outliers_of(const RopeLayer& layer, int set, int first, int end, int count) {
  std::vector<double> strangeness;
  for (int c = first; c < end; ++c) {
    const std::vector<double> mean = landmark(layer, set, c);
    const double own = std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0);
    double least = 1;
    for (int j = 0; j < kChunk; ++j) {
      const float* key = layer.key(set, c * kChunk + j);
      const double norm = std::inner_product(key, key + mean.size(), key, 0.0);
      least = std::min(least, dot(key, mean) / std::sqrt(own * norm));
    }
    strangeness.push_back(-least);
  }
  Ints out = test::best(strangeness, count);
  for (std::int32_t& c : out) c += first;
  return out;
}

/// Softmax over the landmarks of the chunks that are not outliers, for each query head; the chunks
/// with the highest maximum over the heads of a set.
Ints chosen_of(const RopeLayer& layer, int set, int chunks, const Ints& outliers, int count) {
  Ints others;
  for (int c = 0; c < chunks; ++c) {
    if (!std::binary_search(outliers.begin(), outliers.end(), c)) others.push_back(c);
  }
  std::vector<double> most(others.size());
  for (int h = set * layer.shape.group(); h < (set + 1) * layer.shape.group(); ++h) {
    std::vector<double> p;
    for (const int c : others)
      p.push_back(std::exp(dot(layer.query(h), landmark(layer, set, c)) /
                           std::sqrt(double{1.0 * layer.shape.head_dim})));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (std::size_t i = 0; i < p.size(); ++i) most[i] = std::max(most[i], p[i] / sum);
  }
  Ints out;
  for (const std::int32_t i : test::best(most, count)) out.push_back(others[i]);
  return out;
}

Ints slots_of(Ints chunks, const Ints& more, int tail, int n) {
  chunks.insert(chunks.end(), more.begin(), more.end());
  std::sort(chunks.begin(), chunks.end());
  Ints out;
  for (const int c : chunks) {
    for (int j = 0; j < kChunk; ++j) out.push_back(c * kChunk + j);
  }
  for (int j = tail; j < n; ++j) out.push_back(j);
  return out;
}

TEST(ShadowKv, ReadsTheChunksOfAPlainReference) {
  constexpr int kPrompt = 643, kAnswer = 5, kChunks = 76, kOutliers = 6, kTurn = 700;
  RopeLayer layer(2, 3, 16, kTurn + 2, 3);
  for (const int budget : {64, 83, 200}) {
    const auto policy =
        Method::parse(fmt::format("shadowkv:budget={},outliers=6,rank=12", budget)).make();
    SelectionPolicy& p = *policy.selection;
    p.after_prefill(layer.at(kPrompt));
    for (int step = 1; step <= kAnswer; ++step) {
      const Selection got = p.select(layer.at(kPrompt + step, step));
      ASSERT_EQ(got.slots.size(), 2u);
      for (int s = 0; s < 2; ++s) {
        const Ints outliers = outliers_of(layer, s, 0, kChunks, kOutliers);
        EXPECT_EQ(got.slots[s], slots_of(chosen_of(layer, s, kChunks, outliers, budget / kChunk),
                                         outliers, kChunks * kChunk, layer.n))
            << "budget " << budget << ", step " << step << ", set " << s;
      }
    }
    // A later turn: 700 / 8 - 4 = 83 chunks, and 6 * 7 / 76 = 0 outliers among the new ones.
    p.after_prefill(layer.at(kTurn));
    const Selection got = p.select(layer.at(kTurn + 1, 1));
    for (int s = 0; s < 2; ++s) {
      const Ints outliers = outliers_of(layer, s, 0, kChunks, kOutliers);
      EXPECT_EQ(got.slots[s], slots_of(chosen_of(layer, s, 83, outliers, budget / kChunk), outliers,
                                       83 * kChunk, layer.n));
    }
  }
}

// Outliers among the tokens of a later turn: 10 for 50 chunks give 6 for 30 more, if the index is
// extended.
TEST(ShadowKv, LaterTurnsHaveOutliersInProportion) {
  RopeLayer layer(2, 2, 16, 800, 4);
  for (const bool rebuild : {false, true}) {
    const auto policies =
        Method::parse(fmt::format("shadowkv:budget=40,outliers=10,rank=8,rebuild={}", rebuild))
            .make();
    SelectionPolicy& p = *policies.selection;
    p.after_prefill(layer.at(8 * 54 + 3));
    p.after_prefill(layer.at(8 * 84 + 5));
    const Selection got = p.select(layer.at(8 * 84 + 6, 1));
    for (int s = 0; s < 2; ++s) {
      Ints outliers = outliers_of(layer, s, 0, rebuild ? 80 : 50, 10);
      if (!rebuild) {
        const Ints more = outliers_of(layer, s, 50, 80, 6);
        outliers.insert(outliers.end(), more.begin(), more.end());
      }
      EXPECT_EQ(got.slots[s],
                slots_of(chosen_of(layer, s, 80, outliers, 5), outliers, 640, layer.n))
          << rebuild;
      std::vector<SlotRange> pinned = p.pinned(0, s, layer.n);
      ASSERT_EQ(pinned.size(), outliers.size() + 1);
      for (std::size_t i = 0; i < outliers.size(); ++i) {
        EXPECT_EQ(pinned[i].begin, outliers[i] * kChunk);
        EXPECT_EQ(pinned[i].end, (outliers[i] + 1) * kChunk);
      }
      EXPECT_EQ(pinned.back().begin, 640);
      EXPECT_EQ(pinned.back().end, layer.n);
    }
  }
}

TEST(ShadowKv, CountsChunksAndTails) {
  RopeLayer layer(1, 1, 8, 1010, 5);
  const auto tail_of = [&](const std::string& spec) {
    const auto policies = Method::parse("shadowkv:budget=64,rank=4" + spec).make();
    policies.selection->after_prefill(layer.at(1003));
    EXPECT_FALSE(demand_at(*policies.selection, layer.at(1003)).everything);
    const std::vector<SlotRange> pinned = policies.selection->pinned(0, 0, 1003);
    return std::pair(pinned.back().begin / kChunk, pinned.back().end - pinned.back().begin);
  };
  EXPECT_EQ(tail_of(""), std::pair(121, 35));
  EXPECT_EQ(tail_of(",class=offload"), std::pair(120, 43));
}

// 24 outliers for each whole 1024 tokens of the budget, or the given number.
TEST(ShadowKv, OutliersOfItsClasses) {
  RopeLayer layer(1, 1, 4, 3000, 6);
  const auto outliers = [&](const std::string& spec) {
    const auto policies = Method::parse("shadowkv:rank=4," + spec).make();
    policies.selection->after_prefill(layer.at(3000));
    return policies.selection->pinned(0, 0, 3000).size() - 1;
  };
  EXPECT_EQ(outliers("budget=512"), 48u);
  EXPECT_EQ(outliers("budget=2048"), 48u);
  EXPECT_EQ(outliers("budget=512,class=offload"), 0u);
  EXPECT_EQ(outliers("budget=1024,class=offload"), 24u);
  EXPECT_EQ(outliers("budget=2048,class=offload"), 48u);
  EXPECT_EQ(outliers("budget=512,outliers=7"), 7u);
}

// Keys that are equal have a cosine of 1: such a chunk is not an outlier while others differ.
TEST(ShadowKv, EqualKeysAreNoOutliers) {
  RopeLayer layer(1, 1, 8, 400, 7);
  for (int j = 80; j < 88; ++j) {
    test::write_rows(layer.cached[0], j, layer.key(0, 80), nullptr, nullptr);
  }
  layer.at(400);
  const ChunkLandmarks part(layer.view(), {.chunk = 8, .first = 0, .end = 46, .outliers = 45});
  EXPECT_EQ(Ints(part.chunks(0).begin(), part.chunks(0).end()), Ints{10});
  const auto* landmark = reinterpret_cast<const float*>(part.landmarks(0).low);
  for (int d = 0; d < 8; ++d) EXPECT_NEAR(landmark[d], layer.key(0, 80)[d], 1e-6);
}

TEST(ShadowKv, ReadsEverythingOfShortPrompts) {
  RopeLayer layer(1, 2, 8, 600, 8);
  const auto everything = [&](const std::string& spec, int n) {
    const auto policies = Method::parse("shadowkv:rank=4," + spec).make();
    policies.selection->after_prefill(layer.at(n));
    const bool out = demand_at(*policies.selection, layer.at(n)).everything;
    if (out) {
      EXPECT_TRUE(policies.selection->select(layer.at(n + 1, 1)).all());
    }
    return out;
  };
  // 8 chunks and 48 outliers need 56 chunks, thus 60 with the newest ones.
  EXPECT_TRUE(everything("budget=64", 479));
  EXPECT_FALSE(everything("budget=64", 480));
  EXPECT_TRUE(everything("budget=300,outliers=0", 300));
  EXPECT_TRUE(everything("budget=100%,outliers=0,local_chunks=0", 599));
  EXPECT_FALSE(everything("budget=263,outliers=0", 299));
  EXPECT_TRUE(everything("budget=64", 1));
}

std::vector<float> product(const std::vector<float>& rows, const std::vector<float>& basis,
                           std::int64_t rank, std::int64_t columns) {
  const std::int64_t n = std::ssize(rows) / rank;
  std::vector<float> out(static_cast<std::size_t>(n * columns));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (std::int64_t r = 0; r < rank; ++r)
        sum += double{rows[i * rank + r]} * basis[r * columns + c];
      out[i * columns + c] = static_cast<float>(sum);
    }
  }
  return out;
}

double error_of(const std::vector<float>& a, const std::vector<float>& b) {
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(out);
}

/// A matrix with singular values of different magnitudes.
std::vector<float> uneven(std::int64_t rows, std::int64_t columns) {
  std::vector<float> out = normal(static_cast<std::size_t>(rows * columns), 9);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *= std::pow(0.8f, static_cast<float>(i % static_cast<std::size_t>(columns)));
  return out;
}

// Singular values are those of a full SVD, and the error has the norm of the omitted ones.
TEST(LowRankKeys, FactorsEqualAnSvd) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  for (const std::int64_t rows : {20, 300}) {
    constexpr std::int64_t kColumns = 32;
    const std::vector<float> x = uneven(rows, kColumns);
    const MatrixView<const float> view(x.data(), rows, kColumns);
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(
        Eigen::Map<const Rows>(x.data(), rows, kColumns).cast<double>());
    double last = 1e9;
    for (int rank = 1; rank <= kColumns + 1; ++rank) {
      const RightFactors f = right_factors(view, rank);
      ASSERT_EQ(f.rank(), std::min({std::int64_t{rank}, rows, kColumns}));
      double rest = 0;
      for (Eigen::Index i = 0; i < svd.singularValues().size(); ++i) {
        const double s = svd.singularValues()[i];
        if (i >= f.rank()) {
          rest += s * s;
        } else {
          EXPECT_NEAR(f.values[i], s, 1e-9 * svd.singularValues()[0]);
        }
      }
      const double error =
          error_of(product(coefficients(view, f), weighted_vectors(f), f.rank(), kColumns), x);
      EXPECT_NEAR(error, std::sqrt(rest), 1e-5 * svd.singularValues()[0]) << rank;
      EXPECT_LE(error, last + 1e-5) << rank;
      last = error;
    }
  }
}

TEST(LowRankKeys, HandlesLowerRanksAndNoKeys) {
  // Rank 3 of 8 columns, and a zero matrix.
  std::vector<float> x(static_cast<std::size_t>(50 * 8));
  const std::vector<float> a = normal(150, 1), b = normal(24, 2);
  x = product(a, b, 3, 8);
  const MatrixView<const float> view(x.data(), 50, 8);
  const RightFactors all = right_factors(view, 8);
  EXPECT_LT(error_of(product(coefficients(view, all), weighted_vectors(all), 8, 8), x), 1e-4);
  const std::vector<float> zeros(static_cast<std::size_t>(50 * 8));
  const MatrixView<const float> none(zeros.data(), 50, 8);
  const RightFactors of_zeros = right_factors(none, 4);
  for (const float u : coefficients(none, of_zeros)) EXPECT_EQ(u, 0);
}

/// Attention of a step over a selection, in a working set as in the engine: pinned tokens in the
/// first slots, then the selected ones, with `missing` tokens of each set whose keys are rebuilt.
std::vector<float> attend(RopeLayer& layer, SelectionPolicy& policy, const Selection& selection,
                          std::size_t missing) {
  const std::size_t sets = layer.cached.size();
  std::vector<KvHeadCache> working;
  std::vector<SlotCopy> rebuilt;
  std::vector<Copy> copies;
  std::vector<Ints> lists(sets);
  for (std::size_t s = 0; s < sets; ++s) {
    working.push_back(KvHeadCache::working_set(layer.cached[s].pool(), layer.n));
    Ints device(static_cast<std::size_t>(layer.n), -1);
    int at = 3;
    for (const SlotRange& r : policy.pinned(0, static_cast<int>(s), layer.n)) {
      working[s].place(at, layer.sets[s], r.begin, r.end - r.begin, copies);
      for (int j = r.begin; j < r.end; ++j) device[j] = at++;
    }
    for (const std::int32_t slot : selection.slots[s]) {
      std::int32_t& to = device[slot];
      if (to < 0) {
        to = at++;
        working[s].place(to, layer.sets[s], slot, 1, copies, KeyRows::kNone);
        rebuilt.push_back({static_cast<int>(s), slot, to, 1});
      }
      lists[s].push_back(to);
    }
  }
  layer.backend->memory()->copy(copies);
  EXPECT_EQ(rebuilt.size(), sets * missing);
  capability<KeyRebuilder>(&policy)->rebuild_keys(layer.view(), {working, rebuilt, layer.table()});
  const std::int32_t position = layer.n - 1;
  const std::int64_t width = layer.shape.group() * layer.shape.head_dim;
  return layer.attend(sets * static_cast<std::size_t>(width), [&](float* to) {
    std::vector<AttentionJob> jobs(sets);
    for (std::size_t s = 0; s < sets; ++s) {
      const int first_head = static_cast<int>(s) * layer.shape.group();
      jobs[s].keys = &working[s];
      jobs[s].q = {layer.query(first_head), 1, width};
      jobs[s].positions = &position;
      jobs[s].out = {to + static_cast<std::int64_t>(s) * width, 1, width};
      jobs[s].slots = &lists[s];
    }
    return jobs;
  });
}

/// Attention of the last query of a head over slots with given keys.
std::vector<double> attention(const RopeLayer& layer, int head, const Ints& slots,
                              const std::vector<std::vector<double>>& keys) {
  const int dim = layer.shape.head_dim, set = head / layer.shape.group();
  std::vector<double> out(static_cast<std::size_t>(dim));
  double sum = 0;
  for (const int slot : slots) {
    const double p =
        std::exp(dot(layer.query(head), keys[slot]) / std::sqrt(static_cast<double>(dim)));
    sum += p;
    for (int d = 0; d < dim; ++d)
      out[d] += p * double{layer.values[set][static_cast<std::size_t>(slot * dim + d)]};
  }
  for (double& x : out) x /= sum;
  return out;
}

// A reference of one layer in double precision: SVD of the first prompt's keys before RoPE, the
// second prompt's keys in this basis, landmarks, outliers, selection, rebuilt keys, attention.
TEST(ShadowKv, AttentionIsThatOfAPlainReference) {
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr int kSets = 2, kGroup = 2, kDim = 16, kFirst = 420, kSecond = 530, kRank = 9;
  RopeLayer layer(kSets, kGroup, kDim, kSecond + 1, 11);
  const auto policies = Method::parse("shadowkv:budget=80,outliers=5,rank=9").make();
  SelectionPolicy& p = *policies.selection;
  p.after_prefill(layer.at(kFirst));
  p.after_prefill(layer.at(kSecond));
  const Selection got = p.select(layer.at(kSecond + 1, 1));

  Rows x(kSecond, kSets * kDim);
  for (int j = 0; j < kSecond; ++j) {
    for (int c = 0; c < kSets * kDim; ++c)
      x(j, c) = double{layer.raw[c / kDim][static_cast<std::size_t>(j * kDim + c % kDim)]};
  }
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(x.topRows(kFirst), Eigen::ComputeThinV);
  const Eigen::MatrixXd v = svd.matrixV().leftCols(kRank);
  const Rows approximated = x * v * v.transpose();

  const std::vector<float> out = attend(layer, p, got, 80);

  const int chunks = kSecond / kChunk - 4, first_chunks = kFirst / kChunk - 4;
  for (int s = 0; s < kSets; ++s) {
    Ints outliers = outliers_of(layer, s, 0, first_chunks, 5);
    const Ints more =
        outliers_of(layer, s, first_chunks, chunks, 5 * (chunks - first_chunks) / first_chunks);
    outliers.insert(outliers.end(), more.begin(), more.end());
    const Ints slots =
        slots_of(chosen_of(layer, s, chunks, outliers, 10), outliers, chunks * kChunk, layer.n);
    ASSERT_EQ(got.slots[s], slots);
    std::vector<std::vector<double>> keys;
    for (int j = 0; j < layer.n; ++j) {
      const bool exact =
          j >= chunks * kChunk || std::binary_search(outliers.begin(), outliers.end(), j / kChunk);
      std::vector<double>& key = keys.emplace_back(layer.key(s, j), layer.key(s, j) + kDim);
      if (exact) continue;
      for (int d = 0; d < kDim / 2; ++d) {
        const double angle = j * std::pow(10000.0, -2.0 * d / kDim);
        const double low = approximated(j, s * kDim + d),
                     high = approximated(j, s * kDim + d + kDim / 2);
        key[d] = low * std::cos(angle) - high * std::sin(angle);
        key[d + kDim / 2] = high * std::cos(angle) + low * std::sin(angle);
      }
    }
    for (int h = s * kGroup; h < (s + 1) * kGroup; ++h) {
      const std::vector<double> want = attention(layer, h, slots, keys);
      for (int d = 0; d < kDim; ++d)
        EXPECT_NEAR(out[h * kDim + d], want[d], 2e-4) << h << ", " << d;
    }
  }
}

/// The numbers of tests/golden/make_shadowkv_golden.py.
std::vector<float> made_numbers(Random& random, std::size_t count, std::int64_t spread) {
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(random.between(-spread, spread)) / 64;
  return out;
}

TEST(ShadowKv, AgreesWithTheOfficialCode) {
  constexpr int kSets = 2, kGroup = 2, kDim = 128, kSteps = 3, kBlob = 20, kShown = 16;
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/shadowkv.json";
  const Json golden = parse_json(read_file(path), path);
  const int tokens = golden.at("tokens");
  RopeLayer layer(kSets, kGroup, kDim, tokens + kSteps, 1);
  Random random = Random::from({golden.at("seed").get<std::uint64_t>()});
  const auto at = [&](std::vector<std::vector<float>>& rows, std::size_t set, int token) {
    return rows[set].begin() + std::ptrdiff_t{token} * kDim;
  };
  for (std::size_t s = 0; s < kSets; ++s) {
    std::vector<float> centre;
    for (int t = 0; t < tokens; ++t) {
      if (t % kBlob == 0) centre = made_numbers(random, kDim, 100);
      const std::vector<float> noise = made_numbers(random, kDim, 40);
      std::transform(centre.begin(), centre.end(), noise.begin(), at(layer.raw, s, t),
                     std::plus<>());
    }
  }
  for (std::size_t s = 0; s < kSets; ++s) {
    for (int t = 0; t < tokens; ++t) {
      const std::vector<float> value = made_numbers(random, kDim, 64);
      std::copy(value.begin(), value.end(), at(layer.values, s, t));
    }
  }
  for (int t = tokens; t < tokens + kSteps; ++t) {
    for (int h = 0; h < kSets * kGroup; ++h) {
      const std::vector<float> query = layer.rotated(made_numbers(random, kDim, 100).data(), t);
      std::copy(query.begin(), query.end(),
                layer.queries.begin() + (std::ptrdiff_t{t} * kSets * kGroup + h) * kDim);
    }
    for (const bool is_key : {true, false}) {
      for (std::size_t s = 0; s < kSets; ++s) {
        const std::vector<float> row = made_numbers(random, kDim, is_key ? 100 : 64);
        std::copy(row.begin(), row.end(), at(is_key ? layer.raw : layer.values, s, t));
      }
    }
  }
  layer.cache_all();
  const auto policies =
      Method::parse(fmt::format("shadowkv:budget={},rank={}", golden.at("budget").get<int>(),
                                golden.at("rank").get<int>()))
          .make();
  SelectionPolicy& p = *policies.selection;
  p.after_prefill(layer.at(tokens));
  const int chunks = golden.at("chunks");
  for (int step = 1; step <= kSteps; ++step) {
    SCOPED_TRACE(step);
    const Json& want = golden.at("steps")[step - 1];
    const Selection got = p.select(layer.at(tokens + step, step));
    for (std::size_t s = 0; s < kSets; ++s) {
      EXPECT_EQ(got.slots[s],
                slots_of(want.at("chosen")[s].get<Ints>(), golden.at("outliers")[s].get<Ints>(),
                         chunks * kChunk, layer.n));
      EXPECT_EQ(got.slots[s].size(), want.at("tokens").get<std::size_t>());
    }
    const std::vector<float> out = attend(layer, p, got, 64);
    for (std::size_t h = 0; h < kSets * kGroup; ++h) {
      for (std::size_t i = 0; i < kDim / kShown; ++i) {
        EXPECT_NEAR(out[h * kDim + i * kShown], want.at("output")[h][i].get<double>(), 2e-6)
            << h << ", " << i * kShown;
      }
    }
  }
}

/// Two turns with answers; the logits of each step.
std::vector<Logits> dialogue(Conversation& c, int prompt) {
  std::vector<Logits> out = {c.turn(synthetic_tokens(prompt, 1))};
  for (int token : synthetic_tokens(9, 2)) out.push_back(c.answer(token));
  out.push_back(c.turn(synthetic_tokens(70, 3)));
  for (int token : synthetic_tokens(7, 4)) out.push_back(c.answer(token));
  return out;
}

// All chunks, rebuilt from a product of full rank: full attention except for rounding.
TEST(ShadowKv, EqualsFullAttentionAtFullRank) {
  for (const char* model : {"llama3", "qwen2"}) {
    Machine machine(model);
    Conversation full(machine.engine, {});
    const std::vector<Logits> want = dialogue(full, 203);
    // 203 / 8 - 4 = 21 chunks, 2 of them outliers; in the second turn 282 / 8 - 4 = 31, and 2
    // of 31.
    Conversation first(machine.engine,
                       Method::parse("shadowkv:budget=152,outliers=2,rank=1000").make());
    const std::vector<Logits> got = dialogue(first, 203);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_LE(test::distance(got[i], want[i]), 2e-5) << i;
    EXPECT_GT(first.sequence.counters.ledger.total().kv_fetch_bytes, 0);
  }
}

// The index is extended in the basis of the first prompt, which spans all keys if its rank is full.
TEST(ShadowKv, LaterTurnsEqualFullAttentionAtFullRank) {
  Machine machine("llama3");
  Conversation full(machine.engine, {});
  full.turn(synthetic_tokens(203, 1));
  for (int token : synthetic_tokens(9, 2)) full.answer(token);
  // 0.995 of 203 and of 282 tokens are 25 and 35 whole chunks.
  Conversation c(machine.engine,
                 Method::parse("shadowkv:budget=0.995,outliers=0,local_chunks=0,rank=1000").make());
  c.turn(synthetic_tokens(203, 1));
  for (int token : synthetic_tokens(9, 2)) c.answer(token);
  EXPECT_GT(c.sequence.counters.ledger.total().kv_fetch_bytes, 0);
  EXPECT_LE(test::distance(c.turn(synthetic_tokens(70, 3)), full.turn(synthetic_tokens(70, 3))),
            2e-5);
  for (int token : synthetic_tokens(7, 4)) {
    const Logits want = full.answer(token);
    EXPECT_LE(test::distance(c.answer(token), want), 2e-5);
  }
}

// The same bits for every location of keys and values, and for all transfers.
TEST(ShadowKv, PlacementAndCacheChangeNoBit) {
  for (const char* model : {"llama3", "qwen2"}) {
    Machine machine(model);
    const std::string spec = "shadowkv:budget=48,outliers=3,rank=10";
    Conversation host(machine.engine, Method::parse(spec).make());
    const std::vector<Logits> want = dialogue(host, 250);
    for (const char* more : {",placement=device", ",cache_tokens=96", ",cache_block=1"}) {
      Conversation other(machine.engine, Method::parse(spec + more).make());
      EXPECT_TRUE(dialogue(other, 250) == want) << more;
      EXPECT_EQ(other.sequence.counters.attended_tokens, host.sequence.counters.attended_tokens);
      if (std::string(more) == ",placement=device") {
        EXPECT_EQ(other.sequence.counters.ledger.total().bytes(), 0);
      }
      EXPECT_TRUE(test::cached_rows(other.sequence) == test::cached_rows(host.sequence)) << more;
    }
    Conversation fork(machine.engine, Method::parse(spec + ",placement=device").make());
    fork.turn(synthetic_tokens(250, 1));
    const std::vector<int> answer = synthetic_tokens(9, 2);
    for (std::size_t i = 0; i < 4; ++i) fork.answer(answer[i]);
    Conversation other = fork.fork();
    for (std::size_t i = 4; i < answer.size(); ++i) {
      const Logits one = fork.answer(answer[i]);
      EXPECT_TRUE(one == want[i + 1]);
      EXPECT_TRUE(other.answer(answer[i]) == one);
    }
  }
}

// Only values are fetched, chunk by chunk; tokens of the answer never are.
TEST(ShadowKv, FetchesTheValuesOfMissingChunks) {
  Machine machine("llama3");
  Conversation c(machine.engine, Method::parse("shadowkv:budget=48,outliers=3,rank=10").make());
  c.turn(synthetic_tokens(250, 1));
  for (int token : synthetic_tokens(12, 2)) c.answer(token);
  const ModelShape& shape = machine.engine.shape();
  // On a device, positions are also transferred.
  const std::size_t position = machine.backend->memory()->is_host() ? 0 : sizeof(std::int32_t);
  const auto value =
      static_cast<std::int64_t>(c.sequence.sets(0)[0].layout().row_bytes(KvRow::kKey) + position);
  const Ledger& ledger = c.sequence.counters.ledger;
  std::int64_t hits = 0;
  for (int l = 0; l < shape.layers; ++l) {
    for (std::size_t s = 1; s < ledger.steps(); ++s) {
      const LedgerEntry& step = ledger.at(s, l);
      EXPECT_EQ(step.kv_fetch_bytes, step.misses * value) << s;
      EXPECT_EQ(step.hits + step.misses, 48 * shape.kv_heads) << s;
      EXPECT_EQ(step.misses % kChunk, 0);
      hits += step.hits;
    }
  }
  EXPECT_GT(hits, 0);
}

TEST(ShadowKv, RejectsInvalidCombinations) {
  Machine machine("llama3");
  const auto turn = [&](const std::string& spec) {
    Conversation c(machine.engine, Method::parse(spec).make());
    c.turn(synthetic_tokens(250, 1));
    c.answer(5);
  };
  EXPECT_THROW(turn("shadowkv:budget=48,outliers=3,rank=10,cache_rule=lru"), Error);
  EXPECT_NO_THROW(turn("snapkv:budget=200+shadowkv:budget=48,outliers=3,rank=10"));
  EXPECT_THROW(turn("adakv:budget=200+shadowkv:budget=48,outliers=3,rank=10"), Error);
}

}  // namespace
}  // namespace turnbench
