#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// Settings of the division of a dialogue into episodes (Kim et al., EpiCache, 2025, section 3.1):
/// windows of consecutive utterances are embedded, and k-means clusters their embeddings.
struct EpisodeSettings {
  int episodes = 4;    ///< clusters
  int utterances = 4;  ///< of a window
  int medoids = 8;     ///< windows that represent an episode, the nearest to its centroid
};

/// The text that a turn compresses: DialogueView::prompt, or the cached text if it is unknown.
inline std::span<const int> compressed_text(const DialogueView& dialogue) {
  return dialogue.prompt.empty() ? dialogue.tokens : dialogue.prompt;
}

/// A range [begin, end) of tokens of the compressed text.
struct Utterance {
  std::int32_t begin = 0, end = 0;
};
/// Tokens above which a line is divided into sentences, and a sentence into parts.
inline constexpr int kLongUtterance = 128;

/// The utterances of the text that a turn compresses: lines of contexts, and of questions and
/// answers of earlier turns.  Blank lines are left out.  Without the text of tokens, there is one
/// utterance per kLongUtterance tokens.
std::vector<Utterance> utterances(const DialogueView& dialogue);

struct Episode {
  std::vector<float> centroid;  ///< [hidden]
  /// The windows that represent it, in the order of the dialogue: [windows][utterances].
  std::vector<std::vector<Utterance>> medoids;
};

/// The episodes of the text that a turn compresses; fewer than `episodes` if there are fewer
/// windows.  A window's embedding is the mean input embedding of its tokens, scaled to unit length.
/// Of 10 k-means runs with fixed seeds, the one with the smallest sum of squared distances is used.
std::vector<Episode> find_episodes(const DialogueView& dialogue, const EpisodeSettings& settings);

/// The index of the episode whose centroid has the largest inner product with the embedding of the
/// turn's question; ties and an unknown question: the first.
std::size_t match_episode(const DialogueView& dialogue, const std::vector<Episode>& episodes);

}  // namespace turnbench
