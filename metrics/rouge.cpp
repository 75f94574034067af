#include <algorithm>

#include "common/python_text.h"
#include "common/text.h"
#include "metrics/lcs.h"
#include "metrics/scorers.h"
#include "metrics/segmenter.h"
#include "metrics/words.h"

namespace turnbench::scorers {
namespace {

constexpr std::size_t kMaxPairs = std::size_t{1} << 30;

/// Sentences end at each full stop; an empty piece is not a sentence, a blank one is a sentence
/// with one empty word.
WordSequences sentences_of(std::string_view text, WordIds& ids) {
  WordSequences out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t stop = std::min(text.find('.', start), text.size());
    if (stop > start) {
      const std::vector<std::string_view> words =
          python::split_words(text.substr(start, stop - start));
      for (std::string_view word : words) out.words.push_back(ids.id(word));
      if (words.empty()) out.words.push_back(ids.id(""));
      out.ends.push_back(out.words.size());
    }
    start = stop + 1;
  }
  return out;
}

std::size_t distinct(const std::vector<std::uint32_t>& words, std::size_t vocabulary) {
  std::vector<bool> seen(vocabulary);
  for (std::uint32_t word : words) seen[word] = true;
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
}

}  // namespace

RougeL rouge(std::string_view prediction, std::string_view reference, std::size_t max_steps) {
  WordIds ids;
  const WordSequences hypothesis = sentences_of(prediction, ids);
  const WordSequences target = sentences_of(reference, ids);
  check_comparison_size(hypothesis.words.size(), target.words.size(), "words", kMaxPairs);
  if (hypothesis.size() == 0 || target.size() == 0) return {};

  // For each pair of sentences, the words of one LCS; the result is their union.  Matched words are
  // marked columns of the hypothesis, so one mark per column collects them all.
  LcsTable table(hypothesis, ids.size());
  std::vector<bool> matched(hypothesis.words.size());
  for (std::size_t r = 0; r < target.size(); ++r) {
    table.compute(target[r], max_steps);
    for (std::size_t h = 0; h < hypothesis.size(); ++h) {
      if (table.backtrack(h, max_steps, matched) > max_steps) return {0, true};
    }
  }
  std::vector<std::uint32_t> common;
  for (std::size_t c = 0; c < matched.size(); ++c) {
    if (matched[c]) common.push_back(hypothesis.words[c]);
  }
  const auto overlap = static_cast<double>(distinct(common, ids.size()));
  const double recall = overlap / static_cast<double>(distinct(target.words, ids.size()));
  const double precision = overlap / static_cast<double>(distinct(hypothesis.words, ids.size()));
  return {2.0 * (precision * recall / (precision + recall + 1e-8)), false};
}

RougeL rouge_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter) {
  return rouge(join(segmenter.cut(prediction), " "), join(segmenter.cut(reference), " "),
               kMaxRougeZhSteps);
}

}  // namespace turnbench::scorers
