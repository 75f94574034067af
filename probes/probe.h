#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

class LayerSums;

/// What a probe found on one prompt.
struct Measured {
  double value = 0;     ///< a share: 0 to 1
  std::string missing;  ///< why there is no value; empty if there is one
};

/// Measures attention itself, on one prompt after the other.  It decides nothing: attention is
/// dense, whatever it sees.
class Probe {
 public:
  virtual ~Probe() = default;
  /// Most recent rows of the prompt that it asks the statistics' window for.
  virtual int window() const { return 0; }

  /// A prompt begins: its tokens, their text and their spans.
  virtual void begin(const DialogueView& prompt) = 0;
  /// Each layer in its order, with all rows of the prompt.
  virtual void see_prompt(LayerSums&) {}
  /// Then each layer again, with the prompt's last row and those of the answer; not at all if the
  /// answer is empty.
  virtual void see_answer(LayerSums&) {}
  /// The prompt has been seen.
  virtual void end() = 0;

  /// What was found on each prompt that has ended, in their order.
  virtual std::vector<Measured> results() = 0;
};

/// A probe whose value of one prompt has nothing to do with the others.
class PromptProbe : public Probe {
 public:
  void end() final { results_.push_back(result()); }
  std::vector<Measured> results() final { return results_; }

 protected:
  virtual Measured result() = 0;

 private:
  std::vector<Measured> results_;
};

/// One probe: what it is, what can be set, and how it is made.
struct ProbeInfo {
  /// What it must be shown.
  enum class Sees {
    kText,    ///< the prompt's tokens: nothing is computed
    kPrompt,  ///< attention over the prompt
    kAnswer   ///< the same, and attention of the answer that full attention gives
  };
  std::string_view name;
  std::string_view summary;     ///< one line
  std::string_view paper;       ///< title, year, figure
  std::string_view metric;      ///< what its values are, in tables
  std::string_view deviations;  ///< what is decided here, or ""
  Sees sees = Sees::kPrompt;
  bool compares = false;  ///< prompts of several dialogues with each other
  std::vector<ParameterInfo> parameters;
  std::function<std::unique_ptr<Probe>(const Parameters&)> make;
};

/// A probe as an experiment uses it: an entry of the registry and its settings.
class ProbeSpec {
 public:
  /// "coverage:eta=0.1"; `where` names the place in messages.
  static ProbeSpec parse(const std::string& text, const std::string& where = "probe");
  /// The same, or an object {"name": ..., parameter: value, ...}.
  static ProbeSpec parse(const JsonView& json);

  const ProbeInfo& info() const { return *info_; }
  const std::string& label() const { return label_; }  ///< as it was written
  /// Name and every parameter with its value: equal if and only if the probes are.
  const std::string& canonical() const { return canonical_; }
  /// "name", or a parameter's value as the canonical text writes it; nothing if it has none such.
  std::optional<std::string> setting(std::string_view name) const;
  std::unique_ptr<Probe> make() const { return info_->make(parameters_); }

 private:
  ProbeSpec(const Spec& spec, std::string label, const std::string& where);

  const ProbeInfo* info_;
  Parameters parameters_;
  std::string label_, canonical_;
};

/// All probes, in the order in which `list probes` prints them.
const std::vector<ProbeInfo>& all_probes();
/// Refuses an unknown name with the nearest known one; `where` names the place in messages.
const ProbeInfo& find_probe(const std::string& name, const std::string& where);

}  // namespace turnbench
