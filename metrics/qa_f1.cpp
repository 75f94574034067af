#include "common/python_text.h"
#include "common/text.h"
#include "metrics/normalize.h"
#include "metrics/scorers.h"
#include "metrics/segmenter.h"
#include "metrics/words.h"

namespace turnbench::scorers {
namespace {

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
  return token_f1(python::split_words(predicted), python::split_words(expected));
}

double qa_f1_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter) {
  const std::vector<std::string> predicted = normalized_tokens(prediction, segmenter);
  const std::vector<std::string> expected = normalized_tokens(reference, segmenter);
  return token_f1(std::vector<std::string_view>(predicted.begin(), predicted.end()),
                  std::vector<std::string_view>(expected.begin(), expected.end()));
}

double character_f1(std::string_view prediction, std::string_view reference) {
  const std::string predicted = normalize_chinese(prediction);
  const std::string expected = normalize_chinese(reference);
  return token_f1(characters(predicted), characters(expected));
}

}  // namespace turnbench::scorers
