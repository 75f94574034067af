#pragma once

#include <string_view>

namespace turnbench {

/// How a method's cache goes on from one turn to the next.
enum class History {
  kReprefill,     ///< the whole prompt is prefilled and evicted again: evicted tokens come back
  kCompressOnce,  ///< eviction after the first prompt only; later tokens are all kept
  kRecompress     ///< eviction after each prompt, from the kept and the new tokens
};
inline std::string_view name_of(History history) {
  return history == History::kReprefill      ? "reprefill"
         : history == History::kCompressOnce ? "compress_once"
                                             : "recompress";
}

/// The earlier answers in a dialogue's history: the method's own, or the gold ones.
enum class Answers { kOwn, kGold };
inline std::string_view name_of(Answers answers) {
  return answers == Answers::kOwn ? "own" : "gold";
}

}  // namespace turnbench
