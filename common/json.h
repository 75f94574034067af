#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// Parses one JSON document.  `source` names the text in messages: a file, or a file and a line.
/// @throws Error (input) on a syntax error (with line and column), a duplicate key, or nesting
/// deeper than 256.
Json parse_json(std::string_view text, const std::string& source);

/// A value in a parsed document, with its path.  Every error names the file, the path, the found
/// value and the expected one.  Cheap to copy.  The document must outlive the view.
class JsonView {
 public:
  JsonView(const Json& value, std::string source, std::string path = "");

  const Json& json() const { return *value_; }
  const std::string& source() const { return source_; }
  const std::string& path() const { return path_; }

  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_bool() const;
  bool is_null() const;

  /// Object access.  `at` throws if the key is missing; `has` is false for a missing key and for
  /// null.
  bool has(const std::string& key) const;
  JsonView at(const std::string& key) const;
  std::vector<std::string> keys() const;
  /// @throws Error (input) if a key is not in `known`; the message suggests the nearest known key.
  void require_known_keys(const std::vector<std::string_view>& known) const;

  /// Array access.
  std::size_t size() const;
  JsonView operator[](std::size_t index) const;
  std::vector<JsonView> items() const;

  /// Typed values; they throw if the value has another type or is out of range.
  std::string as_string() const;
  bool as_bool() const;
  double as_number() const;
  std::int64_t as_integer(std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX) const;
  std::vector<std::string> as_strings() const;

  /// Typed value of a key, or `fallback` if the key is missing.
  std::string get(const std::string& key, const std::string& fallback) const;
  std::string get(const std::string& key, const char* fallback) const {
    return get(key, std::string(fallback));
  }
  bool get(const std::string& key, bool fallback) const;
  double get(const std::string& key, double fallback) const;
  std::int64_t get_integer(const std::string& key, std::int64_t fallback,
                           std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX) const;

  /// @throws Error (input): "SOURCE: PATH: found VALUE, expected EXPECTED".
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  const Json* value_;
  std::string source_;
  std::string path_;
};

/// The element of `known` with the smallest edit distance to `name`, or "" if none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known);

/// For the error message about an unknown `name`: the nearest of `known` in quotes, or, if none is
/// near, "one of: " and all of them.
std::string nearest_or_all(std::string_view name, const std::vector<std::string_view>& known);

/// As `nearest_or_all`, for sets of names that are too large for one line: if no name is near, the
/// message gives the command that lists them.  `what` is the argument of `turnbench list`, such as
/// "datasets".
std::string nearest_or_listed(std::string_view name, const std::vector<std::string_view>& known,
                              std::string_view what);

}  // namespace turnbench
