#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

/// The fields of an environment card that describe the machine.
std::vector<std::string> machine_in(const std::string& card) {
  const Json json = Json::parse(card, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  std::vector<std::string> out;
  for (const char* key : {"backend", "system", "processors"})
    out.push_back(json.contains(key) ? json.at(key).dump() : "");
  return out;
}

bool is_isolated(const std::string& protocol_card) {
  const Json json = Json::parse(protocol_card, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("isolated");
}

}  // namespace

std::vector<TimedDialogue> Store::timed_dialogues(const std::string& environment) const {
  std::set<std::string> alike;  // ids of environments of matching machines
  Statement environments = db_->prepare("SELECT id, json FROM environment");
  while (environments.next()) {
    if (machine_in(environments.text(1)) == machine_in(environment))
      alike.insert(environments.text(0));
  }
  std::vector<TimedDialogue> cells;
  std::vector<std::string> keys;
  Statement all = db_->prepare(
      "SELECT c.key, c.model, c.method, c.dataset, p.json FROM cell c "
      "JOIN protocol p ON p.id = c.protocol");
  while (all.next()) {
    keys.push_back(all.text(0));
    cells.push_back({.model_hash = all.text(1),
                     .method = all.text(2),
                     .dataset_hash = all.text(3),
                     .isolated = is_isolated(all.text(4))});
  }
  Statement records = db_->prepare(
      "SELECT r.dialogue, r.environment, r.prompt_tokens, json_array_length(r.answer_tokens), "
      "r.stopped, t.name, t.value FROM record r JOIN timing t ON t.cell = r.cell "
      "AND t.dialogue = r.dialogue AND t.turn = r.turn "
      "WHERE r.cell = ? AND r.status = 'ok' "
      "AND t.name IN ('prefill_share', 'decode_share', 'probe_share') "
      "ORDER BY r.dialogue, r.turn, t.name");
  std::vector<TimedDialogue> out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string dialogue;
    records << keys[i];
    for (bool first = true; records.next(); first = false) {
      if (!alike.contains(records.text(1))) continue;
      if (first || records.view(0) != dialogue) {
        dialogue = records.text(0);
        out.push_back(cells[i]);
      }
      TimedDialogue& timed = out.back();
      if (records.view(5) == "decode_share") {
        timed.decode_seconds += records.real(6);
        continue;
      }
      // Once for each turn.
      timed.prefill_seconds += records.real(6);
      timed.prompt_tokens = std::max(timed.prompt_tokens, static_cast<int>(records.integer(2)));
      const auto tokens = static_cast<std::size_t>(records.integer(3));
      const bool ended = records.integer(4) != 0;
      ++timed.answers;
      timed.cut_answers += !ended;
      timed.answer_tokens += tokens;
      timed.ended_tokens += ended ? tokens : 0;
    }
    records.reset();
  }
  return out;
}

}  // namespace turnbench
