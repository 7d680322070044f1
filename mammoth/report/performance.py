"""The benchmark's numbers (`mammoth/benchmark.py`) as a table in Markdown."""

import json
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


def markdown(path: Path) -> str:
    """Return a table for each section of a benchmark's JSON, and a line on where it was measured.

    Raises:
        ValueError: the file is missing or no benchmark's; names it.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts = [_section(section, list(lines)) for section, lines in groupby(content["lines"], key=lambda line: line["section"])]
        return "\n\n".join([*parts, _footer(content)])
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        how = f"python scripts/benchmark.py --output {path} writes one"
        raise ValueError(f"{path} is no benchmark's file ({error}); {how}") from error


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
