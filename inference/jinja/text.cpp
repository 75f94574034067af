#include "inference/jinja/text.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench::jinja {

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
  for (; count > 0 && copied.size() > 0; --count) add(copied);
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

}  // namespace turnbench::jinja
