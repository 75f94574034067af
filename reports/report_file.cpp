#include "reports/report_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/store/sqlite.h"

namespace turnbench {
namespace {

constexpr std::string_view kDoctype = "<!doctype html>\n";
constexpr std::string_view kCaptions[] = {
    "\nMeans x100 with 95% intervals over dialogues", "\nMeans with 95% intervals over dialogues",
    "\nMeans x100 over dialogues", "\nMeans over dialogues",  // report --columns
    // As older versions wrote them:
    "\nMeans x100 with 95% intervals (bootstrap over dialogues)",
    "\nMeans with 95% intervals (bootstrap over dialogues), scores x100"};

/// A heading, at most one line of text (the description), and tables with a caption; not other text
/// with a report in it.
bool is_markdown_report(std::string_view text) {
  const bool has_caption =
      std::any_of(std::begin(kCaptions), std::end(kCaptions),
                  [&](std::string_view caption) { return text.find(caption) != text.npos; });
  if (!text.starts_with("# ") || !has_caption) return false;
  int before_tables = -1;  // lines, without the heading
  bool in_tables = false;
  for (const std::string& line : split(text, "\n")) {
    if (line.starts_with("# ") && before_tables >= 0) return false;
    in_tables |= line.starts_with("|") || line.starts_with("**");
    if (!in_tables && !line.empty()) ++before_tables;
  }
  return before_tables <= 1;
}

/// Whether a file is a store, compressed or not, whatever its name.
bool is_store(const std::filesystem::path& path) {
  constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
  std::string begin(kZstd.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == kZstd || is_sqlite(path);
}

bool is_json_report(std::string_view text) {
  if (!text.starts_with('{')) return false;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() &&
         (json.contains("leaderboards") ||
          (json.contains("experiment") && (json.contains("cells") || json.contains("parts"))));
}

/// Whether the first line that is not a comment is the header of a report's csv.
bool is_csv_report(std::string_view text) {
  while (text.starts_with('#')) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  if (text.starts_with("model,best rank,worst rank,")) return true;  // a leaderboard
  const std::vector<std::string> columns = split(text.substr(0, text.find('\n')), ",");
  return std::any_of(columns.begin(), columns.end(), [&](const std::string& low) {
    // From "X low", in quotes or not; the long form has only "low".
    const std::size_t at = low.rfind("low");
    if (at == std::string::npos) return false;
    const auto has = [&](const char* other) {
      const std::string name = low.substr(0, at) + other + low.substr(at + 3);
      return std::find(columns.begin(), columns.end(), name) != columns.end();
    };
    return has("high") && has("n") && has("failed");
  });
}

}  // namespace

bool is_report(std::string_view text) {
  if (text.empty() || text.starts_with(kLatexMark)) return true;
  std::string_view markup = text;
  if (markup.starts_with(kDoctype)) markup.remove_prefix(kDoctype.size());
  return markup.starts_with(kMarkupMark) || is_markdown_report(text) || is_json_report(text) ||
         is_csv_report(text);
}

void write_report(const std::filesystem::path& path, std::string_view report, bool force) {
  if (std::filesystem::is_regular_file(path) && is_store(path)) {
    throw input_error("--output: found the store {}, expected another file",
                      printable(path.string()));
  }
  if (!force) {
    require_own_file(
        path, "report", [&] { return is_report(read_file(path)); },
        "another name, or --force to replace it");
  }
  write_file(path, report);
}

}  // namespace turnbench
