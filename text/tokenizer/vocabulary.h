#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/json.h"

namespace turnbench {

/// The largest token id that is accepted; far above those of known tokenizers.
constexpr int kMaxTokenId = (1 << 21) - 1;

/// The tokens of a model, as written in its file, and their ids.  Ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// @throws Error (input) for ids outside of [0, kMaxTokenId] and for repeated ids or tokens.
  Vocabulary(std::vector<std::pair<std::string, int>> tokens, const std::string& source);
  /// Reads {"token": id, ...}.
  static Vocabulary parse(const JsonView& json);

  Vocabulary(const Vocabulary&) = delete;  // the index points into the tokens
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int size() const { return static_cast<int>(tokens_.size()); }  ///< the largest id + 1
  bool has(int id) const { return id >= 0 && id < size() && present_[id]; }
  const std::string& token(int id) const { return tokens_[id]; }
  int find(std::string_view token) const;  ///< the id of a token; -1 if it is missing

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::unordered_map<std::string_view, int> index_;
};

}  // namespace turnbench
