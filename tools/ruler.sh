#!/bin/sh
# Generates RULER's tasks for the tokenizer of a model (tools/ruler.py).
#   tools/ruler.sh MODEL OUT [--length 4096] [--samples 20]
set -eu
"$(dirname "$0")"/python.sh "$(dirname "$0")"/requirements-ruler.txt "$(dirname "$0")"/ruler.py "$@"
