"""The experiments and their rows: what tables, documents, figures, claims and the page are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mammoth import results
from mammoth.experiments import Experiment, load_experiment
from mammoth.report.claims import Evidence
from mammoth.results import Row
from mammoth.sweep import Run, own_rows, plan, results_path
from utils.yaml_files import ROOT

POLICIES = ("refuse", "keep", "drop")  # what becomes of rows of older code beside rows of today's


@dataclass(frozen=True)
class Published:
    """An experiment, its rows, where they are, and the variations recorded by its runs."""

    experiment: Experiment
    rows: list[Row]
    source: Path
    variations: list[Row]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that its tables are shown in: none where it shows no table, Task-IL too where it is offline."""
        if "table" not in self.experiment.show:
            return ()
        return ("class_il", "task_il") if "offline" in self.experiment.name else ("class_il",)


def read(path: Path, stale: str = "keep", scale: str = "") -> Published:
    """Read an experiment and its rows, from its own file and, where that is committed, from those beside it.

    Args:
        stale: what becomes of rows of older code beside rows of today's, one of `POLICIES`.
        scale: as for `load_experiment`.

    Raises:
        ValueError: a file is corrupt, or `check_mixtures` refuses the rows.
    """
    experiment = load_experiment(path, scale)
    source = ROOT / (experiment.results or results_path(experiment, _a_run(experiment)))
    rows = results.read_together(source) if experiment.results else results.read_rows(source)
    own = [row for row in own_rows(experiment, rows) if stale != "drop" or not row["stale"]]
    kept = on_originals(own)
    if len(kept) < len(own):
        words = f"{len(own) - len(kept)} runs on other images are left out: there are runs on the original ones."
        experiment = replace(experiment, note=" ".join(filter(None, (experiment.note, words))))
    check_mixtures(experiment, kept, stale)
    shown = {row["run_id"] for row in kept}
    variations = [entry for entry in results.read_variation(results.variation_path(source)) if entry["run_id"] in shown]
    return Published(experiment, kept, source, variations)


def _a_run(experiment: Experiment) -> Run:
    """Return one run of an experiment: all of them have their results in one folder."""
    return plan(replace(experiment, cells=experiment.cells[:1], seeds=experiment.seeds[:1]))[0]


def on_originals(rows: list[Row]) -> list[Row]:
    """Return the rows; of a benchmark that has rows on its original images, only these."""
    original = {row["dataset"] for row in rows if row["data"].startswith("original")}
    return [row for row in rows if row["dataset"] not in original or row["data"].startswith("original")]


def check_mixtures(experiment: Experiment, rows: list[Row], stale: str) -> None:
    """Raise ValueError, naming the rows, where a cell mixes images or, unless `stale` is `keep`, all mix older code and today's."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(f"{row['row']} {row['column']}", set()).add(row["data"])
    for cell, images in kinds.items():
        if len(images) > 1:
            how = "run the other seeds on the same images (--flags), or take their rows out of the file"
            found = f"{cell} has rows on {' and on '.join(sorted(images))} images"
            raise ValueError(f"{experiment.name}: {found}, which have no common mean; {how}")
    old = [row for row in rows if row["stale"]]
    if not old or len(old) == len(rows) or stale == "keep":
        return
    names = ", ".join(f"{row['row']} {row['column']} seed {row['seed']}" for row in old[:3])
    more = f" and {len(old) - 3} more" if len(old) > 3 else ""
    raise ValueError(
        f"{experiment.name}: {len(old)} of {len(rows)} rows are of older code ({names}{more}).\n"
        "Show all with --stale keep, today's alone with --stale drop, or run them again: python -m mammoth.sweep run"
    )


def all_published(stale: str = "keep", scale: str = "") -> list[Published]:
    """Return every experiment in `experiments/` whose rows are committed, in order; at a scale, these with that scale's rows."""
    paths = sorted((ROOT / "experiments").glob("*.yaml"))
    found = [read(path, stale, scale) for path in paths if load_experiment(path).results is not None]
    return sorted(found, key=lambda item: item.experiment.order)


def evidence(published: Sequence[Published]) -> Evidence:
    """Return what the claims are tested on."""
    return Evidence(
        {item.experiment.name: item.rows for item in published},
        {item.experiment.name: item.variations for item in published},
    )
