// The rendering of a turn: text, labels, tokens, and the stop tokens of its answer.

#include "harness/run/prompt.h"

#include <gtest/gtest.h>

#include "common/file.h"
#include "inference/model/embedded_model.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

/// Byte-level, with <|begin_of_text|> and <|eot_id|>.
Tokenizer small_tokenizer() {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/tokenizers/llama3.json";
  return Tokenizer::from_json(read_file(path), R"({"eos_token": "<|eot_id|>"})", path);
}

ChatTemplate template_of(const std::string& text) {
  return {.name = "own", .source = "chat", .text = text};
}

Turn turn_in_pieces() {
  Turn out;
  out.instruction = "  Read.";
  out.contexts = {{"a", "One 😀."}, {"b", "Two."}};
  out.question = "Which? ";
  out.position = Position::kMiddle;
  out.gold = "Both.";
  return out;
}

/// "kind[text]" of each part.
std::string labels(const LabelledText& text) {
  std::string out;
  std::size_t begin = 0;
  for (const auto& [kind, turn, end] : text.parts) {
    out += std::string(name_of(kind)) + "[" + text.text.substr(begin, end - begin) + "]";
    begin = end;
  }
  return out;
}

/// The same for the tokens' spans.
std::string labels(const Tokenizer& tokenizer, const RenderedTurn& turn) {
  std::string out;
  for (const Span& s : turn.spans) {
    const auto tokens =
        std::span(turn.tokens)
            .subspan(static_cast<std::size_t>(s.begin), static_cast<std::size_t>(s.end - s.begin));
    out += std::string(name_of(s.kind)) + "[" + tokenizer.decode(tokens, false) + "]";
  }
  return out;
}

TEST(Prompt, LabelsLocateThePiecesInATemplate) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto text = [&](const std::string& jinja, int turn, const std::string& system = "") {
    const ChatTemplate chat = template_of(jinja);
    return labels(PromptRenderer(tokenizer, chat, system, {}).text(turn_in_pieces(), turn));
  };
  const std::string plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>";
  EXPECT_EQ(text(plain, 0),
            "markup[<user>]instruction[  Read.]context[\n\n]context[One 😀.]"
            "question[\n\nWhich? ]context[\n\n]context[Two.]cue[<a>]");
  EXPECT_EQ(text(plain, 1, "Be brief."), text(plain, 2));
  EXPECT_EQ(text(plain, 0, "Be brief.").substr(0, 38), "markup[<system>Be brief.<user>]instruc");
  // Stripped and truncated.
  EXPECT_EQ(text("{% for m in messages %}({{ m.content.strip()[:8] }}){% endfor %}", 1),
            "markup[)(]instruction[Read.]context[\n\n]context[O]cue[)]");
  // Replaced: a replacement at a piece's end belongs to the next piece.
  EXPECT_EQ(text("{% for m in messages %}<{{ m.content | replace('One', '1') }}>{% endfor %}", 1),
            "markup[><]instruction[  Read.]context[\n\n]context[1 😀.]question[\n\nWhich? ]"
            "context[\n\n]context[Two.]cue[>]");
}

TEST(Prompt, TheAnswerPrefixIsBehindTheTemplatesText) {
  const Tokenizer tokenizer = small_tokenizer();
  const ChatTemplate chat =
      template_of("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>");
  const PromptRenderer renderer(tokenizer, chat, "", {});
  Dialogue dialogue;
  dialogue.id = "d";
  dialogue.turns = {turn_in_pieces()};
  Turn& turn = dialogue.turns[0];
  turn.position = Position::kBegin;
  const RenderedTurn without = renderer.render(dialogue, 0, 0);
  turn.answer_prefix = " It is";
  EXPECT_TRUE(labels(renderer.text(turn, 0)).ends_with("context[Two.]cue[<a> It is]"));
  const RenderedTurn whole = renderer.render(dialogue, 0, 0);
  EXPECT_TRUE(labels(tokenizer, whole).ends_with("cue[<a> It is]"));
  EXPECT_GT(whole.tokens.size(), without.tokens.size());
  EXPECT_EQ(tokenizer.decode(renderer.view({}, dialogue, 0).cue(), false), "<a>");
  // It is not truncated, and counts.
  const int limit = static_cast<int>(whole.tokens.size()) - 2;
  const RenderedTurn cut = renderer.render(dialogue, 0, limit);
  EXPECT_EQ(static_cast<int>(cut.tokens.size()), limit);
  EXPECT_TRUE(labels(tokenizer, cut).ends_with("cue[<a> It is]"));
  // Gold answers continue it.
  EXPECT_EQ(tokenizer.decode(renderer.gold_answer_tokens(turn), false), " Both.");
  for (const char* prefix : {"It is: ", "It is:\n"}) {
    turn.answer_prefix = prefix;
    EXPECT_EQ(tokenizer.decode(renderer.gold_answer_tokens(turn), false), "Both.") << prefix;
  }
  turn.answer_prefix = " It is";
  turn.gold = " Both.";
  EXPECT_EQ(tokenizer.decode(renderer.gold_answer_tokens(turn), false), " Both.");
  const ChatTemplate spaced =
      template_of("{% for m in messages %}<{{ m.role }}> {{ m.content.strip() }}{% endfor %}<a>");
  EXPECT_EQ(
      tokenizer.decode(PromptRenderer(tokenizer, spaced, "", {}).gold_answer_tokens(turn), false),
      " Both.")
      << "the template writes the space";
  turn.answer_prefix = "It is: ";
  // Official prompts, without and with truncation.
  turn.layout = Layout::kPlain;
  turn.position = Position::kEnd;
  for (const int tokens : {0, 8}) {
    const std::string text = labels(tokenizer, renderer.render(dialogue, 0, tokens));
    EXPECT_TRUE(text.ends_with("cue[It is: ]")) << text;
  }
}

// As in Mistral's templates.
TEST(Prompt, MovingSystemPromptAllowsOneTurnOnly) {
  const Tokenizer tokenizer = small_tokenizer();
  const ChatTemplate chat = template_of(
      "{% set system = messages[0].content + ': ' %}{% for m in messages[1:] %}"
      "[{{ system if loop.last }}{{ m.content }}]{% endfor %}");
  const PromptRenderer renderer(tokenizer, chat, "Be brief", {});
  Turn turn;
  turn.question = "Which?";
  EXPECT_EQ(labels(renderer.text(turn, 0)), "markup[[Be brief: ]question[Which?]cue[]]");
  EXPECT_EQ(test::message_of([&] { renderer.text(turn, 1); }).substr(0, 73),
            "chat: found that turn 2 changes the text before it (with a system prompt)");
}

TEST(Prompt, SpansAreTheLabelsOfTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  const ChatTemplate chat =
      template_of("{% for m in messages %}<|begin_of_text|>{{ m.content }}<|eot_id|>{% endfor %}");
  const PromptRenderer renderer(tokenizer, chat, "", {});
  Turn turn = turn_in_pieces();  // no punctuation, which a token may join with a line end
  turn.instruction = "Read";
  turn.contexts = {{"a", "One"}, {"b", "Two"}};
  turn.question = "😀Which";  // begins with tokens that are parts of a character
  Dialogue dialogue;
  dialogue.turns = {turn, turn};
  for (int t : {0, 1}) {
    const RenderedTurn rendered = renderer.render(dialogue, t, 0);
    EXPECT_EQ(tokenizer.decode(rendered.tokens, false), renderer.text(turn, t).text);
    EXPECT_EQ(labels(tokenizer, rendered), labels(renderer.text(turn, t)));
    for (const Span& span : rendered.spans) EXPECT_EQ(span.turn, t);
  }
  EXPECT_EQ(tokenizer.decode(renderer.gold_answer_tokens(turn), false),
            "<|begin_of_text|>Both.");  // without the beginning of a cue
}

TEST(Prompt, AnswersEndAtTheTemplatesTextAfterThem) {
  const Tokenizer tiny =
      Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(), "tiny");
  const Tokenizer small = small_tokenizer();
  const auto stops = [](const Tokenizer& tokenizer, const ChatTemplate& chat,
                        const std::vector<int>& more) {
    return PromptRenderer(tokenizer, chat, "", more).stop_tokens();
  };
  const int eos = tiny.id_of("<eos>").value(), eot = small.id_of("<|eot_id|>").value(),
            begin = small.id_of("<|begin_of_text|>").value();
  EXPECT_EQ(stops(tiny, find_chat_template("tiny"), {eos, 7}), (std::vector<int>{eos, 7}));
  // The tokenizer lacks the template's tokens, but it has an EOS.
  EXPECT_EQ(stops(tiny, find_chat_template("qwen3"), {}), std::vector<int>{eos});
  const std::string each = "{% for m in messages %}{{ m.content }}";
  EXPECT_EQ(stops(small, template_of(each + " <|begin_of_text|>{% endfor %}"), {}),
            (std::vector<int>{begin, eot}));
  EXPECT_EQ(stops(small, template_of(each + "\n<end>{% endfor %}"), {}), std::vector<int>{eot});
}

}  // namespace
}  // namespace turnbench
