#include "common/python_text.h"
#include "common/text.h"
#include "metrics/normalize.h"
#include "metrics/scorers.h"
#include "metrics/segmenter.h"
#include "metrics/words.h"

namespace turnbench::scorers {
namespace {

double f1(std::span<const std::string_view> prediction,
          std::span<const std::string_view> reference) {
  WordIds ids;
  const std::vector<std::uint32_t> predicted = ids.ids(prediction);
  const std::vector<std::uint32_t> expected = ids.ids(reference);
  std::vector<std::size_t> left(ids.size());
  for (std::uint32_t id : expected) ++left[id];
  std::size_t common = 0;
  for (std::uint32_t id : predicted) {
    if (left[id] == 0) continue;
    --left[id];
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    out.push_back(python::first_character(text));
    text.remove_prefix(out.back().size());
  }
  return out;
}

std::vector<std::string> normalized_tokens(std::string_view text, const Segmenter& segmenter) {
  std::vector<std::string> out;
  for (std::string_view token : segmenter.cut(text)) {
    std::string normalized = normalize_chinese(token);
    if (!normalized.empty()) out.push_back(std::move(normalized));
  }
  return out;
}

}  // namespace

double qa_f1(std::string_view prediction, std::string_view reference) {
  const std::string predicted = normalize_english(prediction);
  const std::string expected = normalize_english(reference);
  return f1(python::split_words(predicted), python::split_words(expected));
}

double qa_f1_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter) {
  const std::vector<std::string> predicted = normalized_tokens(prediction, segmenter);
  const std::vector<std::string> expected = normalized_tokens(reference, segmenter);
  return f1(std::vector<std::string_view>(predicted.begin(), predicted.end()),
            std::vector<std::string_view>(expected.begin(), expected.end()));
}

double character_f1(std::string_view prediction, std::string_view reference) {
  const std::string predicted = normalize_chinese(prediction);
  const std::string expected = normalize_chinese(reference);
  return f1(characters(predicted), characters(expected));
}

}  // namespace turnbench::scorers
