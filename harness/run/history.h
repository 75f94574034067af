#pragma once

#include <string_view>

namespace turnbench {

/// Treatment of a method's cache when a later turn starts.
enum class History {
  kReprefill,     ///< the whole prompt is prefilled and evicted again: evicted tokens are restored
  kCompressOnce,  ///< eviction after the first prompt only; later tokens are all kept
  kRecompress,    ///< eviction after each prompt, from the kept and the new tokens
  kDense          ///< history is prefilled with full attention; only the last turn is evaluated
};
/// True if a turn starts from the cache that the method's own earlier turns left.
inline bool keeps_cache(History history) {
  return history == History::kCompressOnce || history == History::kRecompress;
}
inline std::string_view name_of(History history) {
  return history == History::kReprefill      ? "reprefill"
         : history == History::kCompressOnce ? "compress_once"
         : history == History::kRecompress   ? "recompress"
                                             : "dense";
}

/// Source of the earlier answers in a dialogue's history: the method's own, or the gold answers.
enum class Answers { kOwn, kGold };
inline std::string_view name_of(Answers answers) {
  return answers == Answers::kOwn ? "own" : "gold";
}

}  // namespace turnbench
