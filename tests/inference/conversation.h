#pragma once

// A small model with its engine, and a sequence that passes through the turns of a synthetic
// dialogue.

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "inference/engine/engine.h"
#include "tests/backends/backend.h"
#include "tests/inference/set_rows.h"

namespace turnbench::test {

inline const std::filesystem::path kModels = TURNBENCH_SOURCE_DIR "/tests/data/models";

/// A model of tests/data/models (or of any other directory), with at most `layers` layers.
inline Checkpoint small_checkpoint(const std::string& name, int layers = INT_MAX) {
  Checkpoint out = Checkpoint::open((kModels / name).string());
  if (layers < out.config.layers) {  // a model refuses tensors of other layers than its own
    out.tensors = Safetensors::open(out.directory, [layers](const std::string& tensor) {
      constexpr std::string_view kLayer = "model.layers.";
      return !tensor.starts_with(kLayer) || std::stoi(tensor.substr(kLayer.size())) < layers;
    });
  }
  out.config.layers = std::min(out.config.layers, layers);
  out.config.sliding_window.resize(static_cast<std::size_t>(out.config.layers));
  return out;
}

/// Such a model in float32, ready to run.  With emulated kernels it has two layers.
struct Machine {
  explicit Machine(const std::string& name, int threads = 2, Engine::Options options = {})
      : Machine(name, test::make_backend(threads), options) {}
  Machine(const std::string& name, std::unique_ptr<Backend> of, Engine::Options options = {})
      : name(name),
        backend(std::move(of)),
        model(small_checkpoint(name, is_emulated() ? 2 : INT_MAX), *backend, DType::kF32,
              Math::kF32),
        engine(model, *backend, options) {}

  std::string name;
  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

/// `count` token ids of the test models' vocabulary of 128.
inline std::vector<int> synthetic_tokens(int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<int>(3 + random() % 125));
  return out;
}

/// Text for synthetic tokens: sentences of about ten words.
inline std::string synthetic_text(int token) {
  return token % 10 == 0 ? "." : token % 25 == 1 ? ",\n" : " w" + std::to_string(token);
}

using Logits = std::vector<float>;

inline float largest(const Logits& a) {
  float out = 0;
  for (float x : a) out = std::max(out, std::abs(x));
  return out;
}

/// Largest difference, relative to the largest logit.
inline float distance(const Logits& a, const Logits& b) {
  if (a.size() != b.size()) return INFINITY;
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float d = std::abs(a[i] - b[i]);
    if (!(d <= worst)) worst = d;  // NaN remains
  }
  return worst / largest(b);
}

inline bool all_finite(const Logits& a) {
  for (float x : a) {
    if (!std::isfinite(x)) return false;
  }
  return !a.empty();
}

/// One dialogue under one method: turns are prefilled, answers are fed token by token.
class Conversation {
 public:
  Conversation(Engine& engine, Policies policies, int tail_rows = 0, bool pre_rope_keys = false)
      : engine_(&engine),
        sequence(engine.make_sequence(std::move(policies), tail_rows, pre_rope_keys)) {}
  Conversation(Engine& engine, Sequence sequence)
      : engine_(&engine), sequence(std::move(sequence)) {}

  Conversation fork() const {
    Conversation out(*engine_, sequence.fork());
    out.spans = spans;
    out.turn_ = turn_;
    return out;
  }

  /// Prefills a turn; logits of its last token.
  Logits turn(std::span<const int> tokens, bool evict = true) {
    return turn_with_forks(tokens, {}, evict);
  }

  /// The same for a shared prefix; each fork keeps the tokens of its policies.
  Logits turn_with_forks(std::span<const int> tokens, std::vector<Sequence*> forks,
                         bool evict = true) {
    const DialogueView dialogue = begin_turn(tokens);
    Pass pass = prefill_pass(tokens, dialogue);
    pass.evict = evict;
    pass.forks = std::move(forks);
    return engine_->prefill({&pass, 1})[0];
  }

  /// Feeds one token of an answer.
  Logits answer(int token, bool evict = true) {
    const DialogueView dialogue = begin_answer_token(token);
    const Pass pass = decode_pass(token, dialogue, evict);
    return engine_->forward({&pass, 1})[0];
  }

  DialogueView begin_answer_token(int token) {
    tokens_.assign(sequence.tokens.begin(), sequence.tokens.end());
    tokens_.push_back(token);
    return view();
  }
  Pass decode_pass(const int& token, const DialogueView& dialogue, bool evict = true) {
    return {.sequence = &sequence,
            .tokens = {&token, 1},
            .kind = Pass::Kind::kDecode,
            .dialogue = &dialogue,
            .evict = evict,
            .observer = observer};
  }

  /// Labels the new tokens (the last answer, a context, a question, a cue) and returns their view.
  DialogueView begin_turn(std::span<const int> tokens) {
    ++turn_;
    tokens_.assign(sequence.tokens.begin(), sequence.tokens.end());
    const auto answered = static_cast<std::int32_t>(tokens_.size());
    const std::int32_t known = spans.empty() ? 0 : spans.back().end;
    if (answered > known) spans.push_back({SpanKind::kAnswer, turn_ - 1, known, answered});
    const auto count = static_cast<std::int32_t>(tokens.size());
    const std::int32_t cue = answered + count - 1, question = std::max(answered, cue - 12);
    if (question > answered) spans.push_back({SpanKind::kContext, turn_, answered, question});
    if (cue > question) spans.push_back({SpanKind::kQuestion, turn_, question, cue});
    spans.push_back({SpanKind::kCue, turn_, cue, cue + 1});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return view();
  }

  Pass prefill_pass(std::span<const int> tokens, const DialogueView& dialogue) {
    return {.sequence = &sequence, .tokens = tokens, .dialogue = &dialogue, .prompt_end = true};
  }

 private:
  static constexpr std::uint64_t kSeed = 11;
  static constexpr int kAnswerLimit = 64;
  DialogueView view() const { return {tokens_, spans, turn_, kSeed, synthetic_text, kAnswerLimit}; }
  Engine* engine_;
  std::vector<int> tokens_;
  int turn_ = -1;

 public:
  Sequence sequence;
  std::vector<Span> spans;
  LayerObserver* observer = nullptr;  ///< of answers
};

/// Feeds the same token to the answers of several dialogues, as one batch.
inline std::vector<Logits> answer_together(Engine& engine, std::span<Conversation> talks,
                                           int token) {
  std::vector<DialogueView> dialogues;
  for (Conversation& talk : talks) dialogues.push_back(talk.begin_answer_token(token));
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < talks.size(); ++i)
    passes.push_back(talks[i].decode_pass(token, dialogues[i]));
  return engine.forward(passes);
}

/// Cached tokens of every set, layer by layer.
inline std::vector<std::vector<int>> kept_sizes(const Sequence& s) {
  std::vector<std::vector<int>> out;
  for (int l = 0; l < s.shape().layers; ++l) {
    out.emplace_back();
    for (const KvHeadCache& set : s.sets(l)) out.back().push_back(set.size());
  }
  return out;
}

/// All cached data: positions, keys and values of every slot, in order.
inline std::vector<float> cached_rows(const Sequence& s) {
  std::vector<float> out;
  std::vector<float> row(static_cast<std::size_t>(s.shape().head_dim));
  for (int l = 0; l < s.shape().layers; ++l) {
    for (const KvHeadCache& set : s.sets(l)) {
      for (int j = 0; j < set.size(); ++j) {
        out.push_back(static_cast<float>(set.position(j)));
        test::read_row(set, KvRow::kKey, j, row.data());
        out.insert(out.end(), row.begin(), row.end());
        test::read_row(set, KvRow::kValue, j, row.data());
        out.insert(out.end(), row.begin(), row.end());
      }
    }
  }
  return out;
}

}  // namespace turnbench::test
