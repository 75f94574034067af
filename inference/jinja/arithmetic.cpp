#include "inference/jinja/arithmetic.h"

#include <cmath>

#include "inference/jinja/compare.h"
#include "inference/jinja/text_format.h"

namespace turnbench::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

std::int64_t checked(bool overflows, std::int64_t result) {
  if (overflows) throw complaint("found a result beyond 64 bits, expected a smaller integer");
  return result;
}

template <typename Number>
void refuse_zero(Number divisor) {
  if (divisor == 0) throw complaint("found a division by zero, expected another divisor");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  refuse_zero(b);
  if (b == -1) {
    std::int64_t out = 0;
    const bool overflows = __builtin_sub_overflow(std::int64_t{0}, a, &out);
    return checked(overflows, out);
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  refuse_zero(b);
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// The quotient rounded down and the rest, which has the divisor's sign.
std::pair<double, double> divide_floats(double a, double b) {
  refuse_zero(b);
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  const double floor = std::floor(quotient);
  return {quotient - floor > 0.5 ? floor + 1 : floor, rest};
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    refuse_zero(base);
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t out = 1;
  bool overflows = false;
  while (exponent > 0) {
    if (exponent % 2 == 1) overflows = overflows || __builtin_mul_overflow(out, base, &out);
    exponent /= 2;
    // A square that is not used may overflow.
    if (exponent > 0) overflows = overflows || __builtin_mul_overflow(base, base, &base);
  }
  return checked(overflows, out);
}

Value power(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse_zero(base);
  const double out = std::pow(base, exponent);
  const bool finite = std::isfinite(base) && std::isfinite(exponent);
  if (finite && !std::isfinite(out)) {
    throw complaint("found a power that is no float, expected a smaller one of a positive base");
  }
  return out;
}

Value on_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Operator::kAdd: {
      const bool overflows = __builtin_add_overflow(a, b, &out);
      return checked(overflows, out);
    }
    case Operator::kSubtract: {
      const bool overflows = __builtin_sub_overflow(a, b, &out);
      return checked(overflows, out);
    }
    case Operator::kMultiply: {
      const bool overflows = __builtin_mul_overflow(a, b, &out);
      return checked(overflows, out);
    }
    case Operator::kDivide:
      refuse_zero(b);
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    case Operator::kPower:
      return power(a, b);
  }
  return {};
}

Value on_floats(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      refuse_zero(b);
      return a / b;
    case Operator::kFloorDivide:
      return divide_floats(a, b).first;
    case Operator::kModulo:
      return divide_floats(a, b).second;
    case Operator::kPower:
      return power(a, b);
  }
  return {};
}

Value made_like(const Value& sequence, std::vector<Value> items) {
  return sequence.is(Kind::kTuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  const std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
  if (value.is(Kind::kString)) {
    TextBuilder out(budget);
    out.repeat(value.as_text(), count);
    return out.finish();
  }
  const std::vector<Value>& items = value.as_list().items;
  std::vector<Value> out;
  for (std::size_t n = 0; n < count && !items.empty(); ++n) {
    budget.elements(items.size());
    out.insert(out.end(), items.begin(), items.end());
  }
  return made_like(value, std::move(out));
}

Value concatenated(const Value& a, const Value& b, Budget& budget) {
  if (a.is(Kind::kString)) {
    TextBuilder out(budget);
    out.add(a.as_text()).add(b.as_text());
    return out.finish();
  }
  std::vector<Value> out = a.as_list().items;
  const std::vector<Value>& more = b.as_list().items;
  budget.elements(out.size() + more.size());
  out.insert(out.end(), more.begin(), more.end());
  return made_like(a, std::move(out));
}

}  // namespace

Value calculate(Operator op, const Value& a, const Value& b, Budget& budget) {
  refuse_safe(a);
  refuse_safe(b);
  const auto i = a.integer(), j = b.integer();
  if (i && j) return on_integers(op, *i, *j);
  if (a.is_number() && b.is_number()) return on_floats(op, *a.number(), *b.number());
  const auto repeats = [](const Value& v) { return v.is(Kind::kString) || v.is_sequence(); };
  if (op == Operator::kModulo && a.is(Kind::kString)) {
    return percent_format(a.as_text(), b, budget);
  }
  if (op == Operator::kMultiply && repeats(a) && j) return repeated(a, *j, budget);
  if (op == Operator::kMultiply && repeats(b) && i) return repeated(b, *i, budget);
  if (op == Operator::kAdd && repeats(a) && a.kind() == b.kind()) {
    return concatenated(a, b, budget);
  }
  if (a.is(Kind::kUndefined)) refuse_undefined(a);
  if (b.is(Kind::kUndefined)) refuse_undefined(b);
  throw complaint("found {} {} {}, expected values that Python combines so", describe(a),
                  kSigns[static_cast<std::size_t>(op)], describe(b));
}

Value negative(const Value& value) {
  if (value.is(Kind::kFloat)) return -value.as_float();
  if (const auto whole = value.integer()) {
    std::int64_t out = 0;
    const bool overflows = __builtin_sub_overflow(std::int64_t{0}, *whole, &out);
    return checked(overflows, out);
  }
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  throw complaint("found {}, expected a number", describe(value));
}

Value positive(const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (const auto whole = value.integer()) return *whole;
  return negative(value);  // which refuses it
}

Value absolute(const Value& value) {
  if (value.is(Kind::kFloat)) return std::fabs(value.as_float());
  const auto whole = value.integer();
  return whole && *whole >= 0 ? Value(*whole) : negative(value);
}

std::int64_t to_integer(double number) {
  if (!(std::fabs(number) < 9.2e18)) {
    throw complaint("found the float {}, expected one that is an integer of 64 bits", number);
  }
  return static_cast<std::int64_t>(number);
}

void refuse_safe(const Value& value) {
  if (!value.is(Kind::kString) || !value.as_string().safe) return;
  throw complaint("found {}, which |safe or |escape marked, expected a plain string",
                  describe(value));
}

}  // namespace turnbench::jinja
