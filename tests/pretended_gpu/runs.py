"""Command lines, one a line of the standard input, each run on the CPU and on the made-up device, and there from the middle on.

Writes a line of JSON for each: the command line, and what is wrong ("" if all three have the same numbers).
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from tests.pretended_gpu import device  # isort: skip - before anything is decorated with torch.inference_mode

from mammoth import settings
from mammoth.runner import run
from tests.models import made_sets  # noqa: F401 - registers them

NUMBERS = ("class_il", "task_il", "confusion", "diagnostics", "variation", "forward_transfer")
FIXED = ("--seed", "3", "--non_verbose", "1", "--threads", "1", "--stop_after", "2", "--savecheck", "task")


def numbers(words, where, folder, *more):
    args = settings.resolve([*words, *FIXED, "--device", where, "--base_path", folder, "--checkpoint_path", folder, *more]).args
    record = run(args, list(words)).content
    return {key: record.get(key) for key in NUMBERS}


def fault(words):
    """Return what is wrong with a command line on the made-up device."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        expected = numbers(words, "cpu", here)
        with device.Machine():
            try:
                found = numbers(words, device.NAME, there)
                middle = min(Path(there).rglob("t00*.pt"))
                resumed = numbers(words, device.NAME, there, "--resume", str(middle))
            except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
                return f"{type(error).__name__}: {error}"
    wrong = [f"{key}{how}" for key in NUMBERS for how, got in (("", found), (" resumed", resumed)) if got[key] != expected[key]]
    return f"other numbers than on the CPU: {', '.join(wrong)}" if wrong else ""


def main():
    torch.set_num_threads(1)
    for line in sys.stdin:
        words = line.split()
        print(json.dumps({"line": line.strip(), "fault": fault(words)}), flush=True)


if __name__ == "__main__":
    main()
