#include <fmt/format.h>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/notes.h"
#include "reports/render.h"

namespace turnbench {
namespace {

/// Fields of a line: text that is anybody's, and numbers as they are.
class CsvLine {
 public:
  CsvLine& text(const std::string& text) {
    fields_.push_back(csv_field(text));
    return *this;
  }
  CsvLine& number(const std::string& number) {
    fields_.push_back(number);
    return *this;
  }
  CsvLine& number(std::size_t count) { return number(std::to_string(count)); }
  CsvLine& number(int count) { return number(std::to_string(count)); }
  std::string str() const { return join(fields_, ",") + "\n"; }

 private:
  std::vector<std::string> fields_;
};

/// Comments in front of the numbers of a smoke run, or of other sources.
std::string csv_warning(const Results& results) {
  std::string out;
  const auto add = [&out](const std::string& text) {
    if (!text.empty()) out += "# " + one_line(text) + "\n";
  };
  add(results.manifest().smoke);
  add(stale_note(results));
  return out;
}

std::string csv_table(const Pivot& p) {
  const bool pending = p.has_pending(), missing = p.has_missing(), published = p.has_published(),
             remarked = p.has_published_notes();
  CsvLine header;
  for (const std::string& d : p.row_dimensions) header.text(d);
  for (const auto& column : p.columns) {
    std::vector<std::string> suffixes = {"", " low", " high", " n", " turns", " failed"};
    if (pending) suffixes.emplace_back(" pending");
    if (missing) suffixes.emplace_back(" missing");
    if (published) suffixes.insert(suffixes.end(), {" published", " difference"});
    if (remarked) suffixes.emplace_back(" note");
    for (const std::string& suffix : suffixes) header.text(join(column, " / ") + suffix);
  }
  std::string out = header.str();
  const int digits = p.value->digits + 1;
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    CsvLine line;
    for (const std::string& value : p.rows[r]) line.text(value);
    for (const auto& entry : p.entries[r]) {
      const Pivot::Entry e = entry.value_or(Pivot::Entry());
      const Estimate& x = e.estimate;
      for (double value : {x.mean, x.low, x.high})
        line.number(x.known ? fmt::format("{:.{}f}", value, digits) : "");
      line.number(x.dialogues).number(x.turns).number(x.failed);
      if (pending) line.number(e.pending);
      if (missing) line.text(join(e.missing, "; "));
      if (published) {
        line.number(e.published ? fmt::format("{:.2f}", *e.published) : "");
        line.number(e.published && x.known ? fmt::format("{:.2f}", x.mean - *e.published) : "");
      }
      if (remarked) line.text(join(e.published_notes, "; "));
    }
    out += line.str();
  }
  return out;
}

}  // namespace

std::string render_csv(const Results& results) {
  std::string out;
  for (const TableSpec& spec : results.manifest().tables) {
    if (!out.empty()) out += "\n";
    out += csv_warning(results) + csv_table(make_pivot(results, spec));
  }
  return out;
}

std::string render_csv_long(const Results& results) {
  CsvLine header;
  for (const char* name : {"model", "dataset", "position", "method", "history", "answers", "metric",
                           "mean", "low", "high", "n", "failed", "published", "turns", "pending"}) {
    header.text(name);
  }
  std::string out = csv_warning(results) + header.str();
  for (const CellLine& line : cell_lines(results)) {
    const Cell& cell = line.cell;
    const Estimate& e = line.estimate;
    CsvLine fields;
    for (const std::string* text : {&cell.model, &cell.dataset, &cell.position, &cell.method,
                                    &cell.history, &cell.answers, &cell.metric}) {
      fields.text(*text);
    }
    for (double value : {e.mean, e.low, e.high})
      fields.number(e.known ? fmt::format("{}", value) : "");
    fields.number(e.dialogues).number(e.failed);
    fields.number(line.published ? fmt::format("{}", line.published->value) : "");
    out += fields.number(e.turns).number(line.pending).str();
  }
  return out;
}

}  // namespace turnbench
