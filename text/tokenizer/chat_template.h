#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "text/jinja/template.h"
#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// A chat template: a model's own, or a known one.
struct ChatTemplate {
  std::string name{};                           ///< name of a known template, else "own"
  std::string source{};                         ///< name of its place in messages
  std::string text{};                           ///< in Jinja
  std::map<std::string, std::string> tokens{};  ///< variables of the text: bos_token, ...
  /// Stop texts, in addition to the text that follows a given answer.
  std::vector<std::string> stops{};

  /// A user message consists of paragraphs and a question.  These texts precede each of them; the
  /// first piece of a message only if `prefixes_first_piece`.
  std::string paragraph_prefix = "\n\n";
  std::string question_begin = "\n\n";  ///< {n}: the number of the turn
  bool prefixes_first_piece = false;

  std::string question_prefix(int turn) const;
};

std::vector<std::string> chat_template_names();

/// @throws Error (input) for an unknown name, with the list of known names.
ChatTemplate find_chat_template(std::string_view name);

/// The template with text or name `text`.  `source` is its place in messages: "DIR: chat_template".
/// @throws Error (input) for an empty text, with the list of known names.
ChatTemplate chat_template_of(std::string_view text, const Tokenizer& tokenizer,
                              std::string source);

/// Opens the template `given`: `auto` for the model's own, a known name, or a Jinja file, whose
/// path may be relative to `folder`.  Messages name the place of `given` and the model.
/// @throws Error (input) for anything else.
ChatTemplate open_chat_template(const std::string& given, const std::string& place,
                                const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                const std::string& model);

/// Renders conversations as `apply_chat_template` of transformers does, without tools and
/// documents.  The date is always 26 Jul 2024, the fallback of Llama's templates, so that results
/// are reproducible.
class ChatRenderer {
 public:
  /// @throws Error (input) if the text is not a valid template.
  explicit ChatRenderer(const ChatTemplate& chat);

  /// `messages`: [{"role", "content"}], to whose strings the rendering's origins refer
  /// ("/messages/0/content").  With `generation_prompt` the text ends where the answer begins.
  /// @throws Error (input), with the template's message, if the template rejects the messages.
  jinja::Rendering render(OrderedJson messages, bool generation_prompt) const;

 private:
  std::map<std::string, std::string> tokens_;
  jinja::Template template_;
};

}  // namespace turnbench
