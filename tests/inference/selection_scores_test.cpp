// Scores of vectors, pages, codes and single dimensions, on every backend, compared with double
// precision.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <tuple>

#include "tests/backends/backend.h"
#include "tests/inference/selection.h"
#include "tests/inference/set_rows.h"

namespace turnbench {
namespace {

using test::BackendArray;
using test::BackendMatrix;
using test::elements;

constexpr float kScale = 0.3f;
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

struct Shape {
  int heads, dim, n;
};

std::vector<Shape> shapes() {
  if (test::is_emulated())
    return {{1, 32, 0}, {2, 64, 1}, {3, 80, 63}, {4, 96, 65}, {7, 128, 130}, {8, 64, 70}};
  std::vector<Shape> out;
  for (int heads : {1, 2, 3, 4, 7, 8, 11}) {
    for (int dim : {32, 64, 80, 96, 128}) {
      for (int n : {0, 1, 63, 65, 1000}) out.push_back({heads, dim, n});
    }
  }
  return out;
}

/// out[h, j] must be kScale * score(h, j), whose terms sum to less than `size` in absolute value.
template <typename Score>
void expect_scores(BackendMatrix& out, const Shape& s, const Score& score) {
  SCOPED_TRACE(fmt::format("{} heads, dim {}, {} columns", s.heads, s.dim, s.n));
  out.read();
  for (int h = 0; h < out.rows(); ++h) {
    for (int j = 0; j < out.columns(); ++j)
      ASSERT_NEAR(out.at(h, j), kScale * score(h, j), 2e-5) << "head " << h << ", column " << j;
  }
}

TEST(ScoreVectors, AreProducts) {
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    BackendMatrix q, vectors, out;
  };
  std::list<Case> cases;
  std::vector<VectorScoreJob> jobs;
  for (const Shape& s : shapes()) {
    Case& c = cases.emplace_back(Case{s, BackendMatrix::random(*backend, s.heads, s.dim, 1, 5),
                                      BackendMatrix::random(*backend, s.n, s.dim, 2, s.n % 2),
                                      BackendMatrix::blank(*backend, s.heads, s.n)});
    jobs.push_back({c.q.view(), c.vectors.view(), c.out.view()});
  }
  backend->score_vectors(kScale, jobs);
  for (Case& c : cases) {
    expect_scores(c.out, c.shape, [&](int h, int j) {
      double sum = 0;
      for (int d = 0; d < c.shape.dim; ++d) sum += double{c.q.at(h, d)} * c.vectors.at(j, d);
      return sum;
    });
  }
  backend->score_vectors(kScale, {});
}

class KeyScores : public testing::TestWithParam<DType> {};

// Of all slots in order, and of some of them, with unwritten columns between them.
TEST_P(KeyScores, AreProducts) {
  const DType dtype = GetParam();
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    KvHeadCache set;
    std::vector<std::int32_t> slots;
    BackendMatrix q, out;
  };
  std::list<Case> cases;
  std::vector<KeyScoreJob> jobs;
  for (const Shape& s : shapes()) {
    for (const bool some : {false, true}) {
      const int slots = some ? s.n + 70 : s.n;
      Case& c = cases.emplace_back(
          Case{s,
               test::random_set(*backend, {s.dim, dtype, slots % 2 == 1}, slots, 3),
               {},
               BackendMatrix::random(*backend, s.heads, s.dim, 1, 5),
               BackendMatrix::blank(*backend, s.heads, s.n)});
      for (int j = 0; some && j < s.n; ++j) c.slots.push_back(j % 3 == 1 ? -1 : j + j % 70);
      jobs.push_back({&c.set, c.q.view(), c.slots, c.out.view()});
    }
  }
  backend->score_keys(kScale, jobs);
  for (Case& c : cases) {
    const std::vector<float> keys = test::keys_of(*backend, c.set);
    c.out.read();
    for (int h = 0; h < c.shape.heads; ++h) {
      for (int j = 0; j < c.shape.n; ++j) {
        const int slot = c.slots.empty() ? j : c.slots[j];
        if (slot < 0) {
          ASSERT_EQ(c.out.at(h, j), -INFINITY) << h << ", " << j;
          continue;
        }
        double sum = 0;
        for (int d = 0; d < c.shape.dim; ++d) {
          sum += double{c.q.at(h, d)} *
                 keys[elements(slot, c.shape.dim) + static_cast<std::size_t>(d)];
        }
        ASSERT_NEAR(c.out.at(h, j), kScale * sum, 2e-5) << h << ", " << j << " is " << slot;
      }
    }
  }
  backend->score_keys(kScale, {});
}

INSTANTIATE_TEST_SUITE_P(Types, KeyScores, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Minimum and maximum of the keys of each page of `page_tokens` slots, [pages, head_dim].
std::pair<std::vector<float>, std::vector<float>> bounds_of(Backend& backend,
                                                            const KvHeadCache& set,
                                                            int page_tokens) {
  const int width = set.layout().head_dim, pages = (set.size() + page_tokens - 1) / page_tokens;
  const std::vector<float> keys = test::keys_of(backend, set);
  std::vector<float> low(elements(pages, width), INFINITY), high(low.size(), -INFINITY);
  for (int j = 0; j < set.size(); ++j) {
    for (int d = 0; d < width; ++d) {
      const std::size_t at = elements(j / page_tokens, width) + static_cast<std::size_t>(d);
      const float x = keys[elements(j, width) + static_cast<std::size_t>(d)];
      low[at] = std::min(low[at], x);
      high[at] = std::max(high[at], x);
    }
  }
  return {low, high};
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes, DType dtype, std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = load_element(bytes.data(), dtype, i);
  return out;
}

class PageScores : public testing::TestWithParam<DType> {};

TEST_P(PageScores, BoundsAreExactForGrowingPages) {
  const DType dtype = GetParam();
  const auto backend = test::make_backend(2);
  struct Case {
    KvHeadCache set;
    int page_tokens;
    BackendArray<std::byte> low, high;
  };
  std::list<Case> cases;
  for (int head_dim : {32, 80, 128, 20}) {
    for (int page_tokens : {1, 16, 24, 64, 100}) {
      if (test::is_emulated() && head_dim != 80 && page_tokens != 16) continue;
      const std::size_t bytes = elements(150, head_dim) * size_of(dtype);
      cases.push_back({test::random_set(*backend, {head_dim, dtype, false}, 0, 1),
                       page_tokens,
                       {*backend, bytes},
                       {*backend, bytes}});
    }
  }
  for (const int more : {37, 0, 1, 30, 65, 1}) {
    std::vector<PageBoundsJob> jobs;
    for (Case& c : cases) {
      const int first = c.set.size();
      test::append_random(*backend, c.set, more, static_cast<std::uint64_t>(first + more), 1e-2f);
      jobs.push_back({&c.set, first, {c.low.data(), c.high.data(), c.page_tokens}});
    }
    backend->update_page_bounds(jobs);
    for (Case& c : cases) {
      SCOPED_TRACE(fmt::format("pages of {}, head_dim {}, {} slots", c.page_tokens,
                               c.set.layout().head_dim, c.set.size()));
      const auto [low, high] = bounds_of(*backend, c.set, c.page_tokens);
      EXPECT_EQ(floats_of(c.low.values(), dtype, low.size()), low);
      EXPECT_EQ(floats_of(c.high.values(), dtype, high.size()), high);
    }
  }
}

// Bounds from a later page on equal those of the whole set.
TEST_P(PageScores, BoundsMayBeginWithAnyPage) {
  const DType dtype = GetParam();
  constexpr int kWidth = 80, kSlots = 150;
  const auto backend = test::make_backend(2);
  const KvHeadCache set = test::random_set(*backend, {kWidth, dtype, false}, kSlots, 1, 1e-2f);
  struct Case {
    int page_tokens, first, first_page;
    BackendArray<std::byte> low, high;
  };
  std::list<Case> cases;
  std::vector<PageBoundsJob> jobs;
  for (const auto& [page_tokens, first, first_page] :
       std::vector<std::tuple<int, int, int>>{{16, 128, 8},
                                              {16, 149, 9},
                                              {16, 149, 3},
                                              {1, 70, 70},
                                              {24, 64, 2},
                                              {24, 64, 1},
                                              {64, 64, 1},
                                              {7, 150, 4}}) {
    const int rows = (kSlots + page_tokens - 1) / page_tokens - first_page;
    const std::size_t bytes = elements(rows, kWidth) * size_of(dtype);
    Case& c = cases.emplace_back(
        Case{page_tokens, first, first_page, {*backend, bytes}, {*backend, bytes}});
    jobs.push_back({&set, first, {c.low.data(), c.high.data(), page_tokens}, first_page});
  }
  backend->update_page_bounds(jobs);
  for (Case& c : cases) {
    SCOPED_TRACE(
        fmt::format("pages of {} from slot {} on, first {}", c.page_tokens, c.first, c.first_page));
    const auto [low, high] = bounds_of(*backend, set, c.page_tokens);
    const std::vector<std::byte> lows = c.low.values(), highs = c.high.values();
    const std::size_t row = kWidth * size_of(dtype);
    const int pages = (kSlots + c.page_tokens - 1) / c.page_tokens,
              computed = c.first < kSlots ? c.first / c.page_tokens : pages;
    for (int p = c.first_page; p < pages; ++p) {
      const std::size_t at = static_cast<std::size_t>(p - c.first_page) * row;
      for (std::size_t d = 0; d < kWidth; ++d) {
        if (p < computed) {
          ASSERT_EQ(lows[at + d], std::byte{0xA5}) << "page " << p << " was not asked for";
          continue;
        }
        const std::size_t whole = elements(p, kWidth) + d;
        ASSERT_EQ(load_element(lows.data() + at, dtype, d), low[whole]) << p << ", " << d;
        ASSERT_EQ(load_element(highs.data() + at, dtype, d), high[whole]) << p << ", " << d;
      }
    }
  }
}

// Transposed bounds are the same numbers; scores can read some of their dimensions.
TEST_P(PageScores, TransposedBoundsAreColumnsOfScores) {
  const DType dtype = GetParam();
  constexpr int kWidth = 20, kSlots = 150, kPage = 7, kFirst = 70, kFirstPage = 9, kStride = 17;
  const auto backend = test::make_backend(2);
  const KvHeadCache set = test::random_set(*backend, {kWidth, dtype, false}, kSlots, 1);
  const auto [low, high] = bounds_of(*backend, set, kPage);
  const std::size_t bytes = elements(kWidth, kStride) * size_of(dtype);
  BackendArray<std::byte> columns(*backend, 2 * bytes);  // minima, then maxima
  const PageBoundsJob job{
      &set, kFirst, {columns.data(), columns.data() + bytes, kPage, kStride}, kFirstPage};
  backend->update_page_bounds({&job, 1});
  const std::vector<std::byte> stored = columns.values();
  for (int d = 0; d < 2 * kWidth; ++d) {
    const std::vector<float>& bounds = d < kWidth ? low : high;
    for (int column = 0; column < kStride; ++column) {
      const std::size_t at = elements(d, kStride) + static_cast<std::size_t>(column);
      const int page = kFirstPage + column;
      if (page * kPage >= kSlots || page < kFirst / kPage) {
        ASSERT_EQ(stored[at * size_of(dtype)], std::byte{0xA5}) << d << ", " << column;
        continue;
      }
      const std::size_t whole = elements(page, kWidth) + static_cast<std::size_t>(d % kWidth);
      ASSERT_EQ(load_element(stored.data(), dtype, at), bounds[whole]) << d << ", " << column;
    }
  }
  const int pages = (kSlots - 1) / kPage + 1 - kFirst / kPage, first = kFirst / kPage - kFirstPage;
  BackendMatrix q = BackendMatrix::random(*backend, 3, 2 * kWidth, 2);
  BackendMatrix out = BackendMatrix::blank(*backend, 3, pages);
  const std::vector<int> dims = {3, 12, kWidth + 1, kWidth + 19};
  const DimensionScoreJob scores{
      q.view(), dims,  {},        columns.data() + static_cast<std::size_t>(first) * size_of(dtype),
      kStride,  dtype, out.view()};
  backend->score_dimensions(kScale, {&scores, 1});
  out.read();
  for (int h = 0; h < 3; ++h) {
    for (int p = 0; p < pages; ++p) {
      double sum = 0;
      for (const int d : dims) {
        sum += double{q.at(h, d)} * (d < kWidth ? low : high)[elements(kFirst / kPage + p, kWidth) +
                                                              static_cast<std::size_t>(d % kWidth)];
      }
      ASSERT_NEAR(out.at(h, p), kScale * sum, 2e-5) << h << ", " << p;
    }
  }
}

TEST_P(PageScores, AreUpperBounds) {
  const DType dtype = GetParam();
  constexpr int kPage = 2;
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    KvHeadCache set;
    BackendMatrix q, out;
    BackendArray<std::byte> low, high;
  };
  std::list<Case> cases;
  std::vector<PageBoundsJob> bounding;
  std::vector<PageScoreJob> jobs;
  for (const Shape& s : shapes()) {
    const std::size_t bytes = elements(s.n, s.dim) * size_of(dtype);
    Case& c =
        cases.emplace_back(Case{s,
                                test::random_set(*backend, {s.dim, dtype, false}, kPage * s.n, 7),
                                BackendMatrix::random(*backend, s.heads, s.dim, 1),
                                BackendMatrix::blank(*backend, s.heads, s.n),
                                {*backend, bytes},
                                {*backend, bytes}});
    const PageBounds bounds{c.low.data(), c.high.data(), kPage};
    bounding.push_back({&c.set, 0, bounds});
    jobs.push_back({c.q.view(), bounds, dtype, c.out.view()});
  }
  backend->update_page_bounds(bounding);
  backend->score_pages(kScale, jobs);
  for (Case& c : cases) {
    const std::vector<float> keys = test::keys_of(*backend, c.set);
    const auto [low, high] = bounds_of(*backend, c.set, kPage);
    expect_scores(c.out, c.shape, [&, &low = low, &high = high](int h, int p) {
      double sum = 0, tokens[kPage] = {};
      for (int d = 0; d < c.shape.dim; ++d) {
        const double q = c.q.at(h, d);
        const auto width = static_cast<std::size_t>(c.shape.dim),
                   at = static_cast<std::size_t>(p) * width + static_cast<std::size_t>(d);
        sum += std::max(q * low[at], q * high[at]);
        for (std::size_t t = 0; t < kPage; ++t)
          tokens[t] +=
              q *
              keys[(kPage * static_cast<std::size_t>(p) + t) * width + static_cast<std::size_t>(d)];
      }
      for (double token : tokens) EXPECT_GE(sum, token);
      return sum;
    });
  }
}

// Vectors in a dtype equal bounds whose minimum and maximum are the same.
TEST_P(PageScores, OfVectorsAreProducts) {
  const DType dtype = GetParam();
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    std::vector<float> values;
    BackendMatrix q, out;
    BackendArray<std::byte> vectors;
  };
  std::list<Case> cases;
  std::vector<PageScoreJob> jobs;
  for (const Shape& s : shapes()) {
    const std::vector<float> drawn = test::random_floats(elements(s.n, s.dim), 5);
    std::vector<std::byte> bytes(drawn.size() * size_of(dtype));
    for (std::size_t i = 0; i < drawn.size(); ++i) store_element(bytes.data(), dtype, i, drawn[i]);
    Case& c = cases.emplace_back(Case{s,
                                      floats_of(bytes, dtype, drawn.size()),
                                      BackendMatrix::random(*backend, s.heads, s.dim, 1),
                                      BackendMatrix::blank(*backend, s.heads, s.n),
                                      {*backend, bytes}});
    jobs.push_back({c.q.view(), {c.vectors.data(), c.vectors.data(), 1}, dtype, c.out.view()});
  }
  backend->score_pages(kScale, jobs);
  for (Case& c : cases) {
    expect_scores(c.out, c.shape, [&](int h, int i) {
      double sum = 0;
      for (int d = 0; d < c.shape.dim; ++d)
        sum +=
            double{c.q.at(h, d)} * c.values[elements(i, c.shape.dim) + static_cast<std::size_t>(d)];
      return sum;
    });
  }
}

TEST_P(PageScores, WorkedExample) {
  const DType dtype = GetParam();
  const auto backend = test::make_backend(1);
  KvHeadCache set(std::make_shared<KvPool>(PageLayout{2, dtype, false}, backend->memory()));
  const float keys[][2] = {{1, 0}, {0, 1}, {2, -1}};
  for (int j = 0; j < 3; ++j) test::append_row(set, keys[j], keys[j], nullptr, j);
  BackendArray<std::byte> low(*backend, 8), high(*backend, 8);
  const PageBounds bounds{low.data(), high.data(), 16};
  const PageBoundsJob bounding{&set, 0, bounds};
  backend->update_page_bounds({&bounding, 1});
  BackendMatrix q(*backend, {1, -2}, 1, 2), out = BackendMatrix::blank(*backend, 1, 1);
  const PageScoreJob job{q.view(), bounds, dtype, out.view()};
  backend->score_pages(1, {&job, 1});
  EXPECT_EQ(out.read(), std::vector<float>{4});
}

INSTANTIATE_TEST_SUITE_P(Types, PageScores, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(ScoreCodes, AreSumsOfPartsProducts) {
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    int parts, count;
    BackendMatrix q, centroids, out;
    std::vector<std::uint8_t> codes;
    BackendArray<std::uint8_t> stored;
  };
  std::list<Case> cases;
  std::vector<CodeScoreJob> jobs;
  for (const Shape& s : shapes()) {
    for (const auto& [parts, count] :
         std::vector<std::pair<int, int>>{{1, 1}, {1, 256}, {2, 64}, {4, 65}, {8, 16}}) {
      if (test::is_emulated() && parts != 2 && s.n != 65) continue;
      std::vector<std::uint8_t> codes = test::random_codes(elements(parts, s.n + 3), count, 3);
      BackendArray<std::uint8_t> stored(*backend, codes);
      Case& c = cases.emplace_back(
          Case{s, parts, count, BackendMatrix::random(*backend, s.heads, s.dim, 1),
               BackendMatrix::random(*backend, parts * count, s.dim / parts, 2),
               BackendMatrix::blank(*backend, s.heads, s.n), std::move(codes), std::move(stored)});
      jobs.push_back(
          {c.q.view(), c.centroids.view(), parts, c.stored.data(), s.n + 3, c.out.view()});
    }
  }
  backend->score_codes(kScale, jobs);
  for (Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} parts of {} codes", c.parts, c.count));
    const int width = c.shape.dim / c.parts;
    expect_scores(c.out, c.shape, [&](int h, int j) {
      double sum = 0;
      for (int d = 0; d < c.shape.dim; ++d) {
        const int part = d / width,
                  code = c.codes[elements(part, c.shape.n + 3) + static_cast<std::size_t>(j)];
        sum += double{c.q.at(h, d)} * c.centroids.at(part * c.count + code, d % width);
      }
      return sum;
    });
  }
}

TEST(ScoreCodes, WorkedExample) {
  const auto backend = test::make_backend(1);
  BackendMatrix q(*backend, {1, 2, 3, 4}, 1, 4),
      centroids(*backend, {1, 0, 0, 1, 2, 0, 0, -1}, 4, 2),
      out = BackendMatrix::blank(*backend, 1, 4);
  BackendArray<std::uint8_t> codes(*backend, std::vector<std::uint8_t>{0, 0, 1, 1, 0, 1, 0, 1});
  const CodeScoreJob job{q.view(), centroids.view(), 2, codes.data(), 4, out.view()};
  backend->score_codes(1, {&job, 1});
  EXPECT_EQ(out.read(), (std::vector<float>{7, -3, 8, -2}));
}

class DimensionScores : public testing::TestWithParam<DType> {};

TEST_P(DimensionScores, AreThoseOfTheTransposedKeys) {
  const DType dtype = GetParam();
  const auto backend = test::make_backend(2);
  struct Case {
    Shape shape;
    KvHeadCache set;
    std::vector<int> dims;
    std::vector<float> factors;
    BackendMatrix q, out;
    BackendArray<std::byte> columns;
    int stride;
  };
  std::list<Case> cases;
  for (const Shape& s : shapes()) {
    const int stride = s.n + s.heads;
    std::vector<int> dims;
    for (int i = 0; i < std::min(s.dim, 3 + s.n % 40); ++i) dims.push_back(i * 7 % s.dim);
    std::vector<float> factors;
    if (s.heads > 1) factors = test::random_floats(static_cast<std::size_t>(s.heads), 9);
    cases.push_back(
        Case{s, test::random_set(*backend, {s.dim, dtype, false}, 0, 7), dims, factors,
             BackendMatrix::random(*backend, s.heads, s.dim, 1),
             BackendMatrix::blank(*backend, s.heads, s.n),
             BackendArray<std::byte>(*backend, elements(s.dim, stride) * size_of(dtype)), stride});
  }
  for (int step = 0; step < 4; ++step) {  // all but six slots, then one, two, and the rest
    std::vector<TransposeKeysJob> jobs;
    for (Case& c : cases) {
      const int first = c.set.size(), left = c.shape.n - first,
                more = step == 0 ? std::max(0, left - 6) : std::min(left, step == 3 ? left : step);
      test::append_random(*backend, c.set, more, static_cast<std::uint64_t>(step));
      jobs.push_back({&c.set, first, c.columns.data(), c.stride});
    }
    backend->transpose_keys(jobs);
  }
  std::vector<DimensionScoreJob> jobs;
  for (Case& c : cases) {
    jobs.push_back(
        {c.q.view(), c.dims, c.factors, c.columns.data(), c.stride, dtype, c.out.view()});
  }
  backend->score_dimensions(kScale, jobs);
  for (Case& c : cases) {
    const std::vector<float> keys = test::keys_of(*backend, c.set);
    const auto key = [&](int j, int d) {
      return keys[elements(j, c.shape.dim) + static_cast<std::size_t>(d)];
    };
    const std::vector<std::byte> columns = c.columns.values();
    for (int d = 0; d < c.shape.dim; ++d) {
      for (int j = 0; j < c.stride; ++j) {
        const std::size_t at = elements(d, c.stride) + static_cast<std::size_t>(j);
        if (j < c.shape.n) {
          ASSERT_EQ(load_element(columns.data(), dtype, at), key(j, d)) << d << ", " << j;
        } else {
          ASSERT_EQ(columns[at * size_of(dtype)], std::byte{0xA5}) << "written behind a column";
        }
      }
    }
    expect_scores(c.out, c.shape, [&](int h, int j) {
      double sum = 0;
      for (int d : c.dims) sum += double{c.q.at(h, d)} * key(j, d);
      return sum * (c.factors.empty() ? 1 : c.factors[h]);
    });
  }
}

// Columns from a later slot on equal those of the whole set.
TEST_P(DimensionScores, ColumnsMayBeginWithAnySlot) {
  const DType dtype = GetParam();
  constexpr int kWidth = 40, kSlots = 150;
  const auto backend = test::make_backend(2);
  const KvHeadCache set = test::random_set(*backend, {kWidth, dtype, false}, kSlots, 1);
  struct Case {
    int first, first_column;
    BackendArray<std::byte> columns;
  };
  std::list<Case> cases;
  std::vector<TransposeKeysJob> jobs;
  for (const auto& [first, first_column] : std::vector<std::pair<int, int>>{
           {100, 100}, {149, 100}, {70, 65}, {64, 64}, {5, 1}, {150, 149}}) {
    const int stride = kSlots - first_column + 2;
    Case& c = cases.emplace_back(
        Case{first, first_column,
             BackendArray<std::byte>(*backend, elements(kWidth, stride) * size_of(dtype))});
    jobs.push_back({&set, first, c.columns.data(), stride, first_column});
  }
  backend->transpose_keys(jobs);
  const std::vector<float> keys = test::keys_of(*backend, set);
  for (Case& c : cases) {
    const std::vector<std::byte> columns = c.columns.values();
    const int stride = kSlots - c.first_column + 2;
    for (int d = 0; d < kWidth; ++d) {
      for (int i = 0; i < stride; ++i) {
        const std::size_t at = elements(d, stride) + static_cast<std::size_t>(i);
        const int slot = c.first_column + i;
        if (slot < c.first || slot >= kSlots) {
          ASSERT_EQ(columns[at * size_of(dtype)], std::byte{0xA5}) << slot << ", " << d;
        } else {
          ASSERT_EQ(load_element(columns.data(), dtype, at),
                    keys[elements(slot, kWidth) + static_cast<std::size_t>(d)])
              << slot << ", " << d;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DimensionScores, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace turnbench
