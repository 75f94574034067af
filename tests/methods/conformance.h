#pragma once

// What every method owes, as checks of any method: one of the registry, or one made for a test.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "tests/inference/conversation.h"

namespace turnbench::test {

/// A method under test: how its policies are made.
struct Candidate {
  Candidate(std::string name, std::function<Policies()> make)
      : name(std::move(name)), make(std::move(make)) {}
  explicit Candidate(const Method& method)
      : Candidate(method.canonical(), [method] { return method.make(); }) {}

  std::string name;
  std::function<Policies()> make;
};

/// Checks of a method on small models.  Each throws if the method violates it; `finding` gives that
/// as a value.
class ConformanceChecks {
 public:
  using Check = void (ConformanceChecks::*)(const Candidate&);
  /// The first violation of a check, or an error of the run; "" if there is none.
  std::string finding(Check check, const Candidate& candidate);

  /// Twice the same bits, with any number of threads and in chunks of any size.
  void is_deterministic(const Candidate& candidate);
  /// A prompt that is prefilled in two parts gives what one prefill gives.
  void split_prefills_agree(const Candidate& candidate);
  /// A fork of a shared prefix that stores more than the method asks for gives what the sequence
  /// alone gives.
  void followers_equal_sequences_alone(const Candidate& candidate);
  /// A fork goes on as the original does, and changes nothing there.
  void forks_are_independent(const Candidate& candidate);
  /// A batch of different dialogues gives what each gives alone.
  void batches_change_nothing(const Candidate& candidate);
  /// Later turns are appended in full without eviction, and come back to the budget with it.
  void later_turns(const Candidate& candidate);
  /// Keys and values in host memory give the bits of those on the device, in two turns, whatever
  /// the rule and the size of the device cache.
  void placements_agree(const Candidate& candidate);
  /// Steps select what they select with an index built over all tokens before the step.
  void steps_extend_the_index(const Candidate& candidate);
  /// Operations of a backend whose memory is not the host's get data of that memory alone, and give
  /// the bits of one whose memory it is.
  void keeps_to_device_memory(const Candidate& candidate);

  /// All of them.
  static std::span<const std::pair<const char*, Check>> all();

  /// Tokens of the prompt: more than a page, and much more than small settings keep or read.
  int prompt_tokens() const { return static_cast<int>(prompt_.size()); }
  std::span<const int> prompt() const { return prompt_; }
  std::span<const int> answer() const { return answer_; }
  std::span<const int> question() const { return question_; }

  /// A model of tests/data/models, made once for all checks.
  Machine& machine_of(const std::string& model, int threads = 2, Engine::Options options = {});
  /// Logits of the prompt and of the answer fed after it, computed once for a model.
  const std::vector<Logits>& alone(Machine& machine, const Candidate& candidate);

 private:
  Machine& guarded_machine();

  const std::vector<int> prompt_ = synthetic_tokens(is_emulated() ? 80 : 200, 1),
                         answer_ = synthetic_tokens(is_emulated() ? 3 : 24, 2),
                         question_ = synthetic_tokens(40, 3);
  std::map<std::tuple<std::string, int, int>, Machine> machines_;
  std::unique_ptr<Machine> guarded_;
  std::map<std::pair<std::string, std::string>, std::vector<Logits>> alone_;
};

/// Logits of a prompt and of an answer fed after it.
std::vector<Logits> logits_of(Conversation& conversation, std::span<const int> prompt,
                              std::span<const int> answer);
std::vector<Logits> logits_of(Engine& engine, Policies policies, std::span<const int> prompt,
                              std::span<const int> answer);

/// Largest distance of two runs.
float distance(const std::vector<Logits>& a, const std::vector<Logits>& b);

}  // namespace turnbench::test
