"""The experiments whose rows are committed, with those rows: what documents, figures, claims and the page are made of."""

from dataclasses import dataclass
from pathlib import Path

from mammoth import results
from mammoth.experiments import Experiment, load_experiment
from mammoth.report.claims import Evidence
from mammoth.results import Row
from mammoth.sweep import own_rows
from utils.yaml_files import ROOT


@dataclass(frozen=True)
class Published:
    """An experiment, its rows and the variations recorded by its runs."""

    experiment: Experiment
    rows: list[Row]
    variations: list[Row]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that its tables are shown in: Task-IL too where it is offline."""
        return ("class_il", "task_il") if "offline" in self.experiment.name else ("class_il",)


def read(path: Path) -> Published:
    """Read an experiment and its rows.

    Raises:
        ValueError: the experiment names no file of results, or a file is corrupt.
    """
    experiment = load_experiment(path)
    if experiment.results is None:
        raise ValueError(f"{path}: needs `results:`, a file that is committed")
    source = ROOT / experiment.results
    return Published(
        experiment, own_rows(experiment, results.read_rows(source)), results.read_variation(results.variation_path(source))
    )


def all_published() -> list[Published]:
    """Return every experiment in `experiments/` that has a committed file of results."""
    paths = sorted((ROOT / "experiments").glob("*.yaml"))
    return [read(path) for path in paths if load_experiment(path).results is not None]


def evidence(published: list[Published]) -> Evidence:
    """Return what the claims are tested on."""
    return Evidence(
        {item.experiment.name: item.rows for item in published},
        {item.experiment.name: item.variations for item in published},
    )
