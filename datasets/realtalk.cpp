#include "datasets/realtalk.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr int kRealtalkAnswerTokens = 64;  // the official code sets no limit

constexpr int kRealtalkOpenDomain = 3;

constexpr MemoryCategory kRealtalkCategories[] = {
    {1, "multi-hop", "answers from several messages of a real conversation", "locomo_multi_hop"},
    {2, "temporal", "times of events in a real conversation", "locomo_f1"},
    {kRealtalkOpenDomain, "open-domain",
     "conclusions from a real conversation and general knowledge", "locomo_f1"},
};

constexpr std::string_view kRealtalkChats[] = {
    "Chat_1_Emi_Elise",       "Chat_2_Kevin_Elise",     "Chat_3_Kevin_Paola",
    "Chat_4_Emi_Paola",       "Chat_5_Nicolas_Nebraas", "Chat_6_Vanessa_Nicolas",
    "Chat_7_Nebraas_Vanessa", "Chat_8_Akib_Muhhamed",   "Chat_9_Fahim_Akib",
    "Chat_10_Fahim_Muhhamed",
};

std::vector<std::string> paths_of(std::string_view chat) {
  return {fmt::format("{}.json", chat), fmt::format("data/{}.json", chat)};
}

Turn realtalk_turn(const JsonView& view, int category, std::span<const Paragraph> messages) {
  Turn turn;
  turn.question = question_text(view);
  std::string answer = answer_text(view.at("answer"));
  if (category == kRealtalkOpenDomain) answer = trim(answer.substr(0, answer.find(';')));
  if (answer.empty()) view.at("answer").fail("an answer before \";\"");
  turn.references = {std::move(answer)};
  turn.gold = turn.references.front();
  turn.relevance = evidence_of(view.at("evidence"), messages);
  turn.max_new_tokens = kRealtalkAnswerTokens;
  return turn;
}

MemoryConversation read_chat(const fs::path& file, int category, LeftOutQuestions& left_out) {
  const Json json = parse_json(read_file(file), file.string());
  const JsonView view(json, file.string());
  for (const std::string& key : view.keys()) {
    const std::string_view kEvents = "events_";
    const bool events =
        key.starts_with(kEvents) && is_session_key(std::string_view(key).substr(kEvents.size()));
    if (!events && !is_session_key(key) && key != "name" && key != "qa")
      view.at(key).fail("no such key");
  }
  MemoryConversation out;
  out.id = file.stem().string();
  out.instruction = fmt::format(
      "The following text is a conversation between {} and {} over several weeks. Each session "
      "begins with its date. Answer the question with a short phrase; an approximate date is "
      "enough.",
      view.at("name").at("speaker_1").as_string(), view.at("name").at("speaker_2").as_string());
  out.messages = read_sessions(view, "clean_text", {"date_time", "img_file", "img_url"});
  std::size_t index = 0;
  for (const JsonView& qa : view.at("qa").items()) {
    qa.require_known_keys({"question", "answer", "evidence", "category"});
    const auto number = static_cast<int>(qa.at("category").as_integer(1, kRealtalkOpenDomain));
    std::string id = fmt::format("{}_qa{}", out.id, index++);
    if (left_out.contains(id) || number != category) continue;
    out.questions.push_back({std::move(id), realtalk_turn(qa, number, out.messages)});
  }
  return out;
}

}  // namespace

std::span<const MemoryCategory> realtalk_categories() {
  return kRealtalkCategories;
}

std::vector<std::string> realtalk_files() {
  return paths_of(kRealtalkChats[0]);
}

std::vector<Dialogue> read_realtalk(const fs::path& source, const MemoryCategory& category,
                                    MemoryForm form, const std::string& name,
                                    const BuildOptions& options) {
  std::vector<fs::path> files;
  for (const std::string_view chat : kRealtalkChats) {
    files.push_back(find_source_file(source, paths_of(chat)));
    if (files.back() == source) break;  // a file
  }
  LeftOutQuestions left_out(options.leave_out);
  std::vector<MemoryConversation> out;
  for (const fs::path& file : files) out.push_back(read_chat(file, category.number, left_out));
  left_out.require_found(source.string());
  return memory_dialogues(out, form, name, category.metric, options);
}

}  // namespace turnbench
