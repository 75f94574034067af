#!/bin/sh
# Tests tests/gpu.sh with a GPU, without a GPU, and with programs that fail or take too long.  Scripts
# that record their calls replace the GPU's tools and the programs:
#   script_test.sh SOURCES CMAKE SCRATCH
set -u
sources=$1 real_cmake=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch/bin" "$scratch/tests" "$scratch/models/tiny" "$scratch/cmake"
cd "$scratch" || exit 1
cp -r "$sources/tests/gpu" tests/
cp "$sources/tests/gpu.sh" tests/
for folder in common inference methods harness datasets; do
  mkdir $folder
  echo "// $folder" > $folder/file.cpp
done
touch CMakeLists.txt models/tiny/config.json
unset OUT JOBS LD_LIBRARY_PATH
export TRACE="$scratch/trace" CLOCK="$scratch/clock" CARD=1 TORCH=1 FAILING=- MISSING=- SLOW=- LARGE=

tool() {
  { echo '#!/bin/sh'; cat; } > "bin/$1"
  chmod +x "bin/$1"
}
tool nvidia-smi << 'END'
[ -n "$CARD" ] || { echo "NVIDIA-SMI has failed"; exit 9; }
case "$*" in
  *name,driver_version*) echo "Card $CARD, 580.1" ;;
  *compute_cap*) echo "${CAPABILITY:-9.0}" ;;
  *memory*) echo "81559 MiB, 81000 MiB" ;;
  -q) echo "    Addressing Mode                       : HMM" ;;
  *) echo "| NVIDIA-SMI 580.1     Driver Version: 580.1     CUDA Version: 13.0  |" ;;
esac
END
tool nvcc << 'END'
echo "Cuda compilation tools, release 13.0, V13.0.1"
END
tool cmake << 'END'
echo "cmake $*" >> "$TRACE"
[ "$1" != --version ] || { echo "cmake version 3"; exit; }
mkdir -p build-gpu/tests/gpu
for name in kernels_on_card_tests inference_on_card_tests methods_on_card_tests gpu_measures; do
  cp bin/program build-gpu/tests/gpu/turnbench_$name
done
cp bin/program build-gpu/tests/turnbench_cuda_tests
END
tool program << 'END'
name=$(basename "$0")
case $1 in
  --list) cat order ;;
esac
case $1 in
  --list | --gtest_list_tests) [ "$name" != "$FAILING" ]; exit ;;
esac
echo "$name $*" | tee -a "$TRACE"
case "$name $*" in $FAILING) exit 1 ;; esac
[ "$name" = turnbench_gpu_measures ] || exit 0
cp build-gpu/results/measure/results.json "before-$1.json" 2> /dev/null
case $1 in
  $MISSING) echo "$1  >= 1  0  NOT REACHED"; echo "{\"measure\": \"$1\", \"reached\": false}" >> "$2"; exit 3 ;;
esac
echo "$1  >= 1  2  reached"
echo "{\"measure\": \"$1\", \"reached\": true}" >> "$2"
END
tool strip << 'END'
cp "$3" "$2"
if [ -n "$LARGE" ]; then truncate -s 65M "$2"; fi
END
tool ldd << 'END'
echo "libfmt.so.9 => $PWD/bin/ldd (0x1)"
echo "libc.so.6 => /lib/libc.so.6 (0x1)"
END
tool ldconfig << 'END'
echo "	libcublasLt.so.13 (libc6,x86-64) => /usr/lib/libcublasLt.so.13"
END
tool compute-sanitizer << 'END'
echo "compute-sanitizer $*" >> "$TRACE"
END
tool python3 << 'END'
[ -n "$TORCH" ] || exit 1
case "$*" in
  *FLASH*) echo "FLASH_ATTENTION 0.0125" ;;
  *CUDNN*) echo "CUDNN_ATTENTION unavailable: no \"kernel\"" ;;
  *print*) echo "2.9 CUDA 13.0" ;;
esac
END
# Parts run with --kill-after; a slow part ends at its limit without taking any real time.
tool timeout << 'END'
case $1 in
  --kill-after=*) ;;
  *) shift; exec "$@" ;;
esac
seconds=$2
shift 2
echo "limit $seconds: $(basename "$1") $2" >> "$TRACE"
case "$*" in
  $SLOW) echo $(($(cat "$CLOCK") + seconds)) > "$CLOCK"; exit 124 ;;
esac
exec "$@"
END
tool date << 'END'
case $* in
  +%s) cat "$CLOCK" ;;
  *) echo "2026-01-01 00:00 UTC" ;;
esac
END
PATH=$scratch/bin:$PATH

# Names and limits, as the program lists them.
cat > order << 'END'
decode-4k 60
prefill-8k 60
attention-32k 40
decode-128k 60
quest-128k 60
snapkv-128k 60
pqcache-128k 60
loopserve-128k 60
sparse-128k 50
END

cat > json.cmake << 'END'
file(READ ${FILE} text)
string(JSON parts LENGTH "${text}" parts)
string(JSON measures LENGTH "${text}" measures)
string(JSON ok GET "${text}" ok)
if(ok)
  set(state ok)
else()
  set(state failed)
endif()
message("${parts} parts, ${measures} measures, ${state}")
END

failures=0
wrong() {
  echo "$case_name: $1"
  sed 's/^/  | /' "${2:-said}"
  failures=$((failures + 1))
}
# run NAME EXIT_CODE ARGUMENT...: calls tests/gpu.sh.
run() {
  case_name=$1 expected=$2
  shift 2
  echo 1000 > "$CLOCK"
  : > "$TRACE"
  rm -f before-*.json
  sh tests/gpu.sh "$@" > said 2>&1
  code=$?
  [ $code -eq "$expected" ] || wrong "found exit code $code, expected $expected"
}
says() { grep -q -e "$1" said || wrong "found no \"$1\""; }
traces() { grep -q -e "$1" "$TRACE" || wrong "found no \"$1\"" "$TRACE"; }
traces_no() { ! grep -q -e "$1" "$TRACE" || wrong "found \"$1\"" "$TRACE"; }
# json FILE TEXT: expects TEXT in the output of json.cmake for FILE.
json() {
  "$real_cmake" -DFILE="$1" -P json.cmake > json.said 2>&1
  grep -q -x -e "$2" json.said || wrong "found no \"$2\" in $1" json.said
}

# Usage.
run "no command" 2
says '^usage: tests/gpu.sh'
run "an unknown command" 2 benchmark
run "too many arguments" 2 probe a b
run "an architecture that is none" 2 build 90a

# Without a GPU.
CARD='' run "probe without a card" 0 probe
says '^skipped: no GPU'
says '^programs  *there are none'
json build-gpu/results/probe/results.json '0 parts, 0 measures, ok'
for command in measure test; do
  CARD='' run "$command without a card" 0 $command
  says '^skipped: no GPU'
  traces 'cmake --build .*turnbench_gpu_measures turnbench_cuda_tests'
  traces '^turnbench_cuda_tests'
  traces_no '^turnbench_gpu_measures'
  CARD='' FAILING='turnbench_cuda_tests*' run "$command, failing emulation" 1 $command
  json build-gpu/results/$command/results.json '4 parts, 0 measures, failed'
done
CARD='' FAILING=turnbench_gpu_measures run "probe without a card, a program does not start" 0 probe
says '^programs can be used  *turnbench_gpu_measures does not start'

# Programs to carry.
LARGE=1 run "programs that are too large" 1 build
says 'fits what can be carried .*failed'
run "another architecture" 0 build 100
traces '-DCMAKE_CUDA_ARCHITECTURES=100-real '
run "programs to carry" 0 build
traces '-DCMAKE_CUDA_ARCHITECTURES=90-real '
[ -e build-gpu/programs/lib/ldd ] || wrong "found no library beside the programs"

# With a GPU.
run "probe" 0 probe
says '^addressing mode  *HMM'
says '^compute capability  *9.0'
says '^driver supports CUDA  *13.0'
says '^programs can be used  *yes'
traces '^turnbench_kernels_on_card_tests --gtest_filter=Elementwise.Adds'
traces '^compute-sanitizer --tool memcheck'
traces_no '^cmake \(-S\|--build\)'
json build-gpu/results/probe/results.json '6 parts, 0 measures, ok'

run "measure" 0 measure
says '^programs  *built here'
says '^decode-4k  *>= 1  *2  *reached$'
traces_no '^cmake \(-S\|--build\)'
sed -n 's/^turnbench_gpu_measures \([^ ]*\).*/\1/p' "$TRACE" > found
[ "$(cat found)" = "$(cut -d ' ' -f 1 order)" ] || wrong "found another order" found
traces 'limit 60: turnbench_gpu_measures decode-4k'
traces 'attention-32k .* FLASH_ATTENTION=0.0125 CUDNN_ATTENTION=$'
says '^PyTorch.*CUDNN_ATTENTION  *unavailable: no "kernel"'
json build-gpu/results/measure/results.json '11 parts, 9 measures, ok'
json before-prefill-8k.json '1 parts, 1 measures, ok'

TORCH='' run "measure without PyTorch" 0 measure
says '^PyTorch  *not found'
traces 'attention-32k [^ ]*$'

MISSING=prefill-8k FAILING='* quest-128k *' SLOW='* snapkv-128k *' \
  run "measures that fail" 1 measure elsewhere
says '^measuring prefill-8k  *below target'
says '^measuring quest-128k  *failed'
says '^measuring snapkv-128k  *stopped after 60 s'
says '^measuring sparse-128k  *ok'
json elsewhere/results.json '11 parts, 7 measures, failed'
grep -q 'measuring quest-128k  *failed' elsewhere/table.txt || wrong "found another table"

# All measures are slow, and PyTorch's FLASH_ATTENTION.
SLOW='*[mS][eH]*' run "no time for all" 1 measure
traces 'limit 60: turnbench_gpu_measures pqcache-128k'
traces 'limit 30: turnbench_gpu_measures loopserve-128k'
says '^measuring sparse-128k  *no time left'
traces_no 'sparse-128k'
[ "$(cat "$CLOCK")" -eq 1460 ] || wrong "found $(cat "$CLOCK") - 1000 seconds, expected 460" "$TRACE"

# Which programs are used.
sed -i 's/^machine=.*/machine=elsewhere 1/' build-gpu/programs/built
run "carried programs" 0 measure
says '^programs  *carried, built on elsewhere'
traces_no '^cmake \(-S\|--build\)'
echo "// changed" > inference/file.cpp
run "programs of other sources" 0 probe
says '^programs can be used  *built from other sources'
run "programs of other sources" 0 measure
says '^programs to begin with  *built from other sources'
says '^programs  *built here'
traces '^cmake --build'
CAPABILITY=10.0 run "another card" 0 measure
says 'built for compute capability 90, found a card of 100'
traces '-DCMAKE_CUDA_ARCHITECTURES=100-real '
run "a card of before" 0 test
FAILING=turnbench_gpu_measures run "a program does not start" 1 probe
says '^starting turnbench_gpu_measures  *failed'
FAILING=turnbench_gpu_measures run "a program does not start" 0 test
traces '^cmake --build'

# Suites.
run "test" 0 test
traces_no '^cmake \(-S\|--build\)'
json build-gpu/results/test/results.json '11 parts, 0 measures, ok'
sed -n 's/^limit [0-9]*: //p' "$TRACE" > found
[ "$(head -n 1 found) $(tail -n 2 found | tr '\n' ' ')" = \
  "env GTEST_BRIEF=1 compute-sanitizer --tool compute-sanitizer --tool " ] ||
  wrong "found another order" "$TRACE"
[ "$(head -n 2 "$TRACE" | tail -n 1)" = 'turnbench_kernels_on_card_tests --gtest_filter=*' ] ||
  wrong "kernels are not first" "$TRACE"
[ "$(grep -c '^turnbench_methods_on_card_tests --gtest_filter=-' "$TRACE")" -eq 6 ] ||
  wrong "found another number of shards" "$TRACE"
FAILING='turnbench_inference*' SLOW='*GTEST_SHARD_INDEX=3*' run "suites that fail" 1 test
says '^inference  *failed'
says '^methods, shard 4 of 6  *stopped after 150 s'
says '^answers  *ok'
says '^compute-sanitizer, racecheck  *ok'
json build-gpu/results/test/results.json '11 parts, 0 measures, failed'

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
echo "all as expected"
