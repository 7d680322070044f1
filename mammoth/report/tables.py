"""Rows to a table: ACC and FR for each cell, mean and 95 % t-interval over the seeds."""

from collections.abc import Callable, Iterable, Sequence

from mammoth.experiments import Experiment
from mammoth.report.stats import Interval, t_interval
from mammoth.results import Row
from utils.metrics import Matrix, average_accuracy, forgetting

MEASURES: dict[str, Callable[[Matrix], float | None]] = {"ACC": average_accuracy, "FR": forgetting}


def cell_interval(rows: Sequence[Row], row: str, column: str, measure: str, setting: str) -> Interval | None:
    """Return a cell's mean and interval, or None where there is nothing to average.

    Args:
        measure: `ACC` or `FR`; setting: `class_il` or `task_il`, the matrix it is computed from.
    """
    matrices = [entry[setting] for entry in rows if (entry["row"], entry["column"]) == (row, column)]
    values = [value for value in map(MEASURES[measure], matrices) if value is not None]
    return t_interval(values) if values else None


def format_interval(interval: Interval | None) -> str:
    """Return `51.23 ± 1.20 (3)`, `51.23 (1)`, or a dash."""
    if interval is None:
        return "–"
    if interval.half_width is None:
        return f"{interval.mean:.2f} ({interval.n})"
    return f"{interval.mean:.2f} ± {interval.half_width:.2f} ({interval.n})"


def markdown_table(experiment: Experiment, rows: Sequence[Row], setting: str = "class_il") -> str:
    """Return the experiment's table in Markdown, with a footer that says where the numbers come from."""
    head = ["Method"]
    for column in experiment.columns:
        prefix = "" if column == "-" else f"{column} "
        head += [f"{prefix}{measure}" for measure in MEASURES]
    body = [head]
    for row in experiment.rows:
        cells = [
            format_interval(cell_interval(rows, row, column, measure, setting))
            for column in experiment.columns
            for measure in MEASURES
        ]
        body.append([row, *cells])
    widths = [max(len(line[place]) for line in body) for place in range(len(head))]
    lines = ["| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |" for line in body]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([f"{experiment.title}", "", *lines, "", footer(rows)])


def footer(rows: Sequence[Row]) -> str:
    """Return what qualifies the numbers: n, interval, versions, commit, device, hours, data."""
    if not rows:
        return "No runs yet."
    commits = [f"{row['commit']}{' + changes' if str(row['dirty']) == 'True' else ''}" for row in rows]
    hours = sum(float(row["wall_s"]) for row in rows) / 3600
    parts = [
        f"Mean ± half-width of the 95 % t-interval over seeds (n in brackets), {len(rows)} runs",
        f"torch {_distinct(row['torch'] for row in rows)}, Python {_distinct(row['python'] for row in rows)}",
        f"commit {_distinct(commits)}",
        f"device {_distinct(row['device'] for row in rows)}",
        f"{hours:.2f} hours",
        f"data: {_distinct(row['dataset'] + ' ' + row['data'] for row in rows)}",
    ]
    return "; ".join(parts) + "."


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(sorted({str(value) for value in values}))
