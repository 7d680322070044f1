"""Sweeps: every run of an experiment's YAML file.

    python -m mammoth.sweep plan|run|status|retry experiments/<name>.yaml [--seeds 0:3] [--jobs 2] [--only pvbf,er_ace]

`run` skips what is done, goes on after a failure, and ends with status 1 if anything failed, naming it; `retry` runs what failed.
"""

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import get_dataset_class
from mammoth import records, results, settings
from mammoth.experiments import Cell, Experiment, load_experiment, parse_seeds
from mammoth.launchers import local
from models import get_model_class
from utils.args import Parser, number
from utils.metrics import average_accuracy
from utils.registry import canonical

STATES = ("done", "stale", "failed", "interrupted", "running", "missing")


@dataclass(frozen=True)
class Run:
    """One run of an experiment."""

    cell: Cell
    seed: int
    argv: tuple[str, ...]
    args: Namespace

    @property
    def record_path(self) -> Path:
        """Where its record is, or will be."""
        return records.results_folder(self.args) / "records" / self.args.run_id / "record.json"

    def record(self) -> dict[str, Any] | None:
        """Return its record, if there is a whole one."""
        try:
            return records.read_record(self.record_path)
        except (FileNotFoundError, ValueError):
            return None

    def state(self) -> str:
        """Say how it stands: one of `STATES`. Stale: done by other code than today's."""
        record = self.record()
        if record is None:
            return "missing"
        if record["status"] == "done" and record["provenance"].get("source_digest") != digest_for(self.args):
            return "stale"
        if record["status"] == "running" and not records.is_alive(record):
            return "interrupted"
        return record["status"]


_digests: dict[tuple[str, str], str] = {}


def digest_for(args: Namespace) -> str:
    """Return the digest of the code that a run would use now."""
    key = (args.model, args.dataset)
    if key not in _digests:
        _digests[key] = records.source_digest(get_model_class(args.model), get_dataset_class(args.dataset))
    return _digests[key]


def plan(
    experiment: Experiment, seeds: tuple[int, ...] = (), only: str = "", columns: str = "", extra: tuple[str, ...] = ()
) -> list[Run]:
    """Return the runs of an experiment, every command line resolved.

    Args:
        seeds: instead of the file's.
        only: methods or rows, columns: labels of columns, with commas between; all if empty.
        extra: flags added to every run.

    Raises:
        ValueError: a command line that is wrong; names the row.
    """
    wanted = {canonical(name) for name in only.split(",") if name}
    cells = [cell for cell in experiment.cells if not columns or cell.column in columns.split(",")]
    if not cells:
        raise ValueError(f"--columns {columns}: no such column in {experiment.name}; there are: {', '.join(experiment.columns)}")
    runs = []
    for cell in cells:
        for seed in seeds or experiment.seeds:
            argv = (*cell.argv, *extra, "--seed", str(seed))
            try:
                args = settings.resolve(list(argv)).args
            except ValueError as error:
                raise ValueError(f"{experiment.name}, row {cell.row!r}: {error}") from error
            if not wanted or {args.model, canonical(cell.row)} & wanted:
                runs.append(Run(cell, seed, argv, args))
    if not runs:
        known = sorted({run_model(cell) for cell in experiment.cells} | set(experiment.rows))
        raise ValueError(f"--only {only}: no such method in {experiment.name}; there are: {', '.join(known)}")
    return runs


def run_model(cell: Cell) -> str:
    """Return the method that a cell's command line names."""
    return cell.argv[cell.argv.index("--model") + 1] if "--model" in cell.argv else "?"


def results_path(experiment: Experiment, run: Run) -> Path:
    """Return the CSV file that an experiment's rows go to."""
    return experiment.results or records.results_folder(run.args) / f"{experiment.name}.csv"


def collect(experiment: Experiment, runs: list[Run]) -> Path:
    """Bring the rows of all runs that are done into the experiment's CSV file; returns its path."""
    path = results_path(experiment, runs[0])
    found = [(run, run.record()) for run in runs]
    rows = [results.row_of(record, run.cell.row, run.cell.column) for run, record in found if record and record["status"] == "done"]
    results.write_rows(path, results.merge(results.read_rows(path), rows))
    return path


def execute(experiment: Experiment, runs: list[Run], jobs: int, states: tuple[str, ...]) -> int:
    """Run those in one of these states; returns the exit status."""
    todo = [run for run in runs if run.state() in states]
    skipped = len(runs) - len(todo)
    _say(f"{experiment.title}: {len(runs)} runs, {skipped} skipped, {len(todo)} to do")
    unique = {run.args.run_id: run for run in todo}
    by_argv = {run.argv: run for run in unique.values()}
    waiting = [(run.argv, run.record_path.with_name("log.txt")) for run in unique.values()]
    failed, started = [], time.monotonic()
    for number_done, outcome in enumerate(local.run_all(waiting, jobs), 1):
        run = by_argv[outcome.argv]
        if outcome.status:
            failed.append(f"{run.cell.row}, {run.cell.column}, seed {run.seed}: {outcome.message}")
        left = (time.monotonic() - started) / number_done * (len(waiting) - number_done)
        _say(f"[{number_done}/{len(waiting)}] {_result(run, outcome)}, {_duration(left)} left")
        collect(experiment, runs)
    path = collect(experiment, runs)
    _say(f"rows: {path}")
    for line in failed:
        sys.stderr.write(f"failed: {line}\n")
    return 1 if failed else 0


def _result(run: Run, outcome: local.Outcome) -> str:
    name = f"{run.cell.row} {run.cell.column} seed {run.seed}"
    record = run.record()
    if outcome.status or record is None:
        return f"{name}: failed ({outcome.message or f'status {outcome.status}'})"
    return f"{name}: ACC {average_accuracy(record['class_il']):.2f} % in {_duration(record['provenance']['wall_s'])}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def status_table(runs: list[Run]) -> str:
    """Return how many runs of each row stand in which state."""
    rows: dict[str, dict[str, int]] = {}
    for run in runs:
        counts = rows.setdefault(run.cell.row, dict.fromkeys(STATES, 0))
        counts[run.state()] += 1
    lines = [f"{'':24}" + "".join(f"{state:>12}" for state in STATES)]
    lines += [f"{row:24}" + "".join(f"{counts[state]:>12}" for state in STATES) for row, counts in rows.items()]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, flush=True)


def parser() -> ArgumentParser:
    """Return the command line's parser."""
    made = Parser(prog="python -m mammoth.sweep", description="Run, or look at, all runs of an experiment's YAML file.")
    made.add_argument("what", choices=["plan", "run", "status", "retry", "collect"])
    made.add_argument("experiment", type=Path, help="experiments/<name>.yaml")
    made.add_argument("--seeds", default="", metavar="A:B", help="instead of the file's: a count, a range 0:3, or a list 1,5")
    made.add_argument("--only", default="", metavar="A,B", help="these methods or rows")
    made.add_argument("--columns", default="", metavar="A,B", help="these columns")
    made.add_argument("--jobs", type=number(int, 0), default=0, metavar="N", help="runs side by side (0: one a core)")
    made.add_argument("--flags", default="", metavar='"..."', help="flags added to every run, such as --verify_data 0")
    return made


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        asked = parser().parse_args(argv)
        experiment = load_experiment(asked.experiment)
        seeds = parse_seeds(asked.seeds) if asked.seeds else ()
        runs = plan(experiment, seeds, asked.only, asked.columns, tuple(shlex.split(asked.flags)))
        if asked.what == "plan":
            for run in runs:
                _say(f"{run.state():12} python main.py {shlex.join(run.argv)}")
            return 0
        if asked.what == "status":
            _say(status_table(runs))
            return 0
        if asked.what == "collect":
            _say(f"rows: {collect(experiment, runs)}")
            return 0
        states = ("stale", "failed", "interrupted", "missing") if asked.what == "run" else ("failed", "interrupted")
        return execute(experiment, runs, asked.jobs, states)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; the same command goes on from here\n")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
