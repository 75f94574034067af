"""Prints the seconds that PyTorch's attention takes for a prefill of 32K tokens of Llama-3.1-8B."""

import statistics
import time

import torch
import torch.nn.functional as F

TOKENS, HEADS, HEAD_DIM, RUNS = 32768, 32, 128, 5

# One key and value head for each query head: no kernel reads them faster than that.
q, k, v = (
    torch.randn(1, HEADS, TOKENS, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3)
)
seconds = []
for run in range(RUNS + 1):
    torch.cuda.synchronize()
    start = time.perf_counter()
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.cuda.synchronize()
    if run > 0:
        seconds.append(time.perf_counter() - start)
print(statistics.median(seconds))
