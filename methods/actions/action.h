#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/engine/engine.h"
#include "inference/policy/policy.h"
#include "methods/method.h"

namespace turnbench {

/// A dialogue as tokens, up to the gold answer of its last turn.
struct TokenizedDialogue {
  std::string id;
  std::vector<int> tokens;
  std::vector<Span> spans;         ///< over `tokens`
  int turn = 0;                    ///< the last one
  std::size_t history_tokens = 0;  ///< before the last turn
  std::size_t prompt_tokens = 0;   ///< before its answer
};

/// A number that a paper prints for a model.
struct PublishedValue {
  double value = 0;
  std::string note;
};

/// The options and inputs of one call of an action.
class ActionContext {
 public:
  virtual ~ActionContext() = default;

  /// The value of an option of the action, of `model`, or of `dataset` if the action reads
  /// dialogues; its default, or "", if it was not given.
  virtual const std::string& option(std::string_view name) const = 0;
  int integer(std::string_view name) const { return std::stoi(option(name)); }
  bool flag(std::string_view name) const { return option(name) == "true"; }
  /// The whole numbers of at least `min` in an option, which separates them by commas.
  /// @throws Error (input) naming the option.
  virtual std::vector<int> numbers(std::string_view name, int min) const = 0;

  /// The text of a file; "-" is standard input.
  /// @throws Error (input) if it is not UTF-8.
  virtual std::string read_text(const std::string& file) const = 0;
  /// The number for the model in a CSV of published numbers; nullopt if it has none.
  virtual std::optional<PublishedValue> published(const std::string& file,
                                                  const std::string& model) const = 0;

  /// The model with the settings of the command line.  The first call loads it.
  virtual Engine& engine() = 0;
  virtual const Checkpoint& checkpoint() = 0;
  /// Calls `visit` with each dialogue of the dataset.
  virtual void for_each_dialogue(const std::function<void(const TokenizedDialogue&)>& visit) = 0;
};

/// What an action prints: the document of --json, or the text.
struct ActionResult {
  OrderedJson json;
  std::string text;  ///< with a newline at the end
};

struct ActionOption {
  enum class Kind { kText, kInteger, kChoice, kFlag };
  std::string_view name;  ///< "tokens" is --tokens, "m" is -m
  char letter = 0;        ///< 'o': -o is another name
  Kind kind = Kind::kText;
  bool required = false;
  std::string_view fallback = "";  ///< default value as text
  std::string_view description;
  std::string_view choices = "";  ///< kChoice: separated by |
  int min = 0, max = 0;           ///< kInteger
};

/// Work that belongs to one method and is not part of a run, such as a calibration: `turnbench
/// method NAME ACTION`.  A method's file declares the function that describes the action, and lists
/// it in MethodInfo::actions.  Results do not depend on actions: method files do not include
/// `methods/actions/`, so that a changed action makes no result stale.
struct MethodAction {
  std::string_view name, summary;
  std::string_view example;     ///< arguments after the action's name
  std::string_view notes = "";  ///< further lines of its help
  std::vector<ActionOption> options;
  bool reads_dialogues = false;  ///< it also has the options of a dataset
  std::function<ActionResult(ActionContext&)> run;
};

}  // namespace turnbench
