"""How long runs take, from the records of runs that were done."""

import statistics
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mammoth.launchers.jobs import glance

LIKE = ("model", "dataset", "dataset_config", "backbone", "n_epochs", "n_iters", "batch_size", "joint", "stop_after", "debug_mode")


class Estimates:
    """Wall times of done runs, by what decides them: method, benchmark, config, passes.

    Args:
        folders: of results; each one's records are read.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for folder in folders:
            for path in sorted(folder.glob("records/*/record.json")):
                self.note(path)

    def note(self, path: Path) -> None:
        """Take a record into account, if it is of a run that was done."""
        seen = glance(path)
        if seen is not None and seen.status == "done":
            self._seconds.setdefault(_kind(seen.args), []).append(seen.provenance["wall_s"])

    def seconds(self, args: Namespace) -> float | None:
        """Return the median wall time of done runs like this one; None if there are none."""
        known = self._seconds.get(_kind(vars(args)))
        return statistics.median(known) if known else None


def _kind(args: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(args.get(name)) for name in LIKE)


def duration(seconds: float | None) -> str:
    """Return a time in words; `?` if it is not known."""
    if seconds is None:
        return "?"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


__all__ = ["Estimates", "duration"]
