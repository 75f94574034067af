#include "methods/parts/round_turn.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "methods/parts/dialogue_rounds.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

std::int32_t size_of(const SlotRange& range) {
  return range.end - range.begin;
}

double tokens_of(std::span<const SlotRange> ranges) {
  double out = 0;
  for (const SlotRange& range : ranges) out += size_of(range);
  return out;
}

/// Appends a range, merged with the last one if it continues it.
void join(const SlotRange& range, std::vector<SlotRange>& ranges) {
  if (ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

/// The tokens of ranges, each as a range.
std::vector<SlotRange> split_ranges(std::span<const SlotRange> ranges) {
  std::vector<SlotRange> out;
  for (const SlotRange& range : ranges) {
    for (std::int32_t j = range.begin; j < range.end; ++j) out.push_back({j, j + 1});
  }
  return out;
}

}  // namespace

bool RoundTurn::follow(const DialogueView& dialogue, std::int32_t first, int rows) {
  const DialogueRounds rounds(dialogue.spans);
  const std::int32_t round = rounds.round_of(first + rows - 1);
  if (round == turn_.round) return false;
  turn_ = {};
  turn_.round = round;
  turn_.begin = std::min(rounds.begin(round), first);
  turn_.preamble = std::min(rounds.preamble(), turn_.begin);
  const std::vector<SlotRange> before = rounds.before(round);
  unread_.resize(before.size());
  std::vector<SlotRange> left = {{0, turn_.preamble}};
  for (std::size_t m = 0; m < before.size(); ++m) {
    const SlotRange cached{before[m].begin, std::min(before[m].end, turn_.begin)};
    const bool is_dropped = s_.drop_after > 0 && unread_[m] >= s_.drop_after;
    if (cached.begin >= cached.end || is_dropped) continue;
    turn_.rounds.push_back(cached);
    turn_.numbers.push_back(m);
    join(cached, left);
  }
  if (tokens_of(left) < turn_.begin) turn_.left = left;
  hold_lower(std::move(left));
  return true;
}

/// Sets the tokens of the lower layers on the device.  They stay from turn to turn unless the lower
/// layers are cold: then everything except the preamble is transferred in each turn.
void RoundTurn::hold_lower(std::vector<SlotRange> left) {
  lower_held_ = {};
  if (turn_.rounds.empty()) return;
  if (s_.cold) {
    const SlotRange first = left.front();
    left.front().begin = turn_.preamble;
    if (size_of(left.front()) == 0) left.erase(left.begin());
    left.insert(left.begin(), {first.begin, turn_.preamble});
  }
  lower_held_.begin = turn_.begin;
  if (!s_.cold && left.back().end == turn_.begin) {
    lower_held_.begin = left.back().begin;
    left.pop_back();
  }
  lower_held_.earlier = std::move(left);
}

void RoundTurn::choose(std::span<const double> attention) {
  turn_.has_chosen = true;
  if (turn_.rounds.empty()) return;
  const std::vector<SlotRange> candidates = s_.by_token ? split_ranges(turn_.rounds) : turn_.rounds;
  std::vector<double> of_candidates(candidates.size());
  for (std::size_t i = 0; i < candidates.size() && !attention.empty(); ++i) {
    of_candidates[i] = std::accumulate(attention.begin() + candidates[i].begin,
                                       attention.begin() + candidates[i].end, 0.0);
  }
  const std::vector<std::int32_t> chosen = choose_rounds(of_candidates, s_.choice);
  turn_.reads_all = chosen.size() == candidates.size() && turn_.left.empty();
  turn_.read = {{0, turn_.preamble}};
  for (const std::int32_t i : chosen) {
    const SlotRange& c = candidates[i];
    if (s_.by_token && turn_.read.size() > 1) {
      join(c, turn_.read);
    } else {
      turn_.read.push_back(c);
    }
  }
  for (std::size_t i = 0; i < turn_.rounds.size(); ++i) {
    const SlotRange& round = turn_.rounds[i];
    const bool is_read = std::any_of(turn_.read.begin(), turn_.read.end(), [&](const SlotRange& r) {
      return r.begin < round.end && r.end > round.begin;
    });
    int& unread = unread_[turn_.numbers[i]];
    unread = is_read ? 0 : unread + 1;
    turn_.rounds_read += is_read;
  }
  upper_held_ = {turn_.read, turn_.begin};
}

std::vector<std::int32_t> RoundTurn::slots(bool lower, std::int32_t end) const {
  std::vector<std::int32_t> out;
  if (lower ? turn_.left.empty() : turn_.reads_all) return out;
  for (const SlotRange& range : lower ? turn_.left : turn_.read)
    out = with_tail(std::move(out), range.begin, range.end);
  return with_tail(std::move(out), turn_.begin, end);
}

std::vector<SlotRange> RoundTurn::held(bool lower, int tokens) const {
  const Held& held = lower ? lower_held_ : upper_held_;
  std::vector<SlotRange> out = held.earlier;
  out.push_back({held.begin, tokens});
  return out;
}

double RoundTurn::upper_tokens(std::int32_t prompt) const {
  return turn_.reads_all ? prompt : tokens_of(turn_.read) + prompt - turn_.begin;
}

}  // namespace turnbench
