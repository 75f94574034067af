#include "metrics/labels.h"

#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"

namespace turnbench::scorers {
namespace {

[[noreturn]] void refuse(const std::string& label, std::string_view expected) {
  throw input_error("found the reference \"{}\", expected {}", printable(shorten(label, 60)),
                    expected);
}

}  // namespace

const std::string& label_at(Texts labels, std::size_t index) {
  if (index >= labels.size()) {
    throw input_error("found {} references, expected at least {}", labels.size(), index + 1);
  }
  return labels[index];
}

std::string integer_label(Texts labels, std::size_t index) {
  const std::string& label = label_at(labels, index);
  const std::optional<std::string> whole = python::parse_int(label);
  if (!whole) refuse(label, "a whole number");
  return *whole;
}

NumberLabel number_label(Texts labels, std::size_t index) {
  const std::string& label = label_at(labels, index);
  const std::optional<double> value = python::parse_float(label);
  if (!value) refuse(label, "a number");
  return {python::parse_int(label), *value};
}

}  // namespace turnbench::scorers
