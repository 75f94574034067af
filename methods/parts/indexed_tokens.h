#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// A value that belongs to one sequence: a copy starts with T().
template <typename T>
struct Unshared {
  Unshared() = default;
  Unshared(const Unshared&) {}
  Unshared(Unshared&&) noexcept = default;
  Unshared& operator=(Unshared&&) noexcept = default;
  Unshared& operator=(const Unshared&) { return *this = Unshared(); }

  T value{};
};

/// The tokens of a layer that an index covers, in units of one or more consecutive tokens.  The
/// index has two parts: that of a prompt, shared by all sequences that continue from it, and that
/// of a sequence's own tokens, which begins with the first unit that the prompt does not fill.  A
/// copy covers the prompt only: a fork indexes its own tokens.
class IndexedTokens {
 public:
  explicit IndexedTokens(int unit = 1) : unit_(unit) {}

  /// At the end of a prompt, which the prompt's part covers.
  void end_prompt(const LayerView& view);
  /// At the beginning of a step.  If slots were removed since the prompt, by an eviction or a
  /// truncation, its part is outdated (`is_stale`), and all units become the sequence's own.
  void begin_step(const LayerView& view);

  bool is_stale() const { return stale_; }
  /// Tokens of a set at the end of the prompt.
  int prompt(std::size_t set) const { return prompt_[set]; }
  /// The first unit of the sequence's own part.
  int first_own(std::size_t set) const { return stale_ ? 0 : prompt_[set] / unit_; }
  /// The number of units in the own part of the largest set.
  std::int64_t own_units(const LayerView& view) const;
  /// Extends the own part to all tokens of the sets.  Returns the first slot to be added for each
  /// set: that of the step's token or, if the own part was not up to date or `restart` is set, the
  /// first one of the part.
  std::vector<int> extend(const LayerView& view, bool restart);

 private:
  int unit_;
  std::vector<int> prompt_;
  bool stale_ = false;
  Unshared<std::vector<int>> covered_;  // tokens of each set in the own part and before it
};

}  // namespace turnbench
