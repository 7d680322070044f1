"""`python -m mammoth.report tables|figures EXPERIMENT`: print an experiment's table, or draw its curves, from its rows.

`python -m mammoth.report documents [--check]`: bring the tables inside README.md and docs/ up to date, or fail if they are not.
"""

import sys
from argparse import Namespace
from pathlib import Path

from mammoth import results
from mammoth.experiments import load_experiment
from mammoth.report import documents
from mammoth.report.figures import accuracy_curves
from mammoth.report.tables import FORMATS, build
from mammoth.sweep import plan, results_path
from utils.args import Parser, one_of


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    parser = Parser(prog="python -m mammoth.report", description="Tables and figures from the rows of an experiment's runs.")
    parser.add_argument("what", choices=["tables", "figures", "documents"])
    parser.add_argument("experiment", type=Path, nargs="?", help="experiments/<name>.yaml")
    setting = one_of("class_il", "task_il")
    parser.add_argument("--setting", type=setting, default="class_il", metavar="NAME", help="class_il or task_il")
    formats = one_of(*FORMATS)
    parser.add_argument("--format", type=formats, default="text", metavar="NAME", help="text, md, tex or csv")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where a figure goes (default: beside the rows)")
    parser.add_argument("--check", action="store_true", help="documents: only look, and fail if one is stale")
    try:
        asked = parser.parse_args(argv)
        return _documents(asked.check) if asked.what == "documents" else _report(asked)
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


def _report(asked: Namespace) -> int:
    if asked.experiment is None:
        raise ValueError(f"{asked.what} of what? give experiments/<name>.yaml")
    experiment = load_experiment(asked.experiment)
    source = experiment.results or results_path(experiment, plan(experiment)[0])
    rows = results.read_rows(source)
    if not rows:
        raise ValueError(f"no runs in {source} yet: python -m mammoth.sweep run {asked.experiment}")
    if asked.what == "tables":
        print(FORMATS[asked.format](build(experiment, rows, asked.setting)))
    else:
        print(f"figure: {accuracy_curves(experiment, rows, asked.output or source.with_suffix('.png'))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
