"""What a run says while it goes on: log lines on stdout, Mammoth's accuracy lines on stderr."""

import logging
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from utils.metrics import backward_transfer, forgetting

LOG = logging.getLogger("mammoth")


class _Stdout(logging.StreamHandler):
    """Writes to whatever stdout is at the time, so that a test or a notebook may replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stdout


def setup_logging() -> None:
    """Send log lines to stdout as `[LEVEL] dd-Mon-yy HH:MM:SS - message`; the level is LOG_LEVEL's (default INFO).

    They also reach the handlers of the root logger, where a program or a test has set some by then.
    """
    if any(isinstance(handler, _Stdout) for handler in LOG.handlers):
        return
    handler = _Stdout()
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(asctime)s - %(message)s", datefmt="%d-%b-%y %H:%M:%S"))
    LOG.addHandler(handler)
    LOG.propagate = logging.getLogger().hasHandlers()
    LOG.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())


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


def logged_values(args: dict[str, Any], record: dict[str, Any], matrix: list[list[float]]) -> dict[str, Any]:
    """Return a run as a line of Mammoth's `logs.pyd`: flags, accuracies, measures, where it ran; plain values only.

    Args:
        args: the resolved flags; record: the run's record; matrix: its accuracies in percent, a row a stage.
    """
    plain = {name: value if isinstance(value, str | int | float | None) else str(value) for name, value in args.items()}
    means = {f"accmean_task{stage}": mean(row) for stage, row in enumerate(matrix, 1)}
    each = {f"accuracy_{task}_task{stage}": value for stage, row in enumerate(matrix, 1) for task, value in enumerate(row, 1)}
    provenance = record["provenance"]
    measures = {
        "forward_transfer": record.get("forward_transfer"),
        "backward_transfer": backward_transfer(matrix),
        "forgetting": forgetting(matrix),
        "cpu_memory_usage": provenance.get("peak_memory_mb"),
    }
    where = {
        "conf_jobnum": record["run_id"],
        "conf_timestamp": provenance["started"],
        "conf_host": provenance["host"],
        "conf_git_hash": provenance["commit"],
    }
    return {**plain, **means, **each, **measures, **where}


def append_logs(args: Namespace, record: dict[str, Any], folder: Path) -> None:
    """Add a run's line to `<folder>/<setting>/<benchmark>/<method>/logs.pyd`, which `ast.literal_eval` reads.

    A class-IL run also gets a line under `task-il`, with the accuracies within each task.
    """
    matrices = {record["setting"]: record["class_il"]}
    if record["setting"] == "class-il":
        matrices["task-il"] = record["task_il"]
    for setting, matrix in matrices.items():
        path = folder / setting / record["args"]["dataset"] / record["args"]["model"].replace("-", "_") / "logs.pyd"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{logged_values(vars(args), record, matrix)}\n")
