# Builds the programs for a GPU and checks existing ones.  Sourced by tests/gpu.sh.
# shellcheck shell=sh disable=SC2034,SC2154  # of tests/gpu.sh

build=build-gpu programs=build-gpu/programs
names="turnbench_kernels_on_card_tests turnbench_inference_on_card_tests
  turnbench_methods_on_card_tests turnbench_gpu_measures"
most_bytes=67108864  # limit for the programs and their libraries together: 64 MiB

# query FIELD: nvidia-smi's value for the first GPU; nothing without a GPU.
query() {
  if said=$(timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader 2> /dev/null); then
    printf '%s\n' "$said" | head -n 1  # its output is not a GPU if it fails
  fi
}

# Sets `card`, which is empty without a GPU, and `architecture`, which is 90 without a GPU.
find_card() {
  card=$(query name,driver_version)
  architecture=
  if [ -n "$card" ]; then architecture=$(query compute_cap | tr -d .); fi
  case $architecture in '' | *[!0-9]*) architecture=90 ;; esac
}

# A hash of all files that affect the programs, independent of the state of a repository.
hash_sources() {
  {
    find CMakeLists.txt cmake common inference methods harness datasets tests -type f \
      \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cmake' -o -name CMakeLists.txt \)
    find models/tiny -type f
  } | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1
}

# recorded KEY: a line of the file that a build writes next to the programs.
recorded() { sed -n "s/^$1=//p" "$programs/built" 2> /dev/null; }

# Identifies one boot of a machine.
this_machine() { echo "$(uname -n) $(cat /proc/sys/kernel/random/boot_id 2> /dev/null)"; }

origin() {
  if [ "$(recorded machine)" = "$(this_machine)" ]; then
    echo "built here, $(recorded time)"
  else
    echo "carried, built on $(recorded machine | cut -d ' ' -f 1), $(recorded time)"
  fi
}

# Starts a program in the mode that only lists its contents.
start() {
  case $1 in
    *_tests) timeout 20 "$programs/$1" --gtest_list_tests ;;
    *) timeout 20 "$programs/$1" --list ;;
  esac
}

# Prints why the programs cannot be used as they are; nothing if they can.
unusable() {
  if [ ! -f $programs/built ]; then
    echo "there are none"
  elif [ "$(recorded sources)" != "$(hash_sources)" ]; then
    echo "built from other sources"
  elif [ -n "$card" ] && [ "$(recorded architecture)" != "$architecture" ]; then
    echo "built for compute capability $(recorded architecture), found a card of $architecture"
  else
    for name in $names; do
      if ! said=$(start "$name" 2>&1); then
        echo "$name does not start: $(printf '%s' "$said" | tail -n 1)"
        return
      fi
    done
  fi
}

# The folder of the library that the programs load, unless the system's loader knows it.
cublas_lt_folder() {
  library=libcublasLt.so.$(recorded cuda | cut -d . -f 1)
  if ldconfig -p 2> /dev/null | grep -q -F "$library"; then return; fi
  cublas_lt_folders | while read -r folder; do
    if [ -e "$folder/$library" ]; then
      echo "$folder"
      break
    fi
  done
}

# Possible folders of cuBLAS, in addition to those that the system's loader knows.
cublas_lt_folders() {
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64; do echo "$folder"; done
  site_packages | while read -r site; do
    for folder in "$site"/nvidia/*/lib; do echo "$folder"; done
  done
}

site_packages() {
  timeout 20 python3 -c '
import sys
print(*[path for path in sys.path if path.endswith("-packages")], sep="\n")' 2> /dev/null
}

# Enables the loader to find cuBLAS when programs run.
use_cublas_lt() {
  folder=$(cublas_lt_folder)
  if [ -n "$folder" ]; then
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
  fi
}

# build_programs ARCHITECTURE SECONDS [TARGET...]: builds the programs and other targets, and
# collects the files that another machine needs in $programs.
build_programs() {
  sources=$(hash_sources) packages='' generator=''
  if [ -d gpu-deps ]; then packages=$PWD/gpu-deps; fi
  # A build folder keeps its generator.
  if [ ! -f $build/CMakeCache.txt ] && command -v ninja > /dev/null; then generator=-GNinja; fi
  # Code for that architecture only, so that the programs fit the size limit: other GPUs need
  # another build.  Tests open the source folder as ".", because its path differs on another
  # machine.
  part configuring 60 cmake -S . -B $build $generator -DCMAKE_BUILD_TYPE=Release \
    -DTURNBENCH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$1-real" -DTURNBENCH_PACKAGES="$packages" \
    -DTURNBENCH_TEST_ROOT=. || return 1
  built_for=$1 seconds_to_build=$2
  shift 2
  # shellcheck disable=SC2086  # names are several
  part "building for compute capability $built_for" "$seconds_to_build" cmake --build $build \
    -j "${JOBS:-$(nproc)}" --target $names "$@" || return 1
  # shellcheck disable=SC2086
  part "collecting the programs" 60 sh tests/gpu/collect.sh $build/tests/gpu $programs $names ||
    return 1
  {
    echo "sources=$sources"
    echo "architecture=$built_for"
    echo "cuda=$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    echo "time=$(date -u '+%Y-%m-%d %H:%M UTC')"
    echo "machine=$(this_machine)"
  } > $programs/built
}

# Programs for the detected GPU: the existing ones if they can be used, otherwise new ones.
prepare_programs() {
  why=$(unusable)
  if [ -n "$why" ]; then
    fact "programs to begin with" "$why"
    build_programs "$architecture" 240 || return 1
  fi
  use_cublas_lt
  fact "programs" "$(origin)"
}

# The work without a GPU: everything is built, and kernels run on their emulation.
without_card() {
  limit=36000  # nothing waits for a result
  build_programs "$architecture" $limit turnbench_cuda_tests || finish
  fact "programs" "$(origin)"
  part "kernels on the emulation" $limit $build/tests/turnbench_cuda_tests
  say "skipped: no GPU"
  finish
}
