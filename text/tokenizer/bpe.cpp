#include "text/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "common/text.h"
#include "text/tokenizer/byte_level.h"

namespace turnbench {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::size_t kLongestSeen = 64;                 // in bytes; longer words rarely recur
constexpr std::size_t kMostSeen = std::size_t{1} << 20;  // bytes of cached words

std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
  return (static_cast<std::uint64_t>(left) << 32) | right;
}
std::uint64_t key_of(int left, int right) {
  return key_of(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const BpeRules& rules)
    : rules_(rules) {
  read_alphabet(vocabulary);
  pairs_.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    pairs_[key_of(merge.left, merge.right)] = {merge.rank, merge.result};
    if (rules.byte_level) continue;
    const std::string& left = vocabulary.token(merge.left);
    std::size_t last = start_of_character(left, left.size() - 1), first = 0;
    const char32_t before = next_code_point(left, last);
    const char32_t behind = next_code_point(vocabulary.token(merge.right), first);
    joints_[key_of(before, behind)] = true;
  }
  if (!rules.ignore_merges) return;
  for (int id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string& token = vocabulary.token(id);
    if (!rules.byte_level) {
      words_.emplace(token, id);
    } else if (const auto bytes = from_byte_level(token)) {
      words_.emplace(*bytes, id);
    }
  }
}

void Bpe::read_alphabet(const Vocabulary& vocabulary) {
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<unsigned char>(b);
    byte_ids_[byte] = vocabulary.find(to_byte_level(std::string(1, static_cast<char>(byte))));
    fallback_ids_[byte] = rules_.byte_fallback ? vocabulary.find(fmt::format("<0x{:02X}>", b)) : -1;
  }
  for (int id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string& token = vocabulary.token(id);
    std::size_t end = 0;
    if (token.empty()) continue;
    const char32_t c = next_code_point(token, end);
    if (end == token.size()) character_ids_[c] = id;
  }
}

std::vector<BpeMerge> merges_by_concatenation(const Vocabulary& vocabulary,
                                              const std::vector<std::uint32_t>& ranks) {
  const auto takes_part = [&](int id) { return id >= 0 && ranks[id] != kNoRank; };
  std::vector<BpeMerge> out;
  for (int id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id) || !takes_part(id)) continue;
    const std::string_view token = vocabulary.token(id);
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if (is_utf8_continuation(token[cut])) continue;
      const int left = vocabulary.find(token.substr(0, cut));
      const int right = takes_part(left) ? vocabulary.find(token.substr(cut)) : -1;
      if (takes_part(right)) {
        out.push_back({left, right, id, ranks[id]});
      }
    }
  }
  return out;
}

void BpeEncoder::limit_cache() {
  if (seen_texts_.size() < kMostSeen) return;
  seen_ = {};
  seen_texts_.clear();
  seen_tokens_.clear();
}

void BpeEncoder::encode(std::string_view word, std::vector<BpeToken>& out) {
  limit_cache();
  if (bpe_.rules_.byte_level || bpe_.rules_.ignore_merges) return encode_part(word, 0, out);
  // No merge crosses a boundary between two characters that no merged token contains side by side,
  // so the parts between such boundaries can be encoded separately.  Adjacent unknown characters
  // may still fuse.
  std::size_t begin = 0, at = 0;
  char32_t before = 0;
  while (at < word.size()) {
    std::size_t behind = at;
    const char32_t c = next_code_point(word, behind);
    if (at > begin && bpe_.joints_.find(key_of(before, c)) == nullptr &&
        (is_known(before) || is_known(c))) {
      encode_part(word.substr(begin, at - begin), begin, out);
      begin = at;
    }
    before = c;
    at = behind;
  }
  if (begin < word.size()) encode_part(word.substr(begin), begin, out);
}

void BpeEncoder::encode_part(std::string_view part, std::size_t offset,
                             std::vector<BpeToken>& out) {
  const auto copy = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      out.push_back({seen_tokens_[i].id, offset + seen_tokens_[i].end});
    }
  };
  Seen* seen = nullptr;
  if (part.size() <= kLongestSeen) {
    seen = &seen_[std::hash<std::string_view>{}(part) >> 1];
    const std::string_view text = std::string_view(seen_texts_).substr(seen->text, seen->size);
    if (text == part) return copy(seen->begin, seen->end);
  }
  const std::size_t begin = seen_tokens_.size();
  const auto whole = bpe_.words_.find(part);
  if (whole != bpe_.words_.end()) {
    seen_tokens_.push_back({whole->second, part.size()});
  } else {
    read_symbols(part);
    merge_symbols();
    for (std::uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) {
      seen_tokens_.push_back({symbols_[i].id, symbols_[i].end});
    }
  }
  copy(begin, seen_tokens_.size());
  if (seen == nullptr || seen->size > 0) {  // too long, or a hash collision
    seen_tokens_.resize(begin);
    return;
  }
  *seen = {static_cast<std::uint32_t>(seen_texts_.size()), static_cast<std::uint32_t>(part.size()),
           static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(seen_tokens_.size())};
  seen_texts_ += part;
}

void BpeEncoder::add_symbol(int id, std::size_t end) {
  const auto position = static_cast<std::uint32_t>(symbols_.size());
  symbols_.push_back({id, static_cast<std::uint32_t>(end), position - 1, position + 1, {}});
}

void BpeEncoder::read_symbols(std::string_view part) {
  symbols_.clear();
  const BpeRules& rules = bpe_.rules_;
  std::size_t unknown_end = 0;  // end of the unknown token that is not yet written
  const auto put_unknown = [&]() {
    if (unknown_end > 0) add_symbol(rules.unk, unknown_end);
    unknown_end = 0;
  };
  for (std::size_t at = 0; at < part.size();) {
    const auto byte = static_cast<unsigned char>(part[at]);
    char32_t c = byte_level_character(byte);
    int id = bpe_.byte_ids_[byte];
    const std::size_t begin = at;
    if (rules.byte_level) {
      ++at;
    } else {
      c = next_code_point(part, at);
      const int* found = bpe_.character_ids_.find(c);
      id = found == nullptr ? -1 : *found;
    }
    if (id >= 0) {
      put_unknown();
      add_symbol(id, at);
      continue;
    }
    std::string bytes;
    append_utf8(bytes, c);
    const bool all_there = std::all_of(bytes.begin(), bytes.end(),
                                       [&](unsigned char b) { return bpe_.fallback_ids_[b] >= 0; });
    if (all_there) {
      put_unknown();
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        add_symbol(bpe_.fallback_ids_[static_cast<unsigned char>(bytes[i])],
                   std::min(begin + i + 1, at));
      }
    } else if (rules.unk >= 0) {
      if (!rules.fuse_unk) put_unknown();
      unknown_end = at;
    }
  }
  put_unknown();
}

bool BpeEncoder::find_merge(std::uint32_t position) {
  Symbol& symbol = symbols_[position];
  symbol.merged = {};
  if (symbol.next >= symbols_.size()) return false;
  const Bpe::Merged* merged = bpe_.pairs_.find(key_of(symbol.id, symbols_[symbol.next].id));
  if (merged == nullptr) return false;
  symbol.merged = *merged;
  return true;
}

void BpeEncoder::merge_symbols() {
  const auto push = [&](std::uint32_t position) {
    if (!find_merge(position)) return;
    candidates_.push_back(key_of(symbols_[position].merged.rank, position));
    std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  };
  candidates_.clear();
  for (std::uint32_t i = 0; i < symbols_.size(); ++i) push(i);
  while (!candidates_.empty()) {
    const std::uint64_t best = candidates_.front();
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.pop_back();
    const auto position = static_cast<std::uint32_t>(best);
    Symbol& left = symbols_[position];
    const bool stale = left.merged.id < 0 || left.merged.rank != best >> 32;
    if (stale) continue;  // a neighbour has changed since
    Symbol& right = symbols_[left.next];
    left.id = left.merged.id;
    left.end = right.end;
    left.next = right.next;
    right.merged = {};
    if (left.next < symbols_.size()) symbols_[left.next].previous = position;
    if (left.previous != kNone) push(left.previous);
    push(position);
  }
}

std::unique_ptr<BpeEncoder> BpeEncoders::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<BpeEncoder>(bpe_);
  std::unique_ptr<BpeEncoder> out = std::move(free_.back());
  free_.pop_back();
  return out;
}

void BpeEncoders::give_back(std::unique_ptr<BpeEncoder> encoder) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(encoder));
}

}  // namespace turnbench
