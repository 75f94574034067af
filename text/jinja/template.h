#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "text/jinja/budget.h"
#include "text/jinja/date_time.h"
#include "text/jinja/text.h"

namespace turnbench::jinja {

struct RenderOptions {
  DateTime now{};   ///< what strftime_now prints
  Limits limits{};  ///< what is more is refused
};

/// A rendered text, and which of its bytes are which of the variables'.
struct Rendering {
  std::string text;
  /// The parts that are verbatim copies, in ascending order.  What is between them the template
  /// wrote, or changed: another case, an escape of JSON.
  std::vector<Piece> pieces;
  /// What Piece::origin counts: the strings of the variables as JSON pointers,
  /// "/messages/0/content".
  std::vector<std::string> origins;
};

/// A chat template of Hugging Face: the part of Jinja2 that chat templates use, in the environment
/// that transformers gives it (the immutable sandbox, trim_blocks, lstrip_blocks, tojson as
/// json.dumps, raise_exception, strftime_now).
///   - Statements: if, for, set, macro, break, continue, and generation, which marks nothing here.
///   - Expressions: all operators but ** and unary +; calls without * and **.
///   - What loop, filters, tests and methods there are, the tables of the library say.
/// It renders what Jinja2 renders, with Python's meaning of truth, numbers, texts and slices, or it
/// refuses: what is left out, integers beyond 64 bits, and prints of what Python prints with an
/// address in memory or as the text of a type (generators, views, functions).  Two things are
/// simpler than in Jinja2.  A variable that a block assigns is until then what it is around the
/// block, while Jinja2 in some cases knows in advance that it will be another one.  And what is
/// wrong or left out matters where it runs, while Jinja2 finds some of it before.
/// Whatever a template or its variables say ends with a text or an input_error that names the
/// template, the line and the expression; see Limits.
class Template {
 public:
  /// Refuses what is no template; `name` stands in messages.
  static Template parse(std::string_view source, std::string name);

  /// The text for the variables (messages, add_generation_prompt, bos_token, tools, ...): an object
  /// whose keys are in the order that a template's loops shall see.
  Rendering render(const OrderedJson& variables, const RenderOptions& options = {}) const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace turnbench::jinja
