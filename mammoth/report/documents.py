"""Tables inside documents, made from rows: what stands between `<!-- table FILE -->` or `<!-- claims -->` and `<!-- end -->` is
never typed. Rows of older code stay in a document beside newer ones, and its tables' footers say so. After `<!-- flags -->` stand
the methods' flags, made from their parsers and YAML files; after `<!-- benchmark FILE -->` the benchmark's numbers, after
`<!-- goals FILE -->` those that have a goal; after `<!-- readings FILE -->` D-CWR's readings on the same networks, after
`<!-- effects -->` on networks of their own; after `<!-- reliability -->` what the long tests found, after
`<!-- upstream_tests -->` what upstream's own did."""

import re
from pathlib import Path

from mammoth.report import claims, effects, flags, performance, published, readings, reliability, upstream_tests
from mammoth.report.tables import build, markdown
from utils.files import write_atomically
from utils.yaml_files import ROOT

BLOCK = re.compile(
    r"(<!-- (table|claims|effects|flags|benchmark|goals|readings|reliability|upstream_tests) ?(\S*) -->\n).*?(<!-- end -->)",
    re.DOTALL,
)


def refreshed(text: str) -> str:
    """Return a document with each of its tables made anew.

    Raises:
        ValueError: a table's experiment names no file of results.
    """

    def block(match: re.Match[str]) -> str:
        made = {
            "claims": _claims,
            "effects": _effects,
            "flags": flags.markdown,
            "reliability": reliability.markdown,
            "upstream_tests": upstream_tests.markdown,
        }
        of_files = {"table": _tables, "benchmark": performance.markdown, "goals": performance.goals, "readings": readings.markdown}
        content = made[match[2]]() if match[2] in made else of_files[match[2]](ROOT / match[3])
        return f"{match[1]}\n{content}\n\n{match[4]}"

    return BLOCK.sub(block, text)


def _tables(path: Path) -> str:
    item = published.read(path)
    return "\n\n".join(markdown(build(item.experiment, item.rows, setting)) for setting in item.settings)


def _claims() -> str:
    return claims.markdown(claims.judge(published.evidence(published.all_published())))


def _effects() -> str:
    controls = published.read(ROOT / "experiments" / f"{effects.TABLE}.yaml")
    return effects.markdown(published.evidence([controls]))


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
