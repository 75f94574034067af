#!/bin/sh
# The costs of manifests as a Markdown table: `turnbench plan` of each, with the models and data of
# $TURNBENCH_MODELS and $TURNBENCH_DATA.  If one of these is missing, the row names it.  Hours are
# the time of the prefills at 100 GFLOP/s; disk is the weights, and 16 KiB of store for each
# dialogue in each cell, which is the size of eight turns.
#   tools/plans.sh build/turnbench experiments/loopserve/*.json
set -eu
program=$1
shift
echo '| manifest | cells | prompt tokens | answer tokens | hours | disk, GiB |'
echo '| --- | ---: | ---: | ---: | ---: | ---: |'
for manifest in "$@"; do
  "$program" plan "$manifest" --no-measure 2>&1 | awk -v name="${manifest#experiments/}" '
    /^turnbench: / { sub(/^turnbench: /, ""); sub(/, expected.*/, ""); missing = $0 }
    $1 == "cells" { cells = $2 }
    $1 == "prefills" { dialogues = $NF }
    $1 $2 == "prompttokens" { prompt = $3 }
    $1 $2 == "answertokens" { answers = $NF }
    $1 == "prefill" { hours = $5 / 3600 }
    $2 == "weights" { weights += $3 / 1024 }
    END {
      if (missing != "") printf "| `%s` | %s |  |  |  |  |\n", name, missing
      else printf "| `%s` | %d | %d | %d | %.2f | %.1f |\n", name, cells, prompt, answers, hours,
                  weights + dialogues / 65536
    }'
done
