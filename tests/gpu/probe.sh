# Probes the hardware and software of a machine, without building anything.  Sourced by tests/gpu.sh.
# shellcheck shell=sh disable=SC2154  # of tests/gpu.sh

# tool NAME PATTERN ARGUMENT: reports the first line with PATTERN of the tool's version message.
tool() {
  if ! command -v "$1" > /dev/null; then
    fact "$1" "not found"
    return
  fi
  version=$(timeout 20 "$1" "$3" 2>&1 | grep -i -m 1 -e "$2" | sed 's/^ *//')
  fact "$1" "${version:-found, says no version} ($(command -v "$1"))"
}

probe_card() {
  fact "card" "${card:-none}"
  if [ -z "$card" ]; then return; fi
  fact "driver supports CUDA" \
    "$(timeout 20 nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p' | head -n 1)"
  fact "compute capability" "$(query compute_cap)"
  fact "memory, total, free" "$(query memory.total,memory.free)"
  # HMM: kernels can read pageable host memory, so invalid pointers are not detected.
  mode=$(timeout 20 nvidia-smi -q | sed -n 's/^ *Addressing Mode *: *//p' | head -n 1)
  fact "addressing mode" "${mode:-not said by this driver}"
}

probe_tools() {
  tool nvcc release --version
  tool cmake version --version
  tool g++ g++ --version
  tool ninja . --version
  tool compute-sanitizer version --version
  tool ncu version --version
  tool python3 python --version
  torch=$(timeout 60 python3 -c '
import torch
print(torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())' \
    2> /dev/null)
  fact "PyTorch" "${torch:-not found}"
}

probe_cublas_lt() {
  found=
  for folder in /usr/local/cuda/include /usr/local/cuda-*/include /usr/include; do
    if [ -e "$folder/cublasLt.h" ]; then found="$found${found:+ }$folder/cublasLt.h"; fi
  done
  fact "cublasLt.h" "${found:-not found}"
  found=$(
    ldconfig -p 2> /dev/null | awk '$1 ~ /^libcublasLt\.so/ { print $NF }'
    cublas_lt_folders | while read -r folder; do
      for file in "$folder"/libcublasLt.so*; do
        if [ -e "$file" ]; then echo "$file"; fi
      done
    done
  )
  # Each file once, by whichever of its links.
  found=$(printf '%s\n' "$found" | xargs -r -n 1 readlink -f | sort -u | tr '\n' ' ' | sed 's/ $//')
  fact "libcublasLt" "${found:-not found}"
}

probe_programs() {
  why=$(unusable)
  if [ ! -f "$programs/built" ]; then
    fact "programs" "$why"
    return
  fi
  fact "programs" "$(origin)"
  fact "programs are for" "compute capability $(recorded architecture), CUDA $(recorded cuda)"
  fact "programs can be used" "${why:-yes}"
  use_cublas_lt
  for name in $names; do
    case $name in
      *_tests) part "starting $name" 20 "$programs/$name" --gtest_list_tests ;;
      *) part "starting $name" 20 "$programs/$name" --list ;;
    esac
  done
  if [ -z "$card" ]; then return; fi
  kernel=--gtest_filter=Elementwise.Adds
  part "one kernel" 30 "$programs/turnbench_kernels_on_card_tests" $kernel
  if command -v compute-sanitizer > /dev/null; then
    part "one kernel, compute-sanitizer" 40 compute-sanitizer --tool memcheck --error-exitcode 1 \
      "$programs/turnbench_kernels_on_card_tests" $kernel
  fi
}

probe() {
  probe_card
  probe_tools
  probe_cublas_lt
  probe_programs
  if [ -n "$card" ]; then finish; fi
  say "skipped: no GPU"
  (finish)  # the table shows programs that do not start; without a GPU nothing has failed
  exit 0
}
