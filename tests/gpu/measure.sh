# The measures on a GPU, in descending order of importance.  Sourced by tests/gpu.sh.
# shellcheck shell=sh disable=SC2154  # of tests/gpu.sh

# measure NAME SECONDS [ARGUMENT...]: adds the lines of a measure to the table.
measure() {
  measured=$1 seconds_to_measure=$2
  shift 2
  part "measuring $measured" "$seconds_to_measure" "$programs/turnbench_gpu_measures" "$measured" \
    "$measures" "$@"
  grep -E '(reached|REACHED|measured)$' "$output" | tee -a "$table"
  keep
}

# Sets `torch`: BACKEND=SECONDS for each of PyTorch's backends, with empty SECONDS if the backend is
# not available.
measure_torch() {
  torch=
  if ! python3 -c 'import torch' 2> /dev/null; then
    fact "PyTorch" "not found: attention is compared with nothing"
    return
  fi
  for backend in FLASH_ATTENTION CUDNN_ATTENTION; do
    seconds_of_torch=
    if part "PyTorch's $backend" 30 python3 tests/gpu/sdpa.py $backend; then
      said=$(tail -n 1 "$output")
      fact "PyTorch's attention at 32K, $backend" "${said#* }"
      case $said in
        *unavailable*) ;;
        *) seconds_of_torch=${said##* } ;;
      esac
    fi
    torch="$torch $backend=$seconds_of_torch"
  done
}

measure_all() {
  prepare_programs || finish
  timeout 20 "$programs/turnbench_gpu_measures" --list > "$work/order"
  while read -r next seconds_of_next; do
    arguments=
    if [ "$next" = attention-32k ]; then
      measure_torch < /dev/null
      arguments=$torch
    fi
    # shellcheck disable=SC2086  # arguments are several
    measure "$next" "$seconds_of_next" $arguments < /dev/null
  done < "$work/order"
  finish
}
