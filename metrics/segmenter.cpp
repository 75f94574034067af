#include "metrics/segmenter.h"

#include <charconv>
#include <cmath>

#include "common/error.h"
#include "common/file.h"
#include "common/python_text.h"
#include "common/text.h"

namespace turnbench {
namespace {

bool is_han(char32_t c) {
  return c >= 0x4E00 && c <= 0x9FD5;
}

bool is_alphanumeric(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

/// Characters that are looked up in the dictionary; all others are punctuation.
bool in_block(char32_t c) {
  return is_han(c) || is_alphanumeric(c) ||
         std::u32string_view(U"+#&._%-").find(c) != std::u32string_view::npos;
}

}  // namespace

/// A text with its characters and their offsets.
struct Segmenter::Text {
  explicit Text(std::string_view utf8) : bytes(utf8) {
    for (std::size_t i = 0; i < utf8.size();) {
      offsets.push_back(i);
      characters += next_code_point(utf8, i);
    }
    offsets.push_back(utf8.size());
  }
  std::size_t size() const { return characters.size(); }
  std::string_view part(std::size_t begin, std::size_t end) const {
    return bytes.substr(offsets[begin], offsets[end] - offsets[begin]);
  }
  template <typename Predicate>
  std::size_t run_end(std::size_t i, std::size_t end, Predicate member) const {
    while (i < end && member(characters[i])) ++i;
    return i;
  }

  std::string_view bytes;
  std::u32string characters;
  std::vector<std::size_t> offsets;
};

Segmenter Segmenter::from_jieba(const std::filesystem::path& package) {
  Segmenter out;
  const std::filesystem::path path = package / "dict.txt";
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    const std::vector<std::string> parts = split(python::strip(line), " ");
    std::int64_t frequency = -1;
    if (parts.size() >= 2) {
      const char* end = parts[1].data() + parts[1].size();
      const auto [stop, status] = std::from_chars(parts[1].data(), end, frequency);
      if (status != std::errc() || stop != end) frequency = -1;
    }
    if (frequency < 0 || frequency > INT64_MAX - out.total_ || !is_valid_utf8(parts[0])) {
      throw input_error("{}: line {}: found \"{}\", expected a word and its frequency",
                        path.string(), number, printable(shorten(line, 60)));
    }
    out.frequencies_[parts[0]] = frequency;
    out.total_ += frequency;
    for (std::size_t i = 0; i < parts[0].size();) {
      next_code_point(parts[0], i);
      out.frequencies_.try_emplace(parts[0].substr(0, i), 0);
    }
  });
  if (out.total_ == 0) {
    throw input_error("{}: found no word, expected jieba's dictionary", path.string());
  }
  out.model_ = SegmenterModel::read(package / "finalseg");
  return out;
}

std::int64_t Segmenter::frequency(std::string_view word) const {
  const auto found = frequencies_.find(word);
  return found == frequencies_.end() ? -1 : found->second;
}

std::vector<std::string_view> Segmenter::cut(std::string_view utf8) const {
  const Text text(utf8);
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t end = text.run_end(i, text.size(), in_block); end > i) {
      cut_block(text, i, end, out);
      i = end;
      continue;
    }
    const bool line_end =
        text.characters[i] == '\r' && i + 1 < text.size() && text.characters[i + 1] == '\n';
    const std::size_t end = i + (line_end ? 2 : 1);
    out.push_back(text.part(i, end));
    i = end;
  }
  return out;
}

/// For each character of a block, the end of the first word in the most probable segmentation of
/// the rest (on ties the longest).
std::vector<std::size_t> Segmenter::best_ends(const Text& text, std::size_t begin,
                                              std::size_t end) const {
  const double log_total = std::log(static_cast<double>(total_));
  std::vector<double> score(end - begin + 1);
  std::vector<std::size_t> ends(end - begin);
  for (std::size_t i = end; i-- > begin;) {
    bool any = false;
    const auto offer = [&](std::size_t stop, std::int64_t frequency) {
      const double value =
          std::log(static_cast<double>(frequency)) - log_total + score[stop - begin];
      if (any && value < score[i - begin]) return;
      any = true;
      score[i - begin] = value;
      ends[i - begin] = stop;
    };
    for (std::size_t stop = i + 1; stop <= end; ++stop) {
      const std::int64_t found = frequency(text.part(i, stop));
      if (found < 0) break;
      if (found > 0) offer(stop, found);
    }
    if (!any) offer(i + 1, 1);
  }
  return ends;
}

void Segmenter::cut_block(const Text& text, std::size_t begin, std::size_t end,
                          std::vector<std::string_view>& out) const {
  const std::vector<std::size_t> ends = best_ends(text, begin, end);
  // Consecutive single characters are passed to the model together, unless they are a word.
  std::size_t singles = begin;
  const auto flush = [&](std::size_t stop) {
    if (stop - singles > 1 && frequency(text.part(singles, stop)) <= 0) {
      cut_unknown(text, singles, stop, out);
    } else {
      for (std::size_t i = singles; i < stop; ++i) out.push_back(text.part(i, i + 1));
    }
  };
  for (std::size_t i = begin; i < end;) {
    const std::size_t stop = ends[i - begin];
    if (stop - i > 1) {
      flush(i);
      out.push_back(text.part(i, stop));
      singles = stop;
    }
    i = stop;
  }
  flush(end);
}

void Segmenter::cut_unknown(const Text& text, std::size_t begin, std::size_t end,
                            std::vector<std::string_view>& out) const {
  for (std::size_t i = begin; i < end;) {
    if (const std::size_t stop = text.run_end(i, end, is_han); stop > i) {
      const std::u32string_view run = std::u32string_view(text.characters).substr(i, stop - i);
      std::size_t word = i;
      for (std::size_t word_end : model_.word_ends(run)) {
        out.push_back(text.part(word, i + word_end));
        word = i + word_end;
      }
      i = stop;
    } else if (std::size_t stop = text.run_end(i, end, is_alphanumeric); stop > i) {
      // A number may continue with a fraction or a per cent sign.
      if (stop + 1 < end && text.characters[stop] == '.' && is_digit(text.characters[stop + 1])) {
        stop = text.run_end(stop + 1, end, is_digit);
      }
      if (stop < end && text.characters[stop] == '%') ++stop;
      out.push_back(text.part(i, stop));
      i = stop;
    } else {
      stop = text.run_end(i, end, [](char32_t c) { return !is_han(c) && !is_alphanumeric(c); });
      out.push_back(text.part(i, stop));
      i = stop;
    }
  }
}

}  // namespace turnbench
