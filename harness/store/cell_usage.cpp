#include "harness/store/cell_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "harness/store/schema.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

std::string share_text(const CellUsage& usage) {
  return fmt::format("{} of {}", usage.limited, usage.answers);
}

/// "; by method: full 9 of 18, quest 0 of 18"; empty if the values of the dimension do not differ.
std::string by_dimension(const char* name, const std::vector<Cell>& cells,
                         std::string Cell::*dimension,
                         const std::map<std::string, CellUsage>& by_cell) {
  constexpr std::size_t kNamed = 12;
  std::vector<std::string> values;  // in the order of the cells
  std::map<std::string, CellUsage> usages;
  std::set<std::pair<std::string, std::string>> seen;  // value, cell
  for (const Cell& cell : cells) {
    const auto found = by_cell.find(cell.key);
    if (found == by_cell.end() || found->second.answers == 0) continue;
    if (!seen.emplace(cell.*dimension, cell.key).second) continue;
    const auto [usage, is_new] = usages.try_emplace(cell.*dimension);
    if (is_new) values.push_back(cell.*dimension);
    usage->second += found->second;
  }
  // If more values have no limited answer, only their number is printed.
  constexpr std::ptrdiff_t kListedNone = 2;
  const std::ptrdiff_t none =
      std::count_if(values.begin(), values.end(),
                    [&](const std::string& value) { return usages.at(value).limited == 0; });
  std::vector<std::string> texts;
  std::set<std::string> shares;
  for (const std::string& value : values) {
    const CellUsage& usage = usages.at(value);
    shares.insert(share_text(usage));
    if (usage.limited > 0 || none <= kListedNone)
      texts.push_back(fmt::format("{} {}", printable(value), share_text(usage)));
  }
  if (shares.size() < 2) return "";
  if (texts.size() > kNamed) {
    const std::size_t more = texts.size() - kNamed;
    texts.resize(kNamed);
    texts.push_back(fmt::format("and {} more", more));
  }
  if (none > kListedNone) texts.push_back(fmt::format("none of {} others", none));
  return fmt::format("; by {}: {}", name, join(texts, ", "));
}

/// A generated answer.
struct AnswerSize {
  int prompt_tokens, tokens;
  bool stopped;

  /// Tokens that full attention reads per step, on average: each step reads the preceding tokens
  /// and its own.  The last token of an answer that reached its limit is never read.
  double read_by_full() const {
    const int steps = tokens - (stopped ? 0 : 1);
    return prompt_tokens + (steps + 1) / 2.0;
  }
};

/// The counters of a record that show how much of attention was omitted.
struct Counted {
  std::optional<double> kept, read, pairs;
};

CellUsage usage_of(const AnswerSize& answer, const Counted& counted) {
  constexpr double kRounding = 1e-9;
  const auto reaches = [](const std::optional<double>& x, double full) {
    return *x >= full * (1 - kRounding);
  };
  CellUsage out;
  out.answers = 1;
  out.limited = answer.stopped ? 0 : 1;
  out.longest_prompt = answer.prompt_tokens;
  out.prompt.add(answer.prompt_tokens);
  if (counted.kept) out.kept.add(*counted.kept);
  if (counted.read) {
    out.read.add(*counted.read);
    out.answered.add(answer.read_by_full() - answer.prompt_tokens);
  }
  // An answer of one token needs no step.
  const bool as_full = counted.kept && reaches(counted.kept, answer.prompt_tokens) &&
                       counted.pairs && reaches(counted.pairs, 1) &&
                       (!counted.read || reaches(counted.read, answer.read_by_full()));
  out.as_full = as_full ? 1 : 0;
  return out;
}

/// The counters of cells, looked up in the order of their records.
class CounterWalk {
 public:
  explicit CounterWalk(const Database& db)
      : rows_(db.prepare(cell_rows_sql(
            db, "counter",
            fmt::format("x.value, CASE x.name WHEN {} THEN {} WHEN {} THEN {} ELSE {} END",
                        name_sql(db, kKept), kIsKept, name_sql(db, kRead), kIsRead, kIsPairs),
            fmt::format("x.name IN ({}, {}, {})", name_sql(db, kKept), name_sql(db, kRead),
                        name_sql(db, kPairs))))) {}

  void begin(const std::string& cell) {
    rows_.reset();
    rows_ << cell;
    more_ = rows_.next();
  }

  /// The counters of a record after those that were already looked up.
  Counted find(std::string_view dialogue, std::int64_t turn) {
    Counted out;
    for (; more_; more_ = rows_.next()) {
      const int order = rows_.view(0).compare(dialogue);
      if (order > 0 || (order == 0 && rows_.integer(1) > turn)) break;
      if (order < 0 || rows_.integer(1) < turn) continue;
      const std::int64_t counter = rows_.integer(3);
      (counter == kIsKept ? out.kept : counter == kIsRead ? out.read : out.pairs) = rows_.real(2);
    }
    return out;
  }

 private:
  // SQL texts, and the numbers that the query gives for them.
  static constexpr const char *kKept = "'kv_tokens'", *kRead = "'attended_tokens'",
                              *kPairs = "'prefill_pairs_share'";
  static constexpr std::int64_t kIsKept = 0, kIsRead = 1, kIsPairs = 2;

  Statement rows_;
  bool more_ = false;
};

}  // namespace

CellUsage& CellUsage::operator+=(const CellUsage& other) {
  answers += other.answers;
  limited += other.limited;
  as_full += other.as_full;
  longest_prompt = std::max(longest_prompt, other.longest_prompt);
  const auto add = [](Mean& to, const Mean& more) {
    to.sum += more.sum;
    to.count += more.count;
  };
  add(prompt, other.prompt);
  add(kept, other.kept);
  add(read, other.read);
  add(answered, other.answered);
  return *this;
}

bool has_length_limit(const Cell& cell) {
  if (is_probe(cell)) return false;
  const Json card = Json::parse(cell.protocol_text, nullptr, /*allow_exceptions=*/false);
  return !card.is_object() || (!card.contains("isolated") && !card.contains("alone"));
}

std::string describe_limited(const std::vector<Cell>& cells,
                             const std::map<std::string, CellUsage>& by_cell) {
  std::vector<Cell> counted;
  for (const Cell& cell : cells) {
    if (has_length_limit(cell)) counted.push_back(cell);
  }
  CellUsage all;
  std::set<std::string> seen;
  for (const Cell& cell : counted) {
    const auto found = by_cell.find(cell.key);
    if (found != by_cell.end() && seen.insert(cell.key).second) all += found->second;
  }
  if (all.limited == 0) return "";
  return share_text(all) + " answers reached their length limit" +
         by_dimension("dataset", counted, &Cell::dataset, by_cell) +
         by_dimension("method", counted, &Cell::method, by_cell);
}

std::map<std::string, CellUsage> Store::usages(const std::string& experiment) const {
  std::map<std::string, CellUsage> out;
  // Imported answers have no prompt.
  Statement records = db_->prepare(cell_rows_sql(
      *db_, "record", "x.prompt_tokens, x.stopped, json_array_length(x.answer_tokens)",
      "x.status = 'ok' AND x.prompt_tokens > 0"));
  CounterWalk counters(*db_);
  for (const std::string& cell : cell_keys(*db_, experiment)) {
    counters.begin(cell);
    records << cell;
    while (records.next()) {
      const AnswerSize answer{static_cast<int>(records.integer(2)),
                              static_cast<int>(records.integer(4)), records.integer(3) != 0};
      out[cell] += usage_of(answer, counters.find(records.view(0), records.integer(1)));
    }
    records.reset();
  }
  return out;
}

}  // namespace turnbench
