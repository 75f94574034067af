#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "methods/method.h"

namespace turnbench {

class LayerSums;
struct AttentionOutputs;

/// Attention output of a method in one layer, next to that of full attention on the same hidden
/// states.
struct LayerOutputs {
  const AttentionOutputs& outputs;
  int layers = 0;       ///< of the model
  bool decode = false;  ///< true: one token of the answer; false: all rows of the prompt
};

/// The value of a probe on one prompt.
struct ProbeResult {
  double value = 0;     ///< in [0, 1], except for errors
  std::string missing;  ///< why there is no value; empty if there is one
};

/// Measures attention on one prompt after another.  Probes only observe: attention stays dense.
class Probe {
 public:
  virtual ~Probe() = default;
  /// The number of most recent prompt rows whose attention `LayerView::stats` must provide.
  virtual int window() const { return 0; }

  /// Called at the start of each prompt, with its tokens, their text and their spans.
  virtual void begin(const DialogueView& prompt) = 0;
  /// Called for each layer in order, with all rows of the prompt.
  virtual void observe_prompt(LayerSums&) {}
  /// Then called for each layer in order, with the last row of the prompt and the rows of the
  /// answer; not called if the answer is empty.
  virtual void observe_answer(LayerSums&) {}
  /// For a probe with a parameter "method": called for each layer in order, first with the rows of
  /// the prompt, then for each token of the answer that is read.
  virtual void observe_outputs(const LayerOutputs&) {}
  /// For a method that selects: called for each layer in order, for each token of the answer that
  /// is read, with the layer's selection.
  virtual void observe_selection(const LayerView&, const Selection&) {}
  /// Called at the end of each prompt.
  virtual void end() = 0;

  /// One result for each prompt that has ended, in order.
  virtual std::vector<ProbeResult> results() = 0;
};

/// A probe whose result for a prompt does not depend on other prompts.
class PromptProbe : public Probe {
 public:
  void end() final { results_.push_back(result()); }
  std::vector<ProbeResult> results() final { return results_; }

 protected:
  virtual ProbeResult result() = 0;

 private:
  std::vector<ProbeResult> results_;
};

/// An entry of the registry: description, parameters and factory of a probe.
struct ProbeInfo {
  /// The input that the probe requires, in ascending order of cost.
  enum class Input {
    kText,    ///< the tokens of the prompt, without attention
    kPrompt,  ///< attention over the prompt
    kAnswer   ///< also attention of the answer, which full attention generates
  };
  std::string_view name;
  std::string_view summary;  ///< one line
  std::string_view paper;    ///< title, year, figure
  std::string_view metric;   ///< name of its values in tables
  std::string_view
      deviations;  ///< deviations from the paper, or choices where it gives no details; "" for none
  Input input = Input::kPrompt;
  bool compares_dialogues = false;  ///< a result also depends on the prompts of other dialogues
  std::vector<ParameterInfo> parameters;
  std::function<std::unique_ptr<Probe>(const Parameters&)> make;
};

/// A probe with its settings, as an experiment uses it.
class ProbeSpec {
 public:
  /// Parses "coverage:eta=0.1".  `where` names the place in messages; relative paths of files are
  /// resolved against `folder`.
  /// @throws Error (input) for an unknown probe or parameter, or a value out of range.
  static ProbeSpec parse(const std::string& text, const std::string& where = "probe",
                         const std::filesystem::path& folder = {});
  /// As above, from text, an object {"name": ..., parameter: value, ...}, or {"label": ...,
  /// "probe": ...}.
  static ProbeSpec parse(const JsonView& json, const std::filesystem::path& folder = {});

  const ProbeInfo& info() const { return *info_; }
  const std::string& label() const {
    return label_;
  }  ///< the given label, or else the original text
  /// The name and every parameter with its value: equal if and only if the probes are equal.
  const std::string& canonical() const { return canonical_; }
  /// The value of a parameter as in the canonical text, or the probe's name for "name"; nullopt if
  /// there is no such parameter.
  std::optional<std::string> setting(std::string_view name) const;
  /// The method compared with full attention, the value of "method"; nullopt for most probes.
  const std::optional<Method>& method() const { return method_; }
  std::unique_ptr<Probe> make() const { return info_->make(parameters_); }

 private:
  ProbeSpec(const Spec& spec, std::string label, const std::string& where,
            const std::filesystem::path& folder);

  const ProbeInfo* info_;
  Parameters parameters_;
  std::optional<Method> method_;
  std::string label_, canonical_;
};

/// All probes, in the order of `list probes`.
const std::vector<ProbeInfo>& all_probes();
/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const ProbeInfo& find_probe(const std::string& name, const std::string& where);

}  // namespace turnbench
