#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/jinja/budget.h"
#include "inference/jinja/date_time.h"
#include "inference/jinja/text.h"

namespace turnbench::jinja {

struct RenderOptions {
  DateTime now{};   ///< what strftime_now prints
  Limits limits{};  ///< what is more is refused
};

/// A rendered text, and which of its bytes are which of the variables'.
struct TracedRendering {
  std::string text;
  /// The parts that are verbatim copies, in ascending order.  What is between them the template
  /// wrote, or changed: another case, an escape of JSON.
  std::vector<Piece> pieces;
  /// What Piece::origin counts: the strings of the variables as JSON pointers,
  /// "/messages/0/content".
  std::vector<std::string> origins;
};

/// A chat template of Hugging Face: Jinja2 in the environment that transformers gives it (the
/// immutable sandbox, trim_blocks, lstrip_blocks, break and continue, `generation`, tojson as
/// json.dumps, raise_exception, strftime_now).  It renders what Jinja2 renders; where it cannot, it
/// refuses:
///   - include, import, extends and block, the filters for HTML and random, character names \N{};
///   - integers beyond 64 bits, and printing what Python prints with an address in memory;
///   - an operator or method on a string that |safe or |escape marked.
/// One thing is simpler than in Jinja2: a variable that a block assigns is until then what it is
/// around the block, while Jinja2 in some cases knows in advance that it will be another one.
/// Whatever a template or its variables say ends with a text or an input_error that names the
/// template, the line and the expression; see Limits.
class Template {
 public:
  /// Refuses what is no template; `name` stands in messages.
  static Template parse(std::string_view source, std::string name);

  /// The text for the variables (messages, add_generation_prompt, bos_token, tools, ...): an object
  /// whose keys are in the order that a template's loops shall see.
  std::string render(const OrderedJson& variables, const RenderOptions& options = {}) const;

  /// The same text with the origin of each byte that is one of the variables'.
  TracedRendering render_traced(const OrderedJson& variables,
                                const RenderOptions& options = {}) const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  Text run(const OrderedJson& variables, const RenderOptions& options,
           std::vector<std::string>* origins) const;

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace turnbench::jinja
