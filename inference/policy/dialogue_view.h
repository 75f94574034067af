#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// The kind of a span of the prompt.
enum class SpanKind { kInstruction, kContext, kQuestion, kCue, kMarkup, kAnswer };

/// A labelled range [begin, end) of token positions.
struct Span {
  SpanKind kind = SpanKind::kContext;
  int turn = 0;
  std::int32_t begin = 0, end = 0;
};

/// The information about a dialogue that policies may use.
struct DialogueView {
  std::span<const int> tokens;  ///< all tokens up to the end of this pass; set by the engine
  std::span<const Span> spans;
  int turn = 0;
  std::uint64_t seed = 0;  ///< derived from the manifest's seed and the dialogue only
  std::function<std::string(int token)> token_text;
  int answer_limit = 0;  ///< maximal length of the turn's answer in tokens; 0: unknown
  /// The tokens of a text, without special tokens; may be null.
  std::function<std::vector<int>(std::string_view text)> encode = nullptr;
  /// The tokens that the chat template writes between a message and its answer, without the answer
  /// prefix; may be null.
  std::function<std::vector<int>()> cue = nullptr;
  /// The text that the turn's eviction compresses, and its spans: the prompt, or with
  /// Policies::evicts_before_question the part before the question.  `tokens` and `spans` contain
  /// only its beginning while its blocks are computed.  Empty: unknown.
  std::span<const int> prompt = {};
  std::span<const Span> prompt_spans = {};
  /// The tokens of the turn's question.  With Policies::evicts_before_question, a policy may use
  /// them only to choose one of several compressed caches, none of which depends on them.  Empty:
  /// unknown.
  std::span<const int> question = {};
  /// The model's input embedding of a token, [hidden]; set by the engine for ScoringPasses::begin.
  std::function<std::vector<float>(int token)> embedding = nullptr;
};

}  // namespace turnbench
