#pragma once

#include <string_view>

namespace turnbench {

/// How a method's cache goes on from one turn to the next.
enum class History {
  kReprefill,     ///< the whole prompt is prefilled and evicted again: evicted tokens come back
  kCompressOnce,  ///< eviction after the first prompt only; later tokens are all kept
  kRecompress,    ///< eviction after each prompt, from the kept and the new tokens
  kDense  ///< only the last turn is asked, behind what full attention computed of all before it
};
/// Whether a method meets a turn with the cache that its own earlier turns left.
inline bool keeps_cache(History history) {
  return history == History::kCompressOnce || history == History::kRecompress;
}
inline std::string_view name_of(History history) {
  return history == History::kReprefill      ? "reprefill"
         : history == History::kCompressOnce ? "compress_once"
         : history == History::kRecompress   ? "recompress"
                                             : "dense";
}

/// The earlier answers in a dialogue's history: the method's own, or the gold ones.
enum class Answers { kOwn, kGold };
inline std::string_view name_of(Answers answers) {
  return answers == Answers::kOwn ? "own" : "gold";
}

}  // namespace turnbench
