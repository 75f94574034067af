#!/bin/sh
# Builds the CUDA backend, runs its tests on a card, some of them under the sanitizers, and measures
# what is to be reached there, in at most 8 minutes:
#   tests/gpu.sh [folder for table.txt, results.json and log.txt: $OUT or build-gpu/results]
# Needs a C++ compiler, CMake and the CUDA toolkit; packages come from gpu-deps/, which `make
# gpu-deps` makes on a machine that has them, or are this machine's.  What fails or takes too long
# does not stop what comes behind it; then the exit code is 1.  Without a card it builds everything,
# runs the kernels on their emulation and says "skipped: no GPU": exit code 0 if that went well.
set -u
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/cuda/bin
started=$(date +%s)
limit=460  # seconds; a part that is stopped takes a few more
failed=0

build=build-gpu programs=build-gpu/tests/gpu
results=${1:-${OUT:-$build/results}}
mkdir -p "$build" "$results"
table=$results/table.txt log=$results/log.txt
parts=$build/parts.jsonl measures=$build/measures.jsonl output=$build/part.log
for file in "$table" "$log" "$parts" "$measures"; do : > "$file"; done

elapsed() { echo $(($(date +%s) - started)); }

# part NAME SECONDS COMMAND...: runs it for so long at most, and within the time of all.
part() {
  name=$1 seconds=$2 begun=$(elapsed)
  shift 2
  [ "$seconds" -lt $((limit - begun)) ] || seconds=$((limit - begun))
  : > "$output"
  if [ "$seconds" -le 0 ]; then
    state="no time left"
  else
    timeout --kill-after=5 "$seconds" "$@" > "$output" 2>&1
    case $? in
      0) state=ok ;;
      124 | 137) state="stopped after $seconds s" ;;
      *) state=failed ;;
    esac
  fi
  [ "$state" = ok ] || failed=1
  took=$(($(elapsed) - begun))
  { echo "==== $name: $state"; tail -n 1000 "$output"; } >> "$log"
  printf '%-62s %25s  %s s\n' "$name" "$state" "$took" | tee -a "$table"
  echo "{\"part\": \"$name\", \"state\": \"$state\", \"seconds\": $took}" >> "$parts"
  [ "$state" = ok ]
}

# measure PART SECONDS [argument]: its lines go into the table.
measure() {
  part "measures of $1" "$2" "$programs/turnbench_gpu_measures" "$1" "$measures" ${3:+"$3"}
  grep -E '(reached|REACHED|measured)$' "$output" | tee -a "$table"
}

list() { paste -sd, "$1"; }  # lines as elements of a JSON array

finish() {
  {
    echo "{\"card\": \"$card\", \"seconds\": $(elapsed), \"failed\": $failed,"
    echo " \"parts\": [$(list "$parts")],"
    echo " \"measures\": [$(list "$measures")]}"
  } > "$results/results.json"
  echo "Table, JSON and log: $results"
  exit $failed
}

card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1)
architecture=native generator="Unix Makefiles"
if [ -z "$card" ]; then architecture=90; fi
if command -v ninja > /dev/null; then generator=Ninja; fi
packages=
if [ -d gpu-deps ]; then packages=$PWD/gpu-deps; fi

echo "${card:-no GPU}" | tee -a "$table"
part "configuring" 60 cmake -S . -B $build -G "$generator" -DCMAKE_BUILD_TYPE=Release \
  -DTURNBENCH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=$architecture -DTURNBENCH_PACKAGES="$packages" ||
  finish
on_card="turnbench_kernels_on_card_tests turnbench_inference_on_card_tests
  turnbench_methods_on_card_tests turnbench_gpu_measures"

if [ -z "$card" ]; then
  limit=36000  # nothing waits for a result
  part "building" $limit cmake --build $build -j "$(nproc)" --target $on_card turnbench_cuda_tests
  part "kernels on the emulation" $limit $build/tests/turnbench_cuda_tests
  echo "skipped: no GPU" | tee -a "$table"
  finish
fi

part "building" 240 cmake --build $build -j "$(nproc)" --target $on_card || finish
part "suites of kernels, core and methods" 110 tests/gpu/suites.sh $programs

small='Elementwise.RotatesHeads:Elementwise.EmbedsTokens:Elementwise.CopiesRows:Elementwise.Adds'
small=$small:'Linear.TakesStridesAndAddressesOfAnyAlignment:DeviceCopies.NoneAtAll:*Append.*/1'
small=$small:'CudaAttendRows.KeysThatAreSplit:CudaAttendRows.RowsThatSeeNothing'
small=$small:'CudaDecodeAttention.Slots:RowStatistics.RowProbabilitiesOfChosenRows'
for tool in memcheck racecheck; do
  part "compute-sanitizer, $tool" 30 compute-sanitizer --tool $tool --error-exitcode 1 \
    $programs/turnbench_kernels_on_card_tests --gtest_filter="$small"
done

torch_seconds=
if python3 -c 'import torch' 2> /dev/null; then
  part "PyTorch's attention" 40 python3 tests/gpu/sdpa.py && torch_seconds=$(tail -n 1 "$output")
fi
measure prefill 60
measure decode 40
measure attention 30 "$torch_seconds"
measure sparse 60
measure long-decode 60
measure loopserve 90
finish
