"""D-CWR's readings on networks of their own, in each setting that the paper has PVBF in, its numbers beside ours: two tables in
Markdown, of what PVBF reaches in each reading and of what D-CWR changes there, and a figure of the changes. They are what a reading
is judged by."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mammoth.report.claims import FULL, LONG, PLAIN, SHORT, SIZES, Evidence, more
from mammoth.report.drawing import PALETTE, Drawing, Panel, Point
from mammoth.report.stats import Interval, t_interval
from mammoth.report.tables import MEASURES, footer, format_interval, markdown_line
from mammoth.report.targets import targets

TABLE = "controls"
PAPERS_SEEDS = 15


@dataclass(frozen=True)
class Setting:
    """A short name, the column in the controls, the place in the paper (table, row, column), and whether ACE is on."""

    title: str
    column: str
    paper: tuple[str, str, str]
    ace: bool = True


@dataclass(frozen=True)
class Reading:
    """Where M^l is used and how it is made, and the rows of the controls with ACE and without."""

    name: str
    row: str
    row_without_ace: str = ""


SETTINGS = (
    Setting("MS 20", "CIFAR-10 (20 per class)", (SHORT, FULL, SIZES[0])),
    Setting("MS 100", "CIFAR-10 (100 per class)", (SHORT, FULL, SIZES[1])),
    Setting("MS 500", "CIFAR-10 (500 per class)", (SHORT, FULL, SIZES[2])),
    Setting("CIFAR-100", "CIFAR-100 (500 per class)", (LONG, FULL, "CIFAR-100")),
    Setting("MS 500 w/o ACE", "CIFAR-10 (500 per class)", ("ablation", "PVBF w/o ACE", "MS=500"), ace=False),
)
PAIRED = tuple(setting for setting in SETTINGS if setting.ace)  # the paper has no row without ACE and D-CWR
BY_IMAGES = (
    Reading("`predict`", FULL, "PVBF w/o ACE"),
    Reading("`predict`, weights only", "M^l without the bias"),
    Reading("`task`", "M^l in the head at each task's end", "w/o ACE: M^l in the head at each task's end"),
    Reading("`task`, weights only", "M^l in the head at each task's end (weights only)"),
    Reading("`step`", "M^l in the head at each step", "w/o ACE: M^l in the head at each step"),
    Reading("`step`, weights only", "M^l in the head at each step (weights only)"),
)
BY_CLASSES = (
    Reading("`predict`, mean over classes", "mean over classes", "mean over classes: w/o ACE"),
    Reading(
        "`task`, mean over classes",
        "mean over classes: M^l in the head at each task's end",
        "mean over classes: w/o ACE; M^l in the head at each task's end",
    ),
    Reading(
        "`step`, weights only, mean over classes",
        "mean over classes: M^l in the head at each step (weights only)",
        "mean over classes: w/o ACE; M^l in the head at each step (weights only)",
    ),
)
READINGS = (*BY_IMAGES, *BY_CLASSES)


def level(runs: Evidence, reading: Reading, setting: Setting, measure: str) -> Interval | None:
    """Return what PVBF reaches with a reading in a setting; None where that is not run."""
    row = reading.row if setting.ace else reading.row_without_ace
    return _interval(list(runs.values(TABLE, row, setting.column, measure).values()))


def change(runs: Evidence, reading: Reading, setting: Setting, measure: str) -> Interval | None:
    """Return what PVBF has above PVBF without D-CWR of the same seed and images; None without such a pair."""
    return _interval(list(more(TABLE, reading.row, PLAIN, setting.column, measure).values(runs).values()))


def papers_level(setting: Setting, measure: str) -> float:
    """Return the paper's mean, in percent."""
    table, row, column = setting.paper
    return targets()[table, row, column, "class_il", measure].mean


def papers_change(setting: Setting, measure: str) -> float:
    """Return the paper's mean with D-CWR less its mean without, in points."""
    table, _, column = setting.paper
    return papers_level(setting, measure) - targets()[table, PLAIN, column, "class_il", measure].mean


def distance(ours: Sequence[Interval | None], papers: Sequence[float]) -> float | None:
    """Return the root mean square of our means less the paper's, in points; None where one of ours is not run."""
    squares = [(found.mean - paper) ** 2 for found, paper in zip(ours, papers, strict=True) if found is not None]
    return math.sqrt(sum(squares) / len(squares)) if len(squares) == len(papers) else None


def markdown(runs: Evidence) -> str:
    """Return both tables: a line for each reading, ACC and FR for each setting, and how far they are from the paper's in all."""
    levels = _table((Reading(PLAIN, PLAIN), *READINGS), SETTINGS, partial(level, runs), papers_level, format_interval)
    changes = _table(READINGS, PAIRED, partial(change, runs), papers_change, _signed)
    shown = {PLAIN, *(row for reading in READINGS for row in (reading.row, reading.row_without_ace))}
    rows = [row for row in runs.rows.get(TABLE, ()) if row["row"] in shown and row["column"] in {s.column for s in SETTINGS}]
    distances = "Distance: root mean square, over the settings, of our mean less the paper's, in points."
    return "\n".join(
        [
            "What PVBF reaches with each reading, in percent (MS: images per class on Split CIFAR-10; CIFAR-100: with 500):", "",
            *levels, "",
            f"What D-CWR changes, beside *{PLAIN}* of the same seed, in points:", "", *changes, "",
            f"{distances} {footer(rows)}",
        ]
    )  # fmt: skip


def drawing(runs: Evidence) -> Drawing:
    """Return what D-CWR changes with each reading of the default's mean, a panel for each setting, the paper's change beside."""
    panels = []
    for setting in PAIRED:
        paper = (papers_change(setting, "ACC"), papers_change(setting, "FR"))
        points = [Point("the paper", len(PALETTE) - 1, PAPERS_SEEDS, paper, (None, None))]
        for place, reading in enumerate(BY_IMAGES):
            acc, fr = (change(runs, reading, setting, measure) for measure in ("ACC", "FR"))
            if acc and fr:
                changed = (acc.mean, fr.mean), (acc.half_width, fr.half_width)
                points.append(Point(reading.name.replace("`", ""), place, acc.n, *changed))
        panels.append(Panel(setting.title, points=tuple(points)))
    title = "What D-CWR changes, by where M^l is used: mean over seeds and 95 % t-intervals; better is to the lower right"
    return Drawing("dcwr-changes", title, "change of ACC (points)", "change of FR (points)", tuple(panels), caption=title)


def _interval(values: Sequence[float]) -> Interval | None:
    return t_interval(values) if values else None


def _table(
    readings: Sequence[Reading],
    settings: Sequence[Setting],
    ours: Callable[[Reading, Setting, str], Interval | None],
    papers: Callable[[Setting, str], float],
    show: Callable[[Interval | None], str],
) -> list[str]:
    """Return the lines of a table: what is `ours` and the `papers`, for each setting and measure, and the distances."""
    places = [(setting, measure) for setting in settings for measure in MEASURES]
    paper = {place: papers(*place) for place in places}
    heads = [f"{setting.title} {measure}" for setting, measure in places]
    cells = [["M^l", *heads, *(f"distance {measure}" for measure in MEASURES)], ["---"] * (len(heads) + 1 + len(MEASURES))]
    cells.append(["the paper", *(show(Interval(paper[place], None, PAPERS_SEEDS)) for place in places), *("–" for _ in MEASURES)])
    for reading in readings:
        found = {place: ours(reading, *place) for place in places}
        far = [distance([found[s, m] for s in settings], [paper[s, m] for s in settings]) for m in MEASURES]
        cells.append([reading.name, *map(show, found.values()), *map(_points, far)])
    return [markdown_line(line) for line in cells]


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _signed(ours: Interval | None) -> str:
    return format_interval(ours) if ours is None or ours.mean < 0 else f"+{format_interval(ours)}"
