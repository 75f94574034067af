"""Times PyTorch's attention on one of its backends: a prefill of 32K tokens of Llama-3.1-8B.

python3 tests/gpu/sdpa.py FLASH_ATTENTION|CUDNN_ATTENTION

The last line is the backend and the median of the seconds, or why the backend is not available.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

TOKENS, HEADS, HEAD_DIM, RUNS = 32768, 32, 128, 5


def seconds_of(backend):
    # One key and value head for each query head: with this shape no kernel reads them faster.
    q, k, v = (
        torch.randn(1, HEADS, TOKENS, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
        for _ in range(3)
    )
    seconds = []
    # If only one backend is allowed, PyTorch uses it or raises an error; it never silently uses
    # another.
    with torch.nn.attention.sdpa_kernel([backend]):
        for run in range(RUNS + 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            torch.cuda.synchronize()
            if run > 0:
                seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: sdpa.py FLASH_ATTENTION|CUDNN_ATTENTION")
    name = sys.argv[1]
    print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)
    try:
        from torch.nn.attention import SDPBackend

        print(name, seconds_of(getattr(SDPBackend, name)))
    except (ImportError, AttributeError, RuntimeError) as error:
        print(name, "unavailable:", " ".join(str(error).split()))


if __name__ == "__main__":
    main()
