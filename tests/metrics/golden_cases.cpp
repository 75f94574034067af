#include "golden_cases.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/file.h"

namespace turnbench {
namespace {

const std::string kFolder = TURNBENCH_SOURCE_DIR "/tests/data/metrics/";

}  // namespace

GoldenCases::GoldenCases() {
  const std::string path = kFolder + "vocabulary.json";
  const Json json = parse_json(read_file(path), path);
  const JsonView view(json, path);
  for (const std::string& name : view.keys()) {
    const JsonView entry = view.at(name);
    Kind& kind = kinds_[name];
    kind.fragments = entry.at("fragments").as_strings();
    kind.separators = entry.at("separators").as_strings();
    kind.typical = entry.at("typical").as_integer();
    kind.longest = entry.get_integer("longest", 0);
    if (entry.has("classes")) kind.classes = entry.at("classes").as_strings();
    if (!entry.has("labels")) continue;
    for (const JsonView& labels : entry.at("labels").items()) {
      kind.labels.push_back(labels.as_strings());
    }
  }
}

GoldenCase GoldenCases::make(const std::string& name, std::uint64_t index) const {
  const Kind& kind = kinds_.at(name);
  Random random = Random::from({seed_of(name), index});
  GoldenCase out;
  if (!kind.labels.empty()) out.references = kind.labels[random.below(kind.labels.size())];
  out.classes = kind.classes;
  if (!out.classes.empty()) {
    const auto turn = static_cast<std::ptrdiff_t>(random.below(out.classes.size()));
    std::rotate(out.classes.begin(), out.classes.begin() + turn, out.classes.end());
  }
  const Tokens predicted = tokens(random, kind, index);
  out.prediction = text(predicted, kind, out.references);
  if (kind.labels.empty()) {
    const bool fresh = random.below(4) == 0;
    const Tokens other = fresh ? tokens(random, kind, index) : mutated(random, kind, predicted);
    out.references = {text(other, kind, {})};
  }
  return out;
}

GoldenCases::Token GoldenCases::token(Random& random, const Kind& kind) {
  const std::size_t fragment = random.below(kind.fragments.size());
  return {fragment, random.below(kind.separators.size())};
}

GoldenCases::Tokens GoldenCases::tokens(Random& random, const Kind& kind, std::uint64_t index) {
  const std::uint64_t roll = random.below(100);
  std::int64_t length = roll < 3    ? 0
                        : roll < 10 ? 1
                        : roll < 97 ? random.between(2, 2 * kind.typical)
                                    : random.between(2 * kind.typical, 8 * kind.typical);
  if (index % 1000 == 7) length = 20 * kind.typical;
  if (index % 1000 == 8) length = 45 * kind.typical;
  if (index == 4008 && kind.longest != 0) length = kind.longest;
  Tokens out;
  for (std::int64_t i = 0; i < length; ++i) out.push_back(token(random, kind));
  return out;
}

GoldenCases::Tokens GoldenCases::mutated(Random& random, const Kind& kind, const Tokens& tokens) {
  Tokens out;
  for (Token next : tokens) {
    const std::uint64_t roll = random.below(12);
    if (roll == 0) continue;
    if (roll == 1) next = token(random, kind);
    if (roll == 2) out.push_back(token(random, kind));
    out.push_back(next);
  }
  if (random.below(8) == 0) {
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2), out.end());
  }
  return out;
}

std::string GoldenCases::text(const Tokens& tokens, const Kind& kind,
                              const std::vector<std::string>& references) {
  std::string out;
  for (const Token& token : tokens) {
    const std::string& fragment = kind.fragments[token.fragment];
    if (fragment.starts_with("{0}") || fragment.starts_with("{1}")) {
      const std::size_t which = static_cast<std::size_t>(fragment[1] - '0');
      out += references[std::min(which, references.size() - 1)] + fragment.substr(3);
    } else {
      out += fragment;
    }
    out += kind.separators[token.separator];
  }
  return out;
}

std::map<std::string, std::vector<double>> read_golden_scores() {
  const std::string bytes = read_file(kFolder + "golden_scores.bin");
  std::size_t at = 0;
  const auto take = [&](auto value) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  };
  std::map<std::string, std::vector<double>> out;
  const auto columns = take(std::uint32_t{});
  for (std::uint32_t c = 0; c < columns; ++c) {
    const auto length = take(std::uint8_t{});
    std::vector<double>& scores = out[bytes.substr(at, length)];
    at += length;
    const auto cases = take(std::uint32_t{}), distinct = take(std::uint32_t{});
    std::vector<double> values;
    for (std::uint32_t i = 0; i < distinct; ++i) values.push_back(take(double{}));
    for (std::uint32_t i = 0; i < cases; ++i) scores.push_back(values.at(take(std::uint16_t{})));
  }
  return out;
}

}  // namespace turnbench
