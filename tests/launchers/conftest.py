"""What the launchers' tests share: an experiment's file on the digits, and sweeps as real processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes an experiment of SGD and ER into the temporary folder; returns the file's path."""

    def written(seeds: int = 2, **common: Any) -> Path:
        flags = {"dataset": "seq-digits", "stop_after": 2, "n_iters": 2, "device": "cpu", "non_verbose": 1, **common}
        rows = [{"label": "SGD", "model": "sgd"}, {"label": "ER", "model": "er"}]
        places = {"base_path": str(tmp_path), "checkpoint_path": str(tmp_path / "kept")}
        content = {"title": "T", "seeds": seeds, "common": {**places, **flags}, "rows": rows}
        path = tmp_path / "table.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return written


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts `python -m mammoth.sweep` with these words; what still runs at the end is killed."""
    started = []

    def begun(*words: object, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "mammoth.sweep", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, cwd=ROOT, env={**os.environ, **environment}, **pipes))
        return started[-1]

    yield begun
    for process in started:
        process.kill()
        process.communicate()


def records(folder: Path) -> list[dict[str, Any]]:
    """Return all records below a folder; each must be whole."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("results/records/*/record.json"))]


def wait_for(condition: Callable[[], Any], seconds: float = 240) -> Any:
    """Wait until a condition holds; returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.05)
    return value


def is_running(pid: int) -> bool:
    """Whether a process lives, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
