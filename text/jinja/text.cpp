#include "text/jinja/text.h"

#include <algorithm>

#include "common/python_text.h"

namespace turnbench::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

std::size_t limit_of(std::int64_t most) {
  return most < 0 ? kNowhere : static_cast<std::size_t>(most);
}

std::vector<Slice> split_at_space(const Text& text, std::size_t most) {
  std::vector<Slice> out;
  const std::string_view bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    if (python::is_space(next_code_point(bytes, at))) continue;
    if (out.size() == most) {  // the rest, with trailing white space
      out.push_back({&text, begin, bytes.size()});
      break;
    }
    std::size_t end = at;
    while (at < bytes.size() && !python::is_space(next_code_point(bytes, at))) end = at;
    out.push_back({&text, begin, end});
  }
  return out;
}

std::vector<Slice> split_at(const Text& text, std::string_view separator, std::size_t most) {
  std::vector<Slice> out;
  std::size_t begin = 0;
  while (out.size() < most) {
    const std::size_t found = python::find(text.bytes().substr(begin), separator);
    if (found == kNowhere) break;
    out.push_back({&text, begin, begin + found});
    begin += found + separator.size();
  }
  out.push_back({&text, begin, text.size()});
  return out;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Lower case, except for upper case where `begins(preceding text)` is true.
template <typename Begins>
std::string cased(std::string_view text, const Begins& begins) {
  std::string out;
  for (const char c : text) {
    if ((c & 0x80) != 0) {
      throw complaint("found letters beyond ASCII, expected none to write large and small");
    }
    out += !is_letter(c) ? c : static_cast<char>(begins(out) ? c & ~0x20 : c | 0x20);
  }
  return out;
}

}  // namespace

Text::Text(std::string bytes, int origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) pieces_.push_back({0, bytes_.size(), origin, 0});
}

TextBuilder& TextBuilder::add(std::string_view written) {
  budget_.make(written.size());
  text_.bytes_ += written;
  return *this;
}

TextBuilder& TextBuilder::add(const Slice& copied) {
  if (copied.begin == copied.end) return *this;
  const std::size_t start = text_.size();
  add(copied.bytes());
  const std::vector<Piece>& pieces = copied.text->pieces();
  auto piece = std::partition_point(pieces.begin(), pieces.end(),
                                    [&](const Piece& p) { return p.end <= copied.begin; });
  for (; piece != pieces.end() && piece->begin < copied.end; ++piece) {
    const std::size_t begin = std::max(piece->begin, copied.begin);
    const Piece moved{start + begin - copied.begin,
                      start + std::min(piece->end, copied.end) - copied.begin, piece->origin,
                      piece->source + begin - piece->begin};
    if (!text_.pieces_.empty()) {
      Piece& last = text_.pieces_.back();
      if (last.end == moved.begin && last.origin == moved.origin &&
          last.source + (last.end - last.begin) == moved.source) {
        last.end = moved.end;
        continue;
      }
    }
    budget_.make(sizeof(Piece));
    text_.pieces_.push_back(moved);
  }
  return *this;
}

TextBuilder& TextBuilder::repeat(const Text& copied, std::size_t count) {
  if (copied.size() == 0) return *this;
  if (!copied.pieces().empty()) {  // pieces cost more than bytes: the limit is soon reached
    for (; count > 0; --count) add(copied);
    return *this;
  }
  budget_.make(copied.size(), count);  // charged before any of it exists
  text_.bytes_.reserve(text_.size() + copied.size() * count);
  for (; count > 0; --count) text_.bytes_ += copied.bytes();
  return *this;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

std::size_t offset_of(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if (is_utf8_continuation(text[offset])) continue;
    if (index == 0) break;
    --index;
  }
  return offset;
}

Slice strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  const std::u32string set = chars ? to_code_points(*chars) : U"";
  const auto goes = [&](std::size_t at) {
    const char32_t c = next_code_point(bytes, at);
    return chars ? set.find(c) != std::u32string::npos : python::is_space(c);
  };
  Slice out{&text, 0, bytes.size()};
  while (left && out.begin < out.end && goes(out.begin)) next_code_point(bytes, out.begin);
  while (right && out.begin < out.end) {
    const std::size_t before = start_of_character(bytes, out.end - 1);
    if (!goes(before)) break;
    out.end = before;
  }
  return out;
}

std::vector<Slice> split_text(const Text& text, std::optional<std::string_view> separator,
                              std::int64_t most) {
  return separator ? split_at(text, *separator, limit_of(most))
                   : split_at_space(text, limit_of(most));
}

std::vector<Slice> split_text_from_right(const Text& text, std::string_view separator,
                                         std::int64_t most) {
  // Searches the reversed texts, byte by byte.
  const Text backwards(std::string(text.bytes().rbegin(), text.bytes().rend()));
  std::vector<Slice> out =
      split_at(backwards, std::string(separator.rbegin(), separator.rend()), limit_of(most));
  for (Slice& part : out) part = {&text, text.size() - part.end, text.size() - part.begin};
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Slice> split_lines(const Text& text) {
  std::vector<Slice> out;
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t here = at;
    const char32_t c = next_code_point(bytes, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    out.push_back({&text, begin, here});
    begin = at;
  }
  if (begin < bytes.size()) out.push_back({&text, begin, bytes.size()});
  return out;
}

Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t most,
             Budget& budget) {
  TextBuilder out(budget);
  std::size_t done = 0;
  const std::string_view bytes = text.bytes();
  for (std::size_t left = limit_of(most); left > 0; --left) {
    budget.steps(1);
    if (from.empty()) {  // before each character, and at the end
      out.add(to);
      const std::size_t begin = done;
      if (begin == bytes.size()) break;
      next_code_point(bytes, done);
      out.add(Slice{&text, begin, done});
      continue;
    }
    const std::size_t found = python::find(bytes.substr(done), from);
    if (found == kNowhere) break;
    out.add(Slice{&text, done, done + found}).add(to);
    done += found + from.size();
  }
  out.add(Slice{&text, done, bytes.size()});
  return out.finish();
}

std::string capitalize(std::string_view text) {
  return cased(text, [](const std::string& front) { return front.empty(); });
}

std::string title(std::string_view text) {
  return cased(text,
               [](const std::string& front) { return front.empty() || !is_letter(front.back()); });
}

std::string title_words(std::string_view text) {
  return cased(text, [](const std::string& front) {
    return front.empty() || python::is_space(static_cast<char32_t>(front.back())) ||
           std::string_view("-({[<").find(front.back()) != kNowhere;
  });
}

}  // namespace turnbench::jinja
