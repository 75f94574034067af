#include "judges/judge.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "harness/run/history.h"
#include "harness/store/cell.h"
#include "harness/store/dialogue_writer.h"
#include "judges/prompt.h"
#include "judges/reply.h"

namespace turnbench {
namespace {

/// An answer, and the ordinals of its missing judgements.
struct Item {
  const Cell* cell;
  std::string dialogue;
  int turn = 0;
};
struct Task {
  std::size_t item = 0;
  int ordinal = 0;
};

Judge judge_of(const Rubric& rubric, const std::string& model) {
  return {hash_text(rubric.hash + " " + model), rubric.name, rubric.hash, rubric.text, model};
}

/// One run over the answers.  All functions except `work` run on one thread.
class Judging {
 public:
  Judging(Store& store, const Rubric& rubric, const JudgeOptions& options)
      : store_(store),
        rubric_(rubric),
        options_(options),
        judge_(judge_of(rubric, options.chat.model)),
        endpoint_(options.chat.url),
        url_(endpoint_.url().display) {
    summary_.postprocess = name_of(judge_);
    store_.add_judge(judge_);
    for (const std::string& experiment : options.experiments) collect(experiment);
    summary_.progress.judgements = tasks_.size();
  }

  JudgeSummary run(const std::function<bool()>& should_stop,
                   const std::function<void(const JudgeProgress&)>& report) {
    const auto start = Clock::now();
    const auto stopped = [&] { return stop_ || should_stop(); };
    const auto workers = std::min(static_cast<std::size_t>(options_.concurrency), tasks_.size());
    ThreadPool pool(std::max(1, static_cast<int>(workers)));
    std::deque<ChatClient> clients;  // one for each worker
    for (int i = 0; i < pool.size(); ++i) clients.emplace_back(options_.chat, endpoint_);
    pool.parallel_for(tasks_.size(), [&](std::size_t i, int worker) {
      try {
        if (stopped() || !work(clients[worker], tasks_[i], stopped)) return;
      } catch (...) {
        stop_ = true;  // so that the other workers do not wait for a retry
        throw;
      }
      std::lock_guard lock(mutex_);
      summary_.progress.seconds = seconds_since(start);
      report(summary_.progress);
    });
    summary_.stopped = summary_.progress.done < tasks_.size();
    return summary_;
  }

 private:
  void collect(const std::string& experiment) {
    std::map<std::string, const Cell*> cells;
    for (Cell& cell : store_.cells(experiment)) {
      if (is_probe(cell) || !seen_.insert(cell.key).second) continue;
      cells_.push_back(std::move(cell));
      cells[cells_.back().key] = &cells_.back();
    }
    store_.for_each_answered_dialogue(
        experiment, [&](const StoredDialogue& dialogue, const std::vector<Store::Answer>& answers) {
          // If a run was interrupted between the last reply and the scores, the scores are missing.
          std::vector<ScoreValue> scores;
          for (const Store::Answer& a : answers) {
            const auto cell = cells.find(a.cell);
            if (cell == cells.end() || (rubric_.last_turn && a.turn != dialogue.turns - 1))
              continue;
            for (ScoreValue& score : collect({cell->second, dialogue.id, a.turn}))
              scores.push_back(std::move(score));
          }
          store_.put_scores(scores, true);
        });
  }

  /// Plans the missing judgements of an answer; failed ones are requested again.  Returns the
  /// scores of an answer without missing judgements.
  std::vector<ScoreValue> collect(const Item& item) {
    std::set<int> there;
    const std::vector<Judgement> judgements = judgements_of(item);
    for (const Judgement& j : judgements) {
      if (j.status == Judgement::Status::kFailed) continue;
      there.insert(j.ordinal);
      count_reply(j, item);
    }
    summary_.stored += there.size();
    const std::size_t before = tasks_.size();
    for (int i = 0; i < options_.judgements; ++i) {
      if (!there.contains(i)) tasks_.push_back({items_.size(), i});
    }
    items_.push_back(item);
    if (tasks_.size() > before) return {};
    return scores_of(judgements);
  }

  /// Counts a parsed reply, or keeps it as the example of unparsed replies.
  void count_reply(const Judgement& judgement, const Item& item) {
    summary_.read += judgement.status == Judgement::Status::kOk;
    if (judgement.status != Judgement::Status::kUnparsed || !summary_.unparsed.empty()) return;
    constexpr std::size_t kShown = 300;  // bytes of the reply
    summary_.unparsed =
        fmt::format("{}: {}: \"{}\"", place_of(item), judgement.error,
                    printable(shorten(trim(completion_text(judgement.reply)), kShown)));
  }

  static std::string place_of(const Item& item) {
    return fmt::format("{}, turn {}", printable(item.dialogue), item.turn + 1);
  }

  std::vector<Judgement> judgements_of(const Item& item) const {
    return store_.judgements(judge_.id, item.cell->key, item.dialogue, item.turn);
  }

  /// The scores of an answer from all its judgements; empty until there are as many replies as
  /// requested.
  std::vector<ScoreValue> scores_of(const std::vector<Judgement>& judgements) const {
    std::map<std::string, double> sums;
    int replies = 0, read = 0;
    for (const Judgement& j : judgements) {
      replies += j.status != Judgement::Status::kFailed;
      if (j.status != Judgement::Status::kOk) continue;
      ++read;
      for (const auto& [name, value] : j.scores) sums[name] += value;
    }
    std::vector<ScoreValue> out;
    if (replies < options_.judgements || read == 0) return out;
    const Judgement& any = judgements.front();
    for (const auto& [metric, sum] : sums) {
      out.push_back({any.cell, any.dialogue, any.turn, metric, summary_.postprocess,
                     sum / read / rubric_.high});
    }
    return out;
  }

  std::string prompt_of(const Item& item) {
    std::lock_guard lock(mutex_);
    const Dialogue dialogue = store_.parse(store_.dialogue(item.cell->dataset_hash, item.dialogue));
    if (lacks_text(dialogue.turns[item.turn])) {
      throw input_error(
          "{}: found no texts of the dialogue {}, expected a store that has them (this one is a "
          "copy made with --without-texts)",
          printable(store_.path()), printable(item.dialogue));
    }
    std::map<int, std::string> answers = store_.answers(item.cell->key, item.dialogue);
    if (item.cell->answers == name_of(Answers::kGold)) {
      for (int t = 0; t < item.turn; ++t) answers[t] = gold_answer_text(dialogue.turns[t]);
    }
    const Position position = parse_position(item.cell->position, store_.path());
    return judge_prompt(rubric_, with_questions_at(dialogue, position), item.turn, answers);
  }

  /// Requests one judgement and stores it; false if it was stopped before a reply.
  bool work(ChatClient& client, const Task& task, const std::function<bool()>& stopped) {
    const Item& item = items_[task.item];
    ChatRequest request;
    request.prompt = prompt_of(item);
    request.temperature = rubric_.temperature;
    request.max_tokens = rubric_.max_tokens;
    request.seed = Random::from({seed_of(item.cell->key), seed_of(item.dialogue),
                                 static_cast<std::uint64_t>(item.turn),
                                 static_cast<std::uint64_t>(task.ordinal)})
                       .next();
    const ChatReply reply = client.ask(request, stopped);
    if (reply.status == ChatReply::Status::kStopped) return false;
    if (reply.status == ChatReply::Status::kNoServer) {
      stop_ = true;
      std::lock_guard lock(mutex_);
      summary_.no_server = reply.error;
      return false;
    }
    Judgement judgement;
    judgement.cell = item.cell->key;
    judgement.dialogue = item.dialogue;
    judgement.turn = item.turn;
    judgement.judge = judge_.id;
    judgement.ordinal = task.ordinal;
    judgement.url = url_;
    judgement.reply = reply.raw;
    if (reply.status == ChatReply::Status::kFailed) {
      judgement.status = Judgement::Status::kFailed;
      judgement.error = reply.error;
    } else {
      const ParsedReply parsed = parse_reply(rubric_, reply.text);
      judgement.error = parsed.error;
      judgement.status =
          parsed.error.empty() ? Judgement::Status::kOk : Judgement::Status::kUnparsed;
      for (const auto& [name, value] : parsed.scores)
        judgement.scores.push_back({rubric_.metric(name), value});
      if (parsed.error.empty()) judgement.scores.push_back({rubric_.metric(), parsed.value});
    }
    std::lock_guard lock(mutex_);
    store_.add_judgement(judgement);
    store_.put_scores(scores_of(judgements_of(item)), true);
    JudgeProgress& p = summary_.progress;
    ++p.done;
    p.unparsed += judgement.status == Judgement::Status::kUnparsed;
    if (judgement.status == Judgement::Status::kFailed) {
      ++p.failed;
      summary_.errors.push_back(fmt::format("{}: {}: {}", place_of(item), url_, judgement.error));
    } else {
      count_reply(judgement, item);
    }
    return true;
  }

  Store& store_;
  const Rubric& rubric_;
  const JudgeOptions& options_;
  Judge judge_;
  Endpoint endpoint_;
  std::string url_;
  std::deque<Cell> cells_;
  std::set<std::string> seen_;
  std::vector<Item> items_;
  std::vector<Task> tasks_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  ///< protects the store, the summary and the display
  JudgeSummary summary_;
};

}  // namespace

JudgeSummary judge_answers(Store& store, const Rubric& rubric, const JudgeOptions& options,
                           const std::function<bool()>& should_stop,
                           const std::function<void(const JudgeProgress&)>& report) {
  return Judging(store, rubric, options).run(should_stop, report);
}

}  // namespace turnbench
