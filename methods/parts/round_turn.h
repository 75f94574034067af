#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/policy/policy.h"
#include "methods/parts/round_choice.h"

namespace turnbench {

/// The earlier rounds that a turn of Round Attention reads, and the tokens that its layers have on
/// the device.  Lower layers read all rounds that have not been dropped; upper layers read the
/// selected ones.
class RoundTurn {
 public:
  struct Settings {
    RoundChoice choice;
    bool by_token;   ///< selects tokens instead of rounds
    int drop_after;  ///< a round is dropped after this many turns in a row without selection; 0:
                     ///< never
    bool cold;  ///< the lower layers' earlier rounds are transferred to the device in each turn
  };
  explicit RoundTurn(const Settings& s) : s_(s) {}

  /// Begins the turn whose pass has `rows` rows from position `first` on.  Returns false if it has
  /// begun already.
  bool follow(const DialogueView& dialogue, std::int32_t first, int rows);
  /// Selects the rounds of the upper layers.  attention: of the question to each token before the
  /// turn; empty if it is unknown.
  void choose(std::span<const double> attention);
  bool has_chosen() const { return turn_.has_chosen; }

  /// The first token of the current round.
  std::int32_t begin() const { return turn_.begin; }
  bool has_earlier_rounds() const { return !turn_.rounds.empty(); }
  /// The slots up to `end` that layers read; none if they read all.
  std::vector<std::int32_t> slots(bool lower, std::int32_t end) const;
  /// The slots of a set of `tokens` tokens that layers have on the device.  Until the turn has
  /// selected, the upper layers keep the selection of the previous turn.
  std::vector<SlotRange> held(bool lower, int tokens) const;

  std::size_t rounds() const { return turn_.rounds.size(); }     ///< earlier ones
  std::size_t rounds_read() const { return turn_.rounds_read; }  ///< entirely or in part
  /// Tokens of a prompt of `prompt` tokens that the upper layers read.
  double upper_tokens(std::int32_t prompt) const;

 private:
  struct Turn {
    std::int32_t round = -1;           // number of the round; -1: before the first one
    std::int32_t begin = 0;            // first token of the round
    std::vector<SlotRange> rounds;     // earlier rounds that have tokens and are not dropped
    std::vector<std::size_t> numbers;  // numbers of these rounds
    std::vector<SlotRange> left;  // ranges that the lower layers read, if rounds have been dropped
    std::int32_t preamble = 0;    // tokens before the first round
    bool has_chosen = false;
    bool reads_all = true;
    std::size_t rounds_read = 0;
    std::vector<SlotRange> read;  // ranges before the round that the upper layers read
  };
  /// Tokens on the device: earlier tokens, and all tokens from `begin` on.
  struct Held {
    std::vector<SlotRange> earlier;
    std::int32_t begin = 0;
  };
  void hold_lower(std::vector<SlotRange> left);

  Settings s_;
  Turn turn_;
  std::vector<int> unread_;  // by round: number of latest turns in a row that did not select it
  Held lower_held_, upper_held_;
};

}  // namespace turnbench
