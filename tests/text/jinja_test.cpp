// Properties of the Jinja interpreter that golden files cannot express.

#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace turnbench::jinja {
namespace {

std::string render(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                   const RenderOptions& options = {}) {
  return Template::parse(source, "test").render(variables, options).text;
}

TEST(Jinja, PrintsTheTimeGivenByTheCaller) {
  const std::string date = "{{ strftime_now('%a %d %B %Y, %-I:%M %p, %j') }}";
  EXPECT_EQ(render(date), "Fri 26 July 2024, 12:00 AM, 208");
  const RenderOptions options{.now = {.year = 2031, .month = 12, .day = 31, .hour = 13},
                              .limits = {}};
  EXPECT_EQ(render(date, OrderedJson::object(), options), "Wed 31 December 2031, 1:00 PM, 365");
}

TEST(Jinja, RendersTheSameTemplateAgain) {
  const Template greeting = Template::parse(
      "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ name }}", "greeting");
  EXPECT_EQ(greeting.render({{"name", "A"}}).text, "1A");
  EXPECT_EQ(greeting.render({{"name", "B"}}).text, "1B");
  EXPECT_EQ(Template(greeting).render({{"name", "C"}}).text, "1C");
}

TEST(Jinja, KeepsTheOrderOfKeys) {
  EXPECT_EQ(render("{{ d | tojson }}{{ d }}", {{"d", {{"z", 1}, {"a", 2}}}}),
            "{\"z\": 1, \"a\": 2}{'z': 1, 'a': 2}");
}

TEST(Jinja, VariablesHideGlobals) {
  EXPECT_EQ(render("{{ range }}", {{"range", 5}}), "5");
}

// Values that refer to each other in cycles are freed; the leak sanitizer checks this.
TEST(Jinja, FreesCyclicReferences) {
  EXPECT_EQ(render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                   "{% macro m() %}{% macro n() %}{{ m is defined }}{% endmacro %}"
                   "{% set a.n = n %}{{ n() }}{% endmacro %}{{ m() }}"
                   "{% set a.g = [1] | map('default', a) %}"
                   "{% for i in [1] if i %}{% set a.loop = loop %}{% endfor %}{{ a.loop.last }}"),
            "TrueTrue");
}

}  // namespace
}  // namespace turnbench::jinja
