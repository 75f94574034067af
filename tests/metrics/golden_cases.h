#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/random.h"

namespace turnbench {

/// The texts of one score, as tests/golden/make_metric_golden.py builds them.
struct GoldenCase {
  std::string prediction;
  std::vector<std::string> references;
  std::vector<std::string> classes;
};

/// Builds texts from tests/data/metrics/vocabulary.json; each depends on its kind and index only.
class GoldenCases {
 public:
  GoldenCases();
  GoldenCase make(const std::string& kind, std::uint64_t index) const;

 private:
  struct Kind {
    std::vector<std::string> fragments, separators, classes;
    std::vector<std::vector<std::string>> labels;
    std::int64_t typical = 0;  ///< tokens of a text; most texts have at most twice as many
    std::int64_t longest = 0;  ///< tokens of the longest text; 0: no such text
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
