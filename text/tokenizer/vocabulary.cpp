#include "text/tokenizer/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

Vocabulary::Vocabulary(std::vector<std::pair<std::string, int>> tokens, const std::string& source) {
  int largest = -1;
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id > kMaxTokenId) {
      throw input_error("{}: found the id {} of the token {}, expected 0 to {}", source, id,
                        printable(shorten(token, 40)), kMaxTokenId);
    }
    largest = std::max(largest, id);
  }
  tokens_.resize(static_cast<std::size_t>(largest + 1));
  present_.resize(tokens_.size());
  index_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    const auto i = static_cast<std::size_t>(id);
    if (present_[i]) {
      throw input_error("{}: found the id {} for {} and for {}, expected one token", source, id,
                        printable(shorten(tokens_[i], 40)), printable(shorten(token, 40)));
    }
    tokens_[i] = std::move(token);
    present_[i] = true;
    if (!index_.emplace(tokens_[i], id).second) {
      throw input_error("{}: found the token {} twice, expected it once", source,
                        printable(shorten(tokens_[i], 40)));
    }
  }
}

Vocabulary Vocabulary::parse(const JsonView& json) {
  if (!json.is_object()) json.fail("an object of tokens and their ids");
  std::vector<std::pair<std::string, int>> tokens;
  tokens.reserve(json.json().size());
  for (const auto& [token, id] : json.json().items()) {
    const bool good = id.is_number_unsigned() && id.get<std::uint64_t>() <= kMaxTokenId;
    if (!good) {
      JsonView(id, json.source(), json.path() + "/" + printable(token)).as_integer(0, kMaxTokenId);
    }
    tokens.emplace_back(token, id.get<int>());
  }
  return Vocabulary(std::move(tokens), json.source() + ": " + json.path());
}

int Vocabulary::find(std::string_view token) const {
  const auto found = index_.find(token);
  return found == index_.end() ? -1 : found->second;
}

}  // namespace turnbench
