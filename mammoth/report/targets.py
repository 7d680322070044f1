"""The paper's numbers, once: `targets.csv`, with its misprints kept and noted."""

import csv
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("targets.csv")
Place = tuple[str, str, str, str, str]  # table, row, column, setting, metric


class Target(NamedTuple):
    """A number of the paper's, its text as printed, whether its authors ran it (`run`) or cite it (`cited`), and a note."""

    mean: float
    half_width: float | None
    text: str
    source: str
    note: str


@lru_cache(maxsize=1)
def targets() -> dict[Place, Target]:
    """Return every number of the paper's tables, by (table, row, column, setting, metric)."""
    with PATH.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["table"], row["row"], row["column"], row["setting"], row["metric"]): Target(
            mean=float(row["mean"]),
            half_width=float(row["half_width"]) if row["half_width"] else None,
            text=" ± ".join(filter(None, (row["mean"], row["half_width"]))),
            source=row["source"],
            note=row["note"],
        )
        for row in rows
    }
