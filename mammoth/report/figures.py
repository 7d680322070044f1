"""Rows to figures: accuracy over the tasks (Figs. 5, 6), how parameters varied (Figs. 2, 3, 7, A.8-A.11), what D-CWR changes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mammoth.experiments import Experiment
from mammoth.report import effects
from mammoth.report.claims import Evidence
from mammoth.report.drawing import Bars, Drawing, Line, Panel, write
from mammoth.report.stats import Interval, t_interval
from mammoth.results import Row
from mammoth.variation import EDGES

SCALES = {
    "rr": ("relative ratio", "change / mean change", "mean", 1.0),
    "zs": ("z-score", "(change − mean) / standard deviation", "mean", 0.0),
    "rs": ("robust scaler", "(change − median) / interquartile range", "median", 0.0),
}  # by standardisation: its name, what it is, what stands at its centre, and where that is
Entries = Sequence[dict[str, Any]]  # of one row and column, one a seed: {"row", "column", "seed", "variation"}


def drawings(experiment: Experiment, rows: Sequence[Row], variations: Entries = ()) -> list[Drawing]:
    """Return all figures that the report makes of an experiment."""
    found = [curves(experiment, rows)] if rows and "curves" in experiment.show else []
    found += variation_drawings(experiment.name, variations) if "variation" in experiment.show else []
    return found + ([effects.drawing(Evidence({effects.TABLE: list(rows)}))] if experiment.paper == effects.TABLE else [])


# -- accuracy over the tasks -------------------------------------------------------------------------------------------------------


def curve(rows: Sequence[Row], row: str, column: str) -> list[Interval]:
    """Return, for each stage, the mean over tasks so far of the Class-IL accuracy, with its interval over seeds."""
    matrices = [entry["class_il"] for entry in rows if (entry["row"], entry["column"]) == (row, column)]
    stages = min((len(matrix) for matrix in matrices), default=0)
    return [t_interval([sum(matrix[k]) / len(matrix[k]) for matrix in matrices]) for k in range(stages)]


def accuracy_curves(experiment: Experiment, rows: Sequence[Row], path: Path) -> Path:
    """Draw `curves` into a file, PNG and PDF."""
    return write(curves(experiment, rows), path)


def curves(experiment: Experiment, rows: Sequence[Row]) -> Drawing:
    """Return the accuracy after each task for every row, one panel a column, with 95 % t-intervals."""
    panels = []
    for column in experiment.columns:
        lines = [_line(experiment, rows, row, column) for row in experiment.rows]
        found = tuple(line for line in lines if line)
        if all(line.level for line in found):  # a reference alone
            found = ()
        stages = max((len(line.values) for line in found), default=0)
        step = 1 if stages <= 10 else 5
        ticks = tuple((float(stage), str(stage)) for stage in range(1, stages + 1) if stage % step == 0 or stage == 1)
        panels.append(Panel("" if column == "-" else column, found, ticks=ticks))
    name = f"{experiment.name}-curves"
    caption = "Accuracy after each task; the bands are 95 % t-intervals over seeds"
    return Drawing(name, experiment.title, "tasks learnt", "accuracy on the tasks so far (%)", tuple(panels), caption=caption)


def _line(experiment: Experiment, rows: Sequence[Row], row: str, column: str) -> Line | None:
    points = curve(rows, row, column)
    if not points:
        return None
    level = row in experiment.references and len(points) == 1
    place = experiment.rows.index(row)
    return Line(row, place, points[0].n, tuple(p.mean for p in points), tuple(p.half_width for p in points), level)


# -- how parameters varied ---------------------------------------------------------------------------------------------------------


def variation_drawings(name: str, entries: Entries, tasks: Sequence[int] = ()) -> list[Drawing]:
    """Return all figures of an experiment's recorded variations: for each row and column, those of RR, then of ZS and RS.

    Args:
        name: the experiment's; the drawings' names begin with it.
        tasks: from 1; `shown_tasks` if empty.
    """
    cells = list(dict.fromkeys((entry["row"], entry["column"]) for entry in entries))
    drawings = []
    for place, (row, column) in enumerate(cells):
        chosen = [entry for entry in entries if (entry["row"], entry["column"]) == (row, column)]
        words = re.sub(r"[^a-z0-9]+", "-", f"{row} {column}".lower()).strip("-")
        for scale in SCALES:
            for draw in (histograms, layer_means):
                drawings.append(draw(f"{name}-{place + 1}-{words}", chosen, scale, tasks))
    return drawings


def shown_tasks(count: int) -> list[int]:
    """Return the tasks that the paper shows, from 1: the first four of a short sequence; 1, 6, 11, 16 of a long one."""
    return [1, 6, 11, 16] if count >= 16 else list(range(1, min(count, 4) + 1))


def histograms(name: str, entries: Entries, scale: str = "rr", tasks: Sequence[int] = ()) -> Drawing:
    """Return how many parameters fall into each bin of relative change, one panel a task; over seeds, the mean.

    Args:
        entries: of one row and column, one a seed.
        scale: `rr`, `zs` or `rs`.
        tasks: from 1; `shown_tasks` if empty.

    Raises:
        ValueError: no such task or scale, or entries of different networks.
    """
    shown = _tasks(entries, scale, tasks)
    counts = [_over_seeds(entries, task, scale, "counts") for task in shown]
    used = [place for task in counts for place, bar in enumerate(task) if bar.mean]
    first, last = min(used, default=0), max(used, default=0)
    ticks, rule = _edge_ticks(scale, first, last)
    panels = [
        Panel(f"Task {task}: {_summary(entries, task, scale)}", bars=_bars(bars[first : last + 1]), ticks=ticks, rule=rule)
        for task, bars in zip(shown, counts, strict=True)
    ]
    what, unit = SCALES[scale][:2]
    title = f"{_cell_name(entries)}: how many parameters changed how much, {what} ({scale.upper()})"
    return Drawing(f"{name}-{scale}-histogram", title, unit, "parameters", tuple(panels), log=True, folded=scale != "rr")


def layer_means(name: str, entries: Entries, scale: str = "rr", tasks: Sequence[int] = ()) -> Drawing:
    """Return the mean relative change of each layer, one panel a task, the output layer marked; arguments as in `histograms`."""
    shown = _tasks(entries, scale, tasks)
    layers = entries[0]["variation"]["layers"]
    last = len(layers) - 1
    step = next(step for step in (1, 5, 10, 20, 50, 10**9) if last / step < 8)
    marks = [place for place in range(last) if step == 1 or (place + 1) % step == 0 or place == 0]
    marks = [place for place in marks if last - place > last / 9] + [last]
    ticks = tuple((place + 0.5, str(place + 1)) for place in marks)
    panels = [
        Panel(f"Task {task}", bars=_bars(_over_seeds(entries, task, scale, "layer_means"), (last,)), ticks=ticks) for task in shown
    ]
    what = SCALES[scale][0]
    title = f"{_cell_name(entries)}: mean relative change of each layer, {what} ({scale.upper()})"
    x_label = f"layer, {layers[0]} (1) to {layers[last]} ({last + 1})"
    return Drawing(f"{name}-{scale}-layers", title, x_label, f"mean {scale.upper()}", tuple(panels), folded=scale != "rr")


def _tasks(entries: Entries, scale: str, tasks: Sequence[int]) -> list[int]:
    """Return the tasks to show, after a look at whether the entries can be drawn together."""
    if scale not in SCALES:
        raise ValueError(f"scale {scale!r}: one of {', '.join(SCALES)}")
    if not entries:
        raise ValueError("a figure of parameter variation needs a run with --record_variation 1")
    networks = {tuple(entry["variation"]["layers"]) for entry in entries}
    if len(networks) > 1:
        raise ValueError(f"{_cell_name(entries)}: runs of {len(networks)} different networks cannot share a figure")
    count = min(len(entry["variation"]["tasks"]) for entry in entries)
    for task in tasks:
        if not 1 <= task <= count:
            raise ValueError(f"task {task}: {_cell_name(entries)} has tasks 1 to {count}")
    return list(tasks) or shown_tasks(count)


def _cell_name(entries: Entries) -> str:
    row, column = entries[0]["row"], entries[0]["column"]
    return f"{row}{'' if column == '-' else ', ' + column} (n = {len(entries)})"


def _over_seeds(entries: Entries, task: int, scale: str, what: str) -> list[Interval]:
    of_seeds = [entry["variation"]["tasks"][task - 1][scale][what] for entry in entries]
    return [t_interval(values) for values in zip(*of_seeds, strict=True)]


def _bars(intervals: Sequence[Interval], marked: tuple[int, ...] = ()) -> Bars:
    return Bars(tuple(bar.mean for bar in intervals), tuple(bar.half_width for bar in intervals), marked)


def _edge_ticks(scale: str, first: int, last: int) -> tuple[tuple[tuple[float, str], ...], tuple[float, str]]:
    """Return the ticks between bins `first` .. `last` (every second power of two if they are many), and the centre's rule."""
    edges = EDGES[scale]
    *_, centre, value = SCALES[scale]
    places = {edge: place + 1.0 - first for place, edge in enumerate(edges)}  # bin 0 ends at the first edge
    inside = [edge for edge in edges if 0 <= places[edge] <= last + 1 - first]
    if len(inside) > 9:
        inside = [
            edge for edge in inside if edge <= 0 or (places[edge] > places[0.0] + 1 and (places[edge] - places[1.0]) % 2 == 0)
        ]
    return tuple((places[edge], _edge(edge)) for edge in inside), (places[value], centre)


def _edge(value: float) -> str:
    """Return an edge as it is read best: 1/64, 1, 64, -0.5."""
    return f"1/{1 / value:.0f}" if 0 < value < 0.5 else f"{value:g}".replace("-", "−")


def _summary(entries: Entries, task: int, scale: str) -> str:
    """Return the share that the paper's text gives for a histogram, mean over seeds, in percent."""
    share = {"rr": "below the mean", "zs": "within one standard deviation", "rs": "RS above 2"}[scale]
    values = [entry["variation"]["tasks"][task - 1]["shares"][share] for entry in entries]
    words = {"rr": "below the mean", "zs": "within one s.d.", "rs": "above 2"}[scale]
    return f"{100 * sum(values) / len(values):.1f} % {words}"
