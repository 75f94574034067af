#!/bin/sh
# Runs a Python script in a temporary environment with the packages of a requirements file.  Exit code
# 3: they cannot be installed.
#   tools/python.sh tools/requirements-gguf.txt tools/gguf_to_hf.py MODEL.gguf OUT
set -eu
requirements=$1
shift
python3 -c "import ensurepip, venv" 2> /dev/null || {
  echo "$1: needs Python 3 with venv and pip (Debian: python3-venv)" >&2
  exit 3
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work"
"$work/bin/pip" install -q --disable-pip-version-check -r "$requirements" || exit 3
"$work/bin/python" "$@"
