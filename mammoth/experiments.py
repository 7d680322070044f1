"""What an experiment's YAML file asks for: rows (methods) x columns (settings) x seeds, each cell a command line.

    title: what the table shows
    seeds: 15                                  # 0 .. 14
    results: experiments/results/name.csv      # where its rows go (default: <base_path>/<results_path>/<name>.csv)
    common: {dataset: seq-cifar10, dataset_config: online}
    columns:
      - {label: MS=20, buffer_per_class: 20}
    rows:
      - {label: ER, model: er}
      - {label: IID, model: iid, columns: [MS=20]}   # this row fills these columns only
    grid: {lr: [0.1, 0.03]}                    # optional: every row once for each combination
    paper: table_short                         # optional: the table of `report/targets.csv` beside it (default: the file's name)
    show: [table, curves, variation]           # optional: what the report makes of it
    note: what a reader should know            # optional: stands below the table
    order: 1                                   # optional: its place among the experiments of a report

Keys of rows and columns other than `label`, `columns` and `reference` are flags; a value of null takes a flag away again. Later
ones win: common, column, row, grid. A row with `reference: true` (IID) takes no part in the ranking.

A scale (`experiments/scales/<name>.yaml`) makes a smaller experiment of each: other seeds, flags added, values of flags replaced.

    title: "{title} (on the digits)"
    seeds: 2
    common: {results_path: results/tiny/}
    replace: {dataset: {seq-cifar10: seq-digits}, buffer_per_class: {500: 50}}
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from utils.registry import nearest
from utils.yaml_files import ROOT, read_yaml

KEYS = ("title", "seeds", "results", "common", "columns", "rows", "grid", "paper", "show", "note", "order")
SCALE_KEYS = ("title", "seeds", "common", "replace", "note")
SHOWN = ("table", "curves", "variation")
SCALES = ROOT / "experiments" / "scales"
NO_FLAGS = ("label", "columns", "reference")
Labelled = dict[str, Any]  # a row or a column: its label and its flags


@dataclass(frozen=True)
class Cell:
    """One place of the table: a row, a column, and the command line that fills it (without the seed)."""

    row: str
    column: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """A table's worth of runs."""

    name: str
    title: str
    seeds: tuple[int, ...]
    results: Path | None
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    paper: str = ""
    references: tuple[str, ...] = ()
    show: tuple[str, ...] = SHOWN
    note: str = ""
    order: float = 99


def load_experiment(path: Path, scale: str = "") -> Experiment:
    """Read an experiment's file.

    Args:
        scale: the name of a file in `experiments/scales/`, or its path; empty: as the file stands.

    Raises:
        ValueError: an unknown key, a row without a label or model, a column that is not there; names file and key.
    """
    if not path.is_file():
        there = sorted(file.relative_to(ROOT) for file in (ROOT / "experiments").glob("*.yaml"))
        raise ValueError(f"{path}: no such file; there are: {', '.join(map(str, there))}")
    content = _known(path, KEYS)
    shown, order = content.get("show", list(SHOWN)), content.get("order", 99)
    if not isinstance(shown, list) or not set(shown) <= set(SHOWN):
        raise ValueError(f"{path}: show: {shown!r}; a list of {', '.join(SHOWN)}")
    if not isinstance(order, int | float):
        raise ValueError(f"{path}: order: {order!r}; a number")
    experiment = _read(path, content)
    _refuse_folders(path, experiment)
    return _scaled(experiment, _scale_path(scale)) if scale else experiment


def _refuse_folders(path: Path, experiment: Experiment) -> None:
    """Raise ValueError if cells differ in the folders that methods or data sets come from: these hold for a whole process."""
    for flag in ("--models_path", "--datasets_path"):
        found = {tuple(cell.argv[place + 1] for place, word in enumerate(cell.argv) if word == flag) for cell in experiment.cells}
        if len(found) > 1:
            raise ValueError(f"{path}: {flag} must be that of all rows (put it into common), for it holds for a whole sweep")


def _known(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Read a YAML file. Raises ValueError at a key that is not one of these."""
    content = read_yaml(path)
    for key in content:
        if key not in keys:
            raise ValueError(f"{path}: unknown key {key!r}; {nearest(str(key), keys)}")
    return content


def _scale_path(scale: str) -> Path:
    path = SCALES / f"{scale}.yaml"
    if path.is_file():
        return path
    if not Path(scale).is_file():
        there = ", ".join(sorted(file.stem for file in SCALES.glob("*.yaml")))
        raise ValueError(f"--scale {scale}: neither a name nor a file; there are: {there}")
    return Path(scale)


def _scaled(experiment: Experiment, path: Path) -> Experiment:
    """Return a smaller experiment of the same shape; the paper's numbers do not stand beside it.

    Raises:
        ValueError: the scale's file has an unknown key or a bad value.
    """
    content = _known(path, SCALE_KEYS)
    replaced, common = content.get("replace") or {}, content.get("common") or {}
    if not isinstance(common, dict) or not isinstance(replaced, dict) or not all(isinstance(v, dict) for v in replaced.values()):
        raise ValueError(f"{path}: expected `common: {{flag: value}}` and `replace: {{flag: {{value: other}}}}`")
    cells = []
    for cell in experiment.cells:
        flags = dict(zip((word[2:] for word in cell.argv[::2]), cell.argv[1::2], strict=True)) | common
        for flag, values in replaced.items():
            others = {str(old): new for old, new in values.items()}
            if flag in flags:
                flags[flag] = others.get(str(flags[flag]), flags[flag])
        cells.append(replace(cell, argv=tuple(_argv(flags))))
    return replace(
        experiment,
        title=str(content.get("title", "{title}")).replace("{title}", experiment.title),
        seeds=parse_seeds(content.get("seeds", list(experiment.seeds))),
        results=None,
        cells=tuple(cells),
        paper="",
        note=" ".join(filter(None, (str(content.get("note", "")), experiment.note))),
    )


def _read(path: Path, content: dict[str, Any]) -> Experiment:
    columns = _labelled(path, content.get("columns") or [{"label": "-"}], "columns")
    rows = _expanded(_labelled(path, content.get("rows") or [], "rows"), _grid(path, content.get("grid") or {}))
    if not rows:
        raise ValueError(f"{path}: no rows; each is {{label: ..., model: ..., flags}}")
    common = content.get("common") or {}
    if not isinstance(common, dict):
        raise ValueError(f"{path}: common: expected {{flag: value}}, found a {type(common).__name__}")
    try:
        seeds = parse_seeds(content.get("seeds", 1))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Experiment(
        name=path.stem,
        title=str(content.get("title", path.stem)),
        seeds=seeds,
        results=Path(content["results"]) if content.get("results") else None,
        rows=tuple(rows),
        columns=tuple(columns),
        cells=tuple(_cells(path, common, rows, columns)),
        paper=str(content.get("paper", path.stem)),
        references=tuple(row for row, flags in rows.items() if flags.get("reference")),
        show=tuple(content.get("show", SHOWN)),
        note=" ".join(str(content.get("note", "")).split()),
        order=float(content.get("order", 99)),
    )


def _cells(path: Path, common: Labelled, rows: dict[str, Labelled], columns: dict[str, Labelled]) -> Iterator[Cell]:
    """Yield the cells that are asked for. Raises ValueError if a row wants a column that is not there."""
    for (row, row_flags), (column, column_flags) in itertools.product(rows.items(), columns.items()):
        wanted = [str(label) for label in row_flags.get("columns", list(columns))]
        missing = [label for label in wanted if label not in columns]
        if missing:
            raise ValueError(f"{path}: row {row!r} wants column {missing[0]!r}; {nearest(missing[0], columns)}")
        if column in wanted:
            yield Cell(row, column, tuple(_argv({**common, **column_flags, **row_flags})))


def _grid(path: Path, grid: Any) -> dict[str, list[Any]]:
    """Check a grid. Raises ValueError unless it is `{flag: [values]}` with at least one value each."""
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise ValueError(f"{path}: grid: expected {{flag: [value, ...]}} with at least one value each, found {grid!r}")
    return grid


def _labelled(path: Path, entries: Any, what: str) -> dict[str, Labelled]:
    if not isinstance(entries, list):
        raise ValueError(f"{path}: {what}: expected a list of {{label: ..., flags}}, found a {type(entries).__name__}")
    found: dict[str, Labelled] = {}
    for entry in entries:
        if not isinstance(entry, dict) or "label" not in entry:
            raise ValueError(f"{path}: each of {what} needs a label: {{label: ..., flags}}")
        if str(entry["label"]) in found:
            raise ValueError(f"{path}: two {what} are labelled {entry['label']!r}")
        found[str(entry["label"])] = entry
    return found


def _expanded(rows: dict[str, Labelled], grid: dict[str, list[Any]]) -> dict[str, Labelled]:
    """Return every row once for each combination of the grid's values, labelled with them."""
    if not grid:
        return rows
    expanded = {}
    for row in rows.values():
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            label = f"{row['label']}, " + ", ".join(f"{flag} {value}" for flag, value in chosen.items())
            expanded[label] = {**row, **chosen, "label": label}
    return expanded


def _argv(flags: dict[str, Any]) -> list[str]:
    words = []
    for flag, value in flags.items():
        if flag not in NO_FLAGS and value is not None:
            words += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words


def parse_seeds(text: Any) -> tuple[int, ...]:
    """Read seeds: a count (`15`: 0 .. 14), a range (`0:3`), a list (`1,5`), or a YAML list.

    Raises:
        ValueError: anything else, no seed at all, or a negative one.
    """
    try:
        seeds = _seeds(text)
    except (ValueError, TypeError):
        seeds = ()
    if not seeds or min(seeds) < 0:
        raise ValueError(f"seeds {text!r}: give a count (15), a range (0:3) or a list (1,5), of seeds from 0 on")
    return seeds


def _seeds(text: Any) -> tuple[int, ...]:
    if isinstance(text, list):
        return tuple(int(seed) for seed in text)
    words = str(text)
    if ":" in words:
        first, past_last = words.split(":")
        return tuple(range(int(first), int(past_last)))
    if "," in words:
        return tuple(int(seed) for seed in words.split(","))
    return tuple(range(int(words)))
