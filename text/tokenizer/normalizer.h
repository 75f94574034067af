#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "text/tokenizer/traced_text.h"

namespace turnbench {

/// The `normalizer` of tokenizer.json, which rewrites a text before it is split.
class Normalizer {
 public:
  /// Reads NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip and Sequence; null means none.
  /// @throws Error (input) for other types.
  static Normalizer parse(const JsonView& json);

  void apply(TracedText& text) const {
    for (const Step& step : steps_) step(text);
  }

 private:
  using Step = std::function<void(TracedText&)>;
  void add(const JsonView& json);
  std::vector<Step> steps_;
};

}  // namespace turnbench
