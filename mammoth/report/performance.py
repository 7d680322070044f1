"""The benchmark's numbers (`mammoth/benchmark.py`), and the goals beside them, as tables in Markdown."""

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

SECTIONS = {
    "step": "A training step, online CIFAR-10 (reduced ResNet-18, 10 + 10 images), in the second task",
    "batches": "Images to batches, with crop, flip and normalisation",
    "memory": "The memory: ten images of 28x28 in or out",
    "evaluation": "Evaluation on 32x32 images",
    "start": "From the command to the first step",
    "peak": "Peak memory of a process",
    "sweep": "Runs side by side, ER on online CIFAR-10",
    "scale": "A step of PVBF with a small perceptron, by tasks and classes",
}


@dataclass(frozen=True)
class Goal:
    """What a benchmark's line should reach: its ratio to `of`, or its value where there is none; at most, or at least, `bound`."""

    what: str
    section: str
    name: str
    of: str
    bound: float
    at_least: bool = False

    def about(self, line: dict[str, Any]) -> bool:
        """Return whether a benchmark's line is the one that this goal is about."""
        return (line["section"], line["name"]) == (self.section, self.name) and self.of in ("", line["of"])


GOALS = [
    Goal("a step of ER", "step", "er", "floor", 1.05),
    Goal("a step of ER-ACE", "step", "er_ace", "floor", 1.05),
    Goal("a step of PVBF", "step", "pvbf", "er_ace", 1.03),
    Goal("an insert at 10^6 images", "memory", "insert, 1,000,000 images", "1,000 images", 1.1),
    Goal("a draw at 10^6 images", "memory", "draw, 1,000,000 images", "1,000 images", 1.1),
    Goal("evaluation", "evaluation", "evaluate_tasks", "bare forward", 1.1),
    Goal("command to first step, digits, in s", "start", "a run of one step, digits", "", 5),
    Goal("peak memory of online CIFAR-10, 5,000 images stored, in MB", "peak", "online CIFAR-10 run, memory of 5,000", "", 1200),
    Goal("two runs of one thread", "sweep", "2 job(s) of one thread", "one job", 1.9, at_least=True),
]
RUN_STEPS, AT_RATE = 28, 154  # steps/s of two runs of ER that a machine of so many GFLOP/s a core should reach


def goals(path: Path) -> str:
    """Return a table of the goals: the bound, what a benchmark's JSON says, and whether it is met.

    Raises:
        ValueError: the file is missing or no benchmark's; names it.
    """
    lines = _read(path)["lines"]
    rows = ["| what | goal | measured | |", "|---|---|---|---|"]
    for goal in GOALS:
        found = [line["ratio" if goal.of else "value"] for line in lines if goal.about(line)]
        rows.append(_row(goal, found[0] if found else None))
    speed, rate = (
        next((line["value"] for line in lines if line["name"] == name), None)
        for name in ("2 job(s) of one thread", "matrix multiply, one thread")
    )
    if speed and rate:
        what = f"steps/s of two runs of ER, online CIFAR-10 ({RUN_STEPS} at {AT_RATE} GFLOP/s a core, in proportion)"
        rows.append(_row(Goal(what, "sweep", "", "", RUN_STEPS * rate / AT_RATE, at_least=True), speed))
    return "\n".join(rows)


def markdown(path: Path) -> str:
    """Return a table for each section of a benchmark's JSON, and a line on where it was measured.

    Raises:
        ValueError: the file is missing or no benchmark's; names it.
    """
    content = _read(path)
    parts = [_section(section, list(lines)) for section, lines in groupby(content["lines"], key=lambda line: line["section"])]
    return "\n\n".join([*parts, _footer(content)])


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _section("", content["lines"]), _footer(content)  # these look at every field
        return content
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        how = f"python scripts/benchmark.py --output {path} writes one"
        raise ValueError(f"{path} is no benchmark's file ({error}); {how}") from error


def _row(goal: Goal, measured: float | None) -> str:
    limit = f"{'at least' if goal.at_least else 'at most'} {goal.bound:.4g}{f' x {goal.of}' if goal.of else ''}"
    if measured is None:
        return f"| {goal.what} | {limit} | – | not measured |"
    met = measured >= goal.bound if goal.at_least else measured <= goal.bound
    return f"| {goal.what} | {limit} | {measured:.4g} | {'met' if met else '**not met**'} |"


def _section(name: str, lines: list[dict[str, Any]]) -> str:
    rows = [f"**{SECTIONS.get(name, name)}**", "", "| what | measured | ratio |", "|---|---|---|"]
    for line in lines:
        beside = f"{line['ratio']:.2f} x {line['of']}" if line["of"] else "–"
        rows.append(f"| {line['name']} | {line['value']:.4g} {line['unit']} | {beside} |")
    return "\n".join(rows)


def _footer(content: dict[str, Any]) -> str:
    changes = " + changes" if content["dirty"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    machine = f"{content['cpu']}, {content['cores']} cores"
    return (
        f"Medians of {content['repeats']} repeats, a ratio being the median of the repeats' ratios. {machine}; one-minute load "
        f"before: {content['load_before']:.1f}; {versions}; commit {content['commit']}{changes}; {content['date']}."
    )
