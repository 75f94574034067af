#include "methods/method.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

std::string message_of(const std::string& spec) {
  return test::message_of([&] { Method::parse(spec); });
}

TEST(Method, DescriptionsAreChecked) {
  const auto error_of = [](std::vector<MethodInfo> methods) {
    return test::message_of([&] { check_methods(methods); }, ErrorKind::kRuntime);
  };
  const auto with = [](std::string_view name, std::vector<ParameterInfo> parameters = {}) {
    MethodInfo out;
    out.name = name;
    out.parameters = std::move(parameters);
    out.make = [](const Parameters&) { return Policies(); };
    return out;
  };
  const auto flag = [](std::string_view name, std::string_view only_with = "") {
    return ParameterInfo{.name = name,
                         .kind = ParameterInfo::Kind::kFlag,
                         .fallback = "false",
                         .unit = "",
                         .description = "",
                         .only_with = only_with};
  };
  EXPECT_EQ(error_of(all_methods()), "no error");
  EXPECT_EQ(error_of({with("A-1.b_c", {flag("x"), flag("y", "x=true|x=false")})}), "no error");
  for (const char* name : {"", "a:b", "a b", "a+b", "a@b"}) {
    EXPECT_EQ(error_of({with(name)}),
              fmt::format("method {0}: found the name \"{0}\", expected letters, digits, "
                          "-, _ and .",
                          name));
  }
  EXPECT_EQ(error_of({with("a"), with("b"), with("a")}),
            "method a: found two methods of this name, expected one");
  MethodInfo without_make = with("a");
  without_make.make = nullptr;
  EXPECT_EQ(error_of({without_make}), "method a: found no `make`, expected a function");
  EXPECT_EQ(error_of({with("a", {flag("x"), flag("x")})}),
            "method a: parameter x: found it twice, expected it once");
  for (const char* name : {"placement", "compress", "compress_block", "name"}) {
    EXPECT_EQ(error_of({with("a", {flag(name)})}),
              fmt::format("method a: parameter {}: found a name that every method has, expected "
                          "another",
                          name));
  }
  EXPECT_EQ(error_of({with("a", {flag("x", "z=true")})}),
            "method a: parameter x: only_with: found \"z=true\", expected PARAMETER=VALUE of this "
            "method");
}

TEST(Method, UnknownParametersAreNotRead) {
  const Method method = Method::parse("streamingllm:budget=64");
  EXPECT_EQ(test::message_of([&] { (void)method.parts()[0].parameters.integer("typo"); },
                             ErrorKind::kRuntime),
            "found no parameter \"typo\" among those of the method "
            "(budget=64,sinks=4,pos=keep,rolling=true,layers=equal), expected one of them");
}

TEST(Method, SpecsAndObjectsAgree) {
  const Method spec = Method::parse("snapkv:budget=256,pool=avg");
  const Json json = parse_json(R"({"name": "snapkv", "budget": 256, "pool": "avg"})", "m");
  EXPECT_EQ(Method::parse(JsonView(json, "m")).canonical(), spec.canonical());
  EXPECT_EQ(spec.canonical(),
            "snapkv:budget=256,window=32,kernel=7,pool=avg,gran=kv_head,gqa_agg=mean,"
            "layers=equal,comp=none,comm=0.0078125");
  EXPECT_EQ(spec.label(), "snapkv:budget=256,pool=avg");
  EXPECT_EQ(spec.prefill_key(), "");
}

// Budgets of loopserve, and loopserve-prefill, share one prefill.
TEST(Method, PrefillKeyIsThatOfTheMethodWithTheSamePrefill) {
  const std::string key = Method::parse("loopserve-prefill:alpha=0.9").prefill_key();
  EXPECT_EQ(key, Method::parse("loopserve-prefill:alpha=0.9").canonical());
  EXPECT_EQ(Method::parse("loopserve:alpha=0.9,budget=64").prefill_key(), key);
  EXPECT_EQ(Method::parse("loopserve:alpha=0.9,budget=128,n_d=4").prefill_key(), key);
  EXPECT_NE(Method::parse("loopserve:alpha=0.8,budget=64").prefill_key(), key);
}

// Otherwise two methods with different prefills would share one.
TEST(Method, SamePrefillsHaveTheSameParameters) {
  for (const MethodInfo& info : all_methods()) {
    if (info.prefill_of.empty()) continue;
    for (const ParameterInfo& p : find_method(std::string(info.prefill_of), "test").parameters) {
      const auto own = std::find_if(info.parameters.begin(), info.parameters.end(),
                                    [&](const ParameterInfo& mine) { return mine.name == p.name; });
      ASSERT_NE(own, info.parameters.end()) << info.name << ": " << p.name;
      EXPECT_EQ(own->fallback, p.fallback) << info.name << ": " << p.name;
    }
  }
}

TEST(Method, Composition) {
  const Method both = Method::parse("loopserve-prefill:alpha=0.9+snapkv:budget=128");
  const Policies p = both.make();
  EXPECT_TRUE(p.prefill && p.eviction && !p.selection);
  EXPECT_EQ(both.name(), "loopserve-prefill+snapkv");
  EXPECT_NE(both.prefill_key().find("alpha=0.9"), std::string::npos);
  const Json json = parse_json(
      R"([{"name": "loopserve-prefill", "alpha": 0.9}, {"name": "snapkv", "budget": 128}])", "m");
  EXPECT_EQ(Method::parse(JsonView(json, "m")).canonical(), both.canonical());
  EXPECT_NE(message_of("snapkv+streamingllm").find("which both decide what is evicted"),
            std::string::npos);
  EXPECT_NE(message_of("full+full").find("found full twice"), std::string::npos);
  EXPECT_NE(message_of("h2o+full").find("expected it alone"), std::string::npos);
  // An inactive setting may have its default value, which does not change the name.
  EXPECT_EQ(Method::parse("round:threshold=0.1").canonical(), Method::parse("round").canonical());
  EXPECT_EQ(Method::parse("int8+quest+snapkv").canonical(),
            Method::parse("snapkv+quest+int8").canonical());
  EXPECT_EQ(Method::parse("pqcache:placement=device,cache_tokens=4096").canonical(),
            Method::parse("pqcache:placement=device").canonical());
}

TEST(Method, LayersAndFractions) {
  const auto canonical = [](const std::string& spec) { return Method::parse(spec).canonical(); };
  EXPECT_EQ(canonical("tova:budget=1/5"), canonical("tova:budget=0.2"));
  EXPECT_EQ(canonical("tova:layers=pyramid"), canonical("tova:layers=pyramid/20"));
  EXPECT_EQ(canonical("tova:layers=3/2.50/1"), canonical("tova:layers=3/2.5/1"));
  EXPECT_EQ(canonical(canonical("tova:layers=3/2.5/1")), canonical("tova:layers=3/2.5/1"));
  const Json json = parse_json(R"({"name": "tova", "layers": [3, 2.5, 1]})", "m");
  EXPECT_EQ(Method::parse(JsonView(json, "m")).canonical(), canonical("tova:layers=3/2.5/1"));
  for (const char* layers : {"", "pyramids", "pyramid/0", "pyramid/2.5", "pyramid/2/3", "1/-1",
                             "0/0", "1//2", "1/x", "nan"}) {
    EXPECT_NE(message_of(fmt::format("tova:layers={}", layers)).find("expected equal, pyramid"),
              std::string::npos)
        << layers;
  }
  for (const char* number : {"1/", "/2", "1/0", "1/2/3", "0/0"}) {
    EXPECT_NE(message_of(fmt::format("tova:budget={}", number)).find("expected a"),
              std::string::npos)
        << number;
  }
}

TEST(Method, Placement) {
  const Policies p = Method::parse("oracle:placement=host,cache_tokens=512,cache_rule=lfu").make();
  EXPECT_TRUE(p.placement.host);
  EXPECT_EQ(p.placement.cache_tokens, 512);
  EXPECT_EQ(p.placement.rule, Residency::Rule::kLfu);
  EXPECT_NE(Method::parse("oracle:placement=host").canonical(),
            Method::parse("oracle").canonical());
}

// A path in a manifest is relative to the manifest, not to the working directory of the program;
// the file's content is part of the method's name.
TEST(Method, FilesAreFoundBesideTheManifest) {
  const test::TemporaryDirectory a, b;
  const std::string costs = R"({"prefill_base": 0, "prefill_token": 1, "prefill_pair": 0,
                                "cluster_base": 0, "cluster_token": 1})";
  write_file(a.path() / "costs.json", costs);
  write_file(b.path() / "costs.json", costs);
  const std::string spec = "pqcache:max_iter=0,costs=costs.json";
  const auto canonical = [&](const test::TemporaryDirectory& folder) {
    return Method::parse(spec, "method", folder.path()).canonical();
  };
  EXPECT_THROW(Method::parse(spec), Error);
  EXPECT_NE(canonical(a).find("costs=costs.json#"), std::string::npos);
  EXPECT_EQ(canonical(a), canonical(b));
  const Json json = {{"label", "ours"},
                     {"method", {{{"name", "pqcache"}, {"max_iter", 0}, {"costs", "costs.json"}}}}};
  EXPECT_EQ(Method::parse(JsonView(json, "m.json"), a.path()).canonical(), canonical(a));
  EXPECT_EQ(
      Method::parse("pqcache:max_iter=0,costs=" + a.path("costs.json"), "method", b.path()).name(),
      "pqcache");
  EXPECT_NO_THROW(Method::parse(canonical(a), "method", a.path()).make());

  write_file(b.path() / "costs.json", costs + "\n");
  EXPECT_NE(canonical(a), canonical(b));
  EXPECT_THROW(Method::parse(canonical(a), "method", b.path()), Error);
}

TEST(Method, BadSpecsAreRefusedWithWhatWasExpected) {
  EXPECT_NE(message_of("snpkv").find("expected \"snapkv\""), std::string::npos);
  EXPECT_NE(message_of("snapkv:budgt=3").find("expected \"budget\""), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget=-1").find("whole number of tokens"), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget=12.5").find("whole number of tokens"), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget=1024.0").find("at most 1.0"), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget=3/2").find("at most 1.0"), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget").find("NAME=VALUE"), std::string::npos);
  EXPECT_NE(message_of("snapkv:budget=64,budget=64").find("twice"), std::string::npos);
  EXPECT_NE(message_of("snapkv:pool=median").find("max, avg, none"), std::string::npos);
  EXPECT_NE(message_of("snapkv:window=0").find("from 1"), std::string::npos);
  EXPECT_NE(
      message_of("full:budget=3").find("expected one of: compress, compress_block, placement"),
      std::string::npos);
  EXPECT_NE(message_of("streamingllm:rolling=maybe").find("true or false"), std::string::npos);
  EXPECT_NE(message_of("").find("unknown method"), std::string::npos);
  EXPECT_NE(message_of("oracle:local=2").find("from 0 to 1"), std::string::npos);
}

// Messages on incompatible settings and missing files also name their place.
TEST(Method, ErrorsNameThePlaceOfTheMethod) {
  EXPECT_TRUE(message_of("snapkv:budget=16").starts_with("method: snapkv: found a budget of 16"))
      << message_of("snapkv:budget=16");
  const Json json = parse_json(
      R"([["full", {"name": "h2o", "budget": 4, "recent": 8}],
          {"label": "a", "method": "minference:config=no/such.json"}])",
      "m.json");
  const JsonView methods(json, "m.json");
  EXPECT_EQ(test::message_of([&] { Method::parse(methods[0][1]); }),
            "m.json: /0/1: h2o: found a budget of 4 with 8 recent tokens, expected at least 8");
  EXPECT_EQ(test::message_of([&] { Method::parse(methods[1]); }),
            "m.json: /1/method: minference: config: no/such.json: found no readable file (No such "
            "file or directory), expected one");
}

TEST(Budget, TokensAndShares) {
  EXPECT_EQ((Budget{false, 128}.tokens(1000)), 128);
  EXPECT_EQ((Budget{true, 0.2}.tokens(999)), 199);
  EXPECT_EQ((Budget{true, 0.29}.tokens(100)), 29);  // 0.29 * 100 is 28.999999999999996
  const std::vector<ParameterInfo> declared = {
      {"budget", ParameterInfo::Kind::kBudget, "8", "tokens or share", "what is kept"}};
  for (const auto& [text, tokens] :
       {std::pair("100%", 70), std::pair("50%", 35), std::pair("0.5", 35), std::pair("1", 1),
        std::pair("1%", 0), std::pair("1.0", 70), std::pair("1/1", 70), std::pair("4/8", 35),
        std::pair("1e-1", 7)}) {
    const Parameters p = Parameters::check(declared, {{"budget", text}}, "test");
    EXPECT_EQ(p.budget("budget").tokens(70), tokens) << text;
  }
  const Json json =
      parse_json(R"([{"name": "tova", "budget": 1.0}, {"name": "tova", "budget": 1}])", "m");
  EXPECT_EQ(Method::parse(JsonView(json, "m")[0]).setting("budget"), "100%");
  EXPECT_EQ(Method::parse(JsonView(json, "m")[1]).setting("budget"), "1");
}

TEST(Registry, EveryMethodIsDescribed) {
  for (const MethodInfo& m : all_methods()) {
    EXPECT_FALSE(m.summary.empty()) << m.name;
    EXPECT_FALSE(m.paper.empty()) << m.name;
    EXPECT_FALSE(m.budget_unit.empty()) << m.name;
    EXPECT_NO_THROW(Method::parse(std::string(m.name))) << m.name;
    for (const ParameterInfo& p : m.parameters)
      EXPECT_FALSE(p.description.empty()) << m.name << " " << p.name;
  }
}

// Each method that registers a scorer is a value of every parameter "scorer".
TEST(Registry, ListsTheScorers) {
  std::vector<std::string> scorers;
  for (const MethodInfo& m : all_methods()) {
    if (m.scorer) scorers.emplace_back(m.name);
  }
  EXPECT_GE(scorers.size(), 4u);
  for (const char* method : {"adakv", "ada-pyramidkv", "pyramidkv", "chunkkv"}) {
    const std::vector<ParameterInfo>& all = find_method(method, "test").parameters;
    const auto parameter = std::find_if(
        all.begin(), all.end(), [](const ParameterInfo& p) { return p.name == kScorerParameter; });
    ASSERT_NE(parameter, all.end()) << method;
    EXPECT_EQ(unit_or_values(*parameter), join(scorers, "|"));
    EXPECT_EQ(message_of(fmt::format("{}:scorer=streamingllm", method)),
              fmt::format("method: {}: scorer: found \"streamingllm\", expected one of: {}", method,
                          join(scorers, ", ")));
  }
}

// A method that selects in prompts selects from the whole prompt and determines the prefill, so it
// cannot be combined.
TEST(MethodSpec, SelectionInPromptsStandsAlone) {
  const Method method = Method::parse("infllm:budget=64");
  EXPECT_EQ(method.prefill_key(), method.canonical());
  for (const char* other : {"snapkv", "minference", "oracle"}) {
    EXPECT_THROW(Method::parse(std::string(other) + "+infllm"), Error) << other;
    EXPECT_THROW(Method::parse(std::string("infllm+") + other), Error) << other;
  }
  EXPECT_FALSE(method.make().prefill_part().selection == nullptr);
  EXPECT_TRUE(Method::parse("oracle").make().prefill_part().selection == nullptr);
}

}  // namespace
}  // namespace turnbench
