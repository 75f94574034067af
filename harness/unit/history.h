#pragma once

#include <string_view>

namespace turnbench {

/// What happens to a method's cache when a later turn comes.
enum class History {
  kReprefill,     ///< everything is computed anew and evicted anew: lost tokens come back
  kCompressOnce,  ///< evicted after the first prompt only; all that follows is appended in full
  kRecompress     ///< evicted again after each prompt, from the survivors and the new tokens
};
inline std::string_view name_of(History history) {
  return history == History::kReprefill      ? "reprefill"
         : history == History::kCompressOnce ? "compress_once"
                                             : "recompress";
}

/// Whose earlier answers stand in the dialogue's history.
enum class Answers { kOwn, kGold };
inline std::string_view name_of(Answers answers) {
  return answers == Answers::kOwn ? "own" : "gold";
}

}  // namespace turnbench
