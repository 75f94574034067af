// The output of score, dialogues, list, describe, doctor and --help.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

const char* const kPredictions =
    "{\"prediction\": \"red\", \"references\": [\"red\"]}\n"
    "{\"prediction\": \"blue\", \"references\": [\"red\", \"green\"]}\n"
    "{\"prediction\": \"green\", \"references\": [\"red\", \"green\"]}\n";

TEST(Score, LinesAndMean) {
  const TemporaryDirectory d;
  const std::string file = d.write("p.jsonl", kPredictions);
  const Finished text = run_program({"score", "--metric", "qa_f1", file});
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out, "1\t1\n2\t0\n3\t1\nqa_f1\t66.67\tn=3\n");
  const Json json = run_program({"score", "--metric", "qa_f1", file, "--json"}).json();
  EXPECT_EQ(json["metric"], "qa_f1");
  EXPECT_EQ(json["n"], 3);
  EXPECT_NEAR(json["mean"].get<double>(), 66.67, 0.01);
  ASSERT_EQ(json["scores"].size(), 3u);
  EXPECT_EQ(json["scores"][1], (Json{{"line", 2}, {"score", 0.0}}));
}

TEST(Score, ChineseWordsComeFromADictionary) {
  const TemporaryDirectory d;
  const std::string file = d.write("p.jsonl", "{\"prediction\": \"a\", \"references\": [\"a\"]}\n");
  const Finished without = run_program({"score", "--metric", "qa_f1_zh", file});
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("--data jieba=DIR"), std::string::npos) << without.err;
  const Finished with =
      run_program({"score", "--metric", "qa_f1_zh", "--data",
                   "jieba=" TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba", file, "--json"});
  EXPECT_EQ(with.json()["mean"], 100.0) << with.err;
}

TEST(Score, DatasetDefinesMetricAndPostprocessing) {
  const TemporaryDirectory d;
  const std::string file =
      d.write("p.jsonl", R"({"prediction": "\nred\nQuestion: next", "references": ["red"]})"
                         "\n");
  const Json plain = run_program({"score", "--metric", "qa_f1", file, "--json"}).json();
  const Json official = run_program({"score", "--dataset", "triviaqa", file, "--json"}).json();
  EXPECT_EQ(official["metric"], "qa_f1");
  EXPECT_EQ(official["dataset"], "triviaqa");
  EXPECT_EQ(official["mean"], 100.0);
  EXPECT_LT(plain["mean"], official["mean"]);
}

TEST(Dialogues, JsonLinesWithThePromisedKeys) {
  const Finished run =
      run_program({"dialogues", "--dataset", "tiny-hop", "--turns", "3", "--limit", "2", "--length",
                   "150", "--positions", "begin,end", "--seed", "3"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  ASSERT_EQ(run.lines().size(), 4u);
  std::vector<std::string> ids;
  for (const std::string& line : run.lines()) {
    const Json dialogue = parse_json(line, "line");
    for (const char* key : {"id", "dataset", "metric", "turns"})
      EXPECT_TRUE(dialogue.contains(key));
    ASSERT_EQ(dialogue["turns"].size(), 3u);
    for (const Json& turn : dialogue["turns"]) {
      for (const char* key : {"contexts", "question", "position", "references", "relevance",
                              "max_new_tokens", "classes"}) {
        EXPECT_TRUE(turn.contains(key)) << key;
      }
      EXPECT_TRUE(turn["contexts"][0].contains("source"));
      EXPECT_TRUE(turn["contexts"][0].contains("text"));
    }
    ids.push_back(dialogue["id"]);
  }
  EXPECT_EQ(parse_json(run.lines()[0], "")["turns"][0]["position"], "begin");
  EXPECT_EQ(parse_json(run.lines()[1], "")["turns"][0]["position"], "end");
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

TEST(Dialogues, SeedsRepeatAndDiffer) {
  const auto text = [](const char* seed) {
    return run_program({"dialogues", "--dataset", "tiny-fact", "--limit", "1", "--length", "100",
                        "--seed", seed})
        .out;
  };
  EXPECT_EQ(text("1"), text("1"));
  EXPECT_NE(text("1"), text("2"));
}

TEST(Dialogues, PromptsUnderATemplate) {
  const Json json =
      run_program({"dialogues", "--dataset", "tiny-fact", "--limit", "1", "--length", "100",
                   "--turns", "2", "--template", "chatml", "--system", "Be brief."})
          .json();
  const std::string first = json["turns"][0]["prompt"], second = json["turns"][1]["prompt"];
  EXPECT_EQ(first.substr(0, 65),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n" +
                json["turns"][0]["contexts"][0]["text"].get<std::string>().substr(0, 9));
  EXPECT_TRUE(second.starts_with("<|im_end|>\n<|im_start|>user\n")) << second;
  EXPECT_TRUE(second.ends_with("<|im_end|>\n<|im_start|>assistant\n")) << second;
}

// The prompt of a run of the manifest: its model, template and system prompt, unless options
// specify others.
TEST(Dialogues, PromptsOfAManifest) {
  const TemporaryDirectory d;
  const std::string manifest = d.write("m.json", R"({"name": "m", "system_prompt": "Be brief.",
      "models": [{"name": "small", "path": "tiny", "template": "chatml"}],
      "datasets": [{"name": "tiny-fact", "limit": 1, "length": 100}], "positions": ["end"],
      "methods": ["full"]})");
  const auto prompt = [&](Arguments options) {
    Arguments arguments = {"dialogues", manifest, "--template", "auto"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments).json()["turns"][0]["prompt"].get<std::string>();
  };
  const std::string own = prompt({});
  EXPECT_TRUE(own.starts_with("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"))
      << own;
  EXPECT_TRUE(prompt({"--system", "No."}).starts_with("<|im_start|>system\nNo.<|im_end|>\n"));
  EXPECT_EQ(prompt({"--model", "tiny", "--system", ""}).find("<|im_start|>"), std::string::npos)
      << "the template is the manifest's for its own model alone";
}

TEST(Dialogues, StatsAsJson) {
  const Json json = run_program({"dialogues", "--dataset", "tiny-fact", "--limit", "3", "--length",
                                 "100", "--turns", "2", "--stats", "--json"})
                        .json();
  EXPECT_EQ(json["dialogues"], 3);
  EXPECT_EQ(json["turns"], 2.0);
  EXPECT_GT(json["dialogue_tokens"], json["turn_tokens"]);
  EXPECT_TRUE(json["published"].is_null());
}

TEST(Dialogues, StatsShowThePapersTableWithTheFilesFound) {
  const TemporaryDirectory d;
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    lines += OrderedJson{{"input", fmt::format("question {}?", i)},
                         {"context", fmt::format("Passage 1:\ntext {}", i)},
                         {"answers", {"a"}},
                         {"length", 5},
                         {"dataset", "musique"},
                         {"language", "en"},
                         {"all_classes", nullptr},
                         {"_id", std::to_string(i)}}
                 .dump() +
             "\n";
  }
  d.write("longbench/musique.jsonl", lines);
  const Arguments arguments = {"dialogues",         "--stats", "--source",
                               d.path("longbench"), "--limit", "5"};
  const Finished text = run_program(arguments);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.lines().size(), 23u);  // a heading and two lines per dataset
  Arguments with_json = arguments;
  with_json.push_back("--json");
  const Finished json = run_program(with_json);
  ASSERT_EQ(json.lines().size(), 11u);
  for (const std::string& line : json.lines()) {
    const Json row = parse_json(line, "row");
    const bool there = row["dataset"] == "mt-musique";
    EXPECT_EQ(row["dialogues"].is_null(), !there) << line;
    EXPECT_FALSE(row["published"]["metric"].is_null());
    if (!there) continue;
    EXPECT_EQ(row["dialogues"], 5);
    EXPECT_EQ(row["turns"], 3.0);
    EXPECT_EQ(row["metric"], "qa_f1");
    EXPECT_EQ(
        row["published"],
        (Json{{"dialogues", 500}, {"turns", 3}, {"turn_tokens", 16587.56}, {"metric", "F1"}}));
  }
  EXPECT_NE(run_program({"dialogues", "--source", "x"}).err.find("--dataset: found none"),
            std::string::npos);
  EXPECT_NE(run_program({"dialogues", "--stats"}).err.find("--source: found none"),
            std::string::npos);
}

TEST(Dialogues, AcceptTheDepthOfANeedle) {
  const auto paragraph = [](const char* depth) {
    const Finished run = run_program(
        {"dialogues", "--dataset", "needle", "--limit", "1", "--length", "600", "--depth", depth});
    EXPECT_EQ(run.err, "");
    return parse_json(run.out, "out")["turns"][0]["relevance"][0].get<std::string>();
  };
  EXPECT_EQ(paragraph("0"), "turn-1#1");
  EXPECT_NE(paragraph("50"), paragraph("100"));
  EXPECT_EQ(run_program({"dialogues", "--dataset", "needle", "--depth", "101"}).err,
            "turnbench: --depth: found \"101\", expected a number from 0 to 100\n");
  EXPECT_EQ(
      run_program({"dialogues", "--dataset", "tiny-fact", "--depth", "1"}).err,
      "turnbench: tiny-fact: found the depth 1, expected none: the dataset has no single place to "
      "choose\n");
}

TEST(List, EveryKindAsTextAndJson) {
  for (const char* what : {"models", "methods", "datasets", "metrics", "experiments"}) {
    SCOPED_TRACE(what);
    const Finished text = run_program({"list", what}), json = run_program({"list", what, "--json"});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.err, "");
    const Json items = json.json();
    ASSERT_TRUE(items.is_array());
    EXPECT_GE(items.size(), 1u);
    EXPECT_EQ(items.size(), text.lines().size());
    for (const Json& item : items) {
      const std::string name = item.at("name");
      EXPECT_NE(text.out.find(name), std::string::npos);
    }
  }
}

TEST(List, DatasetsNameTheirMetrics) {
  const std::string out = run_program({"list", "datasets"}).out;
  EXPECT_NE(out.find("single facts; metric: qa_f1\n"), std::string::npos) << out;
}

TEST(List, MethodsListTheirParameters) {
  for (const Json& method : run_program({"list", "methods", "--json"}).json()) {
    for (const char* key : {"summary", "paper", "parameters"}) EXPECT_TRUE(method.contains(key));
    for (const Json& p : method["parameters"]) {
      for (const char* key : {"name", "kind", "default", "unit", "description"})
        EXPECT_TRUE(p.contains(key)) << method["name"];
    }
    const std::string name = method["name"];
    const Finished described = run_program({"describe", "method", name});
    EXPECT_EQ(described.code, 0);
    EXPECT_TRUE(described.out.starts_with(name + "\n"));
    EXPECT_TRUE(described.out.ends_with("\n") && !described.out.ends_with("\n\n"));
    const Json& own = method["parameters"];
    const bool has_budget =
        std::any_of(own.begin(), own.end(), [](const Json& p) { return p["kind"] == "budget"; });
    EXPECT_EQ(described.out.find("a share of the prompt: 0.2, 1/5, 20%.") != std::string::npos,
              has_budget)
        << name;
    EXPECT_EQ(run_program({"describe", "method", name, "--json"}).json(), method);
  }
}

TEST(Methods, ListTheirActions) {
  std::size_t with_actions = 0;
  for (const Json& method : run_program({"list", "methods", "--json"}).json()) {
    const std::string name = method["name"];
    const std::string described = run_program({"describe", "method", name}).out;
    EXPECT_EQ(described.find("actions: turnbench method " + name) != std::string::npos,
              !method["actions"].empty());
    if (method["actions"].empty()) continue;
    ++with_actions;
    const Finished listed = run_program({"method", name});
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_EQ(run_program({"method", name, "--json"}).json(), method["actions"]);
    for (const Json& action : method["actions"]) {
      EXPECT_EQ(action["options"][0]["name"], "--model");
      EXPECT_EQ(action["options"][0]["required"], true);
      const std::string own = action["name"], summary = action["summary"];
      for (const std::string& text : {listed.out, described}) {
        EXPECT_NE(text.find(own + "  " + summary), std::string::npos) << text;
      }
      const Finished help = run_program({"method", name, own, "--help"});
      EXPECT_EQ(help.code, 0);
      EXPECT_NE(help.out.find("Example: turnbench method " + name + " " + own), std::string::npos);
      for (const char* common : {"--model", "--json"})
        EXPECT_NE(help.out.find(common), std::string::npos) << help.out;
      for (const Json& option : action["options"])
        EXPECT_NE(help.out.find(option["name"].get<std::string>()), std::string::npos) << help.out;
    }
  }
  EXPECT_EQ(with_actions, 5u);
}

TEST(Doctor, ReportsFoundAndMissingFiles) {
  const TemporaryDirectory d;
  d.write("models/whole/config.json", "{}");
  d.write("models/whole/model.safetensors", "");
  d.write("models/whole/tokenizer.json", "{}");
  d.write("models/bare/config.json", "{}");
  d.write("data/longbench/hotpotqa.jsonl", "");
  d.write("data/longeval/topics/5_topics.jsonl", "");
  d.write("data/gsm8k/test.jsonl", "");
  d.write("data/README.md", "");
  d.write("data/tokenizers/llama/tokenizer.json", "");
  setenv("TURNBENCH_MODELS", d.path("models").c_str(), 1);
  setenv("TURNBENCH_DATA", d.path("data").c_str(), 1);
  const Json json = run_program({"doctor", "--json"}).json();
  const Finished text = run_program({"doctor"});
  const Json models = run_program({"list", "models", "--json"}).json();
  unsetenv("TURNBENCH_MODELS");
  unsetenv("TURNBENCH_DATA");
  for (const char* key : {"program", "backend", "processors", "memory", "gpu", "disk"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["model whole"], d.path("models/whole"));
  EXPECT_EQ(json["model bare"],
            d.path("models/bare") + ": missing weights (*.safetensors), tokenizer");
  const std::string data = json["data longbench"];
  EXPECT_NE(data.find("1 of "), std::string::npos) << data;
  EXPECT_NE(data.find("missing "), std::string::npos) << data;
  EXPECT_EQ(
      json["data longeval"],
      d.path("data/longeval") + ": 1 of 3 datasets, missing longeval-lines, longeval-summary");
  EXPECT_EQ(json["data gsm8k"], d.path("data/gsm8k") + ": 1 of 2 datasets, missing gsm8k-cot");
  for (const char* key : {"data README.md", "data tokenizers"}) EXPECT_FALSE(json.contains(key));
  const std::string program = json["program"];
  EXPECT_TRUE(program.find(", GCC ") != std::string::npos ||
              program.find(", Clang ") != std::string::npos)
      << program;
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.lines().size(), json.size());
  EXPECT_EQ(models.size(), 3u);
}

// A directory of models defines the names of the models in it, for all commands.
TEST(Models, AreFoundByNameInTheDirectoryOfModels) {
  const TemporaryDirectory d;
  std::filesystem::create_directories(d.path("models"));
  std::filesystem::create_directory_symlink(TURNBENCH_SOURCE_DIR "/models/tiny",
                                            d.path("models/mine"));
  const auto answer = [](const char* model) {
    const Finished run = run_program({"generate", "--model", model, "--ids", "5,6,7", "--method",
                                      "full", "--max-tokens", "4", "--json"});
    EXPECT_EQ(run.code, 0) << run.err;
    return run.json()["ids"];
  };
  const Json want = answer("tiny");
  const Finished unknown = run_program({"generate", "--model", "mine", "--ids", "5"});
  EXPECT_EQ(unknown.code, 2);
  setenv("TURNBENCH_MODELS", d.path("models").c_str(), 1);
  const Json got = answer("mine");
  const Finished tokens = run_program({"tokenize", "--model", "mine", d.write("text", "one fact")});
  unsetenv("TURNBENCH_MODELS");
  EXPECT_EQ(got, want);
  EXPECT_EQ(tokens.out, run_program({"tokenize", "--model", "tiny", d.path("text")}).out);
}

// The settings that all methods have, unless the method refuses them.
TEST(Describe, JsonHasTheSettingsOfEveryMethod) {
  const auto described = [](const char* name) {
    return run_program({"describe", "method", name, "--json"}).json();
  };
  const auto names = [](const Json& parameters) {
    std::vector<std::string> out;
    for (const Json& p : parameters) out.push_back(p["name"]);
    return out;
  };
  const Json snapkv = described("snapkv"), rkv = described("rkv"), quest = described("quest"),
             kivi = described("kivi");
  EXPECT_EQ(snapkv["compress"]["default"], "prompt");
  EXPECT_FALSE(snapkv["compress"].contains("only_with"));
  EXPECT_EQ(rkv["compress"]["only_with"], "mode=prefill");
  EXPECT_FALSE(quest.contains("compress")) << "it does not evict";
  EXPECT_EQ(snapkv["compress_block"]["default"], "0");
  EXPECT_EQ(snapkv["compress_block"]["unit"], "tokens");
  EXPECT_TRUE(rkv.contains("compress_block")) << "also for evictions in decode steps";
  EXPECT_FALSE(quest.contains("compress_block"));
  const std::vector<std::string> placement = {"placement", "cache_tokens", "cache_block",
                                              "cache_rule", "cache_insert"};
  for (const Json& method : {snapkv, rkv, quest}) EXPECT_EQ(names(method["placement"]), placement);
  EXPECT_EQ(quest["placement"][0]["default"], "device");
  EXPECT_EQ(described("shadowkv")["placement"][0]["default"], "host");
  EXPECT_TRUE(kivi["placement"].empty()) << "device only";
}

// A method as in a command or a table, with its settings.
TEST(Describe, StripsSettings) {
  const Finished method = run_program({"describe", "method", "snapkv"});
  EXPECT_EQ(method.code, 0);
  for (const char* name : {"snapkv:budget=5", "snapkv:budget=64,window=8", "snapkv@host"})
    EXPECT_EQ(run_program({"describe", "method", name}).out, method.out) << name;
  EXPECT_EQ(run_program({"describe", "probe", "coverage:eta=0.1"}).out,
            run_program({"describe", "probe", "coverage"}).out);
}

// Some methods evict only at the end of prompts with one setting; others always evict while
// decoding.
TEST(Describe, ListsCompressWhereAMethodCanHaveIt) {
  const auto compress_of = [](const char* method) -> std::string {
    for (const std::string& line : run_program({"describe", "method", method}).lines()) {
      if (line.starts_with("    compress ")) return line;
    }
    return "";
  };
  EXPECT_NE(compress_of("snapkv"), "");
  EXPECT_FALSE(compress_of("snapkv").ends_with(" only)")) << compress_of("snapkv");
  for (const auto& [method, setting] : {std::pair("h2o", "mode=prefill"),
                                        {"tova", "mode=prefill"},
                                        {"streamingllm", "rolling=false"},
                                        {"duoattention", "rolling=false"}}) {
    EXPECT_TRUE(compress_of(method).ends_with(fmt::format(" (with {} only)", setting)))
        << method << ":" << compress_of(method);
  }
  for (const char* method : {"keyformer", "quest", "full"})
    EXPECT_EQ(compress_of(method), "") << method;
}

TEST(Doctor, ReportsInvalidDirectories) {
  setenv("TURNBENCH_MODELS", "/no/models", 1);
  setenv("TURNBENCH_DATA", "/no/data", 1);
  const Finished run = run_program({"doctor", "--json"}), list = run_program({"list", "models"});
  unsetenv("TURNBENCH_MODELS");
  unsetenv("TURNBENCH_DATA");
  EXPECT_EQ(run.code, 0) << run.err;
  const Json json = run.json();
  EXPECT_EQ(json["models"], "$TURNBENCH_MODELS: found \"/no/models\", expected a directory");
  EXPECT_EQ(json["data"], "$TURNBENCH_DATA: found \"/no/data\", expected a directory");
  EXPECT_EQ(list.code, 2) << list.out;
}

TEST(Doctor, ReportsWhyThereIsNoCudaDevice) {
  const std::string gpu = run_program({"doctor", "--json"}).json()["gpu"];
  if (!gpu.starts_with("none: ")) GTEST_SKIP() << "found " << gpu;
  const std::string reason = gpu.substr(6);
#ifndef TURNBENCH_HAS_CUDA
  EXPECT_EQ(reason, "this program was built without CUDA");
#else
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
    EXPECT_EQ(reason, "this machine has no CUDA driver (libcuda.so.1)");
  }
#endif
  const Finished run = run_program(
      {"generate", "--model", "tiny", "--ids", "1,2", "--max-tokens", "1", "--device", "cuda"});
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "turnbench: --device: found cuda, expected auto or cpu: " + reason + "\n");
}

/// The commands in the output of --help.
std::vector<std::string> commands() {
  std::vector<std::string> out;
  const std::string help = run_program({"--help"}).out;
  const std::size_t begin = help.find("Subcommands:\n");
  for (const std::string& line : split(help.substr(begin), "\n")) {
    if (line.starts_with("  ") && line[2] != ' ' && !line.starts_with("  turnbench"))
      out.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return out;
}

TEST(Help, EveryCommandShowsAnExample) {
  const std::vector<std::string> names = commands();
  EXPECT_GE(names.size(), 12u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Finished run = run_program({name, "--help"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.err, "");
    EXPECT_NE(run.out.find("Example"), std::string::npos);
    EXPECT_NE(run.out.find("turnbench " + name), std::string::npos);
    for (const char* option : {"--json", "--quiet"})
      EXPECT_NE(run.out.find(option), std::string::npos);
  }
  EXPECT_NE(run_program({"--help"}).out.find("Examples:\n"), std::string::npos);
}

TEST(Help, CommandHelpPrintsWhatTheOptionPrints) {
  EXPECT_EQ(run_program({"help"}).out, run_program({"--help"}).out);
  for (const std::string& name : commands())
    EXPECT_EQ(run_program({"help", name}).out, run_program({name, "--help"}).out);
  const Finished unknown = run_program({"help", "reprot"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "turnbench: command: found \"reprot\", expected \"report\"\n");
}

TEST(Help, VersionIsOneLine) {
  const Finished run = run_program({"--version"});
  EXPECT_EQ(run.code, 0);
  EXPECT_TRUE(run.out.starts_with("turnbench "));
  EXPECT_EQ(run.lines().size(), 1u);
}

TEST(Output, FullDiskIsAnError) {
  const TemporaryDirectory directory;
  const std::string manifest = directory.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 100}], "positions": ["end"],
    "methods": ["full"], "max_new_tokens": 1})");
  for (const Arguments& words :
       {Arguments{"list", "metrics"}, Arguments{"--help"},
        Arguments{"run", manifest, "--db", directory.path("m.db"), "--quiet"}}) {
    const Finished run = run_program(words, "", "/dev/full");
    EXPECT_EQ(run.code, 1) << words[0];
    EXPECT_EQ(run.err, "turnbench: stdout: cannot be written\n") << words[0];
  }
}

}  // namespace
}  // namespace turnbench::test
