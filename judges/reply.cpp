#include "judges/reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kMaxObjects = 64;  // places where an object might begin; bounds the work for any text

/// The end of the object that begins at `start`, or npos.
std::size_t end_of_object(std::string_view text, std::size_t start) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '{') {
      ++depth;
    } else if (!quoted && c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::optional<Json> parse_object(std::string_view text) {
  try {
    return parse_json(text, "reply");
  } catch (const Error&) {  // prose in braces, for instance
    return std::nullopt;
  }
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  return parse_number<double>(trim(value.get_ref<const std::string&>()));
}

ParsedReply failure(std::string error) {
  return {std::move(error), 0, {}};
}

/// An object with all dimensions, as a judgement; nullopt if one is missing.
std::optional<ParsedReply> judgement_of(const Rubric& rubric, const Json& object) {
  ParsedReply out;
  double sum = 0;
  for (const std::string& dimension : rubric.dimensions) {
    const Json* value = nullptr;
    for (const auto& [key, item] : object.items()) {
      if (normalized_name(key) != normalized_name(dimension)) continue;
      if (value != nullptr && *value != item)
        return failure(fmt::format("found two values for {}, expected one", dimension));
      value = &item;
    }
    if (value == nullptr) return std::nullopt;
    const std::optional<double> number = number_of(*value);
    if (!number || !(*number >= rubric.low && *number <= rubric.high)) {
      return failure(
          fmt::format("{}: found {}, expected a number from {} to {}", dimension,
                      shorten(value->dump(-1, ' ', true, Json::error_handler_t::replace), 40),
                      rubric.low, rubric.high));
    }
    out.scores.push_back({dimension, *number});
    sum += *number;
    if (dimension == rubric.overall) out.value = *number;
  }
  if (rubric.overall.empty()) {  // rounding must not move the mean outside the scale
    out.value =
        std::clamp(sum / static_cast<double>(rubric.dimensions.size()), rubric.low, rubric.high);
  }
  return out;
}

bool same(const ParsedReply& a, const ParsedReply& b) {
  for (std::size_t i = 0; i < a.scores.size(); ++i) {
    if (a.scores[i].value != b.scores[i].value) return false;
  }
  return true;
}

ParsedReply parse_scores(const Rubric& rubric, std::string_view text) {
  std::optional<ParsedReply> good, bad;
  std::size_t at = text.find('{');
  for (int tried = 0; at != std::string_view::npos && tried < kMaxObjects; ++tried) {
    const std::size_t end = end_of_object(text, at);
    std::optional<ParsedReply> found;
    if (end != std::string_view::npos) {
      if (const std::optional<Json> object = parse_object(text.substr(at, end - at)))
        found = judgement_of(rubric, *object);
    }
    if (found && found->error.empty()) {
      if (good && !same(*good, *found))
        return failure("found several judgements that differ, expected one");
      good = found;
    } else if (found) {
      bad = found;
    }
    at = text.find('{', found ? end : at + 1);  // objects may be nested
  }
  if (good) return *good;
  if (bad) return *bad;
  return failure("found no JSON object with all dimensions, expected one");
}

/// Whether a word is yes or no.
std::optional<bool> verdict(std::string_view word) {
  const std::string plain = normalized_name(word);
  return plain == "yes" ? std::optional(true) : plain == "no" ? std::optional(false) : std::nullopt;
}

ParsedReply parse_verdict(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 128;
  };
  std::string_view first, last;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end > i) {
      last = text.substr(i, end - i);
      if (first.empty()) first = last;
    }
    i = end + (end == i ? 1 : 0);
  }
  const std::optional<bool> a = verdict(first), b = verdict(last);
  if (!a && !b) return failure("found neither yes nor no at either end, expected one of them");
  if (a && b && *a != *b) return failure("found both yes and no, expected one of them");
  return {"", a.value_or(b.value_or(false)) ? 1.0 : 0.0, {}};
}

}  // namespace

ParsedReply parse_reply(const Rubric& rubric, std::string_view text) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  const std::size_t close = text.rfind(kClose);
  if (close != std::string_view::npos) {
    text.remove_prefix(close + kClose.size());
  } else if (text.find(kOpen) != std::string_view::npos) {
    return failure("found thoughts without an end, expected a judgement");
  }
  return rubric.reply == Rubric::Reply::kYesNo ? parse_verdict(text) : parse_scores(rubric, text);
}

}  // namespace turnbench
