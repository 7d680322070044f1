"""Run upstream Mammoth's own tests against this project, one at a time, and note what they found in docs/upstream_tests.json.

    python -m mammoth.upstream_tests /path/to/mammoth [--only PATTERN] [--limit SECONDS] [--folder SCRATCH]

The project's committed files, upstream's tests, its files of methods that are not here, and data made in code (CIFAR: the
first images of the files in data/) go into a scratch folder; nothing outside it is written but that JSON file. With --only, what
was noted before of the other tests stays. `python -m mammoth.report documents` then brings docs/mammoth.md up to date.
"""

import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from mammoth import records
from mammoth.report import upstream_tests
from utils.args import Parser, whole
from utils.files import read_array_pickle, write_atomically
from utils.yaml_files import ROOT

DOOR = '''
"""Upstream's tests call main() and look at how it ends; ours returns the exit status, and a process ends with it."""

import sys

from mammoth import cli


def main():
    status = cli.main(sys.argv[1:])
    if status or {"-h", "--help"} & set(sys.argv):
        raise SystemExit(status)
'''

FORKS = '''
"""Run each test named on stdin, one at a time, in a fork of this process, where torch is imported already."""

import os
import signal
import sys

import pytest
import torch
import torchvision  # noqa: F401

torch.set_num_threads(1)
for line in sys.stdin:
    limit, name = line.rstrip("\\n").split(" ", 1)
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(int(limit))
        os._exit(int(pytest.main([f"tests/{name}", "-q", "-p", "no:randomly", "--junitxml=junit.xml"])))
    status = os.waitpid(child, 0)[1]
    print("late" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "ended", flush=True)
'''


def write_idx(path: Path, values: np.ndarray) -> None:
    """Write an array of bytes in MNIST's format: a magic number, the sizes, the bytes."""
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def make_mnist(base: Path) -> None:
    """Lay out 400 + 100 images of noise as MNIST's files, under both names that upstream looks for."""
    random = np.random.default_rng(0)
    for folder in ("MyMNIST", "MNIST"):
        raw = base / "MNIST" / folder / "raw"
        raw.mkdir(parents=True)
        for split, count in (("train", 400), ("t10k", 100)):
            write_idx(raw / f"{split}-images-idx3-ubyte", random.integers(0, 256, (count, 28, 28)))
            write_idx(raw / f"{split}-labels-idx1-ubyte", np.arange(count) % 10)


def make_tinyimg(base: Path) -> None:
    """Lay out 800 + 200 images of noise as the twenty parts of Tiny ImageNet, floats in [0, 1]."""
    random = np.random.default_rng(0)
    folder = base / "TINYIMG" / "processed"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("val", 10)):
        for part in range(20):
            np.save(folder / f"x_{split}_{part + 1:02d}.npy", random.integers(0, 256, (count, 64, 64, 3)) / 255)
            np.save(folder / f"y_{split}_{part + 1:02d}.npy", (np.arange(count) + part * count) % 200)


def lay_out(upstream: Path, scratch: Path) -> None:
    """Fill the scratch folder: the project as committed, upstream's tests, its methods that are not here, data."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(scratch)], input=archive, check=True)
    shutil.rmtree(scratch / "tests")
    shutil.copytree(upstream / "tests", scratch / "tests")
    (scratch / "main.py").write_text(DOOR, encoding="utf-8")
    (scratch / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    methods = scratch / "methods"
    shutil.copytree(upstream / "models", methods, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (ROOT / "models").glob("*.py"):
        (methods / file.name).unlink(missing_ok=True)
    make_mnist(scratch / "data")
    make_tinyimg(scratch / "data")
    sample_cifar(scratch / "data", "CIFAR10/cifar-10-batches-py", "labels", 400)
    sample_cifar(scratch / "data", "CIFAR100/cifar-100-python", "fine_labels", 2000)


def sample_cifar(base: Path, folder: str, labels: str, count: int) -> None:
    """Copy the first images of each of CIFAR's files, where data/ has them."""
    (base / folder).mkdir(parents=True)
    for path in (ROOT / "data" / folder).glob("*"):
        content = read_array_pickle(path) if "meta" not in path.name and path.suffix != ".html" else {}
        if labels in content:
            part = {"data": content["data"][:count], labels: content[labels][:count]}
            (base / folder / path.name).write_bytes(pickle.dumps(part))


def collected(scratch: Path, environment: dict[str, str]) -> list[str]:
    """Return the names of all tests, `file::test[case]`."""
    words = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-p", "no:randomly"]
    listed = subprocess.run(words, cwd=scratch, capture_output=True, text=True, check=False, env=environment).stdout
    return [line.removeprefix("tests/") for line in listed.splitlines() if line.startswith("tests/") and "::" in line]


def run_one(name: str, scratch: Path, forks: subprocess.Popen[str], limit: int) -> tuple[str, str]:
    """Run one test in a process of its own; return how it ended and what it said."""
    junit = scratch / "junit.xml"
    junit.unlink(missing_ok=True)
    assert forks.stdin is not None
    assert forks.stdout is not None
    forks.stdin.write(f"{limit} {name}\n")
    forks.stdin.flush()
    if forks.stdout.readline().strip() == "late":
        return "failed", f"took longer than {limit} s"
    return upstream_tests.outcome(junit) if junit.is_file() else ("failed", "the process ended before the test did")


def note(tests: dict[str, tuple[str, str]], upstream: str, limit: int) -> None:
    """Write what was found so far, with the date and both commits."""
    content = {
        "date": time.strftime("%Y-%m-%d"),
        "upstream": upstream,
        "commit": records.code_version()["commit"],
        "limit_s": limit,
        "tests": tests,
    }
    write_atomically(upstream_tests.FOUND, json.dumps(content, indent=1) + "\n")


def run_all(asked: Namespace, scratch: Path) -> None:
    """Run the applicable tests, or those asked for, and note each."""
    lay_out(asked.upstream, scratch)
    environment = os.environ | {
        "MAMMOTH_VERIFY_DATA": "0",
        "MAMMOTH_MODELS_PATH": str(scratch / "methods"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    before = json.loads(upstream_tests.FOUND.read_text(encoding="utf-8"))["tests"] if upstream_tests.FOUND.is_file() else {}
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=asked.upstream, capture_output=True, text=True, check=True).stdout.strip()
    names = collected(scratch, environment)
    tests = {name: tuple(before.get(name, ("not run", ""))) for name in names}
    asked_for = [name for name in names if upstream_tests.reason_absent(name) is None and re.search(asked.only, name)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKS], cwd=scratch, env=environment, **pipes) as forks:
        for name in asked_for:
            started = time.monotonic()
            tests[name] = run_one(name, scratch, forks, asked.limit)
            print(f"{time.monotonic() - started:6.0f} s  {tests[name][0]:<8}{name}  {tests[name][1]}", flush=True)
            note(tests, commit, asked.limit)


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    parser = Parser(prog="python -m mammoth.upstream_tests", description="Run upstream Mammoth's own tests against this project.")
    parser.add_argument("upstream", type=Path, help="upstream's checkout")
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression of tests' names")
    parser.add_argument("--limit", type=whole(), default=600, metavar="SECONDS", help="the longest that a test may take")
    parser.add_argument("--folder", type=Path, metavar="SCRATCH", help="an empty folder to work in, which stays")
    try:
        asked = parser.parse_args(argv)
        with tempfile.TemporaryDirectory(prefix="upstream-tests-") as made:
            scratch = asked.folder or Path(made)
            scratch.mkdir(parents=True, exist_ok=True)
            run_all(asked, scratch)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
