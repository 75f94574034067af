#pragma once

#include "inference/jinja/value.h"

namespace turnbench::jinja {

enum class Operator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

/// `a OPERATOR b` as in Python; integers are refused where the result has more than 64 bits.
Value calculate(Operator op, const Value& a, const Value& b, Budget& budget);

/// `-value`
Value negative(const Value& value);

/// `+value`
Value positive(const Value& value);

/// `abs(value)`
Value absolute(const Value& value);

/// What a float is as an integer, cut at the point; refuses what is too large.
std::int64_t to_integer(double number);

/// Refuses strings that the filters safe and escape marked: with them Jinja2 would escape the other
/// operand.
void refuse_safe(const Value& value);

}  // namespace turnbench::jinja
