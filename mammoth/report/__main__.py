"""Tables, figures and the page, from rows.

    python -m mammoth.report tables [EXPERIMENT] [--format text|md|tex|csv] [--setting class_il|task_il] [--check]
    python -m mammoth.report figures [EXPERIMENT] [--output FILE] [--check]
    python -m mammoth.report claims
    python -m mammoth.report page [--output FILE]
    python -m mammoth.report documents [--check]

Without EXPERIMENT: all whose rows are committed. `documents` brings the tables in README.md and docs/ up to date; `--check` only
looks, and fails if something is stale.
"""

import sys
from argparse import Namespace
from pathlib import Path

from mammoth import results
from mammoth.experiments import Experiment, load_experiment
from mammoth.report import claims, documents, published
from mammoth.report.drawing import Drawing, is_current, write
from mammoth.report.figures import curves, variation_drawings
from mammoth.report.page import experiment_section, write_page
from mammoth.report.tables import FORMATS, build
from mammoth.results import Row
from mammoth.sweep import own_rows, plan, results_path
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
    return 1 if stale and check else 0


def _one(path: Path) -> tuple[Experiment, list[Row], Path]:
    """Return an experiment, its rows and where they are, published or not."""
    experiment = load_experiment(path)
    source = experiment.results or results_path(experiment, plan(experiment)[0])
    rows = own_rows(experiment, results.read_rows(source))
    if not rows:
        raise ValueError(f"no runs in {source} yet: python -m mammoth.sweep run {path}")
    return experiment, rows, source


def _tables(asked: Namespace) -> int:
    if asked.experiment is not None:
        experiment, rows, _ = _one(asked.experiment)
        tables = [build(experiment, rows, asked.setting)]
    else:
        tables = [build(item.experiment, item.rows, name) for item in published.all_published() for name in item.settings]
    print("\n\n".join(FORMATS[asked.format](table) for table in tables))
    return 0


def _figures(asked: Namespace) -> int:
    if asked.experiment is not None:
        experiment, rows, source = _one(asked.experiment)
        print(f"figure: {write(curves(experiment, rows), asked.output or source.with_suffix('.png'))}")
        return 0
    stale = 0
    for drawing in _published_drawings():
        path = FIGURES / f"{drawing.name}.png"
        if not (path.is_file() and is_current(drawing, path)):
            stale += 1
            print(f"stale: {path}" if asked.check else f"figure: {write(drawing, path)}")
    return 1 if stale and asked.check else 0


def _published_drawings() -> list[Drawing]:
    drawings = []
    for item in published.all_published():
        drawings += [curves(item.experiment, item.rows)] if item.rows else []
        drawings += variation_drawings(item.experiment.name, item.variations)
    return drawings


def _claims(asked: Namespace) -> int:
    print(claims.markdown(claims.judge(published.evidence(published.all_published()))))
    return 0


def _page(asked: Namespace) -> int:
    items = published.all_published()
    sections = [experiment_section(item.experiment, item.rows, item.settings, item.variations) for item in items]
    path = asked.output or ROOT / "data" / "results" / "report.html"
    print(f"page: {write_page(sections, path, claims.judge(published.evidence(items)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
