#include "inference/policy/attention_stats.h"

#include <gtest/gtest.h>

#include <deque>

#include "conversation.h"
#include "reference.h"
#include "tests/backends/backend.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/layer.h"

namespace turnbench {
namespace {

using namespace test;

TEST(QueryTail, HoldsTheLastRows) {
  for (int capacity : {0, 1, 3, 16}) {
    QueryTail tail(capacity, 2);
    std::deque<std::pair<std::int32_t, float>> want;
    std::mt19937 random(3);
    std::int32_t position = 0;
    for (int step = 0; step < 500; ++step) {
      if (random() % 10 == 0) {
        const std::int32_t back = std::max(0, position - static_cast<int>(random() % 12));
        tail.truncate_to_position(back);
        while (!want.empty() && want.back().first >= back) want.pop_back();
        position = back;
      } else if (random() % 60 == 0) {
        tail.clear();
        want.clear();
      } else {
        const float x = static_cast<float>(random() % 1000);
        const float row[2] = {x, -x};
        tail.push(row, position);
        want.emplace_back(position++, x);
        if (static_cast<int>(want.size()) > capacity) want.pop_front();
      }
      ASSERT_EQ(tail.rows(), static_cast<int>(want.size()));
      for (int i = 0; i < tail.rows(); ++i) {
        const auto& [at, x] = want[i];
        ASSERT_EQ(tail.positions()[i], at);
        ASSERT_EQ(tail.row(i)[0], x);
        ASSERT_EQ(tail.row(i)[1], -x);
      }
    }
  }
}

TEST(QueryTail, TakesTheLastRowsOfALargerOne) {
  QueryTail from(5, 1);
  for (std::int32_t i = 0; i < 8; ++i) {
    const auto x = static_cast<float>(10 * i);
    from.push(&x, i);
  }
  for (const int capacity : {0, 2, 5, 9}) {
    QueryTail to(capacity, 1);
    const float old = -1;
    to.push(&old, 0);
    to.assign_last(from);
    EXPECT_EQ(to.capacity(), capacity);
    ASSERT_EQ(to.rows(), std::min(capacity, 5));
    for (int i = 0; i < to.rows(); ++i) {
      const int position = 8 - to.rows() + i;
      EXPECT_EQ(to.positions()[i], position);
      EXPECT_EQ(to.row(i)[0], 10 * position);
    }
  }
}

/// Records the statistics after each prefill, and evicts all tokens except the given ones.
struct Recorder : EvictionPolicy {
  struct Note {
    int layer, rows;
    HeadScores mass;
    std::vector<std::vector<float>> pass_rows;  ///< probabilities of the pass's first and last row
    std::size_t ld;
  };
  Recorder(int rows, std::vector<Note>* notes, std::vector<std::int32_t> kept)
      : rows(rows), notes(notes), kept(std::move(kept)) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<Recorder>(*this);
  }
  int window() const override { return rows; }
  KeepSets after_prefill(const LayerView& view) override {
    Note note{view.layer, view.stats.window_rows(rows), view.stats.window_mass(rows), {}, 0};
    EXPECT_EQ(&view.stats.window_mass(rows), &view.stats.window_mass(rows)) << "computed once";
    const int ends[2] = {0, view.rows - 1};
    for (int h = 0; h < view.shape.heads; ++h)
      note.ld = view.stats.probabilities(h, ends, note.pass_rows.emplace_back());
    notes->push_back(std::move(note));
    if (kept.empty()) return {};
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), kept)};
  }
  int rows;
  std::vector<Note>* notes;
  std::vector<std::int32_t> kept;
};

/// Dense causal attention in double precision: probability of each slot of a set for one query.
std::vector<double> reference_row(const KvHeadCache& set, const float* q, int head_dim,
                                  std::int32_t position) {
  std::vector<float> keys, key(static_cast<std::size_t>(head_dim));
  for (int j = 0; j < set.size(); ++j) {
    test::read_row(set, KvRow::kKey, j, key.data());
    keys.insert(keys.end(), key.begin(), key.end());
  }
  const std::vector<float> values(keys.size(), 0.0f);
  return eager_attention(q, keys, values, head_dim,
                         [&](int j) { return set.position(j) <= position; })
      .probabilities;
}

class WindowMass : public testing::TestWithParam<std::string> {};

// Sums of the last w rows, compared with double precision: in a first turn, in a later turn over
// the tokens that an eviction kept, with a window longer than the pass, and with a window longer
// than all tokens.
TEST_P(WindowMass, EqualsDoublePrecision) {
  Machine machine(GetParam());
  const ModelShape shape = machine.engine.shape();
  std::vector<std::int32_t> kept;
  for (int j = 0; j < 150; ++j) {
    if (j % 4 == 0 || j > 140) kept.push_back(j);
  }
  for (const bool evicts : {false, true}) {
    for (int window : {1, 8, 33, 500}) {
      std::vector<Recorder::Note> notes;
      Policies policies;
      policies.eviction =
          std::make_unique<Recorder>(window, &notes, evicts ? kept : std::vector<std::int32_t>{});
      Conversation c(machine.engine, std::move(policies));
      const auto check = [&](int rows_known, const Sequence& before_eviction) {
        ASSERT_EQ(notes.size(), static_cast<std::size_t>(shape.layers));
        for (const Recorder::Note& note : notes) {
          ASSERT_EQ(note.rows, std::min(window, rows_known));
          const QueryTail& tail = c.sequence.at(note.layer).tail;
          for (int h = 0; h < shape.heads; ++h) {
            const KvHeadCache& set = before_eviction.sets(note.layer)[h / shape.group()];
            std::vector<double> want(static_cast<std::size_t>(set.size()), 0.0);
            for (int r = tail.rows() - note.rows; r < tail.rows(); ++r) {
              const auto row = reference_row(set, tail.row(r) + h * shape.head_dim, shape.head_dim,
                                             tail.positions()[r]);
              for (std::size_t j = 0; j < want.size(); ++j) want[j] += row[j];
            }
            const auto got = note.mass.head(h, set.size());
            double total = 0;
            for (std::size_t j = 0; j < want.size(); ++j) {
              ASSERT_NEAR(got[j], want[j], 1e-5 * note.rows) << h << " " << j;
              total += got[j];
            }
            EXPECT_NEAR(total, note.rows, 1e-4 * note.rows);
            // The last row of the pass is the last row of the tail.
            const auto last = reference_row(set, tail.row(tail.rows() - 1) + h * shape.head_dim,
                                            shape.head_dim, tail.positions()[tail.rows() - 1]);
            const float* row = note.pass_rows[h].data() + note.ld;
            for (std::size_t j = 0; j < last.size(); ++j) ASSERT_NEAR(row[j], last[j], 1e-5);
          }
        }
        notes.clear();
      };
      // A second, dense sequence holds the tokens of the evicting sequence before its first
      // eviction.
      Conversation twin(machine.engine, {});
      const std::vector<int> prompt = synthetic_tokens(150, 1), question = synthetic_tokens(5, 2);
      c.turn(prompt);
      twin.turn(prompt);
      check(150, twin.sequence);
      // A short turn without eviction: five new rows, the other rows are stored.
      static_cast<Recorder&>(*c.sequence.policies.eviction).kept.clear();
      c.turn(question);
      check(155, c.sequence);
      // The same after the rows of earlier turns were removed.
      for (LayerState& layer : c.sequence.layers) layer.tail.clear();
      c.turn(question);
      check(5, c.sequence);
    }
  }
}

// The stored rows are the last rows of a larger tail, for any chunks.
TEST(WindowMass, TailsAreTheLastQueries) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  Machine machine("qwen3");
  const std::vector<int> prompt = synthetic_tokens(150, 1);
  Conversation all(machine.engine, {}, 200);
  all.turn(prompt);
  for (int chunk : {1, 7, 64, 2048}) {
    Engine engine(machine.model, *machine.backend, {.prefill_chunk = chunk});
    Conversation some(engine, {}, 16);
    some.turn(prompt);
    for (std::size_t l = 0; l < all.sequence.layers.size(); ++l) {
      const QueryTail &a = all.sequence.layers[l].tail, &b = some.sequence.layers[l].tail;
      ASSERT_EQ(a.rows(), 150);
      ASSERT_EQ(b.rows(), 16);
      for (int r = 0; r < 16; ++r) {
        ASSERT_EQ(a.positions()[134 + r], b.positions()[r]);
        ASSERT_TRUE(std::equal(b.row(r), b.row(r) + b.width(), a.row(134 + r)));
      }
    }
  }
}

// Sums along columns and diagonals of any rows, compared with double precision, and bit-identical
// to the sum of single rows for any number of rows per call.
TEST(LineMasses, OfAnyRows) {
  for (const auto& [n, rows] : std::vector<std::pair<int, int>>{{1, 1}, {64, 64}, {200, 150}}) {
    Layer layer(2, 2, 8, n, rows, static_cast<std::uint64_t>(n));
    const int skipped = n - rows;  // these have keys, but no rows in this pass
    for (const auto& [first, count] : std::vector<std::pair<int, int>>{
             {0, rows}, {0, (rows + 1) / 2}, {rows / 2, rows - rows / 2}, {rows - 1, 1}}) {
      SCOPED_TRACE(testing::Message() << n << ": " << first << " + " << count);
      const int end = skipped + first + count;
      for (int h = 0; h < layer.shape.heads; ++h) {
        const LineMass mass = layer.stats->line_mass(h, first, count);
        ASSERT_EQ(mass.vertical.size(), static_cast<std::size_t>(end));
        ASSERT_EQ(mass.slash.size(), static_cast<std::size_t>(end));
        std::vector<double> vertical(mass.vertical.size()), slash(mass.slash.size());
        std::vector<float> row_by_row(mass.slash.size());
        for (int r = first; r < first + count; ++r) {
          const int i = skipped + r;
          for (int j = 0; j <= i; ++j) {
            vertical[j] += layer.probability(h, i, j);
            slash[i - j] += layer.probability(h, i, j);
          }
          const LineMass one = layer.stats->line_mass(h, r, 1);
          for (std::size_t o = 0; o < one.slash.size(); ++o) row_by_row[o] += one.slash[o];
        }
        for (std::size_t j = 0; j < vertical.size(); ++j) {
          ASSERT_NEAR(mass.vertical[j], vertical[j], 1e-4) << j;
          ASSERT_NEAR(mass.slash[j], slash[j], 1e-4) << j;
        }
        EXPECT_EQ(mass.slash, row_by_row);
        if (first + count == rows) {
          EXPECT_EQ(layer.stats->line_mass(h, count).vertical, mass.vertical);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WindowMass, testing::Values("llama2", "llama3", "qwen2"));

}  // namespace
}  // namespace turnbench
