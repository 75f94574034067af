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
  DateTime now{};   ///< the time that strftime_now prints
  Limits limits{};  ///< a rendering that exceeds them is rejected
};

/// A rendered text, and the origin of the bytes that were copied from variables.
struct Rendering {
  std::string text;
  /// The parts that are verbatim copies, in ascending order.  The text between them was written by
  /// the template or transformed (case, JSON escapes).
  std::vector<Piece> pieces;
  /// The strings to which Piece::origin refers, as JSON pointers into the variables:
  /// "/messages/0/content".
  std::vector<std::string> origins;
};

/// A chat template of Hugging Face: the subset of Jinja2 that chat templates use, in the
/// environment of transformers (immutable sandbox, trim_blocks, lstrip_blocks, tojson as
/// json.dumps, raise_exception, strftime_now).
/// - Statements: if, for, set, macro, break, continue, and generation, which marks nothing here.
/// - Expressions: all operators except ** and unary +; calls without * and **.
/// - The tables of the library list the attributes of loop, the filters, the tests and the methods.
/// It either gives the same text as Jinja2, with Python's semantics of truth, numbers, texts and
/// slices, or rejects the template: unsupported features, integers beyond 64 bits, and printing
/// values that Python prints with a memory address or as a type (generators, views, functions).
///
/// Two rules are simpler than in Jinja2.  Until a block assigns a variable, the variable has its
/// value from outside the block; Jinja2 in some cases determines in advance that it will be local.
/// Errors and unsupported features are reported when they are evaluated; Jinja2 reports some of
/// them when it parses the template.
///
/// For any template and variables, the result is a text or an input_error that names the template,
/// the line and the expression; see Limits.
class Template {
 public:
  /// Rejects text that is not a valid template; `name` is used in messages.
  static Template parse(std::string_view source, std::string name);

  /// The text for the variables (messages, add_generation_prompt, bos_token, tools, ...): an object
  /// whose keys are in the order in which a template's loops visit them.
  Rendering render(const OrderedJson& variables, const RenderOptions& options = {}) const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace turnbench::jinja
