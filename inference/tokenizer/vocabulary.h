#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/json.h"

namespace turnbench {

/// No tokenizer comes near it; a larger id in a file is a mistake.
constexpr int kMaxTokenId = (1 << 21) - 1;

/// The tokens of a model, as its file writes them, and their ids.  Ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Refuses ids outside of 0 to kMaxTokenId and an id or token that comes twice.
  Vocabulary(std::vector<std::pair<std::string, int>> tokens, const std::string& source);
  /// From {"token": id, ...}.
  static Vocabulary parse(const JsonView& json);

  Vocabulary(const Vocabulary&) = delete;  // the index points into the tokens
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int size() const { return static_cast<int>(tokens_.size()); }  ///< one more than the largest id
  bool has(int id) const {
    return id >= 0 && id < size() && present_[static_cast<std::size_t>(id)];
  }
  const std::string& token(int id) const { return tokens_[static_cast<std::size_t>(id)]; }
  int find(std::string_view token) const;  ///< -1 if it is not there

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::unordered_map<std::string_view, int> index_;
};

}  // namespace turnbench
