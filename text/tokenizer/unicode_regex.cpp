#include "text/tokenizer/unicode_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/error.h"
#include "common/text.h"
#include "text/tokenizer/oniguruma_to_pcre.h"

namespace turnbench {
namespace {

std::string message_of(int error) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

std::shared_ptr<const void> compile_code(std::string_view pattern, std::uint32_t options,
                                         std::string_view shown, const std::string& where) {
  const std::shared_ptr<pcre2_compile_context> context(pcre2_compile_context_create(nullptr),
                                                       pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_NO_UTF_CHECK | options, &error, &offset, context.get());
  if (code == nullptr) {
    throw input_error("{}: found the pattern {}, expected a valid regular expression ({})", where,
                      printable(shorten(shown, 80)), message_of(error));
  }
  pcre2_jit_compile(code,
                    PCRE2_JIT_COMPLETE);  // without JIT, the interpreter gives the same matches
  return std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
}

}  // namespace

UnicodeRegex UnicodeRegex::compile(std::string_view pattern, const std::string& where) {
  // PCRE2 10.42 incorrectly makes some repeats possessive, as in \P{L}+\P{N} or a+(?:x)?+a.
  constexpr std::uint32_t kOptions =
      PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_POSSESS;
  return UnicodeRegex(compile_code(oniguruma_to_pcre(pattern, where), kOptions, pattern, where));
}

UnicodeRegex UnicodeRegex::parse(const JsonView& json) {
  if (json.has("String")) return literal(json.at("String").as_string());
  if (!json.has("Regex")) json.fail("{\"Regex\": pattern} or {\"String\": text}");
  const JsonView regex = json.at("Regex");
  return compile(regex.as_string(), regex.source() + ": " + regex.path());
}

UnicodeRegex UnicodeRegex::literal(std::string_view text) {
  return UnicodeRegex(compile_code(text, PCRE2_LITERAL, text, ""));
}

RegexMatcher::RegexMatcher(const UnicodeRegex& regex)
    : code_(regex.code_), data_(pcre2_match_data_create(1, nullptr), [](void* data) {
        pcre2_match_data_free(static_cast<pcre2_match_data*>(data));
      }) {}

void RegexMatcher::start(std::string_view text) {
  text_ = text;
  from_ = 0;
  matched_ = false;
}

bool RegexMatcher::next(TextRange& match) {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  auto* data = static_cast<pcre2_match_data*>(data_.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  if (text_.empty()) return false;
  while (from_ <= text_.size()) {
    int found = pcre2_match(code, subject, text_.size(), from_, PCRE2_NO_UTF_CHECK, data, nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter's stack is on the heap
      found = pcre2_match(code, subject, text_.size(), from_, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          data, nullptr);
    }
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) {
      throw runtime_error("the text cannot be split into words at byte {}: {}", from_,
                          message_of(found));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
    match = {bounds[0], bounds[1]};
    const bool empty = match.begin == match.end;
    if (empty && matched_ && last_end_ == match.end) {
      // As in Oniguruma's iterator, there is no empty match at the end of another match.
      if (from_ == text_.size()) return false;
      next_code_point(text_, from_);
      continue;
    }
    from_ = last_end_ = match.end;
    matched_ = true;
    return true;
  }
  return false;
}

}  // namespace turnbench
