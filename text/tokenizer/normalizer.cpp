#include "text/tokenizer/normalizer.h"

#include <optional>
#include <string>

#include "common/text.h"
#include "text/tokenizer/unicode_forms.h"
#include "text/tokenizer/unicode_regex.h"

namespace turnbench {
namespace {

std::optional<UnicodeForm> form_of(const std::string& type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return std::nullopt;
}

void prepend(TracedText& text, std::string_view with) {
  if (text.view().empty()) return;
  TextRewriter rewriter(text);
  rewriter.replace({0, 0}, with);
  rewriter.finish();
}

void replace(TracedText& text, const UnicodeRegex& pattern, std::string_view with) {
  TextRewriter rewriter(text);
  RegexMatcher matcher(pattern);
  matcher.start(text.view());
  for (TextRange match; matcher.next(match);) rewriter.replace(match, with);
  rewriter.finish();
}

void strip(TracedText& text, bool left, bool right) {
  const std::string_view view = text.view();
  std::size_t begin = 0, end = 0;  // range of the kept text
  bool seen = false;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t at = i;
    if (is_white_space(next_code_point(view, i))) continue;
    if (!seen) begin = at;
    seen = true;
    end = i;
  }
  if (!seen) begin = left ? view.size() : 0;
  end = std::max(begin, end);
  TextRewriter rewriter(text);
  if (left && begin > 0) rewriter.replace({0, begin}, "");
  if (right && end < view.size()) rewriter.replace({end, view.size()}, "");
  rewriter.finish();
}

}  // namespace

Normalizer Normalizer::parse(const JsonView& json) {
  Normalizer out;
  if (!json.is_null()) out.add(json);
  return out;
}

void Normalizer::add(const JsonView& json) {
  const std::string type = json.at("type").as_string();
  if (type == "Sequence") {
    for (const JsonView& part : json.at("normalizers").items()) add(part);
  } else if (const std::optional<UnicodeForm> form = form_of(type)) {
    steps_.push_back([form = *form](TracedText& text) { apply_unicode_form(text, form); });
  } else if (type == "Lowercase") {
    steps_.push_back(apply_lower_case);
  } else if (type == "Prepend") {
    steps_.push_back(
        [with = json.at("prepend").as_string()](TracedText& text) { prepend(text, with); });
  } else if (type == "Replace") {
    steps_.push_back([pattern = UnicodeRegex::parse(json.at("pattern")),
                      with = json.at("content").as_string()](TracedText& text) {
      replace(text, pattern, with);
    });
  } else if (type == "Strip") {
    steps_.push_back(
        [left = json.at("strip_left").as_bool(),
         right = json.at("strip_right").as_bool()](TracedText& text) { strip(text, left, right); });
  } else {
    json.at("type").fail(
        "one of: NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, Sequence");
  }
}

}  // namespace turnbench
