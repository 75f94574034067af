// Compares the JSON parser with nlohmann's.  Accepted texts have the same value.  Refused texts are
// refused by both, or have repeated keys, deep nesting or a NUL.
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  const std::string_view text = fuzz::text_of(data, size);
  const auto other = [&] { return Json::parse(text, nullptr, /*allow_exceptions=*/false); };
  try {
    const Json json = parse_json(text, "f");
    // Numbers must also have the same types.
    fuzz::require(json == other() && json.dump() == other().dump(), "the values differ");
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const bool stricter = message.find(" twice in one object") != std::string_view::npos ||
                          message.find(" nesting deeper than ") != std::string_view::npos ||
                          // nlohmann's parser ends at a NUL.
                          text.find('\0') != std::string_view::npos;
    fuzz::require(stricter || other().is_discarded(), message);
  }
  fuzz::expect_value_or_refusal([&] { parse_json(text, "f"); });
  return 0;
}
