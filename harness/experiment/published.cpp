#include "harness/experiment/published.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// The fields of a line.  Within a quoted field, quotes are doubled.
std::vector<std::string> split_fields(std::string_view line, const std::string& place) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      out.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += line[i];
    }
  }
  if (quoted) throw input_error("{}: found a quote that is not closed, expected its end", place);
  for (std::string& field : out) field = trim(field);
  return out;
}

void check_header(const std::vector<std::string>& header, const std::string& place) {
  std::vector<std::string_view> known = table_dimensions();
  known.insert(known.end(), {"value", "note"});
  for (const std::string& column : header) {
    const auto times = std::count(header.begin(), header.end(), column);
    if (times > 1) {
      throw input_error("{}: found the column \"{}\" {} times, expected it once", place,
                        printable(shorten(column, 40)), times);
    }
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    throw input_error("{}: found the unknown column \"{}\", expected {}", place,
                      printable(shorten(column, 40)), nearest_or_all(column, known));
  }
  if (std::find(header.begin(), header.end(), "value") == header.end()) {
    throw input_error("{}: found no column \"value\", expected one", place);
  }
}

double parse_value(const std::string& text, const std::string& place) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) {
    throw input_error("{}: found the value \"{}\", expected a number", place,
                      printable(shorten(text, 40)));
  }
  return *value;
}

/// True if two rows have the same dimensions, and a common value in each.
bool are_of_one_cell(const PublishedNumber& a, const PublishedNumber& b) {
  const auto meets = [](const auto& x, const auto& y) {
    return x.first == y.first &&
           std::any_of(x.second.begin(), x.second.end(), [&](const std::string& value) {
             return std::find(y.second.begin(), y.second.end(), value) != y.second.end();
           });
  };
  return a.averaged_over == b.averaged_over &&
         std::equal(a.dimensions.begin(), a.dimensions.end(), b.dimensions.begin(),
                    b.dimensions.end(), meets);
}

void refuse_duplicates(const std::vector<PublishedNumber>& rows, const std::string& source) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!are_of_one_cell(rows[i], rows[j])) continue;
      throw input_error("{}: line {}: found a second number for the value of line {}, expected one",
                        source, rows[i].line, rows[j].line);
    }
  }
}

}  // namespace

bool PublishedNumber::matches(
    const std::function<std::string(const std::string&)>& dimension) const {
  return std::all_of(dimensions.begin(), dimensions.end(), [&](const auto& named) {
    const auto& [name, values] = named;
    return std::find(values.begin(), values.end(), dimension(name)) != values.end();
  });
}

std::vector<PublishedNumber> parse_published(std::string_view csv, const std::string& source) {
  std::vector<PublishedNumber> out;
  std::vector<std::string> header;
  std::size_t number = 0;
  if (csv.starts_with("\xEF\xBB\xBF")) csv.remove_prefix(3);
  for (const std::string& line : split(csv, "\n")) {
    const std::string place = fmt::format("{}: line {}", source, ++number);
    if (trim(line).empty() || line[0] == '#') continue;
    std::vector<std::string> fields = split_fields(line, place);
    if (header.empty()) {
      check_header(fields, place);
      header = std::move(fields);
      continue;
    }
    if (fields.size() != header.size()) {
      throw input_error("{}: found {} fields, expected {}", place, fields.size(), header.size());
    }
    PublishedNumber& row = out.emplace_back();
    row.line = number;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (header[i] == "value") {
        row.value = parse_value(fields[i], place);
      } else if (header[i] == "note") {
        row.note = fields[i];
      } else if (fields[i] == "mean") {
        row.averaged_over.push_back(header[i]);
      } else if (!fields[i].empty()) {
        row.dimensions[header[i]] = split(fields[i], " | ");
      }
    }
  }
  return out;
}

std::string read_published(const Manifest& manifest) {
  if (manifest.published.empty()) return "";
  const std::filesystem::path path = manifest.path.parent_path() / manifest.published;
  std::string csv = read_file(path);
  require_utf8(csv, path.string());
  const std::vector<PublishedNumber> rows = parse_published(csv, path.string());
  if (rows.empty()) {
    throw input_error("{}: found no numbers, expected a header and a line for each", path.string());
  }
  refuse_duplicates(rows, path.string());
  return csv;
}

}  // namespace turnbench
