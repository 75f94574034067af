// Round Attention, compared with worked examples, a reference in double precision, and full
// attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/dialogue_rounds.h"
#include "methods/parts/round_choice.h"
#include "tests/inference/conversation.h"
#include "tests/methods/plain_decoder.h"

namespace turnbench {
namespace {

using namespace test;
using Ints = std::vector<std::int32_t>;
using RoundRule = RoundChoice::Rule;

Ints chosen_rounds(const std::vector<double>& attention, RoundRule rule) {
  return choose_rounds(attention, {.rule = rule});
}

TEST(RoundChoice, WorkedExamples) {
  // Rounds are counted from 0 here.
  const std::vector<double> three = {0.05, 0.15, 0.8};
  EXPECT_EQ(chosen_rounds(three, RoundRule::kFixed), (Ints{1, 2}));
  EXPECT_EQ(chosen_rounds(three, RoundRule::kTopK), (Ints{2}));
  EXPECT_EQ(chosen_rounds(three, RoundRule::kMean), (Ints{2}));
  // Mean 0.08333, deviation 0.24623: more than 0.82204.
  std::vector<double> twelve(12, 0.1 / 11);
  twelve[0] = 0.9;
  EXPECT_EQ(chosen_rounds(twelve, RoundRule::kAdaptive), (Ints{0}));
  EXPECT_EQ(chosen_rounds(twelve, RoundRule::kTopK).size(), 2u);
  // A share of 0.82 is below the threshold, but still the best one.
  twelve.assign(12, 0.18 / 11);
  twelve[7] = 0.82;
  EXPECT_EQ(chosen_rounds(twelve, RoundRule::kAdaptive), (Ints{7}));
  // Two outliers among 30, at 0.45 each: mean 0.03333, deviation 0.11134.
  std::vector<double> thirty(30, 0.1 / 28);
  thirty[4] = thirty[20] = 0.45;
  EXPECT_EQ(chosen_rounds(thirty, RoundRule::kAdaptive), (Ints{4, 20}));
}

// No candidate of at most ten can be three deviations above the mean.
TEST(RoundChoice, BestRoundIsReadIfNoneQualifies) {
  std::vector<double> ten(10, 0);
  ten[3] = 1;
  EXPECT_EQ(chosen_rounds(ten, RoundRule::kAdaptive), (Ints{3}));
  EXPECT_EQ(chosen_rounds(std::vector<double>(20, 0.05), RoundRule::kFixed), (Ints{0}));
  EXPECT_EQ(chosen_rounds({}, RoundRule::kMean), Ints{});
}

TEST(RoundChoice, TiesGoToTheEarlierRound) {
  for (int n = 1; n < 40; ++n) {
    const std::vector<double> equal(static_cast<std::size_t>(n), 0.1);
    EXPECT_EQ(chosen_rounds(equal, RoundRule::kMean), (Ints{0})) << n;
    EXPECT_EQ(chosen_rounds(equal, RoundRule::kAdaptive), (Ints{0})) << n;
    Ints first((static_cast<std::size_t>(n) + 9) / 10);
    std::iota(first.begin(), first.end(), 0);
    EXPECT_EQ(chosen_rounds(equal, RoundRule::kTopK), first) << n;
  }
}

// Sums need not be shares.
TEST(RoundChoice, ScaleDoesNotMatter) {
  for (const RoundRule rule :
       {RoundRule::kFixed, RoundRule::kTopK, RoundRule::kAdaptive, RoundRule::kMean}) {
    std::vector<double> sums;
    for (int i = 0; i < 25; ++i) sums.push_back(std::exp(3 * std::sin(7.0 * i)));
    const Ints want = chosen_rounds(sums, rule);
    for (double& x : sums) x *= 1000;
    EXPECT_EQ(chosen_rounds(sums, rule), want);
  }
}

TEST(DialogueRounds, FollowTheSpans) {
  const std::vector<Span> spans = {
      {SpanKind::kMarkup, 0, 0, 5},   {SpanKind::kQuestion, 0, 5, 9},
      {SpanKind::kCue, 0, 9, 11},     {SpanKind::kAnswer, 0, 11, 20},
      {SpanKind::kMarkup, 1, 20, 22}, {SpanKind::kQuestion, 1, 22, 30},
      {SpanKind::kAnswer, 1, 30, 31}, {SpanKind::kQuestion, 2, 31, 40}};
  const DialogueRounds rounds(spans);
  EXPECT_EQ(rounds.count(), 3);
  EXPECT_EQ(rounds.preamble(), 5);
  EXPECT_EQ(rounds.round_of(0), 0);
  EXPECT_EQ(rounds.round_of(19), 0);
  EXPECT_EQ(rounds.round_of(20), 1);
  EXPECT_EQ(rounds.round_of(1000), 2);
  const std::vector<SlotRange> before = rounds.before(2);
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].begin, 5);
  EXPECT_EQ(before[0].end, 20);
  EXPECT_EQ(before[1].begin, 20);
  EXPECT_EQ(before[1].end, 31);
  EXPECT_EQ(end_of_question(spans, 25), 30);
  EXPECT_EQ(end_of_question(spans, 39), 40);
  Ints parts;
  for (std::int32_t at = next_part(spans, 0); at >= 0; at = next_part(spans, at))
    parts.push_back(at);
  EXPECT_EQ(parts, (Ints{11, 20, 30, 31}));
  EXPECT_EQ(DialogueRounds({}).count(), 1);
  EXPECT_EQ(DialogueRounds({}).preamble(), 1);
}

struct PlainRoundSettings {
  std::string strategy;
  int lower;
  bool by_token, last_row;
  double share = 0.1;
  int drop_after = 0;

  std::string spec() const {
    return fmt::format("round:strategy={},lw={},granularity={},question={},drop_after={}{}",
                       strategy, lower, by_token ? "token" : "round", last_row ? "last" : "all",
                       drop_after, strategy == "topk" ? fmt::format(",share={}", share) : "");
  }
};

/// A reference of the layers of a dialogue: all tokens are present, and each turn defines which
/// tokens it reads.
class PlainRounds {
 public:
  PlainRounds(const PlainDecoder& decoder, PlainRoundSettings s)
      : decoder_(decoder), s_(std::move(s)), layers_(static_cast<std::size_t>(layers())) {}

  int layers() const { return decoder_.config.layers; }
  void begin_turn() {
    begins_.push_back(layers_[0].keys.empty() ? 0 : static_cast<int>(layers_[0].keys.size()));
    in_question_ = true;
    read_.clear();
    unread_.resize(begins_.size());
    dropped_.clear();
    for (const int turns : unread_) dropped_.push_back(s_.drop_after > 0 && turns >= s_.drop_after);
  }
  void begin_answer() { in_question_ = false; }

  std::vector<Row> attend(const PlainRows& rows) {
    Tokens& layer = layers_[rows.layer];
    for (std::size_t r = 0; r < rows.keys.size(); ++r) {
      layer.keys.push_back(decoder_.rotated(rows.keys[r], rows.first + static_cast<int>(r)));
      layer.values.push_back(rows.values[r]);
    }
    std::vector<double> given(static_cast<std::size_t>(begins_.back()), 0.0);
    std::vector<Row> out;
    for (std::size_t r = 0; r < rows.queries.size(); ++r) {
      const int position = rows.first + static_cast<int>(r);
      const bool counts = !s_.last_row || r + 1 == rows.queries.size();
      out.push_back(attend_row(layer, rows.layer, decoder_.rotated(rows.queries[r], position),
                               position, counts, given));
    }
    if (in_question_ && rows.layer == s_.lower - 1) choose(given);
    return out;
  }

  double closest = INFINITY;  ///< smallest distance to another selection, as a share of all

 private:
  struct Tokens {
    std::vector<Row> keys, values;  // [tokens]
  };

  bool sees(int layer, int j) const {
    if (j == 0 || j >= begins_.back()) return true;
    if (layer < s_.lower) {
      const auto next = std::upper_bound(begins_.begin(), begins_.end(), j);
      return !dropped_[static_cast<std::size_t>(next - begins_.begin()) - 1];
    }
    return std::find(read_.begin(), read_.end(), j) != read_.end();
  }

  Row attend_row(const Tokens& layer, int number, const Row& query, int position, bool counts,
                 std::vector<double>& given) const {
    const ModelConfig& c = decoder_.config;
    Row out(query.size(), 0.0);
    for (int h = 0; h < c.heads; ++h) {
      const int set = h * c.kv_heads / c.heads;
      std::vector<double> p(static_cast<std::size_t>(position + 1), -INFINITY);
      double top = -INFINITY, sum = 0;
      for (int j = 0; j <= position; ++j) {
        if (!sees(number, j)) continue;
        double dot = 0;
        for (int d = 0; d < c.head_dim; ++d)
          dot += query[h * c.head_dim + d] *
                 layer.keys[j][static_cast<std::size_t>(set * c.head_dim + d)];
        p[j] = dot / std::sqrt(static_cast<double>(c.head_dim));
        top = std::max(top, p[j]);
      }
      for (double& x : p) sum += x = std::exp(x - top);
      for (std::size_t j = 0; j < p.size(); ++j) {
        p[j] /= sum;
        if (counts && j < given.size()) given[j] += p[j] / c.heads;
        for (int d = 0; d < c.head_dim; ++d)
          out[h * c.head_dim + d] += p[j] * layer.values[j][set * c.head_dim + d];
      }
    }
    return out;
  }

  void choose(const std::vector<double>& given) {
    std::vector<std::vector<int>> units;
    std::vector<std::size_t> round_of;  // of each unit
    for (std::size_t m = 0; m + 1 < begins_.size(); ++m) {
      if (dropped_[m]) continue;
      std::vector<int> round;
      for (int j = std::max(1, begins_[m]); j < begins_[m + 1]; ++j) round.push_back(j);
      if (!s_.by_token) units.push_back(round);
      if (s_.by_token) {
        for (const int j : round) units.push_back({j});
      }
      round_of.resize(units.size(), m);
    }
    if (units.empty()) return;
    std::vector<double> p;
    for (const std::vector<int>& unit : units) {
      double sum = 0;
      for (const int j : unit) sum += given[j];
      p.push_back(sum);
    }
    const double n = static_cast<double>(p.size()), all = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= all;
    std::vector<double> falling = p;
    std::sort(falling.rbegin(), falling.rend());
    double limit = 0.1, squares = 0;
    for (const double x : p) squares += (x - 1 / n) * (x - 1 / n);
    if (s_.strategy == "mean") limit = 1 / n;
    if (s_.strategy == "adaptive") limit = 1 / n + 3 * std::sqrt(squares / n);
    if (s_.strategy == "topk") {
      const auto k = static_cast<std::size_t>(std::ceil(s_.share * n - 1e-9));
      limit = k < p.size() ? (falling[k - 1] + falling[k]) / 2 : 0;
    }
    if (falling[0] <= limit) limit = (falling[0] + (p.size() > 1 ? falling[1] : 0)) / 2;
    std::set<std::size_t> is_read;
    for (std::size_t i = 0; i < p.size(); ++i) {
      closest = std::min(closest, std::abs(p[i] - limit) * n);
      if (p[i] > limit) {
        read_.insert(read_.end(), units[i].begin(), units[i].end());
        is_read.insert(round_of[i]);
      }
    }
    for (const std::size_t m : std::set<std::size_t>(round_of.begin(), round_of.end()))
      unread_[m] = is_read.count(m) > 0 ? 0 : unread_[m] + 1;
  }

  const PlainDecoder& decoder_;
  PlainRoundSettings s_;
  std::vector<Tokens> layers_;
  std::vector<int> begins_;
  bool in_question_ = false;
  std::vector<int> read_;
  std::vector<int> unread_;    // by round: turns in a row
  std::vector<bool> dropped_;  // by round, at the beginning of the turn
};

struct TurnTokens {
  std::vector<int> question, answer;
};

/// Turns of unequal lengths.
std::vector<TurnTokens> synthetic_turns(int turns) {
  std::vector<TurnTokens> out;
  for (int t = 0; t < turns; ++t) {
    const auto seed = static_cast<std::uint64_t>(t);
    out.push_back(
        {synthetic_tokens(5 + 7 * t % 23, 2 * seed), synthetic_tokens(2 + t % 4, 2 * seed + 1)});
  }
  return out;
}

/// The logits of all questions and answers.
std::vector<Logits> replies(Conversation& c, std::span<const TurnTokens> turns) {
  std::vector<Logits> out;
  for (const TurnTokens& turn : turns) {
    out.push_back(c.turn(turn.question));
    for (const int token : turn.answer) out.push_back(c.answer(token));
  }
  return out;
}

std::vector<Logits> replies(Engine& engine, const std::string& spec,
                            std::span<const TurnTokens> turns) {
  Conversation c(engine, Method::parse(spec).make());
  return replies(c, turns);
}

TEST(Round, EqualsAPlainReference) {
  Machine machine("llama3");
  PlainDecoder decoder((kModels / "llama3").string());
  decoder.config.layers = machine.model.config().layers;
  std::vector<PlainRoundSettings> all = {{"topk", 1, false, false, 0.3}};
  if (!is_emulated()) {
    all = {{"topk", 1, false, false, 0.3},    {"topk", 2, false, true},
           {"fixed", 1, false, false},        {"mean", 2, false, false},
           {"adaptive", 1, false, false},     {"mean", 1, true, false},
           {"topk", 1, true, true, 0.2},      {"adaptive", 2, true, false},
           {"topk", 1, false, false, 0.1, 1}, {"topk", 2, false, true, 0.3, 2},
           {"mean", 1, false, false, 0.1, 1}, {"topk", 2, true, false, 0.1, 1}};
  }
  for (const PlainRoundSettings& s : all) {
    SCOPED_TRACE(s.spec());
    PlainRounds plain(decoder, s);
    decoder.attention = [&](const PlainRows& rows) { return plain.attend(rows); };
    std::vector<PlainSets> unused(static_cast<std::size_t>(decoder.config.layers), PlainSets(2));
    int tokens = 0;
    const auto want = [&](std::span<const int> said) {
      const Row logits =
          decoder.forward(unused, said, tokens, [](int, PlainSets&, const Attention&) {});
      tokens += static_cast<int>(said.size());
      return Logits(logits.begin(), logits.end());
    };
    Conversation c(machine.engine, Method::parse(s.spec()).make());
    int number = 0;
    for (const TurnTokens& turn : synthetic_turns(is_emulated() ? 4 : 7)) {
      plain.begin_turn();
      const Logits wanted = want(turn.question);
      ASSERT_LE(test::distance(c.turn(turn.question), wanted), 2e-5)
          << "turn " << number << ", closest choice " << plain.closest;
      plain.begin_answer();
      for (const int token : turn.answer) {
        const Logits next = want(std::array{token});
        ASSERT_LE(test::distance(c.answer(token), next), 2e-5)
            << "turn " << number << ", closest choice " << plain.closest;
      }
      ++number;
    }
  }
}

// With all rounds, or all layers, it is bit-identical to full attention.
TEST(Round, ReadingAllIsFullAttention) {
  for (const char* model : {"llama3", "qwen2"}) {
    Machine machine(model);
    const std::vector<TurnTokens> turns = synthetic_turns(is_emulated() ? 3 : 6);
    const std::vector<Logits> want = replies(machine.engine, "full", turns);
    const int layers = machine.model.config().layers;
    for (const std::string& spec :
         {std::string("round:lw=1,share=1"), std::string("round:lw=1,share=1,granularity=token"),
          std::string("round:lw=1,strategy=fixed,threshold=0"), fmt::format("round:lw={}", layers),
          std::string("round:lw=100")}) {
      EXPECT_TRUE(replies(machine.engine, spec, turns) == want) << model << " " << spec;
    }
    // The same for a first turn, and for a turn after a single round.
    const std::vector<Logits> got = replies(machine.engine, "round:lw=1", turns);
    const std::size_t two = 2 + turns[0].answer.size() + turns[1].answer.size();
    EXPECT_TRUE(
        std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(two), want.begin()));
    EXPECT_FALSE(got == want);
  }
}

// A dialogue that is prefilled again with its answers is read as before: each part selects, or
// reads, as in its turn.
TEST(Round, ReplayedDialogueHasTheSameResults) {
  Machine machine("llama3");
  const std::vector<TurnTokens> turns = synthetic_turns(6);
  for (const char* spec : {"round:lw=1", "round:lw=2,strategy=mean,granularity=token",
                           "round:lw=1,strategy=mean,question=last", "round:lw=1,drop_after=1"}) {
    Conversation kept(machine.engine, Method::parse(spec).make());
    replies(kept, std::span(turns).first(5));
    const Logits want = kept.turn(turns[5].question);

    std::vector<int> all = kept.sequence.tokens;
    const DialogueView dialogue{all, kept.spans, 5, 0, {}};
    for (const std::size_t first : {all.size(), std::size_t{20}}) {  // as a whole, or in two passes
      Sequence s = machine.engine.make_sequence(Method::parse(spec).make());
      const std::span<const int> tokens(all);
      Logits got;
      for (const auto& part : {tokens.first(first), tokens.subspan(first)}) {
        if (part.empty()) continue;
        const Pass pass{.sequence = &s,
                        .tokens = part,
                        .dialogue = &dialogue,
                        .prompt_end = part.data() + part.size() == tokens.data() + tokens.size()};
        got = machine.engine.prefill({&pass, 1})[0];
      }
      if (!machine.backend->rows_are_independent()) {
        EXPECT_LE(test::distance(got, want), 1e-4) << spec << " " << first;
        continue;
      }
      EXPECT_TRUE(got == want) << spec << " " << first;
      EXPECT_TRUE(cached_rows(s) == cached_rows(kept.sequence)) << spec << " " << first;
    }
  }
}

// Dialogues that share a prefill continue as if each were alone.
TEST(Round, ForksOfASharedPrefixContinue) {
  Machine machine("llama3");
  const std::vector<TurnTokens> turns = synthetic_turns(5);
  const auto policies = [] { return Method::parse("round:lw=1").make(); };
  Conversation alone(machine.engine, policies()), prefix(machine.engine, policies().prefill_part());
  replies(alone, std::span(turns).first(4));
  replies(prefix, std::span(turns).first(4));
  Sequence forked = machine.engine.make_sequence(policies());
  const Logits want = alone.turn(turns[4].question);
  EXPECT_TRUE(prefix.turn_with_forks(turns[4].question, {&forked}) == want);
  Conversation fork(machine.engine, std::move(forked));
  fork.spans = prefix.spans;
  // The device has no more tokens than without forks, and decode steps load none.
  EXPECT_LT(fork.sequence.resident_kv_bytes(), fork.sequence.kv_bytes());
  EXPECT_EQ(fork.sequence.resident_kv_bytes(), alone.sequence.resident_kv_bytes());
  for (const int token : turns[4].answer) EXPECT_TRUE(fork.answer(token) == alone.answer(token));
  const Ledger& moved = fork.sequence.counters.ledger;
  for (std::size_t step = 1; step < moved.steps(); ++step)
    EXPECT_EQ(moved.total_of_step(step).bytes(), moved.total_of_step(step).writeback_bytes);
  EXPECT_EQ(fork.sequence.policies.selection->counters(),
            alone.sequence.policies.selection->counters());
}

// Tokens that the upper layers read are counted: the first token, a round of four, and the turn.
TEST(Round, CountsWhatItReads) {
  Machine machine("llama3");
  const std::vector<TurnTokens> turns = synthetic_turns(5);
  Conversation c(machine.engine, Method::parse("round:lw=1").make());
  replies(c, std::span(turns).first(4));
  const int before = static_cast<int>(c.sequence.tokens.size());
  c.sequence.counters = {};
  c.turn(turns[4].question);
  const int question = static_cast<int>(turns[4].question.size());
  const auto counters = c.sequence.policies.selection->counters();
  ASSERT_EQ(counters.size(), 3u);
  EXPECT_EQ(counters[0], (std::pair<std::string, double>{"rounds", 4}));
  EXPECT_EQ(counters[1], (std::pair<std::string, double>{"rounds_read", 1}));
  const double read = counters[2].second;
  EXPECT_LT(read, before);
  const Counters& work = c.sequence.counters;
  const ModelShape& shape = machine.engine.shape();
  const double triangle = 0.5 * question * (question + 1);
  EXPECT_EQ(work.prefill_pairs,
            shape.heads * (before * question + triangle +
                           (shape.layers - 1) * ((read - question) * question + triangle)));
  c.answer(turns[4].answer[0]);
  EXPECT_EQ(work.mean_attended() * shape.layers,
            before + question + 1 + (shape.layers - 1) * (read + 1));
}

/// Bytes of the keys and values of `tokens` tokens in all layers above `lower`; on a device with
/// separate memory, also of their positions.
std::int64_t upper_bytes(const Sequence& s, int lower, double tokens, bool to_device) {
  const ModelShape& shape = s.shape();
  const PageLayout& layout = s.sets(0)[0].layout();
  const bool moves_positions = to_device && !s.at(0).kv.pool()->memory().is_host();
  const auto row = static_cast<std::int64_t>(2 * layout.row_bytes(KvRow::kKey) +
                                             (moves_positions ? sizeof(std::int32_t) : 0));
  return row * shape.kv_heads * (shape.layers - lower) * static_cast<std::int64_t>(tokens);
}

/// Dialogues with the cache in host memory and on the device: the same bits.  The transfers are the
/// selected rounds, once per turn, and every new row.
void expect_host_as_device(Machine& machine, int lw, const std::string& settings) {
  const std::string spec = fmt::format("round:lw={}{}", lw, settings);
  SCOPED_TRACE(machine.name + " " + spec);
  const int layers = machine.engine.shape().layers, lower = std::min(lw, layers);
  Conversation device(machine.engine, Method::parse(spec + ",placement=device").make()),
      host(machine.engine, Method::parse(spec).make());
  for (const TurnTokens& turn : synthetic_turns(is_emulated() ? 4 : 9)) {
    const std::span<const TurnTokens> one(&turn, 1);
    const double before = static_cast<double>(host.sequence.tokens.size());
    host.sequence.counters = {};
    EXPECT_TRUE(replies(host, one) == replies(device, one));
    EXPECT_TRUE(cached_rows(host.sequence) == cached_rows(device.sequence));
    EXPECT_EQ(device.sequence.counters.ledger.total().bytes(), 0);
    const Ledger& ledger = host.sequence.counters.ledger;
    const LedgerEntry total = ledger.total();
    if (lower == layers) {
      EXPECT_EQ(total.bytes(), 0);
      EXPECT_FALSE(host.sequence.is_offloaded());
      continue;
    }
    const double read = host.sequence.policies.selection->counters()[2].second,
                 answered = static_cast<double>(turn.answer.size()),
                 asked = static_cast<double>(turn.question.size()),
                 chosen = before == 0 ? 0 : read - 1 - asked;
    EXPECT_EQ(total.writeback_bytes, upper_bytes(host.sequence, lower, asked + answered, false));
    EXPECT_EQ(total.prefill_bytes, upper_bytes(host.sequence, lower, chosen, true));
    EXPECT_EQ(total.bytes(), total.writeback_bytes + total.prefill_bytes) << "no other";
    for (int l = 0; l < lower; ++l) {
      EXPECT_EQ(host.sequence.at(l).kv.pinned_layer(), nullptr);
      for (std::size_t step = 0; step < ledger.steps(); ++step)
        EXPECT_EQ(ledger.at(step, l).bytes(), 0);
    }
    const auto& top = *host.sequence.at(layers - 1).kv.pinned_layer();
    EXPECT_EQ(top.sets()[0].size(), read + answered);
    // Equation 2 of the paper, by tokens.
    const double all = static_cast<double>(host.sequence.tokens.size()),
                 below = static_cast<double>(lower) / layers,
                 share = below + (read + answered) / all * (1 - below);
    EXPECT_NEAR(static_cast<double>(host.sequence.resident_kv_bytes()),
                share * static_cast<double>(host.sequence.kv_bytes()), 1e-6);
  }
}

TEST(Round, HostKeepsUnreadTokens) {
  Machine machine("llama3");
  expect_host_as_device(machine, 1, ",overlap=true,strategy=mean");
  if (is_emulated()) return;
  expect_host_as_device(machine, 1, "");
  expect_host_as_device(machine, 2, ",strategy=mean");
  expect_host_as_device(machine, 1, ",share=1");
  expect_host_as_device(machine, 1, ",strategy=mean,granularity=token");
  expect_host_as_device(machine, 100, "");
  Machine windowed("mistral");
  expect_host_as_device(windowed, 1, ",strategy=mean");
}

// A question that is prefilled in chunks selects after its last row.
TEST(Round, ResultsDoNotDependOnChunks) {
  for (const char* model : {"llama3", "qwen2-yarn"}) {
    Machine machine(model);
    const std::vector<TurnTokens> turns = synthetic_turns(is_emulated() ? 4 : 7);
    for (const char* settings : {"lw=1,strategy=mean", "lw=1,question=last,granularity=token",
                                 "lw=1,placement=device,share=0.4"}) {
      const std::string spec = fmt::format("round:{}", settings);
      Conversation whole(machine.engine, Method::parse(spec).make());
      const std::vector<Logits> want = replies(whole, turns);
      for (const int chunk : {1, 3, 8, 20}) {
        if (is_emulated() && chunk != 8) continue;
        Engine engine(machine.model, *machine.backend, {.prefill_chunk = chunk});
        Conversation c(engine, Method::parse(spec).make());
        const std::vector<Logits> got = replies(c, turns);
        if (!machine.backend->rows_are_independent()) {
          for (std::size_t i = 0; i < want.size(); ++i)
            EXPECT_LE(test::distance(got[i], want[i]), 1e-4) << settings << " " << chunk;
          continue;
        }
        EXPECT_TRUE(got == want) << model << " " << settings << " " << chunk;
        EXPECT_TRUE(cached_rows(c.sequence) == cached_rows(whole.sequence));
        EXPECT_EQ(c.sequence.counters.prefill_pairs, whole.sequence.counters.prefill_pairs);
        EXPECT_EQ(c.sequence.counters.prefill_pairs_dense,
                  whole.sequence.counters.prefill_pairs_dense);
        EXPECT_TRUE(c.sequence.counters.ledger.total() == whole.sequence.counters.ledger.total());
      }
    }
  }
}

// One submission for each selected round, or one for each selected round and layer.
TEST(Round, RoundsAreTransferredSeparately) {
  if (is_emulated()) GTEST_SKIP() << "its models have one upper layer";
  Machine machine("llama3");
  const std::vector<TurnTokens> turns = synthetic_turns(7);
  for (const bool overlap : {false, true}) {
    Conversation c(machine.engine,
                   Method::parse(fmt::format("round:lw=1,share=0.5,overlap={}", overlap)).make());
    replies(c, std::span(turns).first(6));
    c.sequence.counters = {};
    c.turn(turns[6].question);
    const Ledger& ledger = c.sequence.counters.ledger;
    const std::int64_t first = ledger.at(0, 1).prefill_bytes,
                       second = ledger.at(0, 2).prefill_bytes;
    EXPECT_EQ(ledger.at(0, 0).prefill_bytes, 0);
    if (overlap) {
      EXPECT_EQ(first, second);
    } else {
      EXPECT_EQ(second, 0) << "they have come with those of the first upper layer";
    }
    EXPECT_GT(first, 0);
  }
}

// One of each turn's rounds is read.  The others are dropped when the next turn begins, which
// therefore selects between that round and the last one.
TEST(Round, DropsUnselectedRounds) {
  Machine machine("llama3");
  const int layers = machine.engine.shape().layers;
  Conversation device(machine.engine,
                      Method::parse("round:lw=1,drop_after=1,placement=device").make()),
      host(machine.engine, Method::parse("round:lw=1,drop_after=1").make()),
      never(machine.engine, Method::parse("round:lw=1,drop_after=100").make()),
      plain(machine.engine, Method::parse("round:lw=1").make());
  int turns = 0;
  for (const TurnTokens& turn : synthetic_turns(is_emulated() ? 4 : 9)) {
    const std::span<const TurnTokens> one(&turn, 1);
    EXPECT_TRUE(replies(host, one) == replies(device, one)) << turns;
    EXPECT_TRUE(replies(never, one) == replies(plain, one)) << turns;
    const auto counters = host.sequence.policies.selection->counters();
    EXPECT_EQ(counters[0].second, std::min(turns, 2));
    EXPECT_EQ(counters[1].second, std::min(turns, 1));
    const int own = static_cast<int>(turn.question.size() + turn.answer.size()),
              below = host.sequence.at(0).kv.pinned_layer()->sets()[0].size(),
              above = host.sequence.at(layers - 1).kv.pinned_layer()->sets()[0].size();
    EXPECT_EQ(above, counters[2].second + static_cast<double>(turn.answer.size()));
    EXPECT_GE(below, above);
    const int all = static_cast<int>(host.sequence.tokens.size());
    EXPECT_TRUE(turns > 2 ? below < all : below == all) << turns;
    EXPECT_GE(above, own);
    ++turns;
  }
}

// If the lower layers do not keep their earlier rounds on the device, a turn begins with their
// transfers: the same bits, and in addition to the selected rounds all tokens except the first one
// are transferred.
TEST(Round, ColdRoundsAreTransferredWithTheTurn) {
  Machine machine("llama3");
  const int layers = machine.engine.shape().layers;
  for (const std::string settings : {"", ",overlap=true,strategy=mean"}) {
    Conversation warm(machine.engine, Method::parse("round:lw=1" + settings).make()),
        cold(machine.engine, Method::parse("round:lw=1,cold=true" + settings).make());
    for (const TurnTokens& turn : synthetic_turns(is_emulated() ? 3 : 6)) {
      const std::span<const TurnTokens> one(&turn, 1);
      const double before = static_cast<double>(cold.sequence.tokens.size());
      warm.sequence.counters = cold.sequence.counters = {};
      EXPECT_TRUE(replies(cold, one) == replies(warm, one)) << settings;
      const LedgerEntry moved = cold.sequence.counters.ledger.total(),
                        chosen = warm.sequence.counters.ledger.total();
      EXPECT_EQ(moved.prefill_bytes - chosen.prefill_bytes,
                upper_bytes(cold.sequence, layers - 1, std::max(0.0, before - 1), true));
      const double rows = static_cast<double>(turn.question.size() + turn.answer.size());
      EXPECT_EQ(moved.writeback_bytes, upper_bytes(cold.sequence, 0, rows, false));
      EXPECT_EQ(moved.bytes(), moved.prefill_bytes + moved.writeback_bytes) << "no other";
    }
    EXPECT_TRUE(cached_rows(cold.sequence) == cached_rows(warm.sequence));
  }
}

// Forks within an answer, and answers that begin again.
TEST(Round, ForksAreIndependent) {
  Machine machine("llama3");
  const std::vector<TurnTokens> turns = synthetic_turns(6);
  const auto begun = [&](const char* spec) {
    Conversation out(machine.engine, Method::parse(spec).make());
    replies(out, std::span(turns).first(5));
    out.turn(turns[5].question);
    return out;
  };
  Conversation device = begun("round:lw=1,placement=device"), host = begun("round:lw=1");
  Conversation fork = host.fork(), astray = host.fork();
  for (const int token : turns[5].answer) {
    astray.answer(token == 5 ? 6 : 5);
    const Logits want = device.answer(token);
    EXPECT_TRUE(host.answer(token) == want);
    EXPECT_TRUE(fork.answer(token) == want);
  }
  const Logits want = device.turn(turns[0].question);
  EXPECT_TRUE(host.turn(turns[0].question) == want);
  EXPECT_TRUE(fork.turn(turns[0].question) == want);
}

// The device holds the lower layers, and of the other layers the selected rounds and the turn, as
// its allocator shows.
TEST(Round, ADialogueOfFortyRoundsStaysWithinTheDevice) {
  if (is_emulated()) return;
  Machine machine(TURNBENCH_SOURCE_DIR "/models/tiny");
  const ModelShape& shape = machine.engine.shape();
  constexpr int kRounds = 40, kQuestion = 29, kAnswer = 3, kLower = 2;
  constexpr int kMost = 1 + 4 * (kQuestion + kAnswer) + kQuestion + kAnswer;  // tokens held
  const auto bytes = [&](int layers, int tokens) {
    const std::size_t page = PageLayout{shape.head_dim, DType::kF32}.bytes();
    return static_cast<std::size_t>(layers * shape.kv_heads) * page *
           static_cast<std::size_t>((tokens + kPageTokens - 1) / kPageTokens);
  };
  Engine::Options options;
  options.kv_limit =
      bytes(kLower, kRounds * (kQuestion + kAnswer)) + bytes(shape.layers - kLower, kMost);
  ASSERT_LT(options.kv_limit, bytes(shape.layers, kRounds * (kQuestion + kAnswer)) * 6 / 10);
  Engine engine(machine.model, *machine.backend, options);
  const auto talk = [&](Conversation& c) {
    std::vector<Logits> out;
    for (std::uint64_t t = 0; t < kRounds; ++t) {
      out.push_back(c.turn(synthetic_tokens(kQuestion, 2 * t)));
      for (const int token : synthetic_tokens(kAnswer, 2 * t + 1)) out.push_back(c.answer(token));
    }
    return out;
  };
  const std::string spec = fmt::format("round:lw={}", kLower);
  Conversation host(engine, Method::parse(spec).make()),
      device(machine.engine, Method::parse(spec + ",placement=device").make());
  EXPECT_TRUE(talk(host) == talk(device));
  EXPECT_LE(engine.memory().peak_kv_bytes(), options.kv_limit);
  EXPECT_GE(engine.memory().host_kv_bytes(),
            bytes(shape.layers - kLower, kRounds * (kQuestion + kAnswer)));
  Conversation refused(engine, Method::parse("full").make());
  EXPECT_THROW(talk(refused), Error);
}

// A cache that was filled without a prefill: the last rows of the prompt select.
TEST(Round, FilledCachesSelectRounds) {
  Machine machine("llama3");
  std::vector<Span> spans;
  for (int t = 0; t < 20; ++t) spans.push_back({SpanKind::kQuestion, t, 50 * t, 50 * (t + 1)});
  const std::vector<int> prompt = synthetic_tokens(1000, 1);
  const DialogueView dialogue{prompt, spans, 19, 1, {}};
  Sequence s = machine.engine.make_sequence(Method::parse("round:lw=1").make());
  machine.engine.fill_random_kv(s, prompt, dialogue, 5);
  const auto counters = s.policies.selection->counters();
  EXPECT_EQ(counters[0].second, 19);
  EXPECT_EQ(counters[1].second, 2);
  EXPECT_GE(counters[2].second, 1 + 2 * 50 + 50 - 1);
  EXPECT_LE(counters[2].second, 1 + 2 * 50 + 50);
}

}  // namespace
}  // namespace turnbench
