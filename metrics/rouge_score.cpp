#include <algorithm>
#include <limits>

#include "common/python_text.h"
#include "common/text.h"
#include "metrics/lcs.h"
#include "metrics/scorers.h"

namespace turnbench::scorers {
namespace {

double f_measure(std::size_t hits, std::size_t predicted, std::size_t expected) {
  if (hits == 0) return 0;
  const double precision = static_cast<double>(hits) / static_cast<double>(predicted);
  const double recall = static_cast<double>(hits) / static_cast<double>(expected);
  return 2 * precision * recall / (precision + recall);
}

/// Appends the tokens of lower-case `text` as one sequence.
void add_tokens(std::string_view text, WordIds& ids, WordSequences& out) {
  const auto in_token = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && in_token(text[end])) ++end;
    if (end > i) out.words.push_back(ids.id(text.substr(i, end - i)));
    i = end + 1;
  }
  out.ends.push_back(out.words.size());
}

WordSequences lines_of(std::string_view text, WordIds& ids) {
  WordSequences out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t stop = std::min(text.find('\n', start), text.size());
    if (stop > start) add_tokens(text.substr(start, stop - start), ids, out);
    start = stop + 1;
  }
  return out;
}

std::vector<std::size_t> counts_of(const WordSequences& sentences, std::size_t vocabulary) {
  std::vector<std::size_t> counts(vocabulary);
  for (std::uint32_t word : sentences.words) ++counts[word];
  return counts;
}

}  // namespace

double rouge_score_l(std::string_view prediction, std::string_view reference) {
  const std::string predicted = python::lower(prediction), expected = python::lower(reference);
  WordIds ids;
  WordSequences candidate, target;
  add_tokens(predicted, ids, candidate);
  add_tokens(expected, ids, target);
  check_comparison_size(candidate.words.size(), target.words.size(), "words", std::size_t{1} << 36);
  return f_measure(lcs_length(candidate.words, target.words, ids.size()), candidate.words.size(),
                   target.words.size());
}

double rouge_score_lsum(std::string_view prediction, std::string_view reference) {
  const std::string predicted = python::lower(prediction), expected = python::lower(reference);
  WordIds ids;
  const WordSequences candidate = lines_of(predicted, ids);
  const WordSequences target = lines_of(expected, ids);
  check_comparison_size(candidate.words.size(), target.words.size(), "words", std::size_t{1} << 30);

  // The places of the reference that are in an LCS with some candidate sentence.
  LcsTable table(target, ids.size());
  std::vector<bool> matched(target.words.size());
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  for (std::size_t c = 0; c < candidate.size(); ++c) {
    table.compute(candidate[c], kAll);
    for (std::size_t t = 0; t < target.size(); ++t) table.backtrack(t, kAll, matched);
  }
  // A place counts only while unused occurrences of its word remain in both texts.
  std::vector<std::size_t> left_candidate = counts_of(candidate, ids.size());
  std::vector<std::size_t> left_target = counts_of(target, ids.size());
  std::size_t hits = 0;
  for (std::size_t place = 0; place < matched.size(); ++place) {
    const std::uint32_t word = target.words[place];
    if (!matched[place] || left_candidate[word] == 0 || left_target[word] == 0) continue;
    --left_candidate[word];
    --left_target[word];
    ++hits;
  }
  return f_measure(hits, candidate.words.size(), target.words.size());
}

}  // namespace turnbench::scorers
