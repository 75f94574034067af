#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench::fuzz {

/// Choices, a byte each; those that the input does not say are the first ones.  The first byte says
/// whether there is anything wrong at all: otherwise little would come as far as a run.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) { has_wrong_ = below(4) == 3; }

  std::size_t below(std::size_t n) {
    if (at_ >= bytes_.size() || n < 2) return 0;
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    return byte % n;
  }
  /// Seldom true, never where the input has ended: once in `n` bytes.
  bool rarely(std::size_t n) { return below(n) == n - 1; }
  /// The same, for what is not to be accepted.
  bool wrong(std::size_t n) { return has_wrong_ && rarely(n); }
  template <typename List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool has_wrong_ = false;
};

/// A manifest of every key that there is, most values as they should be: the bytes of an input
/// decide.  Names of methods, probes, datasets, metrics and parameters are the registries'.
/// `published`, a file beside it, is the one that exists.
OrderedJson draw_manifest(Draw& draw, const std::string& published);

/// The keys that `draw_manifest` writes, by where they stand: "", "models", "datasets" or "tables".
const std::vector<std::string>& drawn_keys(std::string_view where);

}  // namespace turnbench::fuzz
