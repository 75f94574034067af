#include "methods/parts/segments.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

bool ends_segment(std::string_view text, Cut cut) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  const std::string_view space = last == std::string_view::npos ? text : text.substr(last + 1);
  const auto newlines = std::count(space.begin(), space.end(), '\n');
  if (newlines >= (cut == Cut::kClause ? 1 : 2)) return true;
  if (last == std::string_view::npos) return false;
  std::size_t at = start_of_character(text, last);
  const char32_t c = next_code_point(text, at);
  constexpr std::u32string_view kSentenceEnds = U".!?。！？．｡", kClauseEnds = U",;:，、；：､";
  return kSentenceEnds.find(c) != std::u32string_view::npos ||
         (cut == Cut::kClause && kClauseEnds.find(c) != std::u32string_view::npos);
}

std::vector<int> segments(const DialogueView& dialogue, Cut cut, std::string_view method) {
  if (!dialogue.token_text) {
    throw input_error("{}: found token ids without a tokenizer, expected the text of each token",
                      method);
  }
  std::vector<int> out;
  int segment = 0;
  for (int token : dialogue.tokens) {
    out.push_back(segment);
    if (ends_segment(dialogue.token_text(token), cut)) ++segment;
  }
  return out;
}

std::vector<std::vector<std::int32_t>> slots_by_segment(const std::vector<int>& segments,
                                                        const KvHeadCache& set, int slots) {
  std::vector<std::vector<std::int32_t>> out;
  int last = -1;
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    const int segment = segments[set.position(slot)];
    if (segment != last) out.emplace_back();
    out.back().push_back(slot);
    last = segment;
  }
  return out;
}

}  // namespace turnbench
