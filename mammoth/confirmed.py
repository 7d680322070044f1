"""Source digests that have been shown to give the same numbers (by `confirm.py`): a small file that is committed."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from utils.files import write_atomically
from utils.yaml_files import ROOT

PATH = ROOT / "experiments" / "confirmed.csv"
FIELDS = ("old", "new", "model", "dataset", "commit", "torch", "command")


class Pair(NamedTuple):
    """Two source digests by which a command line gave the same numbers; the fields of a line of the file."""

    old: str
    new: str
    model: str
    dataset: str
    commit: str
    torch: str
    command: str


def read_pairs(path: Path | None = None) -> list[Pair]:
    """Read the confirmed pairs (default: the committed ones); an absent file has none.

    Raises:
        ValueError: the file is no such table; names it.
    """
    path = path or PATH
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise ValueError(f"{path} is corrupt: expected the columns {', '.join(FIELDS)}")
        return [Pair(*(line[field] or "" for field in FIELDS)) for line in reader]


def add_pairs(pairs: Iterable[Pair], path: Path | None = None) -> None:
    """Add confirmed pairs to the file (default: the committed one), in order."""
    path, old, new = path or PATH, read_pairs(path), set(pairs)
    if new <= set(old):
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows(sorted({*old, *new}))
    write_atomically(path, text.getvalue())


def joined(digests: Iterable[str], pairs: Sequence[Pair]) -> set[str]:
    """Return these source digests and all that chains of confirmed pairs join to them."""
    reached = fresh = set(digests)
    while fresh:
        fresh = {
            other
            for pair in pairs
            for here, other in ((pair.old, pair.new), (pair.new, pair.old))
            if here in fresh and other not in reached
        }
        reached = reached | fresh
    return reached


def same_numbers(first: str, second: str, pairs: Sequence[Pair]) -> bool:
    """Whether two source digests are equal, or a chain of confirmed pairs leads from one to the other."""
    return first == second or second in joined({first}, pairs)
