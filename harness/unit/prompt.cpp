#include "harness/unit/prompt.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench {
namespace {

/// A text under construction, and where the pieces end that it is made of.
struct Pieces {
  std::string text;
  std::vector<std::pair<SpanKind, std::size_t>> ends;  // kind, byte

  void add(SpanKind kind, std::string_view piece) {
    if (piece.empty()) return;
    text += piece;
    if (!ends.empty() && ends.back().first == kind && kind != SpanKind::kContext) {
      ends.back().second = text.size();
    } else {
      ends.emplace_back(kind, text.size());
    }
  }
};

/// What stands in front of the message of a turn.
Pieces begin_turn(const ChatTemplate& chat, const std::string& system_prompt, int turn) {
  Pieces out;
  if (turn > 0) out.add(SpanKind::kMarkup, chat.after_answer());
  out.add(
      SpanKind::kMarkup,
      chat.before_user(turn, system_prompt.empty() ? std::nullopt : std::optional(system_prompt)));
  return out;
}

/// The tokens of a turn: each belongs to the piece in which it ends.
RenderedTurn tokenized(const Tokenizer& tokenizer, const Pieces& pieces, int turn,
                       bool add_special) {
  RenderedTurn out;
  std::vector<std::size_t> ends;
  out.tokens =
      tokenizer.encode(pieces.text, {.parse_special = true, .add_special = add_special}, ends);
  std::size_t token = 0;
  for (const auto& [kind, end] : pieces.ends) {
    const auto begin = static_cast<std::int32_t>(token);
    while (token < ends.size() && ends[token] <= end) ++token;
    if (static_cast<std::int32_t>(token) > begin)
      out.spans.push_back({kind, turn, begin, static_cast<std::int32_t>(token)});
  }
  if (!out.spans.empty()) out.spans.back().end = static_cast<std::int32_t>(ends.size());
  return out;
}

Pieces verbatim(const Turn& turn) {
  Pieces out;
  out.add(SpanKind::kInstruction, turn.instruction);
  for (const Paragraph& paragraph : turn.contexts) out.add(SpanKind::kContext, paragraph.text);
  out.add(SpanKind::kQuestion, turn.question);
  return out;
}

/// Leaves the first and the last of the tokens, `half` of each.
void cut_middle(Pieces& pieces, const Tokenizer& tokenizer, std::span<const int> tokens,
                std::size_t half) {
  const std::string head = tokenizer.decode(tokens.first(half), true),
                    tail = tokenizer.decode(tokens.last(half), true);
  for (auto& [kind, end] : pieces.ends) {
    const std::size_t behind = pieces.text.size() - end;
    end = behind <= tail.size() ? head.size() + tail.size() - behind : std::min(end, head.size());
  }
  pieces.text = head + tail;
}

/// Takes `excess` tokens out of the middle of the context tokens, as if these stood in one row.
void truncate_contexts(RenderedTurn& turn, int excess) {
  int contexts = 0;
  for (const Span& s : turn.spans) {
    if (s.kind == SpanKind::kContext) contexts += s.end - s.begin;
  }
  turn.excess_tokens = std::max(excess - contexts, 0);
  excess = std::min(excess, contexts);
  const int first = (contexts - excess + 1) / 2;  // context tokens that stay in front
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
      tokens.push_back(turn.tokens[static_cast<std::size_t>(i)]);
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
                               std::string system_prompt, const std::vector<int>& end_tokens)
    : tokenizer_(tokenizer),
      template_(chat_template),
      system_prompt_(std::move(system_prompt)),
      stop_tokens_(turnbench::stop_tokens(chat_template, tokenizer)) {
  for (int token : end_tokens) {
    if (std::find(stop_tokens_.begin(), stop_tokens_.end(), token) == stop_tokens_.end())
      stop_tokens_.push_back(token);
  }
}

RenderedTurn PromptRenderer::render(const Dialogue& dialogue, int turn, int max_tokens) const {
  const Turn& t = dialogue.turns[static_cast<std::size_t>(turn)];
  if (t.layout != Layout::kPieces) return render_verbatim(t, turn, max_tokens);
  Pieces pieces = begin_turn(template_, system_prompt_, turn);
  bool first = true;
  const auto piece = [&](SpanKind kind, const std::string& prefix, const std::string& text) {
    if (text.empty()) return;
    if (!first || template_.prefixes_first_piece) pieces.add(kind, prefix);
    pieces.add(kind, text);
    first = false;
  };
  piece(SpanKind::kInstruction, template_.paragraph_prefix, t.instruction);
  const std::size_t slot = question_index(t);
  for (std::size_t i = 0; i <= t.contexts.size(); ++i) {
    if (i == slot) piece(SpanKind::kQuestion, template_.question_prefix(turn), t.question);
    if (i < t.contexts.size())
      piece(SpanKind::kContext, template_.paragraph_prefix, t.contexts[i].text);
  }
  pieces.add(SpanKind::kCue, template_.generation_prompt(turn));
  RenderedTurn out = tokenized(tokenizer_, pieces, turn, false);
  const int excess = static_cast<int>(out.tokens.size()) - max_tokens;
  if (max_tokens > 0 && excess > 0) truncate_contexts(out, excess);
  return out;
}

RenderedTurn PromptRenderer::render_verbatim(const Turn& t, int turn, int max_tokens) const {
  Pieces user = verbatim(t);
  const std::vector<int> whole =
      tokenizer_.encode(user.text, {.parse_special = true, .add_special = true});
  int truncated_tokens = 0;
  if (max_tokens > 0 && whole.size() > static_cast<std::size_t>(max_tokens)) {
    const auto half = static_cast<std::size_t>(max_tokens) / 2;
    cut_middle(user, tokenizer_, whole, half);
    truncated_tokens = static_cast<int>(whole.size() - 2 * half);
  }
  const bool wrapped = t.layout == Layout::kVerbatim && template_.name != "none";
  const std::string message = wrapped ? template_.user_text(user.text) : user.text;
  Pieces pieces = wrapped ? begin_turn(template_, system_prompt_, turn) : Pieces();
  const std::size_t trimmed = user.text.find(message);  // white space in front of it
  std::size_t begin = 0;
  for (const auto& [kind, end] : user.ends) {
    const std::size_t stop = std::min(end - std::min(end, trimmed), message.size());
    pieces.add(kind, std::string_view(message).substr(begin, stop - begin));
    begin = stop;
  }
  if (wrapped) pieces.add(SpanKind::kCue, template_.generation_prompt(turn));
  RenderedTurn out = tokenized(tokenizer_, pieces, turn, !wrapped);
  out.truncated_tokens = truncated_tokens;
  return out;
}

std::vector<int> PromptRenderer::gold_answer_tokens(const Turn& turn) const {
  // The generation prompt is in the cache already; what a template puts before a given answer alone
  // comes on top.
  const std::string prefix = template_.generated_prefix.empty() ? template_.given_prefix : "";
  return tokenizer_.encode(prefix + template_.answer_text(gold_answer_text(turn)),
                           {.parse_special = true, .add_special = false});
}

std::string PromptRenderer::answer_text(const std::vector<int>& tokens) const {
  return trim(tokenizer_.decode(tokens, true));
}

std::string PromptRenderer::token_text(int token) const {
  return tokenizer_.token_text(token);
}

}  // namespace turnbench
