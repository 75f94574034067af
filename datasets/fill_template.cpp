#include "datasets/fill_template.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

std::string fill_template(std::string_view text, const TemplateValues& values,
                          const std::string& where) {
  const auto fail = [&](std::string_view found) {
    std::vector<std::string> known;
    for (const auto& value : values) known.push_back(fmt::format("{{{}}}", value.first));
    throw input_error("{}: found \"{}\", expected {}", where, printable(shorten(found, 40)),
                      join(known, " or "));
  };
  std::string out;
  for (;;) {
    const std::size_t brace = text.find_first_of("{}");
    out += text.substr(0, brace);
    if (brace == std::string_view::npos) return out;
    text.remove_prefix(brace);
    if (text.starts_with("{{") || text.starts_with("}}")) {
      out += text[0];
      text.remove_prefix(2);
      continue;
    }
    const std::size_t close = text.find('}');
    if (close == 0 || close == std::string_view::npos) fail(text);
    const auto value = std::find_if(values.begin(), values.end(), [&](const auto& v) {
      return v.first == text.substr(1, close - 1);
    });
    if (value == values.end()) fail(text.substr(0, close + 1));
    out += value->second;
    text.remove_prefix(close + 1);
  }
}

}  // namespace turnbench
