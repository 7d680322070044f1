"""What a run says while it goes on: log lines on stdout, Mammoth's accuracy lines on stderr."""

import logging
import os
import sys
from typing import Any

LOG = logging.getLogger("mammoth")


class _Stdout(logging.StreamHandler):
    """Writes to whatever stdout is at the time, so that a test or a notebook may replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stdout


def setup_logging() -> None:
    """Send log lines to stdout as `[LEVEL] dd-Mon-yy HH:MM:SS - message`; the level is LOG_LEVEL's (default INFO)."""
    if any(isinstance(handler, _Stdout) for handler in LOG.handlers):
        return
    handler = _Stdout()
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(asctime)s - %(message)s", datefmt="%d-%b-%y %H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
    LOG.propagate = False


def mean(values: list[float]) -> float:
    """Return the mean of a list that is not empty."""
    return sum(values) / len(values)


def print_accuracies(setting: str, class_il: list[float], task_il: list[float], joint: bool = False) -> None:
    """Write Mammoth's line `Accuracy for K task(s): ...` and the raw values to stderr."""
    first = f"Joint Accuracy: \t {mean(class_il):.2f} %\n" if joint else ""
    head = f"Accuracy for {len(class_il)} task(s):"
    if setting == "domain-il":
        line = f"{head} \t [Domain-IL]: {mean(class_il):.2f} %"
        raw = f"\tRaw accuracy values: Domain-IL {_rounded(class_il)}"
    else:
        line = f"{head} \t [Class-IL]: {mean(class_il):.2f} % \t [Task-IL]: {mean(task_il):.2f} %"
        raw = f"\tRaw accuracy values: Class-IL {_rounded(class_il)} | Task-IL {_rounded(task_il)}"
    sys.stderr.write(f"{first}{line}\n{raw}\n")
    sys.stderr.flush()


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 2) for value in values]


def format_matrix(matrix: list[list[float]]) -> str:
    """Return an accuracy matrix as text: a row a stage, a column a task."""
    columns = len(matrix[-1])
    lines = ["after task " + "".join(f"{f'task {task + 1}':>9}" for task in range(columns))]
    for stage, row in enumerate(matrix):
        lines.append(f"{stage + 1:>10} " + "".join(f"{value:9.2f}" for value in row))
    return "\n".join(lines)
