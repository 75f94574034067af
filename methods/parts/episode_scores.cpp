#include "methods/parts/episode_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "methods/parts/scores.h"

namespace turnbench {
namespace {

// Of the official code (apple/ml-epicache, model/wrapper.py).
constexpr const char* kInstruction =
    "\n\nExtract essential information from this conversation segment. Identify speaker names, "
    "personas, key events with dates/times, personal details, commitments, opinions, "
    "relationships, emotional moments, and unique experiences.";
// For estimates: tokens of the instruction with the cue, at most, and of an utterance of a chat.
constexpr int kInstructionTokens = 288, kTypicalUtterance = 32;

int windows_of(const EpisodeSettings& s, int prompt_tokens, int utterance) {
  const std::int64_t most = std::int64_t{s.medoids} * s.utterances * utterance;
  return static_cast<int>(std::min<std::int64_t>(prompt_tokens, most));
}

}  // namespace

std::string EpisodeScores::key() const {
  return fmt::format("{} episodes, {} windows of {} utterances", s_.episodes, s_.medoids,
                     s_.utterances);
}

int EpisodeScores::longest_pass(int prompt_tokens) const {
  return windows_of(s_, prompt_tokens, kLongUtterance) + std::min(s_.medoids, prompt_tokens) +
         kInstructionTokens;
}

int EpisodeScores::tokens_of_passes(int prompt_tokens) const {
  return windows_of(s_, prompt_tokens / s_.episodes, kTypicalUtterance);
}

std::vector<std::vector<int>> EpisodeScores::begin(const DialogueView& dialogue) {
  tokens_ = static_cast<int>(dialogue.tokens.size());
  const std::span<const int> text = compressed_text(dialogue), question = dialogue.question;
  if (!std::ranges::equal(text, last_->text) || !std::ranges::equal(question, last_->question)) {
    *last_ = {{text.begin(), text.end()}, {question.begin(), question.end()}, pass_for(dialogue)};
  }
  if (last_->tokens.empty()) return {};
  return {last_->tokens};
}

std::vector<int> EpisodeScores::pass_for(const DialogueView& dialogue) const {
  const auto encoded = [&](const char* text) {
    return dialogue.encode ? dialogue.encode(text) : std::vector<int>();
  };
  std::vector<int> pass = encoded(kInstruction);
  const auto add = [&](std::span<const int> tokens) {
    pass.insert(pass.end(), tokens.begin(), tokens.end());
  };
  const std::vector<int> newline = encoded("\n");
  const std::vector<int> cue = dialogue.cue ? dialogue.cue() : std::vector<int>();
  add(cue.empty() ? newline : cue);
  const std::vector<Episode> episodes = find_episodes(dialogue, s_);
  if (episodes.empty()) return pass;
  for (const auto& window : episodes[match_episode(dialogue, episodes)].medoids) {
    for (const Utterance& u : window)
      add(compressed_text(dialogue).subspan(u.begin, u.end - u.begin));
    add(newline);
  }
  return pass;
}

void EpisodeScores::score(const LayerView& view, std::size_t) {
  scores_.resize(static_cast<std::size_t>(view.shape.layers));
  std::vector<std::vector<float>>& of_layer = scores_[view.layer];
  const auto pool = std::make_shared<KvPool>(view.sets[0].layout(), view.backend->memory());
  std::vector<KvHeadCache> cached;
  std::vector<SlotsOfSet> slots;
  for (const KvHeadCache& set : view.sets) {
    slots.push_back({0, set.lower_bound(tokens_)});
    cached.push_back(set.gathered(all_slots(slots.back().count), pool));
  }
  of_layer.resize(view.sets.size());
  const auto most = largest_probabilities(view, view.stats.for_sets(cached), slots);
  for (std::size_t set = 0; set < most.size(); ++set) raise_to(most[set], of_layer[set], 0);
}

}  // namespace turnbench
