// Invalid command lines.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

Malformed usage(const char* name, Arguments arguments, const char* expected) {
  return {name, [arguments](const TemporaryDirectory&) { return arguments; }, expected};
}

TEST(MalformedUsage, Words) {
  const Malformed cases[] = {
      usage("nothing", {}, "command line: found no command"),
      usage("unknown command", {"reprot", "x.db"},
            "the unknown command \"reprot\", expected \"report\""),
      usage("help of an unknown command", {"reprot", "--help"},
            "the unknown command \"reprot\", expected \"report\""),
      usage("command far from all", {"qqqqqqqqqqqqqqq"}, "expected one of: run, plan"),
      usage("command with a line break", {"a\nb"}, "\"a\\x0ab\""),
      usage("option before the command", {"--jason", "list"}, "the unknown option \"--jason\""),
      usage("unknown option", {"generate", "--modle", "tiny"},
            "generate: found the unknown option \"--modle\", expected \"--model\""),
      usage("unknown option with a value", {"generate", "--max-token=5", "--model", "tiny"},
            "\"--max-token\", expected \"--max-tokens\""),
      usage("option is missing", {"generate"}, "generate: found no --model, expected one"),
      usage("argument is missing", {"report"}, "report: found no db, expected one"),
      usage("value is missing", {"generate", "--model"}, "--model: found no value, expected one"),
      usage("option twice", {"logits", "--model", "tiny", "--ids", "1", "--ids", "2"},
            "--ids: found it 2 times"),
      usage("one argument too many", {"report", "a.db", "b.db"},
            "report: found the argument \"b.db\""),
      usage("unknown thing to list", {"list", "mehtods"},
            "found \"mehtods\", expected \"methods\""),
      usage("unknown action", {"status", "x.db", "retyr"}, "found \"retyr\", expected \"retry\""),
      usage("method is missing", {"method"},
            "method: found no method, expected one (see method --"),
      usage("unknown method with actions", {"method", "pqcach", "fit-costs"},
            "method: found the unknown method \"pqcach\", expected \"pqcache\""),
      usage("help of an unknown method", {"method", "pqcach", "--help"},
            "method: found the unknown method \"pqcach\", expected \"pqcache\""),
      usage("unknown action of a method", {"method", "pqcache", "fit-cost", "--model", "tiny"},
            "method pqcache: found the unknown action \"fit-cost\", expected \"fit-costs\""),
      usage("action of another method", {"method", "round", "calibrate"},
            "method round: found the unknown action \"calibrate\", expected one of: watershed"),
      usage("method without actions", {"method", "snapkv"},
            "method snapkv: found a method without actions, expected one with actions: round, "
            "pqcache, specontext, kascade-decode, minference"),
      usage("action of a method without any", {"method", "snapkv", "fit-costs", "--model", "tiny"},
            "method snapkv: found a method without actions, expected one with actions: round"),
      usage("option of an action is missing", {"method", "pqcache", "fit-costs", "--model", "tiny"},
            "method pqcache fit-costs: found no --output, expected one (see method pqcache "
            "fit-costs --help)"),
      usage("unknown option of an action", {"method", "pqcache", "fit-costs", "--token", "1"},
            "method pqcache fit-costs: found the unknown option \"--token\", expected "
            "\"--tokens\""),
      usage("argument of an action", {"method", "pqcache", "fit-costs", "tiny"},
            "method pqcache fit-costs: found the argument \"tiny\", expected no more of them"),
      usage("choice of an action",
            {"method", "minference", "calibrate", "--model", "tiny", "--text", "t", "-o", "o",
             "--objective", "outpt"},
            "--objective: found \"outpt\", expected \"output\""),
      usage("number of an action",
            {"method", "pqcache", "fit-costs", "--model", "tiny", "-o", "o", "-m", "17"},
            "-m: found \"17\", expected a whole number from 1 to 16"),
      usage("dataset of an action",
            {"method", "round", "watershed", "--model", "tiny", "--dataset", "tiny-facts"},
            "--dataset: found the dataset \"tiny-facts\", expected \"tiny-fact\""),
      usage("command that became an action", {"fit-costs", "--model", "tiny"},
            "the unknown command \"fit-costs\""),
      usage("unknown thing to describe", {"describe", "model", "tiny"},
            "found \"model\", expected one of: method"),
      usage("method unlike any other", {"describe", "method", "zzzzzzzzzzzzzzz"},
            "\"zzzzzzzzzzzzzzz\", expected one of those that `turnbench list methods` prints"),
      usage("method like others in nothing but its length", {"describe", "method", "foo"},
            "\"foo\", expected one of those that `turnbench list methods` prints"),
      usage("unknown method to describe", {"describe", "method", "snapkw"},
            "\"snapkw\", expected \"snapkv\""),
      usage("unknown method", {"logits", "--model", "tiny", "--ids", "1", "--method", "loopsreve"},
            "--method: found the unknown method \"loopsreve\", expected \"loopserve\""),
      usage("method without its parameter's value",
            {"logits", "--model", "tiny", "--ids", "1", "--method", "snapkv:budget"},
            "--method: found \"budget\", expected NAME=VALUE"),
      usage("unknown thing to measure", {"bench", "prefil", "--model", "tiny"},
            "found \"prefil\", expected \"prefill\""),
      usage("length that is no number",
            {"bench", "prefill", "--model", "tiny", "--tokens", "64,big"},
            "--tokens: found \"big\""),
      usage("no length", {"bench", "prefill", "--model", "tiny", "--tokens", "0"},
            "--tokens: found \"0\", expected whole numbers from 1 on"),
      usage("depth of a prompt", {"bench", "prefill", "--model", "tiny", "--depth", "64"},
            "--depth: found it with prefill, expected --tokens"),
      usage("unknown dataset", {"dialogues", "--dataset", "tiny-facts"},
            "--dataset: found the dataset \"tiny-facts\", expected \"tiny-fact\""),
  };
  expect_refusals(cases);
}

/// `generate` from token ids with one more option.
Malformed generate(const char* name, Arguments options, const char* expected) {
  Arguments arguments = {"generate", "--model", "tiny", "--ids", "1,2", "--max-tokens=1"};
  if (options[0].starts_with("--max-tokens")) arguments.pop_back();
  if (options[0].starts_with("--ids"))
    arguments.erase(arguments.begin() + 3, arguments.begin() + 5);
  arguments.insert(arguments.end(), options.begin(), options.end());
  return usage(name, arguments, expected);
}

Malformed dialogues(const char* name, Arguments options, const char* expected) {
  Arguments arguments = {"dialogues", "--dataset", "tiny-fact"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return usage(name, arguments, expected);
}

TEST(MalformedUsage, Values) {
  const Malformed cases[] = {
      generate("number is text", {"--max-tokens", "many"},
               "--max-tokens: found \"many\", expected a whole number from 0"),
      generate("number is negative", {"--max-tokens=-1"}, "--max-tokens: found \"-1\""),
      generate("number is half", {"--max-tokens=1.5"}, "--max-tokens: found \"1.5\""),
      generate("number is empty", {"--max-tokens="}, "--max-tokens: found"),
      generate("number beyond 64 bits", {"--seed=99999999999999999999"},
               "--seed: found \"99999999999999999999\""),
      generate("negative seed", {"--seed=-1"}, "--seed: found \"-1\""),
      generate("hexadecimal seed", {"--seed=0x10"}, "--seed: found \"0x10\""),
      generate("memory limit that overflows", {"--memory-limit=18446744073709551615"},
               "--memory-limit: found"),
      generate("too many threads", {"--threads=100000"},
               "--threads: found \"100000\", expected a whole number from 0 to 1024"),
      generate("temperature is no number", {"--temperature=nan"},
               "--temperature: found \"nan\", expected a number from 0 to 100"),
      generate("temperature is infinite", {"--temperature=inf"}, "--temperature: found \"inf\""),
      generate("temperature is negative", {"--temperature=-0.1"}, "--temperature: found \"-0.1\""),
      generate("unknown dtype", {"--dtype=f8"}, "--dtype: found \"f8\", expected f32, f16 or bf16"),
      generate("unknown dtype of keys", {"--kv-dtype=auto"}, "--kv-dtype: found \"auto\""),
      generate("unknown arithmetic", {"--math=f16"},
               "--math: found \"f16\", expected f32, bf16-linear or bf16"),
      generate("arithmetic without its weights", {"--math=bf16", "--dtype=f32"},
               "--dtype: found f32, expected auto or bf16: products of bf16 have weights of bf16"),
      generate("unknown device", {"--device=gpu"}, "--device: found \"gpu\""),
      generate("device twice", {"--device=cuda:0,1,0"},
               "--device: found device 0 twice in cuda:0,1,0, expected each once"),
      generate("hole in the devices", {"--device=cuda:0,"}, "--device: found \"cuda:0,\""),
      generate("no ids", {"--ids", ""}, "--ids: found no tokens"),
      generate("hole in the ids", {"--ids", "1,,2"}, "--ids: found \"\""),
      generate("negative id", {"--ids", "1,-2"}, "--ids: found \"-2\""),
      generate("id beyond 32 bits", {"--ids", "4294967297"}, "--ids: found \"4294967297\""),
      generate("ids and a prompt", {"--prompt", "/dev/null"}, "found --"),
      generate("ids and a chat", {"--chat"}, "found --"),
      usage("prompt is missing", {"generate", "--model", "tiny", "--prompt", "/no/such"},
            "--prompt: found no file /no/such, expected one, or - for text on stdin"),
      usage("prompt is empty", {"generate", "--model", "tiny", "--prompt", "/dev/null"},
            "/dev/null: found no text, expected a prompt"),
      {"message is empty",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"generate", "--model", "tiny", "--chat", "--prompt", d.write("p", "\n")};
       },
       "p: found no text, expected a prompt"},
      usage("prompt of random weights",
            {"generate", "--model", "random:" TURNBENCH_SOURCE_DIR "/models/tiny/config.json"},
            "found no tokenizer, expected one, or --ids"),
      usage("unknown model", {"generate", "--model", "tinny", "--prompt", "/dev/null"},
            "model tinny: found no directory and no model of this name, expected \"tiny\""),
      usage("unknown model to render", {"render", "--model", "tinny", "/dev/null"},
            "model tinny: found no directory and no model of this name, expected \"tiny\""),
      usage("unknown model to tokenize", {"tokenize", "--model", "tinny", "/dev/null"},
            "model tinny: found no directory and no model of this name, expected \"tiny\""),
      generate("template without a chat", {"--template", "none"},
               "--template: found no --chat, expected it too"),
      usage("unknown template", {"generate", "--model", "tiny", "--chat", "--template", "gemma"},
            "--template: found \"gemma\", expected a file, or one of: none, llama2"),
      usage("system prompt that a template refuses",
            {"generate", "--model", "tiny", "--chat", "--system", "brief", "--prompt",
             TURNBENCH_SOURCE_DIR "/LICENSE"},
            "found messages that the template refuses (\"tiny knows no system messages\")"),
      dialogues("unknown position", {"--positions", "begin,start"},
                "--positions: found the position \"start\""),
      dialogues("position twice", {"--positions", "end,end"}, "--positions: found end twice"),
      dialogues("negative limit", {"--limit=-1"}, "--limit: found \"-1\""),
      dialogues("too many turns", {"--turns=1000"}, "--turns: found \"1000\""),
      dialogues("source of what is generated", {"--source", "/tmp"},
                "--source: found \"/tmp\", expected none"),
      usage("no source", {"dialogues", "--dataset", "hotpotqa"}, "--source: found none"),
  };
  expect_refusals(cases);
}

TEST(MalformedUsage, Conversations) {
  const auto render = [](const char* name, const char* chat, const char* messages,
                         const char* expected) {
    return Malformed{name,
                     [=](const TemporaryDirectory& d) -> Arguments {
                       return {"render",
                               "--model",
                               "tiny",
                               "--template",
                               d.write("c.jinja", chat),
                               d.write("m.json", messages)};
                     },
                     expected};
  };
  const char* const hello = R"([{"role": "user", "content": "hello"}])";
  const Malformed cases[] = {
      render("no list", "a", "{}", "m.json: /: found an object"),
      render("no message", "a", "[1]", "m.json: /0: found 1"),
      render("no role", "a", R"([{"content": "hello"}])", "m.json: /0: found no key \"role\""),
      render("no content", "a", R"([{"role": "user", "content": "a"}, {"role": "user"}])",
             "m.json: /1: found no key \"content\""),
      render("role is a number", "a", R"([{"role": 1}])", "m.json: /0/role: found 1"),
      render("empty template", "", hello, "c.jinja: found none, expected a Jinja text"),
      render("no template", "{% if %}", hello, "c.jinja: line 1:"),
      render("unknown filter", "a\n{{ messages | magic }}", hello,
             "c.jinja: line 2: messages | magic: found the filter magic"),
      render("template refuses", "{{ raise_exception('roles must alternate') }}", hello,
             "found messages that the template refuses (\"roles must alternate\")"),
      render("template without an end",
             "{% for i in range(99999) %}{% for j in range(99999) %}"
             "{% endfor %}{% endfor %}",
             hello, "found more than 20000000 steps"),
  };
  expect_refusals(cases);
}

// A name of --data that no manifest uses is an error, also in smoke runs, where data may be
// missing.
TEST(MalformedUsage, DataOfNoManifest) {
  const auto sweep = [](const char* name, Arguments options, const char* expected) {
    return Malformed{name,
                     [options](const TemporaryDirectory& d) {
                       Arguments arguments = options;
                       arguments.push_back(d.write("m.json", R"({"name": "m", "models": ["tiny"],
                         "datasets": ["tiny-fact", {"name": "hotpotqa", "label": "Hotpot"}],
                         "methods": ["full"]})"));
                       if (options[0] == "run") {
                         arguments.insert(arguments.end(), {"--db", d.path("s.db")});
                       }
                       return arguments;
                     },
                     expected};
  };
  const char* const longbench =
      "--data: found longbnech, expected a dataset or collection of the manifest: \"longbench\"";
  const Malformed cases[] = {
      sweep("plan", {"plan", "--data", "longbnech=/x"}, longbench),
      sweep("run", {"run", "--data", "longbnech=/x"}, longbench),
      sweep("smoke run", {"run", "--smoke", "--data", "longbnech=/x"}, longbench),
      sweep("smoke plan", {"plan", "--smoke", "--data", "longbnech=/x"}, longbench),
      sweep("a label", {"plan", "--smoke", "--data", "Hotpto=/x"}, "\"Hotpot\""),
      sweep("no Chinese", {"plan", "--smoke", "--data", "jieba=/x"}, "--data: found jieba"),
      sweep("what is generated", {"plan", "--smoke", "--data", "tiny-fact=/x"},
            "--data: found tiny-fact"),
  };
  expect_refusals(cases);
  // The expected names.
  const TemporaryDirectory d;
  for (const char* data : {"longbench=/x", "Hotpot=/x", "hotpotqa=/x"}) {
    const Finished run = run_program(sweep("", {"plan", "--data", data}, "").make(d));
    EXPECT_NE(run.err.find("/x"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("--data"), std::string::npos) << run.err;
  }
}

// --model of a sweep takes one value, and each name once.
TEST(MalformedUsage, Locations) {
  const auto plan = [](const char* name, Arguments options, const char* expected) {
    return Malformed{name,
                     [options](const TemporaryDirectory& d) {
                       Arguments arguments = {"plan"};
                       arguments.insert(arguments.end(), options.begin(), options.end());
                       arguments.push_back(d.write("m.json", R"({"name": "m", "models": ["tiny"],
                         "datasets": ["tiny-fact"], "methods": ["full"]})"));
                       return arguments;
                     },
                     expected};
  };
  const Malformed cases[] = {
      plan("no name", {"--model", "=x"}, "--model: found \"=x\", expected NAME=DIR"),
      plan("no directory", {"--data", "longbench="}, "--data: found \"longbench=\""),
      plan("no equals sign", {"--model", "tiny"}, "--model: found \"tiny\", expected NAME=DIR"),
      plan("name twice", {"--model", "tiny=tiny", "--model", "tiny=/x"},
           "--model: found \"tiny\" twice"),
      plan("no such model", {"--model", "tin=/x"},
           "--model: found tin, expected a model of the manifest: \"tiny\""),
      plan("no such data", {"--data", "longbench=/x"},
           "--data: found longbench, expected a dataset or collection of the manifest: none of "
           "them reads files"),
      plan("no such directory", {"--model", "tiny=/no/such"}, "/no/such: found no such directory"),
      plan("no CUDA", {"--device", "cuda:0"}, "--device: found cuda:0"),
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
