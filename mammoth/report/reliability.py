"""The figures of the last long tests: `docs/reliability.json`, written by these tests, and the table made of it."""

import json
import time
from pathlib import Path
from typing import Any

from mammoth import records
from utils.files import locked, write_atomically
from utils.yaml_files import ROOT

FIGURES = ROOT / "docs" / "reliability.json"
SENTENCES = {
    "kills": "{survived} times SIGKILL in one run of {steps:,} steps: record and state equal the uninterrupted run's",
    "fuzz": "{cases:,} command lines made at random, no traceback",
    "corruptions": "{kinds}: {cut:,} files of each cut short, all refused (of caches: made anew); {flipped:,} with "
    "a bit flipped, refused or read, and no other error",
    "twice": "{methods} methods with {threads} threads, each command in two processes: the same records and last states",
    "processes": "{processes} processes in one folder at once, of {runs} runs: {records} records, all whole",
    "full_disk": "a disk of {megabytes} MB, full after {checkpoints} checkpoints, all readable; the run ended with status {status}",
    "soak": "{tasks:,} tasks of one step, {memory:,} stored images; last 100 to first 100: resident memory {memory_ratio:.3f}, "
    "median CPU time {time_ratio:.3f}; open files {files_before} before, {files_after} after",
}


def note(key: str, path: Path = FIGURES, **figures: Any) -> None:
    """Write what a long test found, with the date and the commit, in the place of what it found before."""
    code = records.code_version()
    commit = f"{code['commit']}{' with changes' if code['dirty'] else ''}"
    with locked(path):
        content = read(path) | {key: {**figures, "date": time.strftime("%Y-%m-%d"), "commit": commit}}
        write_atomically(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def read(path: Path = FIGURES) -> dict[str, dict[str, Any]]:
    """Return the figures by test; {} if none was run."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def markdown(figures: dict[str, dict[str, Any]] | None = None) -> str:
    """Return a table of the figures (default: the file's), one line a test; a test that was not run has a dash."""
    found = read() if figures is None else figures
    lines = ["| found | date | commit |", "|---|---|---|"]
    for key, sentence in SENTENCES.items():
        if key in found:
            lines.append(f"| {sentence.format(**found[key])} | {found[key]['date']} | {found[key]['commit']} |")
        else:
            lines.append(f"| {key.replace('_', ' ')}: not run | – | – |")
    return "\n".join(lines)
