// What Python's jinja2 renders in transformers' environment: tests/golden/make_jinja_golden.py

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "inference/jinja/template.h"

namespace turnbench::jinja {
namespace {

const std::filesystem::path kGolden = TURNBENCH_SOURCE_DIR "/tests/data/jinja";

OrderedJson golden(const char* name) {
  return OrderedJson::parse(read_file(kGolden / name));
}

/// The rendered text, or null if the template or the rendering is refused.
OrderedJson rendered(const std::string& source, const OrderedJson& variables) {
  try {
    return Template::parse(source, "golden").render(variables);
  } catch (const Error&) {
    return nullptr;
  }
}

/// The pieces of a traced rendering are the bytes that they say, in order, and tracing changes
/// nothing.
void expect_exact_pieces(const std::string& source, const OrderedJson& variables,
                         const std::string& text) {
  const TracedRendering traced = Template::parse(source, "golden").render_traced(variables);
  EXPECT_EQ(traced.text, text);
  std::size_t end = 0;
  for (const Piece& piece : traced.pieces) {
    EXPECT_LE(end, piece.begin);
    EXPECT_LT(piece.begin, piece.end);
    end = piece.end;
    ASSERT_LE(end, traced.text.size());
    const OrderedJson::json_pointer origin(
        traced.origins.at(static_cast<std::size_t>(piece.origin)));
    const auto& copied = variables.at(origin).get_ref<const std::string&>();
    EXPECT_EQ(traced.text.substr(piece.begin, piece.end - piece.begin),
              copied.substr(piece.source, piece.end - piece.begin));
  }
}

void expect_same(const std::string& source, const OrderedJson& variables, const OrderedJson& want) {
  EXPECT_EQ(rendered(source, variables), want) << source;
  if (want.is_string()) expect_exact_pieces(source, variables, want.get<std::string>());
}

TEST(JinjaGolden, TemplatesWrittenByHand) {
  const OrderedJson file = golden("cases.json");
  EXPECT_GT(file["cases"].size(), 900u);
  for (const OrderedJson& one : file["cases"]) {
    expect_same(one[0].get<std::string>(), file["variables"], one[1]);
  }
}

TEST(JinjaGolden, TemplatesDrawnFromAGrammar) {
  const OrderedJson file = golden("random.json");
  EXPECT_EQ(file["cases"].size(), 2000u);
  for (const OrderedJson& one : file["cases"]) {
    expect_same(one[0].get<std::string>(), file["variables"][one[1].get<std::size_t>()], one[2]);
  }
}

TEST(JinjaGolden, ChatTemplatesOfModels) {
  const std::filesystem::path folder = TURNBENCH_SOURCE_DIR "/../shared/data/chat_templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared/data/chat_templates";
  const OrderedJson file = golden("templates.json");
  EXPECT_GT(file["cases"].size(), 500u);
  for (const OrderedJson& one : file["cases"]) {
    const std::string source = read_file(folder / one[0].get<std::string>());
    SCOPED_TRACE(one[0].get<std::string>());
    expect_same(source, file["variables"][one[1].get<std::size_t>()], one[2]);
  }
}

}  // namespace
}  // namespace turnbench::jinja
