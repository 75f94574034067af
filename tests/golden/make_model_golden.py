"""Writes tests/data/models/: one small random model per family, with logits and a greedy continuation
computed by Hugging Face transformers (float32, CPU, eager attention).

    python tests/golden/make_model_golden.py     # needs torch, transformers, safetensors
"""
import copy
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
TOKENS, GREEDY, VOCAB = 260, 64, 128

SMALL = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
             max_position_embeddings=512, attn_implementation="eager", pad_token_id=None,
             bos_token_id=1, eos_token_id=2)

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}

# name -> (config class, model class, settings that differ, stored dtype, shards)
FAMILIES = {
    "llama2": (LlamaConfig, LlamaForCausalLM,
               dict(num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False),
               torch.float32, 1),
    "llama3": (LlamaConfig, LlamaForCausalLM,
               dict(num_attention_heads=8, num_key_value_heads=2, head_dim=16, num_hidden_layers=3,
                    rope_theta=500000.0, rope_scaling=LLAMA3, tie_word_embeddings=True),
               torch.bfloat16, 1),
    "llama-linear": (LlamaConfig, LlamaForCausalLM,
                     dict(num_attention_heads=4, num_key_value_heads=1, attention_bias=True,
                          mlp_bias=True, rope_scaling={"rope_type": "linear", "factor": 4.0}),
                     torch.float16, 1),
    "mistral": (MistralConfig, MistralForCausalLM,
                dict(num_attention_heads=8, num_key_value_heads=2, head_dim=8, sliding_window=48),
                torch.float32, 2),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM,
              dict(num_attention_heads=7, num_key_value_heads=1, hidden_size=56, rope_theta=1e6,
                   tie_word_embeddings=True),
              torch.float32, 1),
    "qwen2-yarn": (Qwen2Config, Qwen2ForCausalLM,
                   dict(num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=4,
                        rope_theta=1e6, rope_scaling=YARN, use_sliding_window=False,
                        sliding_window=32),
                   torch.float32, 1),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM,
              dict(num_attention_heads=4, num_key_value_heads=2, head_dim=32, rope_theta=1e6,
                   tie_word_embeddings=True),
              torch.float32, 1),
}


def randomize(model):
    """Weights large enough that attention is peaked and every part of the decoder affects the logits."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(1 + 0.2 * torch.randn_like(p))
            elif name.endswith("bias"):
                p.copy_(0.3 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (1.5 / p.shape[-1] ** 0.5))


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for seed, (name, (config_class, model_class, extra, dtype, shards)) in enumerate(FAMILIES.items()):
        torch.manual_seed(seed)
        config = config_class(**{**SMALL, **extra})
        model = model_class(config).eval()
        randomize(model)
        for p in model.parameters():  # rounds to the dtype of the file; buffers stay as they are
            p.copy_(p.to(dtype).to(torch.float32))
        directory = OUT / name
        directory.mkdir(parents=True)
        stored = copy.deepcopy(model).to(dtype)
        stored.save_pretrained(directory, max_shard_size="5GB" if shards == 1 else "120KB")
        (directory / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(3, VOCAB, (1, TOKENS))
        logits = model(ids).logits[0]
        greedy = ids
        for _ in range(GREEDY):
            greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], 1)
        save_file({"logits": logits.contiguous()}, directory / "golden.safetensors")
        (directory / "golden.json").write_text(json.dumps(
            {"ids": ids[0].tolist(), "greedy": greedy[0, TOKENS:].tolist()}) + "\n")
        parts = sorted(directory.glob("model*.safetensors"))
        print(name, [p.name for p in parts], sum(load_file(p)[k].numel() for p in parts for k in load_file(p)),
              "logits", float(logits.abs().max()))


if __name__ == "__main__":
    main()
