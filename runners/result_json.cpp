#include "runners/result_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace turnbench {
namespace {

Json to_json(const std::vector<Record::NamedValue>& values) {
  Json out = Json::array();
  for (const auto& [name, value] : values) out.push_back({name, value});
  return out;
}

std::vector<Record::NamedValue> values_from(const Json& json) {
  std::vector<Record::NamedValue> out;
  for (const Json& value : json)
    out.push_back({value[0].get<std::string>(), value[1].get<double>()});
  return out;
}

}  // namespace

Json result_to_json(const UnitResult& result, const std::vector<ScoreValue>& scores) {
  Json records = Json::array(), values = Json::array();
  for (const Record& r : result.records) {
    records.push_back({{"cell", r.cell},
                       {"dialogue", r.dialogue},
                       {"turn", r.turn},
                       {"status", static_cast<int>(r.status)},
                       {"error", r.error},
                       {"prompt_hash", r.prompt_hash},
                       {"prompt_tokens", r.prompt_tokens},
                       {"truncated_tokens", r.truncated_tokens},
                       {"answer", r.answer},
                       {"answer_tokens", r.answer_tokens},
                       {"stopped", r.stopped},
                       {"counters", to_json(r.counters)},
                       {"timings", to_json(r.timings)},
                       {"ledger", r.ledger}});
  }
  for (const ScoreValue& s : scores)
    values.push_back({s.cell, s.dialogue, s.turn, s.metric, s.postprocess, s.value});
  return {{"records", std::move(records)},
          {"scores", std::move(values)},
          {"prefilled_tokens", result.prefilled_tokens},
          {"decoded_tokens", result.decoded_tokens},
          {"engine_seconds", result.engine_seconds},
          {"lost_device", result.lost_device}};
}

UnitResult result_from_json(const Json& json) {
  UnitResult out;
  for (const Json& r : json.at("records")) {
    Record& record = out.records.emplace_back();
    record.cell = r.at("cell");
    record.dialogue = r.at("dialogue");
    record.turn = r.at("turn");
    record.status = static_cast<Record::Status>(r.at("status").get<int>());
    record.error = r.at("error");
    record.prompt_hash = r.at("prompt_hash");
    record.prompt_tokens = r.at("prompt_tokens");
    record.truncated_tokens = r.at("truncated_tokens");
    record.answer = r.at("answer");
    record.answer_tokens = r.at("answer_tokens").get<std::vector<int>>();
    record.stopped = r.at("stopped");
    record.counters = values_from(r.at("counters"));
    record.timings = values_from(r.at("timings"));
    record.ledger = r.at("ledger");
  }
  out.prefilled_tokens = json.at("prefilled_tokens");
  out.decoded_tokens = json.at("decoded_tokens");
  out.engine_seconds = json.at("engine_seconds");
  out.lost_device = json.at("lost_device");
  return out;
}

std::vector<ScoreValue> scores_from_json(const Json& json) {
  std::vector<ScoreValue> out;
  for (const Json& s : json.at("scores")) {
    out.push_back({s[0].get<std::string>(), s[1].get<std::string>(), s[2].get<int>(),
                   s[3].get<std::string>(), s[4].get<std::string>(), s[5].get<double>()});
  }
  return out;
}

}  // namespace turnbench
