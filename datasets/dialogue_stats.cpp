#include "datasets/dialogue_stats.h"

#include <algorithm>
#include <array>

namespace turnbench {
namespace {

constexpr std::array<PublishedDataset, 11> kPublished = {{
    {"mt-narrativeqa", 500, 3, 30545.54, "F1"},
    {"mt-qasper", 500, 3, 5434.41, "F1"},
    {"mt-multifieldqa_en", 500, 3, 7279.64, "F1"},
    {"mt-hotpotqa", 500, 3, 13847.19, "F1"},
    {"mt-2wikimqa", 500, 3, 7471.16, "F1"},
    {"mt-musique", 500, 3, 16587.56, "F1"},
    {"mt-multi_news", 500, 2, 2376.46, "Rouge-L"},
    {"mt-gov_report", 500, 2, 9324.43, "Rouge-L"},
    {"mt-qmsum", 500, 2, 12780.29, "Rouge-L"},
    {"mt-trec", 199, 2, 2293.99, "Accuracy"},
    {"mt-samsum", 199, 2, 3113.73, "Accuracy"},
}};

}  // namespace

DialogueStats dialogue_stats(std::span<const Dialogue> dialogues,
                             const std::function<std::size_t(std::string_view)>& count_tokens) {
  std::size_t turns = 0, tokens = 0;
  for (const Dialogue& dialogue : dialogues) {
    turns += dialogue.turns.size();
    for (const Turn& turn : dialogue.turns) {
      tokens += count_tokens(turn.instruction) + count_tokens(turn.question);
      for (const Paragraph& paragraph : turn.contexts) tokens += count_tokens(paragraph.text);
    }
  }
  const auto mean = [](std::size_t sum, std::size_t n) {
    return n == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(n);
  };
  return {dialogues.size(), mean(turns, dialogues.size()), mean(tokens, dialogues.size()),
          mean(tokens, turns)};
}

std::span<const PublishedDataset> published_datasets() {
  return kPublished;
}

const PublishedDataset* find_published_dataset(std::string_view name) {
  const auto found = std::find_if(kPublished.begin(), kPublished.end(),
                                  [&](const PublishedDataset& d) { return d.name == name; });
  return found == kPublished.end() ? nullptr : &*found;
}

}  // namespace turnbench
