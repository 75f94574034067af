#include "reports/latex_entry.h"

#include <fmt/format.h>

#include "reports/latex_text.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

/// Joins pieces of a line.
class Line {
 public:
  Line& text(const std::string& latex) {
    field_.text += latex;
    field_.width += latex_width(latex);
    return *this;
  }
  /// In math mode, for proper signs.
  Line& number(const std::string& number) {
    field_.text += "$" + number + "$";
    return widen(number);
  }
  /// Text with signs in math mode.
  Line& tests(const std::string& tests) {
    for (const char c : tests) {
      if (c == '<')
        number("<");
      else
        text(std::string(1, c));
    }
    return *this;
  }
  Line& marked(const std::string& number, Mark mark) {
    if (mark == Mark::kNone) return this->number(number);
    const bool is_signed = number.starts_with('-');
    field_.text += fmt::format("\\{}{{{}{}}}", mark == Mark::kBest ? "textbf" : "underline",
                               is_signed ? "$-$" : "", number.substr(is_signed ? 1 : 0));
    widen(number);
    constexpr double kBold = 1.15;  // width of bold text / width of other text
    if (mark == Mark::kBest) field_.width += (kBold - 1) * latex_width(number);
    return *this;
  }
  Line& interval(const Interval& interval, int digits, bool sign) {
    return text("[")
        .number(number_text(interval.low, digits, sign))
        .text(", ")
        .number(number_text(interval.high, digits, sign))
        .text("]");
  }
  const LatexField& field() const { return field_; }

 private:
  Line& widen(const std::string& number) {
    constexpr double kSign = .778;
    field_.width += latex_width(number);
    if (number.starts_with('-')) field_.width += kSign - latex_width("-");
    return *this;
  }

  LatexField field_;
};

/// Lines of an entry.
class Lines {
 public:
  explicit Lines(EntryLines kind) : kind_(kind) {}
  Line& begin() { return lines_.emplace_back(); }
  Line& last() { return lines_.back(); }
  /// The line on which the text goes on: a new one if entries are narrower than `widest`.
  Line& after(EntryLines widest, const std::string& separator = "") {
    lines_.back().text(separator);
    return kind_ > widest ? begin() : lines_.back().text(" ");
  }
  std::vector<LatexField> fields() const {
    std::vector<LatexField> out;
    for (const Line& line : lines_) out.push_back(line.field());
    if (out.empty()) out.push_back({});
    return out;
  }

 private:
  EntryLines kind_;
  std::vector<Line> lines_;
};

void add_mean(Lines& lines, const Pivot::Entry& e, const EntryColumns& columns) {
  const int digits = e.unit->digits;
  const Estimate& x = e.estimate;
  if (columns.mean) lines.begin().marked(number_text(x.mean, digits), e.mark);
  // Without means, intervals are those of the differences.
  if (!columns.interval || !x.interval || (!columns.mean && columns.difference)) return;
  Line& line = columns.mean ? lines.after(EntryLines::kMedium) : lines.begin();
  line.interval(*x.interval, digits, /*sign=*/false);
}

void add_difference(Lines& lines, const std::optional<Difference>& difference, int digits,
                    const EntryColumns& columns) {
  if (!difference) {
    lines.begin().text("(--)");
    return;
  }
  const Estimate& e = difference->estimate;
  lines.begin().text("(").number(number_text(e.mean, digits, /*sign=*/true));
  if (columns.interval && e.interval)
    lines.after(EntryLines::kMedium).interval(*e.interval, digits, /*sign=*/true);
  lines.after(EntryLines::kWide, ",").tests(tests_text(*difference)).text(")");
}

void add_published(Lines& lines, const Pivot::Entry& e) {
  const int digits = e.unit->digits;
  const std::string paper = "[paper " + published_text(*e.published, digits);
  if (!e.estimate.known) {
    lines.last().text(" " + paper + "]");
    return;
  }
  lines.begin().text(paper);
  lines.after(EntryLines::kMedium, ",")
      .number(published_text(e.estimate.mean - *e.published, digits, /*sign=*/true))
      .tests(equivalence_text(e.published_equivalence))
      .text("]");
}

}  // namespace

std::vector<LatexField> latex_entry(const std::optional<Pivot::Entry>& e,
                                    const EntryColumns& columns, EntryLines kind) {
  if (!e) return {{"--", latex_width("--")}};
  Lines lines(kind);
  const Estimate& x = e->estimate;
  if (!x.known) {
    lines.begin().text(e->missing.empty() ? fmt::format("failed ({})", x.failed) : "--");
  } else {
    add_mean(lines, *e, columns);
    for (const std::optional<Difference>& difference : e->differences) {
      if (columns.difference && e->has_difference())
        add_difference(lines, difference, e->unit->digits, columns);
    }
  }
  if (columns.published && e->published) add_published(lines, *e);
  if (x.known && x.failed > 0) lines.begin().text(fmt::format("{} failed", x.failed));
  return lines.fields();
}

}  // namespace turnbench
