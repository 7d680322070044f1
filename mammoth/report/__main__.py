"""Tables, figures and the page, from rows.

    python -m mammoth.report tables [EXPERIMENT] [--format text|md|tex|csv] [--setting class_il|task_il] [--check]
    python -m mammoth.report figures [EXPERIMENT] [--output FILE] [--check]
    python -m mammoth.report claims
    python -m mammoth.report page [--output FILE]
    python -m mammoth.report documents [--check]

Without EXPERIMENT: all whose rows are committed. `documents` brings the tables in README.md and docs/ up to date; `--check` only
looks, and fails if something is stale. `--scale tiny`: of the sweeps at that scale. Rows of older code and of today's stand in one
table only when asked: `--stale keep`, or `drop` the older.
"""

import sys
from argparse import Namespace
from pathlib import Path

from mammoth.report import claims, documents, published
from mammoth.report.drawing import Drawing, is_current, write
from mammoth.report.figures import curves, drawings
from mammoth.report.page import LEAD, SCALED_LEAD, experiment_section, write_page
from mammoth.report.published import POLICIES, Published
from mammoth.report.tables import FORMATS, build
from utils.args import Parser, one_of
from utils.yaml_files import ROOT

FIGURES = ROOT / "docs" / "figures"


def parser() -> Parser:
    """Return the command line's parser."""
    made = Parser(prog="python -m mammoth.report", description="Tables, figures and the page, from the rows of runs.")
    made.add_argument("what", choices=["tables", "figures", "claims", "page", "documents"])
    made.add_argument("experiment", type=Path, nargs="?", help="experiments/<name>.yaml (default: all that are published)")
    setting, formats = one_of("class_il", "task_il"), one_of(*FORMATS)
    made.add_argument("--setting", type=setting, default="class_il", metavar="NAME", help="class_il or task_il")
    made.add_argument("--format", type=formats, default="text", metavar="NAME", help="text, md, tex or csv")
    made.add_argument("--output", type=Path, metavar="FILE", help="where the figure or the page goes")
    made.add_argument("--check", action="store_true", help="only look, and fail if something is stale")
    made.add_argument("--scale", default="", metavar="NAME", help="of the sweeps at this scale: tiny")
    policies = one_of(*POLICIES)
    made.add_argument("--stale", type=policies, default="refuse", metavar="NAME", help="rows of older code: refuse, keep or drop")
    return made


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        asked = parser().parse_args(argv)
        if asked.what == "documents" or (asked.what == "tables" and asked.check):
            return _documents(asked.check)
        actions = {"tables": _tables, "figures": _figures, "claims": _claims, "page": _page}
        return actions[asked.what](asked)
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        return 0
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _documents(check: bool) -> int:
    stale = documents.refresh(check)
    for path in stale:
        print(f"{'stale' if check else 'updated'}: {path}")
    if not stale:
        print("all tables in the documents are current")
    return 1 if stale and check else 0


def _one(asked: Namespace) -> Published:
    """Return an experiment with its rows, published or not."""
    item = published.read(asked.experiment, asked.stale, asked.scale)
    if not item.rows:
        scale = f" --scale {asked.scale}" if asked.scale else ""
        raise ValueError(f"no runs in {item.source} yet: python -m mammoth.sweep run {asked.experiment}{scale}")
    return item


def _tables(asked: Namespace) -> int:
    if asked.experiment is not None:
        item = _one(asked)
        tables = [build(item.experiment, item.rows, asked.setting)]
    else:
        items = published.all_published(asked.stale, asked.scale)
        tables = [build(item.experiment, item.rows, name) for item in items for name in item.settings]
    print("\n\n".join(FORMATS[asked.format](table) for table in tables))
    return 0


def _figures(asked: Namespace) -> int:
    if asked.experiment is not None:
        item = _one(asked)
        found = _drawings(item) or [curves(item.experiment, item.rows)]
        if asked.output and len(found) > 1:
            raise ValueError(
                f"--output: {item.experiment.name} has {len(found)} figures; leave it out, they go to {item.source.parent}"
            )
        for drawing in found:
            default = item.source.with_suffix(".png") if len(found) == 1 else item.source.with_name(f"{drawing.name}.png")
            print(f"figure: {write(drawing, asked.output or default)}")
        return 0
    stale, folder = 0, FIGURES
    if asked.scale:
        folder = published.all_published("keep", asked.scale)[0].source.parent
    policy = "drop" if asked.stale == "drop" and not asked.check else "keep"
    for drawing in [drawing for item in published.all_published(policy, asked.scale) for drawing in _drawings(item)]:
        path = folder / f"{drawing.name}.png"
        if not (path.is_file() and is_current(drawing, path)):
            stale += 1
            print(f"stale: {path}" if asked.check else f"figure: {write(drawing, path)}")
    if not stale:
        print(f"all figures in {folder} are current")
    return 1 if stale and asked.check else 0


def _drawings(item: Published) -> list[Drawing]:
    return drawings(item.experiment, item.rows, item.variations)


def _claims(asked: Namespace) -> int:
    if asked.scale:
        raise ValueError("--scale: the paper's claims are about its own benchmarks; leave it out")
    items = published.all_published(asked.stale)
    print(claims.markdown(claims.judge(published.evidence(items))))
    return 0


def _page(asked: Namespace) -> int:
    items = published.all_published(asked.stale, asked.scale)
    sections = [experiment_section(item.experiment, item.rows, item.settings, item.variations) for item in items]
    path = asked.output or (items[0].source.parent if asked.scale else ROOT / "data" / "results") / "report.html"
    lead = SCALED_LEAD.format(scale=asked.scale) if asked.scale else LEAD
    outcomes = [] if asked.scale else claims.judge(published.evidence(items))
    print(f"page: {write_page(sections, path, outcomes, lead=lead)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
