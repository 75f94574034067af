#include "datasets/jsonl.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"

namespace turnbench {

void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const JsonView&)>& visit) {
  bool empty = true;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    const std::string source = fmt::format("{}:{}", path.string(), number);
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (number == 1 && line.starts_with(kMark)) line.remove_prefix(kMark.size());
    // The JSON parser would skip it silently.
    if (line.starts_with(kMark)) {
      throw input_error("{}: found a byte order mark, expected a JSON object", source);
    }
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    empty = false;
    const Json json = parse_json(line, source);
    const JsonView view(json, source);
    if (!view.is_object()) view.fail("an object");
    visit(view);
  });
  if (empty) throw input_error("{}: found an empty file, expected jsonl", path.string());
}

}  // namespace turnbench
