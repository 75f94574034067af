#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace turnbench {

/// A seeded random number generator (SplitMix64).  Its stream is the same on every machine and
/// compiler, unlike that of the standard library's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// A generator seeded by several numbers.  Their order matters: (1, 2) and (2, 1) differ.
  static Random from(std::initializer_list<std::uint64_t> seeds) {
    Random mixer(kStep);
    for (std::uint64_t s : seeds) mixer.state_ = mixer.next() ^ s;
    return Random(mixer.next());
  }

  std::uint64_t next() {
    std::uint64_t z = (state_ += kStep);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  /// Skips `count` calls of `next` or `uniform` in O(1), so that threads can draw parts of one
  /// stream.
  void skip(std::uint64_t count) { state_ += count * kStep; }

  /// Uniform in [0, n), without modulo bias; n > 0.
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t limit = -n % n;  // 2^64 mod n
    for (;;) {
      const std::uint64_t x = next();
      if (x >= limit) return x % n;
    }
  }

  /// Uniform in [low, high], both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

  /// Uniform in [0, 1) with 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  template <typename Container>
  const auto& choice(const Container& items) {
    return items[below(items.size())];
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ull;
  std::uint64_t state_;
};

/// A 64-bit seed from a name (FNV-1a hash), for `Random::from`.
inline std::uint64_t seed_of(std::string_view name) {
  std::uint64_t h = 0xCBF29CE484222325ull;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001B3ull;
  return h;
}

}  // namespace turnbench
