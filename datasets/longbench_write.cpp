#include "datasets/longbench_write.h"

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr int kLongBenchWriteAnswerTokens = 32768;
constexpr std::int64_t kMaxLength = 1'000'000;

}  // namespace

std::vector<Dialogue> read_longbench_write(const std::filesystem::path& file,
                                           const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"prompt", "type", "length"});
    view.at("type").as_string();
    Turn turn;
    turn.question = view.at("prompt").as_string();
    if (trim(turn.question).empty()) view.at("prompt").fail("a prompt");
    turn.references = {std::to_string(view.at("length").as_integer(1, kMaxLength))};
    turn.has_gold = false;
    turn.max_new_tokens = kLongBenchWriteAnswerTokens;
    out.push_back({.id = fmt::format("{}-{:04}", name, out.size()),
                   .dataset = name,
                   .task = "writing",
                   .metric = "longbench_write_length",
                   .turns = {std::move(turn)}});
  });
  return out;
}

}  // namespace turnbench
