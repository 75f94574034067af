#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/text.h"
#include "metrics/lcs.h"
#include "metrics/scorers.h"
#include "metrics/words.h"

namespace turnbench::scorers {
namespace {

using Codes = std::span<const std::uint32_t>;

/// The line that LongBench compares: after leading newlines, the first line without a code fence, a
/// '#' or a "//"; empty if there is none.
std::string_view first_code_line(std::string_view text) {
  std::size_t start = std::min(text.find_first_not_of('\n'), text.size());
  for (;;) {
    const std::size_t stop = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, stop - start);
    if (line.find_first_of("`#") == line.npos && line.find("//") == line.npos) return line;
    if (stop == text.size()) return {};
    start = stop + 1;
  }
}

/// A line and the reference as sequences of character numbers.
struct CodePair {
  std::vector<std::uint32_t> line, reference;
  std::size_t alphabet = 0;
};

CodePair numbered(std::string_view line, std::string_view reference) {
  std::unordered_map<char32_t, std::uint32_t> ids;
  const auto number = [&](std::string_view text) {
    std::vector<std::uint32_t> out;
    for (char32_t c : to_code_points(text)) {
      out.push_back(ids.try_emplace(c, static_cast<std::uint32_t>(ids.size())).first->second);
    }
    return out;
  };
  CodePair out{number(line), number(reference)};
  out.alphabet = ids.size();
  return out;
}

/// Python's `difflib.SequenceMatcher(None, a, b)` with its "autojunk" heuristic.
class SequenceMatcher {
 public:
  explicit SequenceMatcher(const CodePair& pair)
      : a_(pair.line), b_(pair.reference), places_(pair.alphabet), run_(b_.size()) {
    for (std::size_t j = 0; j < b_.size(); ++j) places_[b_[j]].push_back(j);
    if (b_.size() < 200) return;
    // Characters that make up more than 1% of a long reference do not start a match.
    const std::size_t most = b_.size() / 100 + 1;
    for (std::vector<std::size_t>& places : places_) {
      if (places.size() > most) places.clear();
    }
  }

  /// Total size of the matching blocks: the longest one, then recursively to its left and right.
  std::size_t matches() {
    std::size_t total = 0;
    std::vector<Block> open{{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const Block in = open.back();
      open.pop_back();
      const Match match = longest_match(in);
      if (match.size == 0) continue;
      total += match.size;
      const std::size_t a_end = match.a + match.size, b_end = match.b + match.size;
      if (in.a_begin < match.a && in.b_begin < match.b) {
        open.push_back({in.a_begin, match.a, in.b_begin, match.b});
      }
      if (a_end < in.a_end && b_end < in.b_end) open.push_back({a_end, in.a_end, b_end, in.b_end});
    }
    return total;
  }

 private:
  struct Block {
    std::size_t a_begin, a_end, b_begin, b_end;
  };
  struct Match {
    std::size_t a, b, size;
  };

  /// The longest common substring; of several, the one that starts earliest in a, then in b.  Seeds
  /// exclude the frequent characters; the ends are then extended over them.
  Match longest_match(const Block& in) {
    Match best{in.a_begin, in.b_begin, 0};
    for (std::size_t i = in.a_begin; i < in.a_end; ++i) {
      const std::vector<std::size_t>& places = places_[a_[i]];
      const auto first = std::lower_bound(places.begin(), places.end(), in.b_begin);
      auto place = std::lower_bound(first, places.end(), in.b_end);
      const bool seeds_before = i > in.a_begin && !places_[a_[i - 1]].empty();
      std::size_t wanted = best.size + 1;
      // From the right, so that run_[j - 1] is still the previous row's.
      while (place != first) {
        const std::size_t j = *--place;
        const bool extends = seeds_before && j > in.b_begin && a_[i - 1] == b_[j - 1];
        run_[j] = extends ? run_[j - 1] + 1 : 1;
        if (run_[j] < wanted) continue;
        wanted = run_[j];
        best = {i + 1 - wanted, j + 1 - wanted, wanted};
      }
    }
    while (best.a > in.a_begin && best.b > in.b_begin && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a, --best.b, ++best.size;
    }
    while (best.a + best.size < in.a_end && best.b + best.size < in.b_end &&
           a_[best.a + best.size] == b_[best.b + best.size]) {
      ++best.size;
    }
    return best;
  }

  Codes a_, b_;
  std::vector<std::vector<std::size_t>> places_;  // for each character, its places in b
  std::vector<std::size_t> run_;  // length of the common run that ends at the row and b[j]
};

double difflib_ratio(const CodePair& pair) {
  check_comparison_size(pair.line.size(), pair.reference.size(), "characters",
                        std::size_t{1} << 26);
  return 2.0 * static_cast<double>(SequenceMatcher(pair).matches()) /
         static_cast<double>(pair.line.size() + pair.reference.size());
}

double indel_ratio(const CodePair& pair) {
  check_comparison_size(pair.line.size(), pair.reference.size(), "characters",
                        std::size_t{1} << 36);
  const std::size_t length = pair.line.size() + pair.reference.size();
  const std::size_t distance = length - 2 * lcs_length(pair.line, pair.reference, pair.alphabet);
  return 1.0 - static_cast<double>(distance) / static_cast<double>(length);
}

/// fuzzywuzzy's `ratio` / 100: a whole percentage.
double fuzz_ratio(std::string_view prediction, std::string_view reference,
                  double (*ratio)(const CodePair&)) {
  const std::string_view line = first_code_line(prediction);
  if (line == reference) return 1;
  if (line.empty() || reference.empty()) return 0;
  return std::nearbyint(100 * ratio(numbered(line, reference))) / 100;
}

}  // namespace

double code_sim(std::string_view prediction, std::string_view reference) {
  return fuzz_ratio(prediction, reference, difflib_ratio);
}

double code_sim_levenshtein(std::string_view prediction, std::string_view reference) {
  return fuzz_ratio(prediction, reference, indel_ratio);
}

}  // namespace turnbench::scorers
