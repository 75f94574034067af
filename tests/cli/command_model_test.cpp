// The output of generate, render, logits and tokenize.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "common/clock.h"
#include "common/file.h"
#include "inference/model/embedded_model.h"
#include "tests/cli/small_model.h"

namespace turnbench::test {
namespace {

std::vector<std::string> keys_of(const std::string& text) {
  std::vector<std::string> keys;
  const OrderedJson json = OrderedJson::parse(text);
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(Generate, JsonHasThePromisedKeys) {
  const Finished run = run_program({"generate", "--model", "tiny", "--ids", "5,6,7", "--max-tokens",
                                    "4", "--ignore-eos", "--json"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(keys_of(run.out), (std::vector<std::string>{"ids", "text", "finish_reason", "ttft_s",
                                                        "tt2t_s", "tpot_s", "kv_tokens", "kv_bytes",
                                                        "transfer_bytes", "peak_memory_bytes"}));
  const Json json = run.json();
  EXPECT_EQ(json["ids"].size(), 4u);
  EXPECT_EQ(json["kv_tokens"], 3);
  EXPECT_EQ(json["kv_bytes"], 3 * 4 * 2 * 2 * 32 * 4);  // 4 layers, 2 KV heads, 32 dimensions
  EXPECT_EQ(json["transfer_bytes"], 0);
  EXPECT_LE(json["ttft_s"], json["tt2t_s"]);
}

TEST(Generate, MissingTimesAreNull) {
  const auto json = [](const char* tokens) {
    return run_program({"generate", "--model", "tiny", "--ids", "5", "--ignore-eos", "--json",
                        "--max-tokens", tokens})
        .json();
  };
  EXPECT_TRUE(json("0")["ttft_s"].is_null());
  EXPECT_EQ(json("0")["ids"], Json::array());
  EXPECT_TRUE(json("1")["tt2t_s"].is_null());
  EXPECT_TRUE(json("2")["tpot_s"].is_null());
  EXPECT_TRUE(json("3")["tpot_s"].is_number());
}

// For a model in which every token ends an answer.
TEST(Generate, IgnoreEosGeneratesExactlyMaxTokens) {
  const TemporaryDirectory d;
  SmallModel m;
  for (int id = 0; id < 16; ++id) m.config["eos_token_id"].push_back(id);
  write_model(d, m);
  Arguments arguments = {"generate", "--model", d.path("m"),    "--ids",
                         "1",        "--json",  "--max-tokens", "40"};
  EXPECT_EQ(run_program(arguments).json()["ids"], Json::array());
  arguments.push_back("--ignore-eos");
  EXPECT_EQ(run_program(arguments).json()["ids"].size(), 40u);
}

// generation_config.json of instruction-tuned models has more end tokens than config.json.
TEST(Generate, StopsAtTheEndTokensOfTheGenerationConfig) {
  const TemporaryDirectory d;
  write_model(d, SmallModel());
  const Arguments arguments = {"generate", "--model", d.path("m"),    "--ids",
                               "1",        "--json",  "--max-tokens", "12"};
  const Json ids = run_program(arguments).json()["ids"];
  ASSERT_EQ(ids.size(), 12u);
  d.write("m/generation_config.json", "{\"eos_token_id\": [" + ids[0].dump() + ", 999]}");
  EXPECT_EQ(run_program(arguments).json()["ids"], Json::array());
  d.write("m/generation_config.json", "{\"eos_token_id\": \"no\"}");
  EXPECT_EQ(run_program(arguments).code, 2);
}

TEST(Generate, TextIsTheDecodedIds) {
  const Arguments base = {"generate",    "--model",      "tiny",         "--ids",
                          "100,200,300", "--ignore-eos", "--max-tokens", "6"};
  Arguments json = base;
  json.push_back("--json");
  const Json answer = run_program(json).json();
  EXPECT_EQ(run_program(base).out, answer["text"].get<std::string>() + "\n");
  const Finished decoded =
      run_program({"tokenize", "--model", "tiny", "--decode"}, answer["ids"].dump());
  EXPECT_EQ(decoded.out, answer["text"].get<std::string>());
}

// The text is printed token by token, and an interrupt keeps the printed part.
TEST(Generate, StreamsAndPrintsPartialAnswersOnInterrupt) {
  const TemporaryDirectory d;
  const std::string out = d.path("out");
  Program program({"generate", "--model", "tiny", "--ids", "100,200,300", "--ignore-eos",
                   "--max-tokens", "10000000"},
                  "", out);
  const auto start = Clock::now();
  while ((!path_exists(out) || read_file(out).size() < 200) && seconds_since(start) < 60)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_NE(stopped.err.find("turnbench: stopping with the answer so far; again to stop at once\n"),
            std::string::npos)
      << stopped.err;
  const std::string text = read_file(out);
  EXPECT_GE(text.size(), 200u);
  EXPECT_TRUE(text.ends_with("\n"));
  // The printed text is the beginning of the whole answer.
  const Finished whole = run_program({"generate", "--model", "tiny", "--ids", "100,200,300",
                                      "--ignore-eos", "--max-tokens", "60"});
  const std::string both = whole.out.substr(0, std::min(whole.out.size() - 1, text.size() - 1));
  EXPECT_EQ(text.substr(0, both.size()), both);
}

TEST(Generate, InterruptedJsonIsValid) {
  Program program({"generate", "--model", "tiny", "--ids", "100,200,300", "--ignore-eos",
                   "--max-tokens", "10000000", "--json"});
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.json()["finish_reason"], "interrupted");
  EXPECT_GT(stopped.json()["ids"].size(), 0u);
}

TEST(Generate, WarnsOfAnswersBeyondTheModelsPositions) {
  const TemporaryDirectory d;
  SmallModel m;
  m.config["max_position_embeddings"] = 20;
  write_model(d, m);
  const auto warning = [&](const char* tokens) {
    return run_program({"generate", "--model", d.path("m"), "--ids", "5,6,7", "--ignore-eos",
                        "--max-tokens", tokens})
        .err;
  };
  EXPECT_EQ(warning("17"), "");
  EXPECT_NE(warning("18").find(": the prompt and 17 tokens of the answer fill the model's 20 "
                               "positions: later tokens may be nonsense\n"),
            std::string::npos)
      << warning("18");
}

TEST(Generate, PromptFromAFileOrStdin) {
  const TemporaryDirectory d;
  const std::string text = "alice has the color red .";
  const Arguments base = {"generate", "--model", "tiny", "--max-tokens", "3"};
  Arguments file = base;
  file.insert(file.end(), {"--prompt", d.write("p", text)});
  const Finished from_file = run_program(file);
  EXPECT_EQ(from_file.code, 0) << from_file.err;
  EXPECT_EQ(from_file.out, run_program(base, text).out);
  // The model's tokenizer adds no tokens.
  const Json ids = run_program({"tokenize", "--model", "tiny"}, text).json()["ids"];
  std::string list = ids.dump();
  list = list.substr(1, list.size() - 2);
  Arguments given = base;
  given.insert(given.end(), {"--ids", list});
  EXPECT_EQ(run_program(given).out, from_file.out);
}

TEST(Generate, SeedsRepeatAndDiffer) {
  const auto ids = [](const char* seed) {
    return run_program({"generate", "--model", "tiny", "--ids", "5,6,7", "--ignore-eos", "--json",
                        "--max-tokens", "12", "--temperature", "5", "--seed", seed})
        .json()["ids"];
  };
  EXPECT_EQ(ids("1"), ids("1"));
  EXPECT_NE(ids("1"), ids("2"));
  EXPECT_EQ(ids("010"), ids("10"));  // decimal, whatever the first digit is
}

TEST(Generate, MethodsShrinkTheCache) {
  std::string list = "7";
  for (int i = 0; i < 99; ++i) list += ",7";
  const auto kept = [&](const char* method) {
    return run_program({"generate", "--model", "tiny", "--ids", list, "--method", method, "--json",
                        "--max-tokens", "1"})
        .json()["kv_tokens"]
        .get<double>();
  };
  EXPECT_EQ(kept("full"), 100);
  EXPECT_EQ(kept("streamingllm:budget=20"), 20);
}

const char* const kMessages = R"([{"role": "user", "content": " red"}, {"role": "assistant",
    "content": "blue", "tool_calls": null}, {"role": "user", "content": "green"}])";

/// A directory `t` with the embedded model's tokenizer and a chat template.
std::string write_tokenizer(const TemporaryDirectory& d, const Json& chat_template) {
  Json config = parse_json(embedded::tokenizer_config(), "tokenizer_config.json");
  config["chat_template"] = chat_template;
  d.write("t/tokenizer.json", embedded::tokenizer());
  d.write("t/tokenizer_config.json", config.dump());
  return d.path("t");
}

TEST(Render, TextIdsAndSpans) {
  const Finished run = run_program({"render", "--model", "tiny"}, kMessages);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(keys_of(run.out), (std::vector<std::string>{"text", "ids", "spans"}));
  const Json json = run.json();
  EXPECT_EQ(json["text"], "<bos> red\n<a1> blue<eos>green\n<a2>");
  EXPECT_EQ(json["ids"], run_program({"tokenize", "--model", "tiny", "--special"},
                                     json["text"].get<std::string>())
                             .json()["ids"]);
  std::string spans;
  int end = 0;
  for (const Json& span : json["spans"]) {
    EXPECT_EQ(span["begin"], end);
    end = span["end"];
    spans += fmt::format("{}{} ", span["kind"].get<std::string>(), span["turn"].get<int>());
  }
  EXPECT_EQ(spans, "markup0 question0 cue0 answer0 markup1 question1 cue1 ");
  EXPECT_EQ(static_cast<std::size_t>(end), json["ids"].size());
}

TEST(Render, WithoutTheGenerationPrompt) {
  const auto text = [](const char* option) {
    return run_program({"render", "--model", "tiny", "--template", "chatml", option}, kMessages)
        .json()["text"]
        .get<std::string>();
  };
  EXPECT_EQ(text("--json"), text("--no-generation-prompt") + "<|im_start|>assistant\n");
}

TEST(Render, FindsTemplatesInEachPlace) {
  const TemporaryDirectory d;
  const auto text = [&](const std::string& model, const Arguments& options = {}) {
    Arguments arguments = {"render", "--model", model};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments, kMessages).json()["text"].get<std::string>();
  };
  const std::string jinja = "{{ bos_token }}{{ messages[-1].content }}";
  EXPECT_EQ(text(write_tokenizer(d, jinja)), "<bos>green");
  EXPECT_EQ(text(write_tokenizer(d, "none")), " redblue\n\ngreen");
  EXPECT_EQ(text(write_tokenizer(d, {{{"name", "default"}, {"template", "a"}},
                                     {{"name", "tool_use"}, {"template", "b"}}})),
            "a");
  d.write("t/chat_template.jinja", "{{ messages | length }}");
  EXPECT_EQ(text(d.path("t")), "3");
  EXPECT_EQ(text("tiny", {"--template", d.write("my.jinja", jinja)}), "<bos>green");
}

TEST(Generate, UsesTemplateAndSystemPrompt) {
  const TemporaryDirectory d;
  const std::string chat = d.write("my.jinja",
                                   "{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                                   "{% endfor %}answer:");
  const auto generate = [](const Arguments& options, const std::string& input) {
    Arguments arguments = {"generate", "--model", "tiny", "--max-tokens", "5", "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments, input).json()["ids"];
  };
  EXPECT_EQ(generate({"--chat", "--template", chat, "--system", "brief"}, "red?\n"),
            generate({}, "system: brief\nuser: red?\nanswer:"));
}

TEST(Logits, PrintsOneRowPerPosition) {
  const Finished all = run_program({"logits", "--model", "tiny", "--ids", "5,6,7", "--json"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_EQ(keys_of(all.out), std::vector<std::string>{"logits"});
  const Json rows = all.json()["logits"];
  ASSERT_EQ(rows.size(), 3u);
  for (const Json& row : rows) EXPECT_EQ(row.size(), 1591u);
  const Json last =
      run_program({"logits", "--model", "tiny", "--ids", "5,6,7", "--last"}).json()["logits"];
  ASSERT_EQ(last.size(), 1u);
  for (std::size_t i = 0; i < last[0].size(); ++i)
    EXPECT_NEAR(last[0][i].get<double>(), rows[2][i].get<double>(), 1e-4);
}

TEST(Tokenize, RoundTrips) {
  const std::string text = "what is the color of alice ?\n <q1> é \xF0\x9F\x99\x82";
  const Finished there = run_program({"tokenize", "--model", "tiny"}, text);
  EXPECT_EQ(there.code, 0);
  EXPECT_EQ(keys_of(there.out), std::vector<std::string>{"ids"});
  EXPECT_EQ(there.lines().size(), 1u);
  const Arguments back = {"tokenize", "--model", "tiny", "--decode"};
  EXPECT_EQ(run_program(back, there.out).out, text);
  EXPECT_EQ(run_program(back, there.json()["ids"].dump()).out, text);
  Arguments json = back;
  json.push_back("--json");
  EXPECT_EQ(run_program(json, there.out).json(), (Json{{"text", text}}));
}

TEST(Tokenize, Lines) {
  const TemporaryDirectory d;
  const Finished run =
      run_program({"tokenize", "--model", "tiny", "--lines", d.write("t", "alice\n\nbob")});
  ASSERT_EQ(run.lines().size(), 3u);
  EXPECT_EQ(run.lines()[1], R"({"ids":[]})");
  EXPECT_EQ(run_program({"tokenize", "--model", "tiny", "--lines", "--decode"}, run.out).out,
            "alice\n\nbob\n");
}

TEST(Tokenize, SpecialTokensOnlyIfAsked) {
  const Json plain = run_program({"tokenize", "--model", "tiny"}, "<eos>").json()["ids"];
  const Finished special = run_program({"tokenize", "--model", "tiny", "--special"}, "<eos>");
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(special.json()["ids"], Json::array({1558}));
  EXPECT_EQ(run_program({"tokenize", "--model", "tiny", "--decode"}, special.out).out, "");
  EXPECT_EQ(run_program({"tokenize", "--model", "tiny", "--decode", "--special"}, special.out).out,
            "<eos>");
}

}  // namespace
}  // namespace turnbench::test
