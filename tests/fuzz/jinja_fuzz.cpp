// Fuzzes chat templates.  The first line is a JSON object of variables; the rest is the template.
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"
#include "text/jinja/template.h"

namespace turnbench::fuzz {
namespace {

/// Expects that every piece is a copy of the string that it refers to.
void check(const jinja::Rendering& traced, const OrderedJson& variables) {
  std::size_t end = 0;
  for (const jinja::Piece& piece : traced.pieces) {
    require(end <= piece.begin && piece.begin < piece.end && piece.end <= traced.text.size(),
            "pieces out of order");
    end = piece.end;
    const OrderedJson::json_pointer origin(
        traced.origins.at(static_cast<std::size_t>(piece.origin)));
    const auto& source = variables.at(origin).get_ref<const std::string&>();
    const std::size_t size = piece.end - piece.begin;
    require(source.compare(piece.source, size, traced.text, piece.begin, size) == 0,
            "a piece that is no copy");
  }
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  std::string_view text = fuzz::text_of(data, size);
  const OrderedJson variables = OrderedJson::parse(fuzz::take_line(text), nullptr, false);
  if (variables.is_discarded()) return 0;
  fuzz::expect_value_or_refusal([&] {
    const auto chat = jinja::Template::parse(text, "chat");
    jinja::RenderOptions options;
    options.limits.steps = 50'000;
    options.limits.bytes = 1'000'000;
    const jinja::Rendering traced = chat.render(variables, options);
    fuzz::require(is_valid_utf8(traced.text), "a text that is not UTF-8");
    fuzz::check(traced, variables);
  });
  return 0;
}
