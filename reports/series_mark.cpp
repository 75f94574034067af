#include "reports/series_mark.h"

#include <fmt/format.h>

namespace turnbench {
namespace {

constexpr std::size_t kColors = 6, kShapes = 3;

}  // namespace

SeriesMark dot_mark(std::size_t series) {
  return {series % kColors, series % kShapes};
}

SeriesMark line_mark(std::size_t series) {
  return {series % kColors, series / kColors % kShapes, series / (kColors * kShapes) % 2 == 1};
}

std::string mark_class(const SeriesMark& mark) {
  return fmt::format("s{}{}", mark.color, mark.is_hollow ? " hollow" : "");
}

std::string mark_svg(const SeriesMark& mark, const std::string& x, double y) {
  const char* shape = mark.shape == 0   ? "<circle r=\"4\"/>"
                      : mark.shape == 1 ? "<path d=\"M-3.7-3.7h7.4v7.4h-7.4z\"/>"
                                        : "<path d=\"M0-4.9l4.9 4.9-4.9 4.9-4.9-4.9z\"/>";
  return fmt::format("<svg class=\"mark\" x=\"{}\" y=\"{:.1f}\">{}</svg>", x, y, shape);
}

}  // namespace turnbench
