#include "inference/jinja/template.h"

#include <nlohmann/json.hpp>

#include "inference/jinja/evaluator.h"
#include "inference/jinja/parser.h"

namespace turnbench::jinja {

struct Template::Parsed {
  Parsed(std::string_view text, std::string name)
      : source(text, std::move(name)), body(jinja::parse(source)) {}

  Source source;
  Body body;
};

Template Template::parse(std::string_view source, std::string name) {
  return Template(std::make_shared<const Parsed>(source, std::move(name)));
}

Text Template::run(const OrderedJson& variables, const RenderOptions& options,
                   std::vector<std::string>* origins) const {
  if (!variables.is_object()) {
    throw input_error("variables: found {}, expected an object", variables.type_name());
  }
  Value all;
  try {
    all = from_json(variables, origins);
  } catch (const Complaint& complaint) {
    throw input_error("variables: {}", complaint.what());
  }
  Runtime runtime(options.limits, options.now);
  return Evaluator(parsed_->source, runtime, all.as_dict()).render(parsed_->body);
}

std::string Template::render(const OrderedJson& variables, const RenderOptions& options) const {
  return std::string(run(variables, options, nullptr).bytes());
}

TracedRendering Template::render_traced(const OrderedJson& variables,
                                        const RenderOptions& options) const {
  TracedRendering out;
  const Text text = run(variables, options, &out.origins);
  out.text = text.bytes();
  out.pieces = text.pieces();
  return out;
}

}  // namespace turnbench::jinja
