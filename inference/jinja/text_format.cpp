#include "inference/jinja/text_format.h"

#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/format_spec.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

Text represented(const Value& value, Budget& budget) {
  TextBuilder out(budget);
  represent(value, out);
  return out.finish();
}

/// One run over a format with `%`.
class PercentFormat {
 public:
  PercentFormat(const Text& format, const Value& values, Budget& budget)
      : format_(format), bytes_(format.bytes()), values_(values), budget_(budget), out_(budget) {}

  Text run() {
    while (at_ < bytes_.size()) {
      const std::size_t end = std::min(bytes_.find('%', at_), bytes_.size());
      out_.add(Slice{&format_, at_, end});
      at_ = end;
      if (at_ == bytes_.size()) break;
      ++at_;
      field();
    }
    const bool mapping =
        values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kUndefined);
    const std::size_t count = values_.is(Kind::kTuple) ? values_.as_list().items.size()
                              : mapping                ? 0
                                                       : 1;
    if (used_ < count) throw complaint("found more values than fields, expected as many");
    return out_.finish();
  }

 private:
  [[noreturn]] static void refuse() {
    throw complaint("found a format field that is not known, expected one like %s or %.2f");
  }

  bool take(char c) {
    if (at_ == bytes_.size() || bytes_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// The next positional value.
  const Value& next() {
    if (!values_.is(Kind::kTuple)) {
      if (used_++ == 0) return values_;
    } else if (used_ < values_.as_list().items.size()) {
      return values_.as_list().items[used_++];
    }
    throw complaint("found fewer values than fields, expected as many");
  }

  /// The value that a field names; nullptr if it names none.
  const Value* named() {
    if (!take('(')) return nullptr;
    const std::size_t end = bytes_.find(')', at_);
    if (end == std::string_view::npos) refuse();
    const std::string_view key = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    const Value* found = values_.is(Kind::kDict) ? find(values_.as_dict(), key) : nullptr;
    if (found == nullptr) {
      throw complaint("found no value \"{}\", expected a dict with it", shorten(key, 60));
    }
    return found;
  }

  void field() {
    const Value* value = named();
    FormatSpec spec;
    bool zeros = false;
    for (; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      if (c == '-')
        spec.align = '<';
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else if (c == '0')
        zeros = true;
      else
        break;
    }
    spec.width = format_number(bytes_, at_);
    if (take('.')) spec.precision = format_number(bytes_, at_);
    if (at_ == bytes_.size()) refuse();
    const char type = bytes_[at_++];
    if (type == '%') {
      out_.add("%");
      return;
    }
    write(spec, zeros, type, value == nullptr ? next() : *value);
  }

  void write(FormatSpec spec, bool zeros, char type, const Value& value) {
    if (type == 's' || type == 'r') {
      spec.sign = '-';
      spec.alternate = false;
      if (spec.align == '\0') spec.align = '>';
      const Text text = type == 's' ? *to_string(value, budget_).text : represented(value, budget_);
      add_text(spec, text, out_);
      return;
    }
    if (type == 'c' && value.is(Kind::kString) && count_code_points(value.bytes()) == 1) {
      add_text({.align = '>', .width = spec.width}, value.as_text(), out_);
      return;
    }
    if (zeros && spec.align == '\0') {
      spec.align = '=';
      spec.fill = '0';
    }
    const bool whole = type == 'd' || type == 'i' || type == 'u';
    spec.type = whole ? 'd' : type;
    const bool known = std::string_view("bdoxXeEfFgG").find(spec.type) != std::string_view::npos;
    if (!known || type == 'b' || !value.is_number()) refuse();
    if (spec.precision >= 0 && std::string_view("doxX").find(spec.type) != std::string_view::npos) {
      throw complaint("found a precision of an integer, expected none");
    }
    add_number(spec, whole && value.is(Kind::kFloat) ? to_integer(value.as_float()) : value, out_);
  }

  const Text& format_;
  std::string_view bytes_;
  const Value& values_;
  Budget& budget_;
  TextBuilder out_;
  std::size_t at_ = 0, used_ = 0;
};

/// One run over a format with `{}`.
class BraceFormat {
 public:
  BraceFormat(const Text& format, const Arguments& arguments, Budget& budget)
      : format_(format),
        bytes_(format.bytes()),
        arguments_(arguments),
        budget_(budget),
        out_(budget) {}

  Text run() {
    while (at_ < bytes_.size()) {
      const std::size_t end = std::min(bytes_.find_first_of("{}", at_), bytes_.size());
      out_.add(Slice{&format_, at_, end});
      at_ = end;
      if (at_ == bytes_.size()) break;
      const char brace = bytes_[at_++];
      if (at_ < bytes_.size() && bytes_[at_] == brace) {
        out_.add(bytes_.substr(at_++, 1));
      } else if (brace == '{') {
        field();
      } else {
        refuse();
      }
    }
    return out_.finish();
  }

 private:
  [[noreturn]] static void refuse() {
    throw complaint("found a format field that is not known, expected one like {{}} or {{:.2f}}");
  }

  void field() {
    const std::size_t end = bytes_.find_first_of("{}", at_);
    if (end == std::string_view::npos || bytes_[end] == '{') refuse();
    std::string_view field = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view form = field.substr(std::min(colon + 1, field.size()));
    std::string_view name = field.substr(0, colon);
    char conversion = '\0';
    if (const std::size_t mark = name.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != name.size()) refuse();
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    Value value = named(name);
    if (conversion == 'r') {
      value = represented(value, budget_);
    } else if (conversion == 's') {
      value = to_string(value, budget_);
    } else if (conversion != '\0') {
      refuse();
    }
    write(parse(form), !form.empty(), value);
  }

  /// The value of "", "0", "name", "name.attribute" or "name[key]".
  Value named(std::string_view path) {
    std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    while (end < path.size()) {
      const std::size_t begin = end + 1;
      if (path[end] == '.') {
        end = std::min(path.find_first_of(".[", begin), path.size());
        value = attribute(value, path.substr(begin, end - begin), budget_);
        continue;
      }
      const std::size_t close = path.find(']', begin);
      if (path[end] != '[' || close == std::string_view::npos) refuse();
      const std::string_view key = path.substr(begin, close - begin);
      const auto index = parse_number<std::int64_t>(key);
      value = item(value, index && *index >= 0 ? Value(*index) : Value::text(key), budget_);
      end = close + 1;
    }
    return value;
  }

  Value argument(std::string_view name) {
    const auto index =
        name.empty() ? std::optional<std::int64_t>(counted_++) : parse_number<std::int64_t>(name);
    if (index) {
      if (*index >= 0 && static_cast<std::size_t>(*index) < arguments_.values.size()) {
        return arguments_.values[static_cast<std::size_t>(*index)];
      }
    } else {
      for (const auto& [other, value] : arguments_.named) {
        if (other == name) return value;
      }
    }
    throw complaint("found no value for the field \"{}\", expected one", shorten(name, 60));
  }

  /// [[fill]align][sign][#][0][width][,][.precision][type]
  static FormatSpec parse(std::string_view form) {
    FormatSpec spec;
    std::size_t at = 0;
    const auto is_align = [&](std::size_t i) {
      return i < form.size() && std::string_view("<>^=").find(form[i]) != std::string_view::npos;
    };
    const auto take = [&](char c) { return at < form.size() && form[at] == c && ++at > 0; };
    if (!form.empty()) {
      std::size_t after = 0;
      const char32_t first = next_code_point(form, after);
      if (is_align(after)) {
        spec.fill = first;
        spec.align = form[after];
        at = after + 1;
      } else if (is_align(0)) {
        spec.align = form[at++];
      }
    }
    for (const char sign : {'+', '-', ' '}) {
      if (!take(sign)) continue;
      spec.sign = sign;
      break;
    }
    spec.alternate = take('#');
    if (take('0') && spec.align == '\0') {
      spec.fill = '0';
      spec.align = '=';
    }
    spec.width = format_number(form, at);
    spec.thousands = take(',');
    if (take('.')) {
      const std::size_t begin = at;
      spec.precision = format_number(form, at);
      if (at == begin) refuse();
    }
    if (at < form.size()) spec.type = form[at++];
    if (at < form.size()) refuse();
    return spec;
  }

  void write(const FormatSpec& spec, bool formatted, const Value& value) {
    if (value.is_number() && !(value.is(Kind::kBool) && !formatted)) {
      if (spec.precision >= 0 && value.integer() && spec.type == '\0') refuse();
      add_number(spec, value, out_);
      return;
    }
    if (!value.is(Kind::kString) && formatted) {
      throw complaint("found {} with a format, expected a string or a number", describe(value));
    }
    if (spec.type != '\0' && spec.type != 's') refuse();
    add_text(spec, *to_string(value, budget_).text, out_);
  }

  const Text& format_;
  std::string_view bytes_;
  const Arguments& arguments_;
  Budget& budget_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::int64_t counted_ = 0;
};

}  // namespace

Text percent_format(const Text& format, const Value& values, Budget& budget) {
  return PercentFormat(format, values, budget).run();
}

Text brace_format(const Text& format, const Arguments& arguments, Budget& budget) {
  return BraceFormat(format, arguments, budget).run();
}

}  // namespace turnbench::jinja
