#include "longbench_samples.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/random.h"
#include "common/text.h"

namespace turnbench::test {
namespace {

constexpr std::array<std::string_view, 24> kWords = {
    "lantern", "harbour", "engine", "willow",  "copper",  "orchard", "signal",   "meadow",
    "granite", "barrel",  "ribbon", "compass", "furnace", "pepper",  "glacier",  "thread",
    "anchor",  "marble",  "saddle", "velvet",  "quarry",  "needle",  "telegram", "bridge"};
constexpr std::array<std::string_view, 16> kCharacters = {
    "山", "水", "火", "木", "金", "土", "日", "月", "风", "云", "雨", "雪", "花", "草", "鸟", "鱼"};

std::string words(Random& random, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.emplace_back(random.choice(kWords));
  return join(out, " ");
}

std::string prose(Random& random, int sentences, bool chinese, std::string_view between) {
  return join(make_sentences(sentences, random.next(), chinese), between);
}

/// Every context contains the record's id, so that no two contexts are equal.
std::string context_of(const LongBenchTask& task, const std::string& id, Random& random) {
  const bool chinese = task.language == "zh";
  const int pieces = static_cast<int>(random.between(5, 9));
  std::string out;
  if (task.layout.split == SplitRule::kCode) {
    for (int i = 0; i < 12 * pieces; ++i) {
      const std::string_view name = random.choice(kWords);
      out += fmt::format("    {} = {}(\"{}\")\n", name, random.choice(kWords), id);
    }
    return out;
  }
  for (int i = 1; i <= pieces; ++i) {
    const ContextLayout& layout = task.layout;
    if (layout.numbered) {
      out += fmt::format("{}{}{}\nAbout {}.\n{}\n\n", layout.marker, i, layout.suffix, id,
                         prose(random, 12, chinese, chinese ? "" : " "));
    } else if (!layout.marker.empty()) {
      out += fmt::format("{}{}{} {}\n", layout.marker, words(random, 8), layout.answer, id);
    } else if (layout.split == SplitRule::kLines) {
      for (int line = 0; line < 8; ++line) {
        out += fmt::format("Speaker {}: {} and so, {},\n", line % 3, id, words(random, 20));
      }
    } else {
      out += fmt::format("{}{}\n\n", chinese ? "" : fmt::format("Part of {}. ", id),
                         prose(random, 14, chinese, chinese ? "" : " "));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> make_sentences(int count, std::uint64_t seed, bool chinese) {
  Random random(seed);
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    if (chinese) {
      std::string text;
      for (int c = 0; c < 14; ++c) text += random.choice(kCharacters);
      out.push_back(i % 3 == 0 ? fmt::format("“{}！”", text) : fmt::format("{}。", text));
      continue;
    }
    const std::string text = words(random, 9);
    switch (i % 5) {
      case 0:
        out.push_back(
            fmt::format("Dr. B. Smith of the U.S. Navy, No. 7, paid 3.50 for a {}.", text));
        break;
      case 1:
        out.push_back(fmt::format("\"Is the {} here?\"", text));
        break;
      case 2:
        out.push_back(fmt::format("See Fig. 3 on the {} (e.g. by Jones et al. in Vol. 12).", text));
        break;
      case 3:
        out.push_back(fmt::format("Is this a {}?", text));
        break;
      default:
        out.push_back(fmt::format("The {}\nwas wrapped here.", text));
    }
  }
  return out;
}

std::vector<LongBenchRecord> make_records(const LongBenchTask& task, int count,
                                          std::uint64_t seed) {
  Random random = Random::from({seed, seed_of(task.name)});
  std::vector<LongBenchRecord> out;
  for (int i = 0; i < count; ++i) {
    LongBenchRecord record;
    record.id = fmt::format("{}:{}", task.name, i);
    record.language = task.language;
    if (task.wording.default_question.empty())
      record.input = fmt::format("Where is the {} {}?", i, words(random, 4));
    record.context = context_of(task, record.id, random);
    record.answers = {fmt::format("answer {} {}", i, words(random, 2))};
    if (task.metric == "classification") record.classes = {"first class", "second class"};
    record.length = 1000 + i;
    out.push_back(std::move(record));
  }
  return out;
}

std::string to_native_line(std::string_view dataset, const LongBenchRecord& record) {
  nlohmann::ordered_json json = {{"input", record.input},     {"context", record.context},
                                 {"answers", record.answers}, {"length", record.length},
                                 {"dataset", dataset},        {"language", record.language},
                                 {"all_classes", nullptr},    {"_id", record.id}};
  if (!record.classes.empty()) json["all_classes"] = record.classes;
  return json.dump();
}

std::filesystem::path shared_longbench() {
  return std::filesystem::path(TURNBENCH_SOURCE_DIR) / ".." / "shared" / "data" / "longbench";
}

}  // namespace turnbench::test
