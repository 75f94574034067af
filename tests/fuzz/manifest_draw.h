#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench::fuzz {

/// Choices that are read from the input, one byte each; after its end, the first choice.  The first
/// byte determines whether invalid values are possible: otherwise few inputs would reach a run.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) { has_wrong_ = below(4) == 3; }

  std::size_t below(std::size_t n) {
    if (at_ >= bytes_.size() || n < 2) return 0;
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    return byte % n;
  }
  /// True for one in `n` bytes, never after the end of the input.
  bool rarely(std::size_t n) { return below(n) == n - 1; }
  /// Like `rarely`, for values that are invalid.
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

/// A manifest whose keys and values are chosen by the input.  All keys can occur; most values are
/// valid.  Names of methods, probes, datasets, metrics and parameters come from the registries.
/// `published` is the only existing file of published numbers.
OrderedJson draw_manifest(Draw& draw, const std::string& published);

/// The keys that `draw_manifest` can write in an object: "" (the manifest), "models", "datasets" or
/// "tables".
const std::vector<std::string>& drawn_keys(std::string_view where);

}  // namespace turnbench::fuzz
