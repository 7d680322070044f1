"""Tables inside documents, made from rows: what stands between `<!-- table FILE -->` and `<!-- end -->` is never typed."""

import re
from pathlib import Path

from mammoth import results
from mammoth.experiments import load_experiment
from mammoth.report.tables import build, markdown
from utils.files import write_atomically
from utils.yaml_files import ROOT

BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """Return a document with each of its tables made anew.

    Raises:
        ValueError: a table's experiment names no file of results.
    """

    def table(match: re.Match[str]) -> str:
        experiment = load_experiment(ROOT / match[2])
        if experiment.results is None:
            raise ValueError(f"{match[2]}: a table in a document needs `results:`, a file that is committed")
        rows = results.read_rows(ROOT / experiment.results)
        return f"{match[1]}\n{markdown(build(experiment, rows))}\n\n{match[3]}"

    return BLOCK.sub(table, text)


def documents() -> list[Path]:
    """Return the documents that hold tables."""
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in candidates if BLOCK.search(path.read_text(encoding="utf-8"))]


def refresh(check: bool = False) -> list[Path]:
    """Bring the tables in all documents up to date; return those that were not.

    Args:
        check: only look.
    """
    stale = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = refreshed(text)
        if new != text:
            stale.append(path)
            if not check:
                write_atomically(path, new)
    return stale
