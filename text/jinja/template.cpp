#include "text/jinja/template.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "text/jinja/syntax.h"

namespace turnbench::jinja {
namespace {

/// Converts a document to values.  The origin of each string (except keys) is recorded: its number
/// is the index in `origins`, to which its JSON pointer is added.
class JsonReader {
 public:
  JsonReader(std::vector<std::string>& origins, Budget& budget)
      : origins_(origins), budget_(budget) {}

  Value read(const OrderedJson& json) {
    const Budget::Level level(budget_);
    switch (json.type()) {
      case OrderedJson::value_t::null:
        return None{};
      case OrderedJson::value_t::boolean:
        return json.get<bool>();
      case OrderedJson::value_t::number_integer:
        return json.get<std::int64_t>();
      case OrderedJson::value_t::number_unsigned:
        return integer(json.get<std::uint64_t>());
      case OrderedJson::value_t::number_float:
        return json.get<double>();
      case OrderedJson::value_t::string:
        return string(json.get_ref<const std::string&>());
      case OrderedJson::value_t::array:
        return array(json);
      case OrderedJson::value_t::object:
        return object(json);
      default:
        throw input_error("{}: found bytes, expected a value of JSON", place());
    }
  }

 private:
  std::string place() const {
    return "variables: " + (path_.empty() ? "/" : printable(shorten(path_, 200)));
  }

  Value integer(std::uint64_t number) {
    if (number > INT64_MAX) {
      throw input_error("{}: found {}, expected an integer of 64 bits", place(), number);
    }
    return static_cast<std::int64_t>(number);
  }

  Value string(const std::string& bytes) {
    require_utf8(bytes, place());
    origins_.push_back(path_);
    return Text(bytes, static_cast<int>(origins_.size()) - 1);
  }

  Value array(const OrderedJson& json) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const OrderedJson& item : json) {
      items.push_back(below(std::to_string(items.size()), item));
    }
    return Value::list(std::move(items));
  }

  Value object(const OrderedJson& json) {
    std::vector<std::pair<Value, Value>> items;
    items.reserve(json.size());
    for (const auto& [key, item] : json.items()) {
      require_utf8(key, place());
      const std::string escaped = replace_all(replace_all(key, "~", "~0"), "/", "~1");
      items.emplace_back(Value::text(key), below(escaped, item));
    }
    return Value::dict(std::move(items));
  }

  Value below(const std::string& step, const OrderedJson& item) {
    const std::size_t length = path_.size();
    path_ += "/" + step;
    Value out = read(item);
    path_.resize(length);
    return out;
  }

  std::vector<std::string>& origins_;
  Budget& budget_;
  std::string path_;
};

}  // namespace

struct Template::Parsed {
  Parsed(std::string_view text, std::string name)
      : source(text, std::move(name)), body(jinja::parse(source)) {}

  Source source;
  Body body;
};

Template Template::parse(std::string_view source, std::string name) {
  return Template(std::make_shared<const Parsed>(source, std::move(name)));
}

Rendering Template::render(const OrderedJson& variables, const RenderOptions& options) const {
  if (!variables.is_object()) {
    throw input_error("variables: found {}, expected an object", variables.type_name());
  }
  Rendering out;
  Runtime runtime(options.limits, options.now);
  Value all;
  try {
    all = JsonReader(out.origins, runtime.budget).read(variables);
  } catch (const Complaint& complaint) {
    throw input_error("variables: {}", complaint.what());
  }
  const Text text = evaluate(parsed_->source, parsed_->body, all.as_dict(), runtime);
  out.text = text.bytes();
  out.pieces = text.pieces();
  return out;
}

}  // namespace turnbench::jinja
