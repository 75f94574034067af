// Compares with renderings by Python's jinja2 in transformers' environment:
// tests/golden/make_jinja_golden.py.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "text/jinja/template.h"

namespace turnbench::jinja {
namespace {

const std::filesystem::path kGolden = TURNBENCH_SOURCE_DIR "/tests/data/jinja";

OrderedJson golden(const char* name) {
  return OrderedJson::parse(read_file(kGolden / name));
}

/// Expects that the pieces of a rendering are in order and have the bytes that they refer to.
void expect_exact_pieces(const Rendering& rendering, const OrderedJson& variables) {
  std::size_t end = 0;
  for (const Piece& piece : rendering.pieces) {
    EXPECT_LE(end, piece.begin);
    EXPECT_LT(piece.begin, piece.end);
    end = piece.end;
    ASSERT_LE(end, rendering.text.size());
    const OrderedJson::json_pointer origin(
        rendering.origins.at(static_cast<std::size_t>(piece.origin)));
    const auto& copied = variables.at(origin).get_ref<const std::string&>();
    EXPECT_EQ(rendering.text.substr(piece.begin, piece.end - piece.begin),
              copied.substr(piece.source, piece.end - piece.begin));
  }
}

/// `want` is the text, or null if the template or the rendering must be refused.
void expect_same(const std::string& source, const OrderedJson& variables, const OrderedJson& want) {
  OrderedJson text;
  try {
    const Rendering rendering = Template::parse(source, "golden").render(variables);
    expect_exact_pieces(rendering, variables);
    text = rendering.text;
  } catch (const Error& error) {
    if (want.is_string()) ADD_FAILURE() << error.what();
  }
  EXPECT_EQ(text, want) << source;
}

TEST(JinjaGolden, TemplatesWrittenByHand) {
  const OrderedJson file = golden("cases.json");
  EXPECT_GT(file["cases"].size(), 600u);
  for (const OrderedJson& one : file["cases"]) {
    expect_same(one[0].get<std::string>(), file["variables"], one[1]);
  }
}

// Features of Jinja2 that this library does not support are refused, never rendered differently.
TEST(JinjaGolden, UnsupportedFeaturesAreRejected) {
  const OrderedJson file = golden("left_out.json");
  EXPECT_GT(file["cases"].size(), 150u);
  for (const OrderedJson& one : file["cases"]) {
    EXPECT_TRUE(one[1].is_string());
    expect_same(one[0].get<std::string>(), file["variables"], nullptr);
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
