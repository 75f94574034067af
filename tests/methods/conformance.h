#pragma once

// Checks that every method must pass.  They accept any method: one of the registry, or one written
// for a test.

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

/// A method under test: a function that makes its policies.
struct Candidate {
  Candidate(std::string name, std::function<Policies()> make)
      : name(std::move(name)), make(std::move(make)) {}
  explicit Candidate(const Method& method)
      : Candidate(method.canonical(), [method] { return method.make(); }) {}

  std::string name;
  std::function<Policies()> make;
};

/// Checks of a method on small models.  Each check throws if the method violates it; `finding`
/// returns the violation as text.
class ConformanceChecks {
 public:
  using Check = void (ConformanceChecks::*)(const Candidate&);
  /// The first violation of a check, or an error of the run; "" if there is none.
  std::string finding(Check check, const Candidate& candidate);

  /// Two runs give the same bits, with any number of threads and any chunk size.
  void is_deterministic(const Candidate& candidate);
  /// A prompt that is prefilled in two parts gives the same results as one prefill.
  void split_prefills_agree(const Candidate& candidate);
  /// A fork of a shared prefix that stores more than the method needs gives the same results as a
  /// separate sequence.
  void followers_equal_sequences_alone(const Candidate& candidate);
  /// A fork gives the same results as the original sequence, and does not change it.
  void forks_are_independent(const Candidate& candidate);
  /// A batch of different dialogues gives the same results as each dialogue in its own batch.
  void batches_change_nothing(const Candidate& candidate);
  /// Later turns are cached in full, unless the method evicts under recompress: then fewer tokens
  /// remain.
  void later_turns(const Candidate& candidate);
  /// Keys and values in host memory give the same bits as on the device, over two turns, with every
  /// replacement rule and size of the device cache.
  void placements_agree(const Candidate& candidate);
  /// Steps select the same tokens as with an index built over all tokens before the step.
  void steps_extend_the_index(const Candidate& candidate);
  /// If the backend's memory is not host memory, its operations get data in that memory only, and
  /// give the same bits as a backend that uses host memory.
  void keeps_to_device_memory(const Candidate& candidate);

  /// All checks, with their names.
  static std::span<const std::pair<const char*, Check>> all();

  /// Tokens of the prompt: more than a page, and many more than small settings keep or read.
  int prompt_tokens() const { return static_cast<int>(prompt_.size()); }
  std::span<const int> prompt() const { return prompt_; }
  std::span<const int> answer() const { return answer_; }
  std::span<const int> question() const { return question_; }

  /// A model of tests/data/models, loaded once for all checks.
  Machine& machine_of(const std::string& model, int threads = 2, Engine::Options options = {});
  /// Logits of the prompt and of the answer that is fed after it, computed once for each model.
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

/// Logits of a prompt and of an answer that is fed after it.
std::vector<Logits> logits_of(Conversation& conversation, std::span<const int> prompt,
                              std::span<const int> answer);
std::vector<Logits> logits_of(Engine& engine, Policies policies, std::span<const int> prompt,
                              std::span<const int> answer);

/// The largest absolute difference of the logits of two runs.
float distance(const std::vector<Logits>& a, const std::vector<Logits>& b);

}  // namespace turnbench::test
