#include "methods/parts/reconstruction_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kRepeatedTokens = 8;  // of the previous chunk, behind the instruction
constexpr const char* kFirstInstruction = "\n\nRepeat the previous context exactly.";
constexpr const char* kNextInstruction =
    "\n\nRepeat the part of the previous context exactly, starting with";

void append(std::vector<int>& out, std::span<const int> tokens) {
  out.insert(out.end(), tokens.begin(), tokens.end());
}

/// The number of tokens before the first message.
int template_tokens(const DialogueView& dialogue) {
  const auto& spans = dialogue.spans;
  return !spans.empty() && spans[0].kind == SpanKind::kMarkup ? spans[0].end : 0;
}

}  // namespace

std::string ReconstructionScores::key() const {
  return fmt::format("reconstruction in chunks of {}, {} sinks", s_.chunk, s_.sinks);
}

std::vector<std::vector<int>> ReconstructionScores::begin(const DialogueView& dialogue) {
  const auto encoded = [&](const char* text) {
    return dialogue.encode ? dialogue.encode(text) : std::vector<int>();
  };
  std::vector<int> cue = dialogue.cue ? dialogue.cue() : std::vector<int>();
  if (cue.empty()) cue = encoded("\n");
  const int first = template_tokens(dialogue);
  tokens_ = static_cast<int>(dialogue.tokens.size());
  fixed_ = std::max(s_.sinks, first);
  std::vector<std::vector<int>> out;
  for (int begin = first; begin < tokens_; begin += s_.chunk) {
    const Chunk chunk = chunks_.emplace_back(Chunk{begin, std::min(tokens_, begin + s_.chunk)});
    std::vector<int>& pass =
        out.emplace_back(encoded(begin == first ? kFirstInstruction : kNextInstruction));
    const int repeated = std::min(kRepeatedTokens, begin - first);
    append(pass, dialogue.tokens.subspan(begin - repeated, repeated));
    append(pass, cue);
    append(pass, dialogue.tokens.subspan(begin, chunk.end - begin));
  }
  return out;
}

void ReconstructionScores::score(const LayerView& view, std::size_t pass) {
  const int begin = chunks_[pass].begin, end = chunks_[pass].end;
  scores_.resize(static_cast<std::size_t>(view.shape.layers));
  std::vector<std::vector<float>>& of_layer = scores_[view.layer];
  const auto pool = std::make_shared<KvPool>(view.sets[0].layout(), view.backend->memory());
  std::vector<KvHeadCache> read;  // sinks, chunk, tokens of the pass
  std::vector<SlotsOfSet> chunk;  // in `read`
  for (const KvHeadCache& set : view.sets) {
    const int prompt = set.lower_bound(tokens_), first = set.lower_bound(begin),
              last = set.lower_bound(end);
    if (read.size() == of_layer.size()) {
      std::vector<float>& own = of_layer.emplace_back(static_cast<std::size_t>(prompt), 0.0f);
      for (int slot = 0; slot < set.lower_bound(std::min(fixed_, tokens_)); ++slot)
        own[slot] = static_cast<float>(2 + fixed_ - set.position(slot));
    }
    chunk.push_back({set.lower_bound(std::min(s_.sinks, begin)), last - first});
    const auto slots =
        with_tail(with_tail(all_slots(chunk.back().first), first, last), prompt, set.size());
    read.push_back(set.gathered(slots, pool));
  }
  const auto most = largest_probabilities(view, view.stats.for_sets(read), chunk);
  for (std::size_t set = 0; set < most.size(); ++set)
    raise_to(most[set], of_layer[set], view.sets[set].lower_bound(begin));
}

}  // namespace turnbench
