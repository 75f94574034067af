"""Tests of tools/gguf_to_hf.py: models of tests/data/models are written as GGUF files by the package
gguf, with its own names of tensors, and converted back.

    tools/python.sh tools/requirements-gguf.txt tests/tools/gguf_to_hf_test.py
"""

import json
import pathlib
import sys
import tempfile
import unittest

import gguf
import numpy as np

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODELS = PROJECT / "tests" / "data" / "models"
sys.path.insert(0, str(PROJECT / "tools"))

import gguf_to_hf  # noqa: E402

ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA,
                 "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
TEMPLATE = "{{ messages[0]['content'] }}"


def safetensors(path):
    """Names, and float32 arrays."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        if entry["dtype"] == "F32":
            array = np.frombuffer(data[begin:end], np.float32)
        else:  # bfloat16
            array = (np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16).view(np.float32)
        out[name] = array.reshape(entry["shape"])
    return out


def weights_of(model):
    out = {}
    for path in sorted((MODELS / model).glob("model*.safetensors")):
        out |= safetensors(path)
    return out


def interleaved(weight, heads):
    """Rows of each head from (d, d + head_dim / 2) to pairs (2 d, 2 d + 1)."""
    rows = weight.shape[0] // heads
    order = [head * rows + half * rows // 2 + d
             for head in range(heads) for d in range(rows // 2) for half in range(2)]
    return weight[order]


def vocabulary(size):
    """The 256 bytes of byte-level BPE, two merged tokens, and special and unused tokens."""
    bytes_ = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
    bytes_ += [chr(256 + i) for i in range(256 - len(bytes_))]
    tokens = ["<s>", "</s>", "<call>", *bytes_, "ab", "abc"][:size]
    types = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.USER_DEFINED]
    return tokens, types + [gguf.TokenType.NORMAL] * (len(tokens) - 3)


def write_gguf(path, model, change=lambda writer: None, pre="qwen2"):
    config = json.loads((MODELS / model / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    name = gguf.MODEL_ARCH_NAMES[architecture]
    writer = gguf.GGUFWriter(path, name)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_key_length(head_dim)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    tokens, types = vocabulary(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for tensor, weight in weights_of(model).items():
        part = tensor.split(".")[-2]
        if name == "llama" and part in ("q_proj", "k_proj"):
            weight = interleaved(weight, heads if part == "q_proj" else kv_heads)
        writer.add_tensor(names.get_name(tensor, try_suffixes=(".weight", ".bias")),
                          np.ascontiguousarray(weight))
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return config


class GgufToHf(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "model.gguf"
        self.out = pathlib.Path(self.folder.name) / "model"

    def convert(self, dtype="f32"):
        gguf_to_hf.convert(self.path, self.out, dtype)
        return json.loads((self.out / "config.json").read_text())

    def refusal(self, *arguments, **settings):
        write_gguf(self.path, *arguments, **settings)
        with self.assertRaises(SystemExit) as refused:
            self.convert()
        self.assertFalse(self.out.exists())
        return str(refused.exception)

    def test_models_of_every_architecture_return_unchanged(self):
        for model in ("llama2", "mistral", "qwen2", "qwen3"):
            with self.subTest(model):
                self.out = self.out.with_name(model)
                want, got = write_gguf(self.path, model), self.convert()
                for key in ("model_type", "architectures", "hidden_size", "intermediate_size",
                            "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                            "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings",
                            "vocab_size"):
                    self.assertEqual(got[key], want[key], key)
                self.assertEqual(got["rope_theta"], want["rope_parameters"]["rope_theta"])
                self.assertEqual(got.get("sliding_window"), want.get("sliding_window"))
                weights, expected = safetensors(self.out / "model.safetensors"), weights_of(model)
                self.assertEqual(sorted(weights), sorted(expected))
                for name, weight in expected.items():
                    self.assertTrue(np.array_equal(weights[name], weight), name)

    def test_weights_are_rounded_to_the_nearest_bfloat16(self):
        write_gguf(self.path, "qwen3")
        self.convert("bf16")
        expected = weights_of("qwen3")
        for name, weight in safetensors(self.out / "model.safetensors").items():
            error = np.abs(weight - expected[name])
            self.assertLessEqual(error.max() / np.abs(expected[name]).max(), 2.0**-8, name)
        halves = np.array([0x3F808000, 0x3F818000, 0x3F807FFF], np.uint32).view(np.float32)
        self.assertEqual(gguf_to_hf.to_bfloat16(halves).tolist(), [0x3F80, 0x3F82, 0x3F80])

    def test_tokenizer(self):
        write_gguf(self.path, "qwen2")
        self.convert()
        tokenizer = json.loads((self.out / "tokenizer.json").read_text())
        added = {token["content"]: token["special"] for token in tokenizer["added_tokens"]}
        self.assertEqual(added, {"<s>": True, "</s>": True, "<call>": False})
        self.assertEqual(tokenizer["normalizer"], {"type": "NFC"})
        self.assertIsNone(tokenizer["post_processor"])
        self.assertEqual(tokenizer["model"]["vocab"]["</s>"], 1)
        settings = json.loads((self.out / "tokenizer_config.json").read_text())
        self.assertEqual(settings["eos_token"], "</s>")
        self.assertEqual(settings["chat_template"], TEMPLATE)
        self.assertFalse((self.out / "generation_config.json").exists())

    def test_begin_tokens_and_ends_of_turns(self):
        write_gguf(self.path, "llama2", lambda writer: writer.add_eot_token_id(2), "llama-bpe")
        self.convert()
        tokenizer = json.loads((self.out / "tokenizer.json").read_text())
        self.assertEqual(tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"], [0])
        self.assertTrue(tokenizer["model"]["ignore_merges"])
        ends = json.loads((self.out / "generation_config.json").read_text())
        self.assertEqual(ends["eos_token_id"], [1, 2])

    def test_sentence_piece_merges_are_ordered_by_score(self):
        tokens, scores = ["a", "b", "c", "ab", "bc", "abc"], [-9, -8, -7, -2, -1, -3]
        self.assertEqual(gguf_to_hf.merges_of(tokens, scores), ["b c", "a b", "ab c", "a bc"])

    def test_rope_scaling(self):
        def linear(writer):
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(4.0)

        def yarn(writer):
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(2.0)
            writer.add_rope_scaling_orig_ctx_len(256)

        write_gguf(self.path, "qwen2", linear)
        self.assertEqual(self.convert()["rope_scaling"], {"rope_type": "linear", "factor": 4.0})
        self.out = self.out.with_name("yarn")
        write_gguf(self.path, "qwen2", yarn)
        self.assertEqual(self.convert()["rope_scaling"],
                         {"rope_type": "yarn", "factor": 2.0,
                          "original_max_position_embeddings": 256})

    def test_llama3_factors(self):
        # As llama.cpp computes them from the parameters of Llama 3.1, for each pair of dimensions.
        factors, base, head_dim = [], 500000.0, 16
        for i in range(0, head_dim, 2):
            wavelength = 2 * np.pi * base ** (i / head_dim)
            if wavelength < 8192 / 4:
                factors.append(1.0)
            elif wavelength > 8192:
                factors.append(8.0)
            else:
                smooth = (8192 / wavelength - 1) / (4 - 1)
                factors.append(1 / ((1 - smooth) / 8 + smooth))

        def add(values):
            return lambda writer: writer.add_tensor("rope_freqs.weight",
                                                    np.array(values, np.float32))

        write_gguf(self.path, "llama3", add(factors))
        scaling = self.convert()["rope_scaling"]
        self.assertEqual((scaling["rope_type"], scaling["factor"]), ("llama3", 8.0))
        self.out = self.out.with_name("other")
        self.assertIn("rope_freqs.weight: found other factors, expected those of Llama 3.1 or 3.2",
                      self.refusal("llama3", add([2.0] * (head_dim // 2))))

    def test_refusals(self):
        self.assertIn("tokenizer.ggml.pre: found starcoder, expected one of llama-bpe",
                      self.refusal("qwen2", pre="starcoder"))
        self.assertIn("experts: found 8, expected none",
                      self.refusal("llama2", lambda writer: writer.add_expert_count(8)))
        self.assertIn("tensors: found blk.0.attn_sinks.weight",
                      self.refusal("llama2", lambda writer: writer.add_tensor(
                          "blk.0.attn_sinks.weight", np.zeros(4, np.float32))))
        self.assertIn("parts: found 3, expected one file",
                      self.refusal("llama2", lambda writer: writer.add_uint16("split.count", 3)))
        self.assertIn("tokenizer.ggml.eot_token_id: found 999, expected 0 to 127",
                      self.refusal("qwen2", lambda writer: writer.add_eot_token_id(999)))
        self.assertIn("tensors: found no blk.2.attn_k.bias",
                      self.refusal("qwen2", lambda writer: writer.add_uint32(
                          "qwen2.block_count", 3)))
        self.path.unlink()
        writer = gguf.GGUFWriter(self.path, "gpt2")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        with self.assertRaisesRegex(SystemExit, "architecture: found gpt2, expected one of llama"):
            self.convert()

    def test_incomplete_files_and_used_directories_are_refused(self):
        write_gguf(self.path, "qwen3")
        whole = self.path.read_bytes()
        for content in (b"", b"text", whole[:1000], whole[:-100]):
            self.path.write_bytes(content)
            with self.assertRaisesRegex(SystemExit, "model.gguf: .*, expected a complete GGUF file"):
                self.convert()
        self.path.unlink()
        with self.assertRaisesRegex(SystemExit, "expected a complete GGUF file"):
            self.convert()
        write_gguf(self.path, "qwen3")
        self.out.mkdir()
        (self.out / "chat_template.jinja").write_text("other")
        with self.assertRaisesRegex(SystemExit, "expected a new directory"):
            self.convert()
        self.out = self.path / "below-a-file"
        with self.assertRaisesRegex(SystemExit, "below-a-file: Not a directory"):
            self.convert()
        self.assertEqual(sorted(p.name for p in self.path.parent.iterdir()), ["model", "model.gguf"])


if __name__ == "__main__":
    unittest.main()
