#pragma once

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace turnbench::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<const Expression>;

struct Expression {
  /// The comments show the parts and the meaning of the name.
  enum class Kind {
    kLiteral,      ///< the constant
    kName,         ///< name
    kList,         ///< [parts]
    kTuple,        ///< (parts)
    kDict,         ///< {part: part, part: part}
    kAttribute,    ///< part.name
    kItem,         ///< part[part]
    kSlice,        ///< part[part:part:part], None for omitted bounds
    kCall,         ///< part(parts)
    kFilter,       ///< part|name(parts)
    kTest,         ///< part is name(parts)
    kNegative,     ///< -part
    kNot,          ///< not part
    kAnd,          ///< part and part
    kOr,           ///< part or part
    kCalculation,  ///< part name part
    kComparison,   ///< part names[0] part names[1] part ...
    kText,         ///< part ~ part ~ ...
    kConditional   ///< part if part else part; the last part may be missing
  };

  Kind kind;
  std::vector<ExpressionPointer> parts{};
  std::string name{};
  /// For calls, filters and tests, the keywords of the last parts.
  std::vector<std::string> names{};
  Value constant{};
  Place place{};
  int height = 1;  ///< height of the tree, including this node
};

/// Target of an assignment: one name, several names that unpack a value, or an attribute of a
/// namespace.
struct Target {
  std::vector<std::string> names;
  bool unpacks = false;
  std::string attribute{};
};

struct Statement;
using Body = std::vector<Statement>;

struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  ///< with defaults or nullptr
  Body body;
};

struct Statement {
  enum class Kind {
    kData,        ///< the text between tags
    kOutput,      ///< {{ value }}
    kIf,          ///< {% if value %} body {% else %} otherwise
    kFor,         ///< {% for target in value if test %} body {% else %} otherwise
    kSet,         ///< {% set target = value %}
    kSetBlock,    ///< {% set target %} body
    kMacro,       ///< {% macro %}
    kGeneration,  ///< {% generation %} body: transformers' mark of the text to train on
    kBreak,
    kContinue
  };

  Kind kind;
  TextPointer text{};
  ExpressionPointer value{}, test{};
  Target target{};
  Body body{}, otherwise{};
  std::shared_ptr<const Macro> macro{};
  Place place{};
};

/// The syntax tree of a template.  Rejects invalid Jinja2, unsupported features, and nesting that
/// is too deep.
Body parse(const Source& source);

/// Evaluates the statements of a template with these variables; returns the resulting text.
Text evaluate(const Source& source, const Body& body, const Dict& variables, Runtime& runtime);

}  // namespace turnbench::jinja
