#!/bin/sh
# Runs a Python script that needs the packages numpy and gguf; where they are missing, in a temporary
# environment that has them.  Exit code 3: they cannot be installed.
#   tools/gguf_python.sh tools/gguf_to_hf.py MODEL.gguf OUT
set -eu
python3 -c "import gguf, numpy" 2> /dev/null && exec python3 "$@"
python3 -c "import ensurepip, venv" 2> /dev/null || {
  echo "tools/gguf_python.sh: needs Python 3 with numpy and gguf, or with venv and pip (Debian: python3-venv)" >&2
  exit 3
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work"
"$work/bin/pip" install -q --disable-pip-version-check numpy==2.2.6 gguf==0.19.0 || exit 3
"$work/bin/python" "$@"
