#include <algorithm>

#include "common/python_text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/text_format.h"
#include "inference/jinja/text_functions.h"

namespace turnbench::jinja {
namespace {

const Text& self_of(const Call& call) {
  return call.self().as_text();
}

Value stripped(const Call& call, bool left, bool right) {
  return substring(strip(self_of(call), call.maybe_text(0), left, right), call.budget);
}

/// The parts as a list.
Value listed(const Call& call, const std::vector<Slice>& parts) {
  std::vector<Value> items;
  for (const Slice& part : parts) {
    call.budget.elements(1);
    items.push_back(substring(part, call.budget));
  }
  return Value::list(std::move(items));
}

Value splitted(const Call& call, bool from_right) {
  const auto separator = call.maybe_text(0);
  if (separator && separator->empty()) {
    throw complaint("found an empty separator, expected some characters");
  }
  return listed(call, split_text(self_of(call), separator, call.integer(1, -1), from_right));
}

Value parted(const Call& call, bool from_right) {
  const Text& text = self_of(call);
  const std::string_view separator = call.text(0).bytes();
  if (separator.empty()) throw complaint("found an empty separator, expected some characters");
  const std::size_t found =
      from_right ? find_last(text.bytes(), separator) : find_first(text.bytes(), separator);
  const bool none = found == std::string_view::npos;
  const std::size_t begin = !none ? found : from_right ? 0 : text.size();
  const std::size_t end = none ? begin : begin + separator.size();
  std::vector<Value> items;
  for (const Slice part :
       {Slice{&text, 0, begin}, Slice{&text, begin, end}, Slice{&text, end, text.size()}}) {
    items.push_back(substring(part, call.budget));
  }
  return Value::tuple(std::move(items));
}

/// The part of the text that the parameters `start` and `end`, behind the first one, leave; none
/// where they leave nothing, not even an empty text.
std::optional<Slice> searched(const Call& call) {
  const Text& text = self_of(call);
  if (!call.has(1) && !call.has(2)) return Slice{&text, 0, text.size()};
  const auto size = static_cast<std::int64_t>(count_code_points(text.bytes()));
  const auto place = [&](std::size_t i, std::int64_t fallback) {
    if (call.get(i).is(Kind::kNone)) return fallback;
    const std::int64_t given = call.integer(i, 0);
    return std::max<std::int64_t>(given < 0 ? given + size : given, 0);
  };
  const std::int64_t begin = place(1, 0), end = std::min(place(2, size), size);
  if (begin > end) return std::nullopt;
  return Slice{&text, offset_of(text.bytes(), static_cast<std::size_t>(begin)),
               offset_of(text.bytes(), static_cast<std::size_t>(end))};
}

/// Where the first parameter stands, in code points; none where it does not.
std::optional<std::size_t> found_at(const Call& call, bool from_right) {
  const std::string_view part = call.text(0).bytes();
  const auto where = searched(call);
  if (!where) return std::nullopt;
  const std::size_t found =
      from_right ? find_last(where->bytes(), part) : find_first(where->bytes(), part);
  if (found == std::string_view::npos) return std::nullopt;
  return count_code_points(self_of(call).bytes().substr(0, where->begin + found));
}

Value place_or_minus_one(const Call& call, bool from_right) {
  const auto found = found_at(call, from_right);
  return found ? Value::size(*found) : Value(std::int64_t{-1});
}

Value place_or_refusal(const Call& call, bool from_right) {
  const auto found = found_at(call, from_right);
  if (!found) {
    throw complaint("found no {} in {}, expected one", describe(call.get(0)),
                    describe(call.self()));
  }
  return Value::size(*found);
}

/// Whether the text has the first parameter, or one of it if it is a tuple, at an end.
Value has_end(const Call& call, bool front) {
  const Value parts = call.get(0).is(Kind::kTuple) ? call.get(0) : Value::tuple({call.get(0)});
  for (const Value& part : parts.as_list().items) {
    if (part.is(Kind::kUndefined)) refuse_undefined(part);
    if (!part.is(Kind::kString)) {
      throw complaint("found {}, expected a string or a tuple of strings", describe(part));
    }
  }
  const auto where = searched(call);
  if (!where) return false;
  return std::ranges::any_of(parts.as_list().items, [&](const Value& part) {
    return front ? where->bytes().starts_with(part.bytes())
                 : where->bytes().ends_with(part.bytes());
  });
}

Value joined(const Call& call) {
  TextBuilder out(call.budget);
  bool first = true;
  for (const Value& part : values_of(call.get(0), call.budget)) {
    if (part.is(Kind::kUndefined)) refuse_undefined(part);
    if (!part.is(Kind::kString)) {
      throw complaint("found {} to join, expected strings", describe(part));
    }
    if (!first) out.add(self_of(call));
    out.add(part.as_text());
    first = false;
  }
  return out.finish();
}

Value without_end(const Call& call, bool front) {
  const Text& text = self_of(call);
  const std::string_view part = call.text(0).bytes();
  Slice out{&text, 0, text.size()};
  if (front && text.bytes().starts_with(part)) out.begin = part.size();
  if (!front && text.bytes().ends_with(part)) out.end -= part.size();
  return substring(out, call.budget);
}

/// Fills up to a width; `left` is the part of what is missing that goes in front.
Value filled(const Call& call, double left) {
  const Text& text = self_of(call);
  const Text fill(call.has(1) ? std::string(call.text(1).bytes()) : " ");
  if (count_code_points(fill.bytes()) != 1) {
    throw complaint("found {} to fill with, expected one character", describe(call.get(1)));
  }
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(call.integer(0, 0), 0));
  const std::size_t length = count_code_points(text.bytes());
  const std::size_t missing = width > length ? width - length : 0;
  // Where it cannot be even, Python's center has more on the left if the width is odd.
  const std::size_t before = left == 0.5 ? missing / 2 + (missing & width & 1)
                             : left == 0 ? 0
                                         : missing;
  TextBuilder out(call.budget);
  out.repeat(fill, before).add(text).repeat(fill, missing - before);
  return out.finish();
}

Value zero_filled(const Call& call) {
  const Text& text = self_of(call);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(call.integer(0, 0), 0));
  const std::size_t length = count_code_points(text.bytes());
  const bool sign = text.size() > 0 && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  TextBuilder out(call.budget);
  out.add(Slice{&text, 0, sign ? std::size_t{1} : 0});
  out.repeat(Text("0"), width > length ? width - length : 0);
  out.add(Slice{&text, sign ? std::size_t{1} : 0, text.size()});
  return out.finish();
}

Value counted(const Call& call) {
  const auto where = searched(call);
  return Value::size(where ? count_of(where->bytes(), call.text(0).bytes()) : 0);
}

template <bool predicate(std::string_view)>
Value says(const Call& call) {
  return predicate(self_of(call).bytes());
}

Value is_ascii_text(const Call& call) {
  return std::ranges::all_of(self_of(call).bytes(), [](char c) { return (c & 0x80) == 0; });
}

constexpr Function kTextMethods[] = {
    {"strip", "/ chars?", [](const Call& c) { return stripped(c, true, true); }},
    {"lstrip", "/ chars?", [](const Call& c) { return stripped(c, true, false); }},
    {"rstrip", "/ chars?", [](const Call& c) { return stripped(c, false, true); }},
    {"split", "sep? maxsplit?", [](const Call& c) { return splitted(c, false); }},
    {"rsplit", "sep? maxsplit?", [](const Call& c) { return splitted(c, true); }},
    {"splitlines", "keepends?",
     [](const Call& c) { return listed(c, split_lines(self_of(c), c.truth(0, false))); }},
    {"partition", "/ sep", [](const Call& c) { return parted(c, false); }},
    {"rpartition", "/ sep", [](const Call& c) { return parted(c, true); }},
    {"startswith", "/ prefix start? end?", [](const Call& c) { return has_end(c, true); }},
    {"endswith", "/ suffix start? end?", [](const Call& c) { return has_end(c, false); }},
    {"removeprefix", "/ prefix", [](const Call& c) { return without_end(c, true); }},
    {"removesuffix", "/ suffix", [](const Call& c) { return without_end(c, false); }},
    {"replace", "/ old new count?",
     [](const Call& c) -> Value {
       return replace(self_of(c), c.text(0).bytes(), c.text(1), c.integer(2, -1), c.budget);
     }},
    {"join", "/ parts", joined},
    {"find", "/ part start? end?", [](const Call& c) { return place_or_minus_one(c, false); }},
    {"rfind", "/ part start? end?", [](const Call& c) { return place_or_minus_one(c, true); }},
    {"index", "/ part start? end?", [](const Call& c) { return place_or_refusal(c, false); }},
    {"rindex", "/ part start? end?", [](const Call& c) { return place_or_refusal(c, true); }},
    {"count", "/ part start? end?", counted},
    {"upper", "", [](const Call& c) { return c.make(python::upper(self_of(c).bytes())); }},
    {"lower", "", [](const Call& c) { return c.make(python::lower(self_of(c).bytes())); }},
    {"title", "", [](const Call& c) { return c.make(title(self_of(c).bytes())); }},
    {"capitalize", "", [](const Call& c) { return c.make(capitalize(self_of(c).bytes())); }},
    {"format", "/ * **",
     [](const Call& c) -> Value { return brace_format(self_of(c), c.more(), c.budget); }},
    {"center", "/ width fill?", [](const Call& c) { return filled(c, 0.5); }},
    {"ljust", "/ width fill?", [](const Call& c) { return filled(c, 0); }},
    {"rjust", "/ width fill?", [](const Call& c) { return filled(c, 1); }},
    {"zfill", "/ width", zero_filled},
    {"isupper", "", says<is_upper>},
    {"islower", "", says<is_lower>},
    {"isalpha", "", says<is_alpha>},
    {"isdigit", "", says<is_digit>},
    {"isdecimal", "", says<is_digit>},
    {"isnumeric", "", says<is_digit>},
    {"isalnum", "", says<is_alnum>},
    {"isspace", "", says<is_space>},
    {"isascii", "", is_ascii_text},
};

}  // namespace

std::span<const Function> text_methods() {
  return kTextMethods;
}

}  // namespace turnbench::jinja
