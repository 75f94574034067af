// Errors of the Jinja interpreter and their messages.

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/message_of.h"
#include "text/jinja/template.h"

namespace turnbench::jinja {
namespace {

using test::message_of;

std::string refusal(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                    const RenderOptions& options = {}) {
  return message_of([&] { Template::parse(source, "chat").render(variables, options); });
}

TEST(JinjaRefusals, NameTemplateLineAndExpression) {
  const OrderedJson variables = {{"n", 1}, {"s", "text"}, {"l", {1, 2}}};
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ s + n }}",
       "chat: line 2: s + n: found the string \"text\" + the integer 1, expected "
       "values that can be combined so"},
      {"{{ a.b }}",
       "chat: line 1: a.b: found an undefined value ('a' is undefined), expected a "
       "defined one"},
      {"{{ l.x.y }}",
       "chat: line 1: l.x.y: found an undefined value ('list object' has no "
       "attribute 'x'), expected a defined one"},
      {"{{ l.append(3) }}",
       "chat: line 1: l.append: found list.append, expected a method that this library has"},
      {"{{ n() }}",
       "chat: line 1: n(): found the integer 1, expected something that can be called"},
      {"{% for x in n %}{% endfor %}",
       "chat: line 1: {% for x in n %}{% endfor %}: found the "
       "integer 1, expected something to iterate over"},
      {"{{ s.strip(1) }}",
       "chat: line 1: s.strip(1): found the integer 1 for strip, expected a string"},
      {"{{ s.split(',', 1, 2) }}",
       "chat: line 1: s.split(',', 1, 2): found 3 arguments for split, expected at most 2"},
      {"{{ s | trim(zz=1) }}",
       "chat: line 1: s | trim(zz=1): found the argument zz for trim, expected none of that name"},
      {"{{ raise_exception('no\nroles') }}",
       "chat: line 1: raise_exception('no\\x0aroles'): found messages that the template refuses "
       "(\"no\\x0aroles\"), expected others"},
      {"{{ 9223372036854775807 + n }}",
       "chat: line 1: 9223372036854775807 + n: found a result "
       "beyond 64 bits, expected a smaller integer"},
      {"{{ l | map('upper') }}",
       "chat: line 1: {{ l | map('upper') }}: found a value of type "
       "generator, expected a value that has a text (|list makes a list "
       "of it)"},
      {"{{ (s | safe) + s }}",
       "chat: line 1: (s | safe) + s: found the string \"text\", which |safe "
       "marked, expected a plain string"},
      {"{{ '%s' % s }}",
       "chat: line 1: '%s' % s: found the string \"%s\" % the string \"text\", "
       "expected values that can be combined so"},
      {"{{ 7.5 // 2 }}", "chat: line 1: 7.5 // 2: found // of floats, expected integers"},
      {"{{ 'é' | title }}",
       "chat: line 1: 'é' | title: found letters beyond ASCII, expected none to "
       "write large and small"},
      {"{{ range(3) == range(3) }}",
       "chat: line 1: range(3) == range(3): found a range of 3 and a range of 3, "
       "expected lists (|list makes one)"},
      {"{{ range(3) }}",
       "chat: line 1: {{ range(3) }}: found a range of 3, expected a value that "
       "has a text (|list makes a list of it)"},
      {"{{ s | urlize }}",
       "chat: line 1: s | urlize: found the filter urlize, expected one that this library has"},
      {"{{ s is upper }}",
       "chat: line 1: s is upper: found the test upper, expected one that this library has"},
      {"{{ cycler }}",
       "chat: line 1: cycler: found cycler, expected a function that this library has"},
      {"{% for x in l %}{{ loop.depth }}{% endfor %}",
       "chat: line 1: loop.depth: found loop.depth, expected an attribute that this library has"},
      {"{{ s.swapcase() }}",
       "chat: line 1: s.swapcase: found str.swapcase, expected a method that this library has"},
      {"{{ strftime_now('%Q') }}",
       "chat: line 1: strftime_now('%Q'): found the conversion %Q, "
       "expected one of dates and times"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(refusal(source, variables), message);
}

TEST(JinjaRefusals, RejectsInvalidTemplates) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% if x %}", "chat: line 1: the end: found the end, expected the tag endif"},
      {"a\n\n{{ 1 + }}", "chat: line 3: }}: found \"}}\", expected an expression"},
      {"{% include 'x' %}",
       "chat: line 1: include: found \"include\", expected one of if, for, set, macro, "
       "generation, break, continue"},
      {"{{ 2 ** 3 }}", "chat: line 1: **: found \"**\", expected }}"},
      {"{{ f(*x) }}", "chat: line 1: *: found \"*\", expected an expression"},
      {"{{ 0x1F }}", "chat: line 1: 0x: found a number that is not plain, expected decimal digits"},
      {"{{ '\\N{DASH}' }}",
       "chat: line 1: \\N: found a character's octal number or name, expected \\u and its number"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}",
       "chat: line 1: varargs: found \"varargs\", expected what a macro has parameters for"},
      {"{{ (1] }}", "chat: line 1: ]: found a closing bracket, expected )"},
      {"{{ 'abc }}", "chat: line 1: 'abc }}: found a string without an end, expected one"},
      {"{# a", "chat: line 1: {# a: found a comment without an end, expected #}"},
      {"{{ 'a' ! }}",
       "chat: line 1: !: found a character that means nothing here, expected an expression"},
      {"{{ 99999999999999999999 }}",
       "chat: line 1: 99999999999999999999: found "
       "\"99999999999999999999\", expected an integer of 64 bits"},
      {"{% break %}", "chat: line 1: break: found \"break\", expected a loop around it"},
      {"{% macro m(a, a) %}", "chat: line 1: a: found \"a\", expected another name"},
      {"\xFF", "chat: byte 0: found 0xff, expected well-formed UTF-8"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(refusal(source), message);
}

TEST(JinjaRefusals, RejectsLongTemplates) {
  EXPECT_EQ(refusal(std::string(1 << 18, 'a')), "no error");
  EXPECT_EQ(refusal(std::string((1 << 18) + 1, 'a')),
            "chat: found 262145 bytes, expected at most 262144");
}

TEST(JinjaRefusals, RejectsInvalidVariables) {
  EXPECT_EQ(refusal("", OrderedJson::array()), "variables: found array, expected an object");
  EXPECT_EQ(refusal("", {{"a", {1, 18446744073709551615u}}}),
            "variables: /a/1: found 18446744073709551615, expected an integer of 64 bits");
  EXPECT_EQ(refusal("", {{"a", "\xFF"}}),
            "variables: /a: byte 0: found 0xff, expected well-formed UTF-8");
  OrderedJson deep = 1;
  for (int i = 0; i < 1000; ++i) deep = OrderedJson::array({deep});
  EXPECT_EQ(refusal("", {{"a", deep}}),
            "variables: found nesting deeper than 600, expected at most so many levels");
}

TEST(JinjaRefusals, RejectsExcessiveOutput) {
  RenderOptions small;
  small.limits = {.steps = 10'000, .bytes = 400'000, .depth = 600};
  const char* steps = "found more than 10000 steps, expected at most so many";
  const char* bytes = "found more than 400000 bytes of text, expected at most so many";
  const std::pair<std::string, std::string> cases[] = {
      {"{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", steps},
      {"{{ 'a' * 1000000000000 }}", bytes},
      {"{{ 'a\nb' | indent(1000000000000) }}", bytes},
      {"{% set ns = namespace(t='ab') %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}"
       "{% endfor %}",
       bytes},
      {"{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}"
       "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
       steps},
      {"{% set ns = namespace(l=1) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}",
       "found values nested 281 deep, expected at most 280 levels"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
       "found nesting deeper than 600, expected at most so many levels"},
  };
  for (const auto& [source, message] : cases) {
    const std::string found = refusal(source, OrderedJson::object(), small);
    EXPECT_TRUE(found.ends_with(": " + message)) << source << "\n" << found;
  }
  EXPECT_EQ(refusal("{{ range(100001) }}"),
            "chat: line 1: range(100001): found a range of more than 100000 numbers, expected at "
            "most so many");
}

// Text is refused before it is allocated: otherwise each of these would take seconds and 1 GiB.
TEST(JinjaRefusals, RejectsExcessiveTextBeforeAllocatingIt) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* made :
       {"'a' * 10000000000", "'abc' * 9223372036854775807", "'a' | indent(10000000000)"}) {
    EXPECT_EQ(refusal(fmt::format("{{{{ {} }}}}", made)),
              fmt::format("chat: line 1: {}: found more than 1073741824 bytes of text, expected at "
                          "most so many",
                          made));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

std::string times(int count, std::string_view text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JinjaRefusals, RejectsDeepNesting) {
  const std::string cases[] = {"{{ " + times(10'000, "(") + times(10'000, ")") + " }}",
                               "{{ " + times(10'000, "[") + times(10'000, "]") + " }}",
                               "{{ " + times(10'000, "not ") + " }}",
                               "{{ " + times(10'000, "-") + "1 }}",
                               "{{ 1" + times(10'000, " + 1") + " }}",
                               "{{ a" + times(10'000, ".b") + " }}",
                               "{{ a" + times(10'000, "|d") + " }}",
                               times(10'000, "{% if 1 %}{% else %}"),
                               "{% if 1 %}" + times(10'000, "{% elif 1 %}"),
                               "{{ a" + times(10'000, "()") + " }}",
                               times(10'000, "{% if 1 %}"),
                               "{{ 1" + times(10'000, " if 1 else 1") + " }}",
                               "{{ 1" + times(10'000, " and 1") + " }}"};
  for (const std::string& source : cases) {
    const std::string found = refusal(source);
    EXPECT_TRUE(found.find("levels of nesting") != std::string::npos ||
                found.find("an expression of fewer parts") != std::string::npos)
        << source.substr(0, 40) << "\n"
        << found.substr(0, 300);
  }
  // Long expressions without deep nesting are accepted.
  EXPECT_EQ(refusal("{{ 1" + times(1000, " ~ 1") + " }}" +
                    times(1000, "{% if 1 %}{% elif 2 %}{% endif %}")),
            "no error");
}

}  // namespace
}  // namespace turnbench::jinja
