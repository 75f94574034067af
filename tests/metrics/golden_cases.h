#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/random.h"

namespace turnbench {

/// One scored text, as tests/golden/make_metric_golden.py builds it.
struct GoldenCase {
  std::string prediction;
  std::vector<std::string> references;
  std::vector<std::string> classes;
};

/// Builds texts from tests/data/metrics/vocabulary.json, each from its kind and index alone.
class GoldenCases {
 public:
  GoldenCases();
  GoldenCase make(const std::string& kind, std::uint64_t index) const;

 private:
  struct Kind {
    std::vector<std::string> fragments, separators, classes;
    std::vector<std::vector<std::string>> labels;
    std::int64_t typical = 0;  ///< tokens of a text; most have at most twice as many
    std::int64_t longest = 0;  ///< tokens of one text; 0: none is that long
  };
  struct Token {
    std::size_t fragment, separator;
  };
  using Tokens = std::vector<Token>;

  static Token token(Random& random, const Kind& kind);
  static Tokens tokens(Random& random, const Kind& kind, std::uint64_t index);
  static Tokens mutated(Random& random, const Kind& kind, const Tokens& tokens);
  static std::string text(const Tokens& tokens, const Kind& kind,
                          const std::vector<std::string>& references);

  std::map<std::string, Kind> kinds_;
};

/// Columns of golden_scores.bin, by name.
std::map<std::string, std::vector<double>> read_golden_scores();

}  // namespace turnbench
