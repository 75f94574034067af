#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/json.h"
#include "harness/store/record_keys.h"
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

/// The times of a turn: of its prompt or probe, and of its answer.
struct TurnTimes {
  std::optional<double> prefill, decode;
};

/// The times of cells, looked up in the order of their records.
class TimingWalk {
 public:
  explicit TimingWalk(const Database& db)
      : rows_(db.prepare(cell_rows_sql(
            db, "timing", fmt::format("x.value, x.name = {}", name_sql(db, "'decode_share'")),
            fmt::format("x.name IN ({}, {}, {})", name_sql(db, "'prefill_share'"),
                        name_sql(db, "'decode_share'"), name_sql(db, "'probe_share'"))))) {}

  void begin(const std::string& cell) {
    rows_.reset();
    rows_ << cell;
    more_ = rows_.next();
  }

  /// The times of a turn after those that were already looked up.
  TurnTimes find(std::string_view dialogue, std::int64_t turn) {
    TurnTimes out;
    for (; more_; more_ = rows_.next()) {
      const int order = rows_.view(0).compare(dialogue);
      if (order > 0 || (order == 0 && rows_.integer(1) > turn)) break;
      if (order < 0 || rows_.integer(1) < turn) continue;
      (rows_.integer(3) != 0 ? out.decode : out.prefill) = rows_.real(2);
    }
    return out;
  }

 private:
  Statement rows_;
  bool more_ = false;
};

}  // namespace

std::vector<TimedDialogue> Store::timed_dialogues(const std::string& environment) const {
  std::set<std::string, std::less<>> alike;  // ids of environments of matching machines
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
      cell_rows_sql(*db_, "record",
                    "x.environment, x.prompt_tokens, json_array_length(x.answer_tokens), x.stopped",
                    "x.status = 'ok'"));
  TimingWalk timings(*db_);
  const StoredTexts environment_of = StoredTexts::environments(*db_);
  std::vector<TimedDialogue> out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string dialogue;
    bool first = true;
    timings.begin(keys[i]);
    records << keys[i];
    while (records.next()) {
      const TurnTimes times = timings.find(records.view(0), records.integer(1));
      if (!times.prefill && !times.decode) continue;
      if (!alike.contains(environment_of.of(records, 2))) continue;
      if (first || records.view(0) != dialogue) {
        dialogue = records.text(0);
        out.push_back(cells[i]);
      }
      first = false;
      TimedDialogue& timed = out.back();
      timed.decode_seconds += times.decode.value_or(0);
      if (!times.prefill) continue;
      timed.prefill_seconds += *times.prefill;
      timed.prompt_tokens = std::max(timed.prompt_tokens, static_cast<int>(records.integer(3)));
      const auto tokens = static_cast<std::size_t>(records.integer(4));
      const bool ended = records.integer(5) != 0;
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
