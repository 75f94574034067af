#include "harness/run/prompt.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench {
namespace {

/// A turn's message: instruction, contexts and question in their order.
LabelledText message_of(const ChatTemplate& chat, const Turn& t, int turn) {
  LabelledText out;
  const auto piece = [&](SpanKind kind, const std::string& prefix, const std::string& text) {
    if (text.empty()) return;
    if (!out.text.empty() || chat.prefixes_first_piece) out.add(kind, turn, prefix);
    out.add(kind, turn, text);
  };
  piece(SpanKind::kInstruction, chat.paragraph_prefix, t.instruction);
  const std::size_t slot = question_index(t);
  for (std::size_t i = 0; i <= t.contexts.size(); ++i) {
    if (i == slot) piece(SpanKind::kQuestion, chat.question_prefix(turn), t.question);
    if (i < t.contexts.size()) piece(SpanKind::kContext, chat.paragraph_prefix, t.contexts[i].text);
  }
  return out;
}

/// The message within the template's text of the turn.
LabelledText wrapped(const ChatTurns& turns, const LabelledText& message, int turn) {
  const TurnText whole = turns.turn(turn, message.text);
  LabelledText out;
  const auto add_until = [&](SpanKind kind, std::size_t end) {
    const std::size_t done = out.text.size();
    if (end > done) out.add(kind, turn, std::string_view(whole.text).substr(done, end - done));
  };
  add_until(SpanKind::kMarkup, whole.position(0));
  for (const auto& part : message.parts) add_until(part.kind, whole.position(part.end));
  add_until(SpanKind::kCue, whole.text.size());
  return out;
}

/// The same text with the beginning of the answer.
LabelledText with_prefix(LabelledText text, const Turn& t, int turn) {
  if (!t.answer_prefix.empty()) text.add(SpanKind::kCue, turn, t.answer_prefix);
  return text;
}

LabelledText verbatim(const Turn& t, int turn) {
  LabelledText out;
  out.add(SpanKind::kInstruction, turn, t.instruction);
  for (const Paragraph& paragraph : t.contexts) out.add(SpanKind::kContext, turn, paragraph.text);
  out.add(SpanKind::kQuestion, turn, t.question);
  return out;
}

/// Keeps the first and the last `half` of the tokens.
void cut_middle(LabelledText& message, const Tokenizer& tokenizer, std::span<const int> tokens,
                std::size_t half) {
  const std::string head = tokenizer.decode(tokens.first(half), true),
                    tail = tokenizer.decode(tokens.last(half), true);
  for (auto& [kind, turn, end] : message.parts) {
    const std::size_t behind = message.text.size() - end;
    end = behind <= tail.size() ? head.size() + tail.size() - behind : std::min(end, head.size());
  }
  message.text = head + tail;
}

/// Removes `excess` tokens from the middle of the context tokens, as if these were contiguous.
void truncate_contexts(RenderedTurn& turn, int excess) {
  int contexts = 0;
  for (const Span& s : turn.spans) {
    if (s.kind == SpanKind::kContext) contexts += s.end - s.begin;
  }
  turn.excess_tokens = std::max(excess - contexts, 0);
  excess = std::min(excess, contexts);
  const int first = (contexts - excess + 1) / 2;  // context tokens kept before the cut
  std::vector<int> tokens;
  std::vector<Span> spans;
  int seen = 0;
  for (const Span& s : turn.spans) {
    const auto begin = static_cast<std::int32_t>(tokens.size());
    for (int i = s.begin; i < s.end; ++i) {
      if (s.kind == SpanKind::kContext) {
        const bool dropped = seen >= first && seen < first + excess;
        ++seen;
        if (dropped) continue;
      }
      tokens.push_back(turn.tokens[i]);
    }
    const auto end = static_cast<std::int32_t>(tokens.size());
    if (end > begin) spans.push_back({s.kind, s.turn, begin, end});
  }
  turn.tokens = std::move(tokens);
  turn.spans = std::move(spans);
  turn.truncated_tokens = excess;
}

}  // namespace

void Prompt::add_answer(int turn, const std::vector<int>& answer) {
  const auto begin = static_cast<std::int32_t>(tokens.size());
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  spans.push_back({SpanKind::kAnswer, turn, begin, static_cast<std::int32_t>(tokens.size())});
}

void Prompt::add_turn(const RenderedTurn& turn) {
  const auto begin = static_cast<std::int32_t>(tokens.size());
  for (const Span& s : turn.spans)
    spans.push_back({s.kind, s.turn, begin + s.begin, begin + s.end});
  tokens.insert(tokens.end(), turn.tokens.begin(), turn.tokens.end());
}

PromptRenderer::PromptRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const std::string& system_prompt, const std::vector<int>& end_tokens)
    : tokenizer_(tokenizer), template_(chat_template), turns_(chat_template, system_prompt) {
  const auto add = [&](std::optional<int> token) {
    if (token && std::find(stop_tokens_.begin(), stop_tokens_.end(), *token) == stop_tokens_.end())
      stop_tokens_.push_back(*token);
  };
  for (const std::string& stop : chat_template.stops) add(tokenizer.id_of(stop));
  const std::vector<int> behind =
      tokenizer.encode(trim(turns_.after_answer()), {.parse_special = true, .add_special = false});
  if (!behind.empty() && tokenizer.is_special(behind[0])) add(behind[0]);
  add(tokenizer.eos());
  for (int token : end_tokens) add(token);
}

bool PromptRenderer::is_plain(const Turn& turn) const {
  return turn.layout == Layout::kPlain ||
         (turn.layout == Layout::kVerbatim && template_.name == "none");
}

LabelledText PromptRenderer::text(const Turn& turn, int index) const {
  const LabelledText message =
      turn.layout == Layout::kPieces ? message_of(template_, turn, index) : verbatim(turn, index);
  return with_prefix(is_plain(turn) ? message : wrapped(turns_, message, index), turn, index);
}

RenderedTurn PromptRenderer::render(const Dialogue& dialogue, int turn, int max_tokens) const {
  const Turn& t = dialogue.turns[turn];
  if (t.layout != Layout::kPieces && max_tokens > 0) return render_verbatim(t, turn, max_tokens);
  RenderedTurn out{text(t, turn).encode(tokenizer_, is_plain(t))};
  const int excess = static_cast<int>(out.tokens.size()) - max_tokens;
  if (max_tokens > 0 && excess > 0) truncate_contexts(out, excess);
  return out;
}

RenderedTurn PromptRenderer::render_verbatim(const Turn& t, int turn, int max_tokens) const {
  LabelledText message = verbatim(t, turn);
  const std::vector<int> whole =
      tokenizer_.encode(message.text, {.parse_special = true, .add_special = true});
  const auto half = static_cast<std::size_t>(max_tokens) / 2;
  const bool cut = whole.size() > static_cast<std::size_t>(max_tokens);
  if (cut) cut_middle(message, tokenizer_, whole, half);
  const LabelledText text =
      with_prefix(is_plain(t) ? message : wrapped(turns_, message, turn), t, turn);
  RenderedTurn out{text.encode(tokenizer_, is_plain(t))};
  if (cut) out.truncated_tokens = static_cast<int>(whole.size() - 2 * half);
  return out;
}

std::vector<int> PromptRenderer::gold_answer_tokens(const Turn& turn) const {
  std::string given = turns_.given_answer(gold_answer_text(turn));
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t'; };
  if (!turn.answer_prefix.empty() && !is_space(turn.answer_prefix.back()) &&
      !(given.empty() || is_space(given.front())))
    given.insert(given.begin(), ' ');
  return tokenizer_.encode(given, {.parse_special = true, .add_special = false});
}

std::string PromptRenderer::answer_text(const std::vector<int>& tokens) const {
  return trim(tokenizer_.decode(tokens, true));
}

std::vector<Span>::const_iterator question_of(const std::vector<Span>& spans, int turn) {
  return std::find_if(spans.begin(), spans.end(), [&](const Span& s) {
    return s.kind == SpanKind::kQuestion && s.turn == turn;
  });
}

DialogueView PromptRenderer::view(const Prompt& prompt, const Dialogue& dialogue, int turn) const {
  DialogueView out;
  out.tokens = prompt.tokens;
  out.spans = prompt.spans;
  out.prompt = prompt.tokens;
  out.prompt_spans = prompt.spans;
  const auto question = question_of(prompt.spans, turn);
  if (question != prompt.spans.end())
    out.question = out.prompt.subspan(question->begin, question->end - question->begin);
  out.turn = turn;
  out.token_text = [this](int token) { return tokenizer_.token_text(token); };
  out.encode = [this](std::string_view text) { return tokenizer_.encode(text, {}); };
  out.cue = [this, &of = dialogue.turns[turn], turn] { return cue_tokens(of, turn); };
  return out;
}

std::vector<int> PromptRenderer::cue_tokens(const Turn& turn, int index) const {
  if (is_plain(turn)) return {};
  const std::string message = "message";  // any: only the text after it counts
  const TurnText whole = turns_.turn(index, message);
  return tokenizer_.encode(std::string_view(whole.text).substr(whole.position(message.size())),
                           {.parse_special = true, .add_special = false});
}

}  // namespace turnbench
