#include "common/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::size_t kShown = 60;  // characters of a found value that a message quotes

std::string shown(const Json& value) {
  if (value.is_object()) return fmt::format("an object with {} keys", value.size());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  return shorten(value.dump(-1, ' ', false, Json::error_handler_t::replace), kShown);
}

}  // namespace

JsonView::JsonView(const Json& value, std::string source, std::string path)
    : value_(&value), source_(std::move(source)), path_(std::move(path)) {}

bool JsonView::is_object() const {
  return value_->is_object();
}
bool JsonView::is_array() const {
  return value_->is_array();
}
bool JsonView::is_string() const {
  return value_->is_string();
}
bool JsonView::is_number() const {
  return value_->is_number();
}
bool JsonView::is_bool() const {
  return value_->is_boolean();
}
bool JsonView::is_null() const {
  return value_->is_null();
}

void JsonView::fail(const std::string& expected) const {
  throw input_error("{}: {}: found {}, expected {}", source_, path_.empty() ? "/" : path_,
                    shown(*value_), expected);
}

bool JsonView::has(const std::string& key) const {
  if (!is_object()) fail("an object");
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonView JsonView::at(const std::string& key) const {
  if (!is_object()) fail("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) {
    throw input_error("{}: {}: found no key \"{}\", expected one", source_,
                      path_.empty() ? "/" : path_, key);
  }
  return JsonView(*found, source_, path_ + "/" + printable(key));
}

std::vector<std::string> JsonView::keys() const {
  if (!is_object()) fail("an object");
  std::vector<std::string> out;
  for (const auto& item : value_->items()) out.push_back(item.key());
  return out;
}

void JsonView::require_known_keys(const std::vector<std::string_view>& known) const {
  for (const std::string& key : keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw input_error("{}: {}: found the unknown key \"{}\", expected {}", source_,
                      path_.empty() ? "/" : path_, printable(shorten(key, kShown)),
                      nearest_or_all(key, known));
  }
}

std::size_t JsonView::size() const {
  if (!is_array()) fail("an array");
  return value_->size();
}

JsonView JsonView::operator[](std::size_t index) const {
  if (!is_array() || index >= value_->size()) fail(fmt::format("an element {}", index));
  return JsonView((*value_)[index], source_, fmt::format("{}/{}", path_, index));
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> out;
  const std::size_t n = size();
  out.reserve(n);
  for (std::size_t i = 0; i < n; ++i) out.push_back((*this)[i]);
  return out;
}

std::string JsonView::as_string() const {
  if (!is_string()) fail("a string");
  return value_->get<std::string>();
}

bool JsonView::as_bool() const {
  if (!is_bool()) fail("true or false");
  return value_->get<bool>();
}

double JsonView::as_number() const {
  if (!is_number() || !std::isfinite(value_->get<double>())) fail("a number");
  return value_->get<double>();
}

std::int64_t JsonView::as_integer(std::int64_t min, std::int64_t max) const {
  const auto complain = [&]() {
    const bool too_large = is_number() && value_->get<double>() >= 0x1p63;  // for 64 bits
    if (min == INT64_MIN && max == INT64_MAX && !too_large) fail("an integer");
    if (max == INT64_MAX && !too_large) fail(fmt::format("an integer of at least {}", min));
    fail(fmt::format("an integer from {} to {}", min, max));
  };
  if (!value_->is_number_integer()) {
    const bool whole = value_->is_number_float() &&
                       std::nearbyint(value_->get<double>()) == value_->get<double>() &&
                       std::abs(value_->get<double>()) < 9e15;
    if (!whole) complain();
  }
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX) complain();
  const std::int64_t value = value_->is_number_float()
                                 ? static_cast<std::int64_t>(value_->get<double>())
                                 : value_->get<std::int64_t>();
  if (value < min || value > max) complain();
  return value;
}

std::vector<std::string> JsonView::as_strings() const {
  std::vector<std::string> out;
  for (const JsonView& item : items()) out.push_back(item.as_string());
  return out;
}

std::string JsonView::get(const std::string& key, const std::string& fallback) const {
  return has(key) ? at(key).as_string() : fallback;
}

bool JsonView::get(const std::string& key, bool fallback) const {
  return has(key) ? at(key).as_bool() : fallback;
}

double JsonView::get(const std::string& key, double fallback) const {
  return has(key) ? at(key).as_number() : fallback;
}

std::int64_t JsonView::get_integer(const std::string& key, std::int64_t fallback, std::int64_t min,
                                   std::int64_t max) const {
  return has(key) ? at(key).as_integer(min, max) : fallback;
}

std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.empty()) return {};
  // At least half of the letters must agree: "h2o" is not a misspelling of "foo".
  std::size_t best = std::max<std::size_t>(1, name.size() / 2) + 1;
  std::string out;
  for (std::string_view candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t above = row[j];
        const std::size_t change = diagonal + (name[i - 1] != candidate[j - 1]);
        row[j] = std::min({above + 1, row[j - 1] + 1, change});
        diagonal = above;
      }
    }
    if (row.back() < best) {
      best = row.back();
      out = candidate;
    }
  }
  return out;
}

std::string nearest_or_all(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "one of: " + join(known, ", ") : "\"" + near + "\"";
}

std::string nearest_or_listed(std::string_view name, const std::vector<std::string_view>& known,
                              std::string_view what) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? fmt::format("one of those that `turnbench list {}` prints", what)
                      : "\"" + near + "\"";
}

}  // namespace turnbench
