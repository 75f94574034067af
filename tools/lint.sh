#!/bin/sh
# clang-format for every source, and clang-tidy for all files that the host compiles, including
# kernels (as the emulation's C++). tools/lint.sh [threads]
set -eu
cd "$(dirname "$0")/.."
for tool in clang-format run-clang-tidy; do
  command -v "$tool" > /dev/null || { echo "make lint needs $tool (Debian: clang-format, clang-tidy)"; exit 1; }
done

git ls-files '*.h' '*.cpp' '*.cu' | xargs clang-format --dry-run --Werror

# Unity builds, as usual; clang cannot read headers that another compiler precompiled.
cmake -S . -B build-lint -DTURNBENCH_CUDA=OFF -DTURNBENCH_PRECOMPILE=OFF > /dev/null
cmake --build build-lint --target turnbench_sources turnbench_follow > /dev/null
run-clang-tidy -quiet -p build-lint -j "${1:-$(nproc)}" \
  -extra-arg=-Wno-unknown-warning-option '\.(cpp|cxx|cu)$' > build-lint/lint.log 2>&1 || {
  sed 's/\x1b\[[0-9;]*m//g' build-lint/lint.log | grep -E "(warning|error):" | sort -u
  exit 1
}
# The tool that the build compiles separately.
clang-tidy -quiet -warnings-as-errors='*' tools/source_hashes/*.cpp -- -std=c++20 -I. 2> /dev/null
echo "lint: no finding"
