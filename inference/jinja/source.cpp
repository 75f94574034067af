#include "inference/jinja/source.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench::jinja {
namespace {

constexpr std::size_t kLongestTemplate = 1 << 18;  // models' have up to some 30,000 bytes
constexpr std::size_t kQuoted = 80;                // bytes of the template that a message quotes
constexpr std::size_t kLongestMessage = 800;

}  // namespace

Source::Source(std::string_view text, std::string name) : name_(std::move(name)) {
  if (text.size() > kLongestTemplate) {
    throw input_error("{}: found {} bytes, expected at most {}", name_, text.size(),
                      kLongestTemplate);
  }
  require_utf8(text, name_);
  text_.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      text_ += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      text_ += '\n';
    }
  }
  if (text_.ends_with('\n')) text_.pop_back();
}

Error Source::error(Place place, std::string_view message) const {
  const std::string_view before = text().substr(0, place.begin);
  const std::string_view quoted = text().substr(place.begin, place.end - place.begin);
  return input_error("{}: line {}: {}: {}", name_,
                     std::count(before.begin(), before.end(), '\n') + 1,
                     quoted.empty() ? "the end" : printable(shorten(quoted, kQuoted)),
                     printable(shorten(message, kLongestMessage)));
}

}  // namespace turnbench::jinja
