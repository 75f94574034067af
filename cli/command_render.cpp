#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/text.h"
#include "harness/run/labelled_text.h"

namespace turnbench {
namespace {

struct RenderCommandOptions {
  std::string model, file;
  ConversationOptions conversation;
  bool no_generation_prompt = false;
};

/// Parses [{"role", "content"}] and omits null values, as transformers does for templates.
OrderedJson read_messages(const std::string& file) {
  const std::string text = read_utf8_input(file), source = input_name(file);
  const Json checked = parse_json(text, source);
  for (const JsonView& message : JsonView(checked, source).items()) {
    message.at("role").as_string();
    message.at("content");
  }
  OrderedJson out = OrderedJson::parse(text);  // in the order of its keys
  for (OrderedJson& message : out) {
    for (auto item = message.begin(); item != message.end();)
      item = item->is_null() ? message.erase(item) : std::next(item);
  }
  return out;
}

/// The place of a message in a dialogue: its kind by its role, and its turn.  A turn begins with
/// the messages that precede its question.
struct Origin {
  SpanKind kind;
  int turn;
};

std::vector<Origin> origins_of(const OrderedJson& messages) {
  std::vector<Origin> out;
  int questions = 0;
  for (const OrderedJson& message : messages) {
    const std::string role = message.at("role");
    const bool answer = role == "assistant", question = role == "user";
    const SpanKind kind = question ? SpanKind::kQuestion
                          : answer ? SpanKind::kAnswer
                                   : SpanKind::kInstruction;
    out.push_back({kind, answer ? std::max(questions - 1, 0) : questions});
    if (question) ++questions;
  }
  return out;
}

/// The message that contains a piece of the text, or -1: the N of "/messages/N/content".
int message_of_piece(const jinja::Rendering& rendered, const jinja::Piece& piece) {
  const std::vector<std::string> steps = split(rendered.origins[piece.origin], "/");
  return steps.size() > 3 && steps[1] == "messages" && steps[3] != "role" ? std::stoi(steps[2])
                                                                          : -1;
}

/// The template's text before an answer, and at the end of the prompt, is a cue.
LabelledText labelled(const jinja::Rendering& rendered, const std::vector<Origin>& origins,
                      bool generation_prompt) {
  LabelledText out;
  const auto add_until = [&](Origin origin, std::size_t end) {
    const std::size_t done = out.text.size();
    out.add(origin.kind, origin.turn, std::string_view(rendered.text).substr(done, end - done));
  };
  int before = -1;
  for (const jinja::Piece& piece : rendered.pieces) {
    const int message = message_of_piece(rendered, piece);
    if (message < 0) continue;
    const Origin origin = origins[message];
    const SpanKind gap = message == before                  ? origin.kind
                         : origin.kind == SpanKind::kAnswer ? SpanKind::kCue
                                                            : SpanKind::kMarkup;
    add_until({gap, origin.turn}, piece.begin);
    add_until(origin, piece.end);
    before = message;
  }
  const int last = before < 0 ? 0 : origins[before].turn;
  add_until({generation_prompt ? SpanKind::kCue : SpanKind::kMarkup, last}, rendered.text.size());
  return out;
}

void render(const RenderCommandOptions& o) {
  const Tokenizer tokenizer = open_model_tokenizer(o.model);
  const ChatTemplate chat = o.conversation.open(tokenizer, o.model);
  const OrderedJson messages = read_messages(o.file);
  const jinja::Rendering rendered = ChatRenderer(chat).render(messages, !o.no_generation_prompt);
  const LabelledTokens labels =
      labelled(rendered, origins_of(messages), !o.no_generation_prompt).encode(tokenizer, false);
  OrderedJson spans = OrderedJson::array();
  for (const Span& span : labels.spans) {
    spans.push_back({{"kind", name_of(span.kind)},
                     {"turn", span.turn},
                     {"begin", span.begin},
                     {"end", span.end}});
  }
  fmt::print("{}\n", dump({{"text", rendered.text}, {"ids", labels.tokens}, {"spans", spans}}));
}

}  // namespace

void add_render_command(CLI::App& app) {
  auto o = std::make_shared<RenderCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "render", "Render a conversation with a chat template: text, ids, spans of ids");
  command->footer(
      "Example: echo '[{\"role\": \"user\", \"content\": \"hello\"}]' | turnbench render --model "
      "tiny -");
  command->add_option("--model", o->model, kTokenizerModelHelp)->required();
  command->add_option("messages", o->file, "[{\"role\", \"content\"}] as JSON; default: stdin");
  o->conversation.add_template_to(*command);
  command->add_flag("--no-generation-prompt", o->no_generation_prompt,
                    "end after the last message");
  command->callback([o] { render(*o); });
}

}  // namespace turnbench
