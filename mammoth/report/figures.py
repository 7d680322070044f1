"""Rows to figures: average accuracy after each task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mammoth.experiments import Experiment
from mammoth.report.stats import Interval, t_interval
from mammoth.results import Row

STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.alpha": 0.3,
}


def curve(rows: Sequence[Row], row: str, column: str) -> list[Interval]:
    """Return, for each stage, the mean over tasks so far of the Class-IL accuracy, with its interval over seeds."""
    matrices = [entry["class_il"] for entry in rows if (entry["row"], entry["column"]) == (row, column)]
    stages = min((len(matrix) for matrix in matrices), default=0)
    return [t_interval([sum(matrix[k]) / len(matrix[k]) for matrix in matrices]) for k in range(stages)]


def accuracy_curves(experiment: Experiment, rows: Sequence[Row], path: Path) -> Path:
    """Draw the accuracy after each task for every row, one panel a column; the band is the 95 % t-interval."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        panels = len(experiment.columns)
        figure, axes = pyplot.subplots(1, panels, figsize=(4.5 * panels, 3.4), squeeze=False, sharey=True)
        for axis, column in zip(axes[0], experiment.columns, strict=True):
            for row in experiment.rows:
                points = curve(rows, row, column)
                if points:
                    _draw(axis, points, row)
            axis.set_title("" if column == "-" else column)
            axis.set_xlabel("tasks learnt")
        axes[0][0].set_ylabel("accuracy on the tasks so far (%)")
        axes[0][-1].legend(frameon=False)
        figure.suptitle(experiment.title, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
    return path


def _draw(axis: Any, points: list[Interval], label: str) -> None:
    stages = list(range(1, len(points) + 1))
    means = [point.mean for point in points]
    (line,) = axis.plot(stages, means, marker="o", markersize=3, label=f"{label} (n={points[0].n})")
    if len(points) > 1 and all(point.half_width is not None for point in points):
        low = [point.mean - (point.half_width or 0) for point in points]
        high = [point.mean + (point.half_width or 0) for point in points]
        axis.fill_between(stages, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set_xticks(stages)
