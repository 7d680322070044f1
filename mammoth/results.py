"""One row a run: what tables and figures are made from, as a CSV file that is committed."""

import csv
import io
import json
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from utils.files import write_atomically
from utils.metrics import prediction_bias

Row = dict[str, Any]
MATRICES = ("class_il", "task_il", "newest_share", "diagnostics")
FIELDS = (
    "row", "column", "seed", "run_id", *MATRICES, "dataset", "data", "fingerprint", "commit", "dirty", "source_digest",
    "python", "torch", "device", "threads", "steps", "train_s", "wall_s", "peak_memory_mb", "started",
)  # fmt: skip


csv.field_size_limit(2**31 - 1)  # the matrix of a run of some hundred tasks is longer than csv's own limit


def row_of(record: dict[str, Any], row: str, column: str) -> Row:
    """Return a closed record as a row; `newest_share` is the prediction bias after each task, in percent."""
    provenance, data = record["provenance"], record["data"]
    values = {**provenance, **provenance["versions"], "seed": record["args"]["seed"], "run_id": record["run_id"]}
    on = data.get("evaluated_on", "test images")
    kind = data["kind"] if on == "test images" else f"{data['kind']} ({on})"
    values |= {"row": row, "column": column, "dataset": data["name"], "data": kind}
    values |= {"fingerprint": data["fingerprint"], "class_il": record["class_il"], "task_il": record["task_il"]}
    values |= {"newest_share": newest_share(record), "diagnostics": record["diagnostics"]}
    return {field: values.get(field, "") for field in FIELDS}


def newest_share(record: dict[str, Any]) -> list[float]:
    """Return, for each stage, the share in percent of the test images so far predicted as the newest task's classes."""
    sizes = [sum(record["task_sizes"])] if record["joint"] else record["task_sizes"]
    ends = [sum(sizes[: task + 1]) for task in range(len(sizes))]
    stages = enumerate(record["confusion"])
    return [round(prediction_bias(confusion, ends[task] - sizes[task], ends[task]), 3) for task, confusion in stages]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV, whole or not at all, in the order of row, column and seed."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in sorted(rows, key=lambda row: (row["row"], row["column"], int(row["seed"]))):
        writer.writerow({**row, **{field: json.dumps(row[field], separators=(",", ":")) for field in MATRICES}})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())


def read_rows(path: Path) -> list[Row]:
    """Read rows; an absent file has none.

    Raises:
        ValueError: the file is no such table; names it and what is missing.
    """
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [field for field in FIELDS if field not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"{path} is no table of runs: it has no column {missing[0]!r}")
            return [_read(row, f"{path}, line {reader.line_num}") for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is corrupt: {error}") from error


def _read(row: dict[str, Any], place: str) -> Row:
    """Return a line of the file as a row. Raises ValueError, naming the place, if it is cut or holds something else."""
    how = "take the line out, and `python -m mammoth.sweep run` makes it anew"
    if None in row or None in row.values():
        raise ValueError(f"{place} is corrupt: expected {len(FIELDS)} fields; {how}")
    try:
        found = {**row, **{field: json.loads(row[field]) for field in MATRICES}}
        int(row["seed"]), float(row["wall_s"])
        whole = all(found[name] and all(len(stage) for stage in found[name]) for name in ("class_il", "task_il"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place} is corrupt: {error}; {how}") from error
    if not whole:
        raise ValueError(f"{place} is corrupt: an accuracy matrix is empty; {how}")
    return found


def read_together(path: Path) -> list[Row]:
    """Read the rows of a file and of those beside it; of two rows of one run the one that started last.

    Raises:
        ValueError: a file is no such table; names it and what is missing.
    """
    rows = [row for file in sorted({path, *path.parent.glob("*.csv")}) for row in read_rows(file)]
    return list({row["run_id"]: row for row in sorted(rows, key=_started)}.values())


def _started(row: Row) -> float:
    """Return when a row's run began, in seconds, whatever the machine's time zone; before all others if that is not known."""
    try:
        return datetime.strptime(str(row.get("started", "")), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return -math.inf


def merge(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Return the rows of both; where both have a cell and seed, the new one, but of one run the one that started last."""
    cells: dict[tuple[str, str, str], Row] = {}
    for row in (*old, *new):
        key = (row["row"], row["column"], str(row["seed"]))
        if key not in cells or row["run_id"] != cells[key]["run_id"] or _started(row) >= _started(cells[key]):
            cells[key] = row
    return list(cells.values())


# -- recorded variations, in a small JSON file beside the rows ---------------------------------------------------------------------


def variation_path(rows: Path) -> Path:
    """Return the file of recorded variations beside a file of rows: `<name>.variation.json`."""
    return rows.with_suffix(".variation.json")


def variation_of(record: dict[str, Any], row: str, column: str) -> Row | None:
    """Return what a closed record says of how parameters varied; None if the run had no `--record_variation 1`."""
    if not record.get("variation"):
        return None
    found = {"row": row, "column": column, "seed": record["args"]["seed"], "run_id": record["run_id"]}
    return {**found, "variation": record["variation"]}


def write_variation(path: Path, entries: Iterable[Row]) -> None:
    """Write recorded variations, whole or not at all, one line each, in the order of row, column and seed."""
    chosen = sorted(entries, key=lambda entry: (entry["row"], entry["column"], int(entry["seed"])))
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) for entry in chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"[\n{lines}\n]\n" if chosen else "[]\n")


def read_variation(path: Path) -> list[Row]:
    """Read recorded variations; an absent file has none.

    Raises:
        ValueError: the file is corrupt or holds something else; names it and what is missing.
    """
    if not path.is_file():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is corrupt: {error}") from error
    if not isinstance(content, list):
        raise ValueError(f"{path} is no list of recorded variations: it holds a {type(content).__name__}")
    for number, entry in enumerate(content, 1):
        missing = _missing(entry, ("row", "column", "seed", "run_id", "variation")) or _missing(
            entry["variation"], ("layers", "sizes", "edges", "tasks")
        )
        if missing:
            raise ValueError(f"{path} is no list of recorded variations: entry {number} has no {missing!r}")
    return content


def _missing(entry: Any, keys: Iterable[str]) -> str:
    """Return the first of these keys that an entry lacks, or an empty text."""
    return next((key for key in keys if not isinstance(entry, dict) or key not in entry), "")
