// Invalid manifests and published numbers, through the command line.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

Json good_manifest() {
  return {{"name", "m"},
          {"models", {"tiny"}},
          {"datasets", {{{"name", "tiny-fact"}, {"limit", 1}, {"length", 100}}}},
          {"methods", {"full"}}};
}

Arguments plan_of(const TemporaryDirectory& d, const std::string& text) {
  return {"plan", d.write("m.json", text)};
}

Malformed text(const char* name, std::string text, const char* expected) {
  return {name, [text](const TemporaryDirectory& d) { return plan_of(d, text); }, expected};
}

/// A case that sets the value at a JSON pointer of the valid manifest.
Malformed value(const char* name, const char* pointer, Json value, const char* expected) {
  return {name,
          [pointer, value](const TemporaryDirectory& d) {
            Json json = good_manifest();
            json[Json::json_pointer(pointer)] = value;
            return plan_of(d, json.dump());
          },
          expected};
}

/// A case with a CSV of published numbers next to the manifest.
Malformed published(const char* name, const char* csv, const char* expected) {
  return {name,
          [csv](const TemporaryDirectory& d) {
            d.write("p.csv", csv);
            Json json = good_manifest();
            json["published"] = "p.csv";
            return plan_of(d, json.dump());
          },
          expected};
}

TEST(MalformedManifest, ValidManifestsArePlanned) {
  const TemporaryDirectory d;
  EXPECT_EQ(run_program(plan_of(d, good_manifest().dump())).code, 0);
  const Malformed good = published(
      "good",
      "# from a paper\nmethod,value,note\n\"snapkv:budget=64,window=8\",1.5,\"a \"\"b\"\"\"\n", "");
  const Finished run = run_program(good.make(d));
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(MalformedManifest, Refused) {
  const Malformed cases[] = {
      {"missing",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"plan", d.path("x.json")};
       },
       "x.json: found no readable file (No such file or directory), expected one"},
      {"a directory",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"plan", d.path("")};
       },
       "found a directory, expected a file"},
      text("empty", "", "m.json: found nothing, expected JSON"),
      text("cut", "{\"name\": \"m\",\n \"models\": [", "m.json: line 2, column"),
      text("an array", "[]", "m.json: /: found an array of 0, expected an object"),
      text("no UTF-8", "{\"name\": \"\xff\"}", "m.json: column"),
      text("deep nesting", std::string(100000, '['), "nesting deeper than 256"),
      text("number beyond doubles", "{\"seed\": 1e999}", "expected valid JSON"),
      text("one key twice", R"({"name": "a", "name": "b"})", "the key \"name\" twice"),
      text("no models", R"({"name": "m", "datasets": ["tiny-fact"], "methods": ["full"]})",
           "found no key \"models\""),
      value("name with a slash", "/name", "../x", "/name: found \"../x\", expected letters"),
      value("name with a line break", "/name", "a\nb", "/name: found \"a\\nb\""),
      value("no method", "/methods", Json::array(), "/methods: found an array of 0"),
      value("methods are text", "/methods", "full", "/methods: found \"full\", expected an array"),
      value("method twice", "/methods", {"snapkv:budget=64", "snapkv:budget=64,window=32"},
            "/methods/1: found"),
      value(
          "two methods of one label", "/methods",
          {{{"label", "a"}, {"method", "full"}}, {{"label", "a"}, {"method", "snapkv:budget=64"}}},
          "/methods: found an array of 2, expected each name once (found \"a\" twice)"),
      value("label is empty", "/methods/0", {{"label", " "}, {"method", "full"}},
            "/methods/0/label: found \" \", expected a name for tables"),
      value("method without a label", "/methods/0", {{"method", "full"}},
            "/methods/0: found no key \"label\""),
      value("unknown method", "/methods/0", "snapkw:budget=1", "\"snapkw\", expected \"snapkv\""),
      value("unknown parameter", "/methods/0", "snapkv:bugdet=64",
            "\"bugdet\", expected \"budget\""),
      value("unknown parameter of every method", "/methods/0", "snapkv:placment=host",
            "\"placment\", expected \"placement\""),
      value("unknown parameter without a near one", "/methods/0", "int8:zzz=1",
            "\"zzz\", expected one of: prefill, compress, compress_block, placement, cache_tokens, "
            "cache_block, cache_rule, cache_insert"),
      value("a budget that the window fills", "/methods/0", "snapkv:budget=16,window=32",
            "m.json: /methods/0: snapkv: found a budget of 16 and a window of 32"),
      value("the same in an object", "/methods/0",
            {{"name", "snapkv"}, {"budget", 16}, {"window", 32}},
            "m.json: /methods/0: snapkv: found a budget of 16 and a window of 32"),
      value("answers without tokens", "/max_new_tokens", 0,
            "/max_new_tokens: found 0, expected an integer from 1"),
      value("negative budget", "/methods/0", "snapkv:budget=-5", "budget: found \"-5\""),
      value("budget of 120%", "/methods/0", "snapkv:budget=120%", "budget: found \"120%\""),
      value("isolated without a length", "/isolated", true,
            "/isolated: found true, expected max_new_tokens of at least 2"),
      value("the same by its older name", "/alone", true,
            "/alone: found true, expected max_new_tokens of at least 2"),
      value("times of cells that share", "/tables", {{{"value", "ttft"}}}, "\"isolated\": true"),
      value("unknown value of a table", "/tables", {{{"value", "tfft"}}}, "one of: score, kl"),
      value("parameter is a list", "/methods/0", {{"name", "snapkv"}, {"budget", {1, 2}}},
            "/methods/0/budget: found an array of 2"),
      value("two methods of one kind", "/methods/0", "snapkv:budget=64+streamingllm:budget=64",
            "found snapkv and streamingllm in \"snapkv:budget=64+streamingllm:budget=64\", which "
            "both "
            "decide what is evicted, expected one of them"),
      value("two methods that choose what steps read", "/methods/0", "quest+oracle",
            "found quest and oracle in \"quest+oracle\", which both decide what steps read"),
      value("two methods of the prefill", "/methods/0", "minference+infllm",
            "found minference and infllm in \"minference+infllm\", which both decide the prefill"),
      value("a method twice in one entry", "/methods/0", "full+full",
            "found full twice in \"full+full\", expected it once"),
      value("a method that decides nothing with another", "/methods/0", "full+snapkv:budget=64",
            "found full with others in \"full+snapkv:budget=64\", expected it alone"),
      value("the same method in other words", "/methods",
            {"snapkv:budget=0.2", "full", "snapkv:budget=1/5"},
            "m.json: /methods/2: found \"snapkv:budget=1/5\", expected each method once: it is "
            "\"snapkv:budget=0.2\" again"),
      value("a device cache without host memory", "/methods/0", "quest:cache_tokens=64",
            "cache_tokens: found 64 with placement=device in \"quest:cache_tokens=64\", expected "
            "placement=host"),
      value("a device cache taken to the device", "/methods/0",
            "pqcache:placement=device,cache_rule=lru",
            "cache_rule: found lru with placement=device"),
      value("a threshold that no strategy reads", "/methods/0", "round:threshold=0.2",
            "round: threshold: found it with strategy=topk, expected it with strategy=fixed only"),
      value("a share that no strategy reads", "/methods/0", "round:share=0.2,strategy=mean",
            "round: share: found it with strategy=mean, expected it with strategy=topk only"),
      value("unknown dataset", "/datasets/0", "tiny-fcat", "\"tiny-fcat\", expected \"tiny-fact\""),
      value("dataset twice", "/datasets/1", {{"name", "tiny-fact"}}, "/datasets: found"),
      value("negative limit", "/datasets/0/limit", -1, "/datasets/0/limit: found -1"),
      value("limit beyond 64 bits", "/datasets/0/limit", 1e30, "/datasets/0/limit: found 1e+30"),
      value("unknown metric", "/datasets/0/metric", "qa_f2", "\"qa_f2\", expected \"qa_f1\""),
      value("unknown post-processing", "/datasets/0/postprocess", "first", "expected"),
      value("missing source", "/datasets/0", "hotpotqa",
            "dataset hotpotqa: found no files for it, expected --data longbench=DIR"),
      value("missing file of one's own", "/datasets/0", {{"name", "jsonl"}, {"label", "ours"}},
            "dataset ours: found no files for it, expected --data ours=FILE"),
      value("missing model", "/models/0", "llama-99", "model llama-99: found no directory"),
      value("model with a slip", "/models/0", "tiyn",
            "model tiyn: found no directory and no model of this name, expected \"tiny\", or a "
            "directory (--model tiyn=DIR, \"path\" in the manifest"),
      value("unknown arithmetic", "/models/0", {{"name", "tiny"}, {"math", "f16"}},
            "/models/0/math: found \"f16\", expected one of: f32, bf16-linear, bf16"),
      value("arithmetic without its weights", "/models/0",
            {{"name", "tiny"}, {"math", "bf16"}, {"dtype", "f16"}},
            "/models/0/dtype: found \"f16\", expected auto or bf16"),
      value("unknown dtype", "/models/0", {{"name", "tiny"}, {"dtype", "f8"}},
            "/models/0/dtype: found \"f8\""),
      value("unknown template", "/models/0", {{"name", "tiny"}, {"template", "chatmll"}},
            "m.json: /models/0/template: found \"chatmll\", expected a file, or one of: none"),
      value("template without messages", "/models/0", {{"name", "tiny"}, {"template", "m.json"}},
            "m.json: found the user's message changed or left out"),
      value("layer that the model lacks", "/probes", {"coverage", "coverage:layer=99"},
            "m.json: /probes/1: coverage: layer: found 99, expected at most "),
      value("head that the model lacks", "/probes", {"coverage:head=99"},
            "m.json: /probes/0: coverage: head: found 99, expected at most "),
      value("layer of a method's error", "/probes",
            {"output-error:layer=99,method=snapkv:budget=64"},
            "m.json: /probes/0: output-error: layer: found 99, expected at most "),
      text("fidelity of probes", R"({"name": "m", "models": ["tiny"], "datasets": ["tiny-fact"],
           "probes": ["coverage"], "fidelity": "full"})",
           "m.json: /fidelity: found \"full\", expected at least one method"),
      value("unknown position", "/positions", {"end", "start"}, "/positions/1: found the position"),
      value("position twice", "/positions", {"end", "end"}, "/positions/1: found \"end\""),
      value("unknown history", "/history", "compress",
            "/history: found \"compress\", expected one of"),
      value("temperature is negative", "/temperature", -0.5, "/temperature: found -0.5"),
      value("seed is negative", "/seed", -1, "/seed: found -1"),
      value("seed beyond 63 bits", "/seed", std::uint64_t{1} << 63,
            "/seed: found 9223372036854775808, expected an integer from 0 to "
            "9223372036854775807"),
      value("seed beyond 64 bits", "/seed", 18446744073709551616.0,
            "expected an integer from 0 to 9223372036854775807"),
      value("row is no dimension", "/tables", {{{"rows", {"methods"}}}},
            "/tables/0/rows/0: found \"methods\""),
      value(
          "row is no setting of a method", "/tables", {{{"rows", {"method.budgets"}}}},
          "/tables/0/rows/0: found \"method.budgets\", expected method.name, method.variant, or a"),
      value("dimension in rows and columns", "/tables",
            {{{"rows", {"dataset"}}, {"columns", {"dataset"}}}}, "in rows or in columns"),
      value("difference to a method that is not there", "/tables", {{{"difference_to", "h2o"}}},
            "/tables/0/difference_to: found \"h2o\""),
      value("published numbers are missing", "/published", "p.csv",
            "p.csv: found no readable file (No such file or directory), expected one"),
      published("unknown column", "metod,value\nfull,1\n",
                "p.csv: line 1: found the unknown column \"metod\", expected \"method\""),
      published("no value", "method,note\nfull,1\n", "found no column \"value\""),
      published("column twice", "value,value\n1,2\n", "the column \"value\" 2 times"),
      published("value is text", "method,value\nfull,about 40\n",
                "line 2: found the value \"about 40\""),
      published("too many fields", "method,value\nsnapkv:budget=64,window=8,1\n",
                "found 3 fields, expected 2"),
      published("not UTF-8", "method,value,note\nfull,1,\xff\n", "p.csv: byte 25: found 0xff"),
      published("open quote", "method,value\n\"full,1\n", "a quote that is not closed"),
  };
  expect_refusals(cases);
}

// tiny has four layers of heads with 32 dimensions.
TEST(MalformedManifest, MethodsBeyondTheModelsShapeAreRejected) {
  const Malformed cases[] = {
      value("parts of keys", "/methods", {"full", "pqcache:m=3"},
            "m.json: /methods/1: tiny: pqcache: m: found 3 parts, expected a divisor of the 32 "
            "dimensions of a head"),
      value("weights of layers", "/methods/0", "snapkv:layers=4/3",
            "m.json: /methods/0: tiny: snapkv: layers: found 2 numbers, expected the model's 4"),
      value("the same of a composed method", "/methods/0", "a-shape+h2o:layers=4/3",
            "/methods/0: tiny: h2o: layers: found 2 numbers"),
      value("dense layers", "/methods/0", "quest:dense_layers=5",
            "quest: dense_layers: found 5, expected at most the model's 4 layers"),
      value("lower layers", "/methods/0", "round:lw=5", "round: lw: found 5, expected at most"),
      value("a layer", "/methods/0", "specontext-self:d=4",
            "specontext-self: d: found 4, expected a layer of the model, 0 to 3"),
      value("dimensions of a query", "/methods/0", "sparq:r=33",
            "sparq: r: found 33, expected at most the 32 dimensions of a head"),
      value("the method of a probe", "/probes", {"recall:method=pqcache:m=5"},
            "m.json: /probes/0: tiny: pqcache: m: found 5 parts"),
      {"patterns of another model",
       [](const TemporaryDirectory& d) {
         d.write("p.json", R"([{"0": ["vertical_and_slash", 30, 100, 1]}])");
         Json json = good_manifest();
         json["methods"] = {"minference:config=p.json"};
         return plan_of(d, json.dump());
       },
       "p.json: found 1 layers, expected the model's 4"},
      {"a run of it",
       [](const TemporaryDirectory& d) -> Arguments {
         Json json = good_manifest();
         json["methods"] = {"full", "pqcache:m=3"};
         return {"run", d.write("m.json", json.dump()), "--db", d.path("s.db")};
       },
       "m.json: /methods/1: tiny: pqcache: m: found 3 parts"},
  };
  expect_refusals(cases);
}

// Settings with their default value, or with exactly the model's size, are valid.
TEST(MalformedManifest, MethodsThatFitTheModelArePlanned) {
  const TemporaryDirectory d;
  Json json = good_manifest();
  json["methods"] = {"pqcache:m=16",
                     "snapkv:layers=4/3/2/1",
                     "quest:dense_layers=4",
                     "round:lw=4",
                     "specontext-self:d=3",
                     "sparq:r=32",
                     "shadowkv",
                     "infllm",
                     "specontext"};
  const Finished run = run_program(plan_of(d, json.dump()));
  EXPECT_EQ(run.code, 0) << run.err;
}

// A message on an unknown key suggests the most similar key, on every level.
TEST(MalformedManifest, UnknownKeysNameTheNearest) {
  const Malformed cases[] = {
      value("manifest", "/position", "end",
            "m.json: /: found the unknown key \"position\", expected \"positions\""),
      value("manifest, another", "/max_tokens", 1, "expected \"max_"),
      value("manifest, far away", "/zzzzzzzzzzzzzzzzzzz", 1, "expected one of: name, title"),
      value("model", "/models/0", {{"name", "tiny"}, {"dype", "f32"}},
            "/models/0: found the unknown key \"dype\", expected \"dtype\""),
      value("dataset", "/datasets/0/lenght", 5,
            "/datasets/0: found the unknown key \"lenght\", expected \"length\""),
      value("depth", "/datasets/0/depth", 101,
            "/datasets/0/depth: found 101, expected a number from 0 to 100"),
      value("depth is text", "/datasets/0/depth", "end", "/datasets/0/depth: found \"end\""),
      value("depth of no place", "/datasets/0/depth", 50,
            "tiny-fact: found the depth 50, expected none"),
      value("source of none", "/datasets/0/source", "essays", "tiny-fact: found the source \""),
      value("fields", "/datasets/0/fields", {{"question", 1}},
            "/datasets/0/fields/question: found 1"),
      value("fields of none", "/datasets/0/fields", {{"question", "q"}},
            "tiny-fact: found names of fields, expected none"),
      value("table", "/tables", {{{"column", {"dataset"}}}},
            "/tables/0: found the unknown key \"column\", expected \"columns\""),
      value("labelled method", "/methods/0", {{"method", "full"}, {"lable", "a"}},
            "/methods/0: found the unknown key \"lable\", expected \"label\""),
      value("method", "/methods/0", {{"name", "snapkv"}, {"budgets", 64}},
            "/methods/0: snapkv: found the unknown parameter \"budgets\", expected \"budget\""),
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
