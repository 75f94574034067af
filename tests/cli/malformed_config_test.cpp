// Invalid config.json files, through the command line.

#include <gtest/gtest.h>

#include "tests/cli/small_model.h"

namespace turnbench::test {
namespace {

/// A case that replaces the text of config.json.
Malformed config_text(const char* name, std::string text, const char* expected) {
  return {name,
          [text](const TemporaryDirectory& d) {
            const Arguments arguments = write_model(d, {});
            d.write("m/config.json", text);
            return arguments;
          },
          expected};
}

/// A case that sets one key of config.json.
Malformed key(const char* name, const char* key, OrderedJson value, const char* expected) {
  return damaged(
      name, [key, value](SmallModel& m) { m.config[key] = value; }, expected);
}

TEST(MalformedConfig, Refused) {
  const Malformed cases[] = {
      {"no such directory", [](const TemporaryDirectory& d) { return logits(d.path("nowhere")); },
       "nowhere: found no directory and no model of this name, expected"},
      {"no config.json",
       [](const TemporaryDirectory& d) {
         d.write("m/model.safetensors", "");
         return logits(d.path("m"));
       },
       "config.json: found no readable file (No such file or directory), expected one"},
      config_text("empty", "", "config.json: found nothing, expected JSON"),
      config_text("cut", "{\"model_type\": \"lla", "expected valid JSON"),
      config_text("a number", "7", "config.json: /: found 7, expected an object"),
      config_text("one key twice", R"({"model_type": "llama", "model_type": "qwen2"})", "twice"),
      config_text("byte order mark and NUL", std::string("\xef\xbb\xbf\0{}", 6), "valid JSON"),
      damaged(
          "key is missing", [](SmallModel& m) { m.config.erase("hidden_size"); },
          "config.json: /: found no key \"hidden_size\""),
      key("unknown family", "model_type", "gpt2", "/model_type: found \"gpt2\""),
      key("no layers", "num_hidden_layers", 0, "/num_hidden_layers: found 0"),
      key("negative width", "hidden_size", -8, "/hidden_size: found -8"),
      key("absurd width", "hidden_size", 1ll << 40, "/hidden_size: found 1099511627776"),
      key("width beyond 64 bits", "hidden_size", 1e300, "/hidden_size: found 1e+300"),
      key("width is text", "hidden_size", "8", "/hidden_size: found \"8\""),
      key("half a layer", "num_hidden_layers", 1.5, "/num_hidden_layers: found 1.5"),
      key("too many layers", "num_hidden_layers", 100000, "an integer from 1 to 4096"),
      key("more layers than the file holds", "num_hidden_layers", 2, "no tensor model.layers.1."),
      key("heads do not divide the width", "num_attention_heads", 3,
          "a divisor of hidden_size (8)"),
      key("KV heads do not divide the heads", "num_key_value_heads", 3,
          "a divisor of num_attention_heads (2)"),
      key("odd head_dim", "head_dim", 3, "an odd head_dim of 3"),
      key("head_dim that is not the file's", "head_dim", 6, "/model.layers.0.self_attn.q_proj"),
      damaged(
          "heads and head_dim whose product overflows",
          [](SmallModel& m) { m.config["num_attention_heads"] = m.config["head_dim"] = 1 << 22; },
          "/num_attention_heads: found 4194304, expected at most 1"),
      key("vocabulary that is not the file's", "vocab_size", 4000000, "found the shape [16, 8]"),
      key("width of the feed-forward that is not the file's", "intermediate_size", 4000000,
          "mlp.gate_proj.weight: found the shape [12, 8]"),
      key("positions beyond 32 bits", "max_position_embeddings", 1ll << 40,
          "/max_position_embeddings"),
      key("epsilon is text", "rms_norm_eps", "small", "/rms_norm_eps: found \"small\""),
      key("epsilon is negative", "rms_norm_eps", -1, "/rms_norm_eps: found -1"),
      key("rope_theta is 0", "rope_theta", 0, "/rope_theta: found 0"),
      key("unknown rope scaling", "rope_scaling", {{"rope_type", "ntk"}, {"factor", 2}},
          "/rope_scaling/rope_type: found \"ntk\""),
      key("rope factor is 0", "rope_scaling", {{"rope_type", "linear"}, {"factor", 0}},
          "/rope_scaling/factor: found 0"),
      key("rope scaling without a factor", "rope_scaling", {{"rope_type", "linear"}},
          "/rope_scaling: found no key \"factor\""),
      key("quantized", "quantization_config", {{"bits", 4}}, "/quantization_config: found"),
      key("end token beyond the vocabulary", "eos_token_id", 16,
          "/eos_token_id: found 16, expected ids below vocab_size (16)"),
      key("another activation", "hidden_act", "gelu", "/hidden_act: found \"gelu\""),
      key("end token is text", "eos_token_id", "</s>", "/eos_token_id: found \"</s>\""),
      {"token id beyond the vocabulary",
       [](const TemporaryDirectory& d) {
         Arguments arguments = write_model(d, {});
         arguments[4] = "1,16";
         return arguments;
       },
       "found id 16, expected 0 to 15"},
      {"random weights without a file", [](const TemporaryDirectory&) { return logits("random:"); },
       "random:CONFIG.json"},
      {"random weights, missing file",
       [](const TemporaryDirectory& d) { return logits("random:" + d.path("c.json") + ":7"); },
       "c.json: found no readable file (No such file or directory), expected one"},
  };
  expect_refusals(cases);
}

// A model that does not fit is a failure of this machine, not of the input: refused before it is
// loaded.
TEST(MalformedConfig, RandomWeightsBeyondTheMemory) {
  const TemporaryDirectory d;
  SmallModel m;
  m.config["hidden_size"] = m.config["intermediate_size"] = 1 << 20;
  m.config["num_hidden_layers"] = 1000;
  const Finished run = run_program(logits("random:" + d.write("c.json", m.config.dump())));
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_NE(run.err.find("c.json: found weights of"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace turnbench::test
