#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/tokenizer/traced_text.h"

namespace turnbench {

/// What a tokenizer does to a text before it splits it: the `normalizer` of tokenizer.json.
class Normalizer {
 public:
  /// Reads NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip and Sequence of these; null is
  /// none.  Refuses other types.
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
