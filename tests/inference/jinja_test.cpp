// What golden files cannot say of the interpreter of Jinja.

#include "inference/jinja/template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace turnbench::jinja {
namespace {

TEST(Jinja, PrintsTheTimeThatTheCallerSays) {
  const Template date =
      Template::parse("{{ strftime_now('%a %d %B %Y, %-I:%M %p, %j %U') }}", "date");
  EXPECT_EQ(date.render(OrderedJson::object()), "Fri 26 July 2024, 12:00 AM, 208 29");
  const RenderOptions options{.now = {.year = 2031, .month = 12, .day = 31, .hour = 13},
                              .limits = {}};
  EXPECT_EQ(date.render(OrderedJson::object(), options), "Wed 31 December 2031, 1:00 PM, 365 52");
}

TEST(Jinja, RendersTheSameTemplateAgain) {
  const Template greeting = Template::parse(
      "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ name }}", "greeting");
  EXPECT_EQ(greeting.render({{"name", "A"}}), "1A");
  EXPECT_EQ(greeting.render({{"name", "B"}}), "1B");
  EXPECT_EQ(Template(greeting).render({{"name", "C"}}), "1C");
}

TEST(Jinja, KeepsTheOrderOfKeys) {
  EXPECT_EQ(
      Template::parse("{{ d | tojson }}{{ d }}", "order").render({{"d", {{"z", 1}, {"a", 2}}}}),
      "{\"z\": 1, \"a\": 2}{'z': 1, 'a': 2}");
}

TEST(Jinja, VariablesHideGlobals) {
  EXPECT_EQ(Template::parse("{{ range }}", "hidden").render({{"range", 5}}), "5");
}

// Values that refer to each other in circles are freed: the leak sanitizer looks.
TEST(Jinja, FreesCircles) {
  EXPECT_EQ(Template::parse("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                            "{% macro m() %}{% macro n() %}{{ m.name }}{% endmacro %}"
                            "{% set a.n = n %}{{ n() }}{% endmacro %}{{ m() }}"
                            "{% set a.g = [1] | map('default', a) %}"
                            "{% for i in [1] %}{% set a.loop = loop %}{% endfor %}",
                            "circles")
                .render(OrderedJson::object()),
            "m");
}

}  // namespace
}  // namespace turnbench::jinja
