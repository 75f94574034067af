// Tests which bytes of a rendering are traced to which variables.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

namespace turnbench::jinja {
namespace {

const OrderedJson kVariables = {
    {"a", "  one two "}, {"b", "x<y"}, {"list", {"p", "q", "r"}}, {"empty", ""}, {"cjk", "你好吗"}};

/// The rendering; each piece is shown as {POINTER@SOURCE:copied}.
std::string marked(const std::string& source, const OrderedJson& variables = kVariables) {
  const Rendering traced = Template::parse(source, "trace").render(variables);
  std::string out;
  std::size_t done = 0;
  for (const Piece& piece : traced.pieces) {
    out += traced.text.substr(done, piece.begin - done);
    out += "{" + traced.origins[piece.origin] + "@" + std::to_string(piece.source) + ":" +
           traced.text.substr(piece.begin, piece.end - piece.begin) + "}";
    done = piece.end;
  }
  return out + traced.text.substr(done);
}

TEST(JinjaTrace, CopiesKeepTheirOrigin) {
  EXPECT_EQ(marked("<{{ a }}>"), "<{/a@0:  one two }>");
  EXPECT_EQ(marked("{{ a + '|' + b ~ empty ~ a }}"),
            "{/a@0:  one two }|{/b@0:x<y}{/a@0:  one two }");
  EXPECT_EQ(marked("{{ a | trim }}{{ a.strip() }}"), "{/a@2:one two}{/a@2:one two}");
  EXPECT_EQ(marked("{{ a[2:5] }}.{{ cjk[1] }}.{{ cjk[::-1] }}"),
            "{/a@2:one}.{/cjk@3:好}.{/cjk@6:吗}{/cjk@3:好}{/cjk@0:你}");
  EXPECT_EQ(marked("{{ a.split()[1] }}{{ list | join(', ') }}"),
            "{/a@6:two}{/list/0@0:p}, {/list/1@0:q}, {/list/2@0:r}");
  EXPECT_EQ(marked("{{ b * 2 }}"), "{/b@0:x<y}{/b@0:x<y}");
}

TEST(JinjaTrace, ReplacedTextBelongsToTheTemplate) {
  EXPECT_EQ(marked("{{ a.replace('one', '1') }}"), "{/a@0:  }1{/a@5: two }");
  EXPECT_EQ(marked("{{ 'x-y'.replace('-', b) }}"), "x{/b@0:x<y}y");
  EXPECT_EQ(marked("{{ {'k': b} | tojson }}", {{"b", "1\n2"}}), "{\"k\": \"{/b@0:1}\\n{/b@2:2}\"}");
  EXPECT_EQ(marked("{{ [b] }}"), "['{/b@0:x<y}']");
  EXPECT_EQ(marked("{{ b | upper }}"), "X<Y");
}

TEST(JinjaTrace, GoesThroughVariablesMacrosAndBlocks) {
  EXPECT_EQ(marked("{% set ns = namespace(t='') %}{% for x in list %}{% set ns.t = ns.t + x %}"
                   "{% endfor %}{{ ns.t }}"),
            "{/list/0@0:p}{/list/1@0:q}{/list/2@0:r}");
  EXPECT_EQ(marked("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(b) | trim }}"), "<{/b@0:x<y}>");
  EXPECT_EQ(marked("{% set t %}[{{ b }}]{% endset %}{{ t[1:] }}"), "{/b@0:x<y}]");
}

TEST(JinjaTrace, NamesStringsByTheirPointer) {
  const OrderedJson variables = {{"a/b~c", {{{"content", "t"}}}}, {"m", {{{"k", {"v"}}}}}};
  const Rendering traced = Template::parse("{{ m[0].k[0] }}", "trace").render(variables);
  EXPECT_EQ(traced.origins, (std::vector<std::string>{"/a~1b~0c/0/content", "/m/0/k/0"}));
  EXPECT_EQ(traced.pieces, (std::vector<Piece>{{0, 1, 1, 0}}));
}

}  // namespace
}  // namespace turnbench::jinja
