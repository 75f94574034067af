// Damaged checkpoints, through the command line.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/cli/small_model.h"

namespace turnbench::test {
namespace {

/// A case that replaces the bytes of model.safetensors.
Malformed bytes(const char* name, std::function<std::string(const SmallModel&)> make,
                const char* expected) {
  return {name,
          [make](const TemporaryDirectory& d) {
            const SmallModel m;
            const Arguments arguments = write_model(d, m);
            d.write("m/model.safetensors", make(m));
            return arguments;
          },
          expected};
}

/// The valid model in two shards, with the index that `damage` produces.
Malformed sharded(const char* name,
                  std::function<void(OrderedJson& index, const TemporaryDirectory&)> damage,
                  const char* expected) {
  return {name,
          [damage](const TemporaryDirectory& d) {
            SmallModel m, one;
            const OrderedJson embedding = one.header["model.embed_tokens.weight"];
            m.header.erase("model.embed_tokens.weight");
            d.write("m/config.json", m.config.dump());
            d.write("m/a.safetensors", safetensors(m.header.dump(), m.data));
            d.write("m/b.safetensors",
                    safetensors(OrderedJson{{"model.embed_tokens.weight", embedding}}.dump(),
                                one.data));
            OrderedJson index = {{"weight_map", OrderedJson::object()}};
            for (const auto& [tensor, entry] : m.header.items())
              index["weight_map"][tensor] = "a.safetensors";
            index["weight_map"]["model.embed_tokens.weight"] = "b.safetensors";
            damage(index, d);
            d.write("m/model.safetensors.index.json", index.dump());
            return logits(d.path("m"));
          },
          expected};
}

/// Sets an element of a tensor of float32.
void set_value(SmallModel& m, const char* name, std::size_t i, float value) {
  const std::size_t begin = m.tensor(name)["data_offsets"][0];
  std::memcpy(m.data.data() + begin + i * sizeof(value), &value, sizeof(value));
}

TEST(MalformedSafetensors, ValidFilesRun) {
  const TemporaryDirectory d;
  const Finished whole = run_program(write_model(d, {}));
  EXPECT_EQ(whole.code, 0) << whole.err;
  SmallModel old;  // tensors of older versions, and a copy of tied embeddings, have no effect
  old.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  old.add("lm_head.weight", {16, 8});
  const TemporaryDirectory other;
  EXPECT_EQ(run_program(write_model(other, old)).out, whole.out);
  EXPECT_EQ(whole.json()["logits"][0].size(), 16u);
  const TemporaryDirectory shards;
  const Malformed good = sharded(
      "good", [](OrderedJson&, const TemporaryDirectory&) {}, "");
  EXPECT_EQ(run_program(good.make(shards)).out, whole.out);
}

TEST(MalformedSafetensors, OneFile) {
  const Malformed cases[] = {
      bytes(
          "empty file", [](const SmallModel&) { return ""; }, "found 0 bytes"),
      bytes(
          "seven bytes", [](const SmallModel&) { return "1234567"; }, "found 7 bytes"),
      bytes(
          "header longer than the file", [](const SmallModel&) { return length_of(1000) + "{}"; },
          "a header of 1000 bytes"),
      bytes(
          "header length with all bits set",
          [](const SmallModel&) { return length_of(UINT64_MAX) + "{}"; }, "expected at most 2"),
      bytes(
          "header is cut",
          [](const SmallModel& m) { return safetensors(m.header.dump().substr(0, 50), ""); },
          "model.safetensors: header: column"),
      bytes(
          "data is cut",
          [](const SmallModel& m) { return safetensors(m.header.dump(), m.data.substr(0, 100)); },
          "a range within the 100 bytes of data"),
      bytes(
          "header is an array", [](const SmallModel&) { return safetensors("[]", ""); },
          "expected an object"),
      bytes(
          "header is no UTF-8",
          [](const SmallModel&) { return safetensors("{\"\xff\xfe\":1}", ""); },
          "expected valid JSON"),
      bytes(
          "header of NUL bytes",
          [](const SmallModel&) { return safetensors(std::string(16, '\0'), ""); }, "'\\x00'"),
      bytes(
          "deep nesting",
          [](const SmallModel&) { return safetensors(std::string(100000, '['), ""); },
          "nesting deeper than 256"),
      bytes(
          "one tensor twice",
          [](const SmallModel& m) {
            std::string header = m.header.dump();
            header.insert(1, "\"model.norm.weight\":1,");
            return safetensors(header, m.data);
          },
          "the key \"model.norm.weight\" twice"),
      damaged(
          "tensor is missing", [](SmallModel& m) { m.header.erase("model.norm.weight"); },
          "no tensor model.norm.weight"),
      damaged(
          "entry is no object", [](SmallModel& m) { m.tensor() = 7; },
          "/model.norm.weight: found 7"),
      damaged(
          "unknown dtype", [](SmallModel& m) { m.tensor()["dtype"] = "F8_E4M3"; },
          "/model.norm.weight/dtype: found \"F8_E4M3\", expected F32, F16 or BF16"),
      damaged(
          "dtype of another size", [](SmallModel& m) { m.tensor()["dtype"] = "F16"; },
          "/model.norm.weight/data_offsets"),
      damaged(
          "shape of another size", [](SmallModel& m) { m.tensor()["shape"] = {9}; },
          "36 bytes, as dtype and shape [9] say"),
      damaged(
          "shape of the right size that config.json does not mean",
          [](SmallModel& m) {
            m.tensor()["shape"] = {2, 4};
          },
          "found the shape [2, 4], expected [8]"),
      damaged(
          "shape whose size overflows",
          [](SmallModel& m) {
            m.tensor()["shape"] = {1ull << 40, 1ull << 40};
          },
          "a tensor that fits in memory"),
      damaged(
          "negative shape", [](SmallModel& m) { m.tensor()["shape"] = {-8}; },
          "/shape/0: found -8"),
      damaged(
          "offsets the wrong way round",
          [](SmallModel& m) {
            m.tensor()["data_offsets"] = {64, 32};
          },
          "a range within"),
      damaged(
          "offsets beyond 64 bits",
          [](SmallModel& m) {
            m.tensor()["data_offsets"] = {0, UINT64_MAX};
          },
          "/data_offsets/1: found 18446744073709551615"),
      damaged(
          "three offsets",
          [](SmallModel& m) {
            m.tensor()["data_offsets"] = {0, 16, 32};
          },
          "expected [begin, end]"),
      damaged(
          "offsets are text",
          [](SmallModel& m) {
            m.tensor()["data_offsets"] = {"0", "32"};
          },
          "found \"0\", expected an integer"),
      damaged(
          "tensors overlap",
          [](SmallModel& m) {
            m.tensor()["data_offsets"] =
                m.tensor("model.layers.0.input_layernorm.weight")["data_offsets"];
          },
          "data that overlaps the tensor"),
      damaged(
          "NaN that attention would hide",
          [](SmallModel& m) { set_value(m, "model.layers.0.self_attn.q_proj.weight", 9, NAN); },
          "model.layers.0.self_attn.q_proj.weight: found an infinity or a NaN"),
      damaged(
          "infinity in a vector",
          [](SmallModel& m) { set_value(m, "model.norm.weight", 7, -INFINITY); },
          "model.norm.weight: found an infinity or a NaN"),
      damaged(
          "tensor of another architecture",
          [](SmallModel& m) { m.add("model.layers.0.self_attn.q_norm.weight", {4}); },
          "found the tensor model.layers.0.self_attn.q_norm.weight, expected only those that"),
      damaged(
          "more layers than config.json has",
          [](SmallModel& m) { m.add("model.layers.1.input_layernorm.weight", {8}); },
          "found the tensor model.layers.1.input_layernorm.weight"),
  };
  expect_refusals(cases);
}

TEST(MalformedSafetensors, ShardIndex) {
  const Malformed cases[] = {
      sharded(
          "shard is missing",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"]["model.norm.weight"] = "c.safetensors";
          },
          "c.safetensors: found no readable file (No such file or directory), expected one"),
      sharded(
          "tensor is not in its shard",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"]["extra.weight"] = "a.safetensors";
          },
          "/weight_map/extra.weight"),
      sharded(
          "shard outside of the directory",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"]["model.norm.weight"] = "../m/a.safetensors";
          },
          "the name of a file in the same directory"),
      sharded(
          "shard's name ends in NUL",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"]["model.norm.weight"] = std::string("b.safetensors\0x", 15);
          },
          "the name of a file in the same directory"),
      sharded(
          "both shards hold a tensor",
          [](OrderedJson&, const TemporaryDirectory& d) {
            const SmallModel m;
            d.write("m/b.safetensors", safetensors(m.header.dump(), m.data));
          },
          "a tensor that another shard holds too"),
      sharded(
          "no weight_map",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index = {{"metadata", 1}};
          },
          "no key \"weight_map\""),
      sharded(
          "weight_map is a list",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"] = {"a.safetensors"};
          },
          "/weight_map: found an array of 1, expected an object"),
      sharded(
          "shard's name is a number",
          [](OrderedJson& index, const TemporaryDirectory&) {
            index["weight_map"]["model.norm.weight"] = 7;
          },
          "/weight_map/model.norm.weight: found 7"),
      {"neither weights nor an index",
       [](const TemporaryDirectory& d) {
         d.write("m/config.json", SmallModel().config.dump());
         return logits(d.path("m"));
       },
       "found neither model.safetensors nor"},
  };
  expect_refusals(cases);
}

// A finite weight of the final norm, with which its outputs overflow.
TEST(MalformedSafetensors, NaNLogitsAreAnError) {
  const TemporaryDirectory d;
  SmallModel m;
  set_value(m, "model.norm.weight", 3, 3e38f);
  Arguments arguments = write_model(d, m);
  for (const char* command : {"logits", "generate"}) {
    arguments[0] = command;
    if (arguments[0] == "generate") arguments.pop_back();
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find("logit"), std::string::npos) << run.err;
  }
}

}  // namespace
}  // namespace turnbench::test
