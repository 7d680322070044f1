"""Whether rows of older code still hold: a short run by the code that made them and by today's, compared bit for bit.

    python -m mammoth.confirm experiments/*.yaml [--seeds 0:3] [--only pvbf] [--columns MS=500] [--flags "--verify_data 0"]
                              [--against COMMIT]

A row counts as stale when anything in the code of its run has changed, though most changes leave every number as it was. This
takes each stale cell's command line and runs its first steps once with the row's own commit, checked out in a temporary
folder, and once with today's code. Where all that the two records hold of the numbers is equal (both accuracy matrices, the
confusion matrices over all test images, the method's diagnostics), the pair of source digests goes into
`experiments/confirmed.csv`, with the command that showed it; rows of the one then count as rows of the other. A digest is
confirmed as a whole: only if every committed row that has it, or one confirmed to be the same, whatever its flags, was compared
in the same call.

`--against COMMIT` runs that commit's code in place of each row's own: code that is confirmed to give the rows' numbers. It serves
where a row's own code is in no commit, or asks for something else by the same command line, since a default has changed.
"""

import itertools
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from mammoth import records, sweep
from mammoth.confirmed import Pair, add_pairs, joined, read_pairs
from mammoth.experiments import Experiment, load_experiment, parse_seeds
from mammoth.results import Row
from utils.args import Parser
from utils.yaml_files import ROOT

STEPS, TASKS = 30, 2
NUMBERS = ("class_il", "task_il", "confusion", "diagnostics", "variation")


def short_run(root: Path, argv: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run the first steps of a command line (`--flag value` ...) with the code in `root`, on one thread; return its record.

    Raises:
        ValueError: the run failed; says how.
    """
    limits = {"n_iters": STEPS, "stop_after": TASKS, "threads": 1, "device": "cpu", "non_verbose": 1, "results_path": folder}
    flags = dict(zip(argv[::2], argv[1::2], strict=True)) | {f"--{name}": str(value) for name, value in limits.items()}
    command = [sys.executable, "main.py", *itertools.chain.from_iterable(flags.items())]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise ValueError(f"{' '.join(command[1:])} failed in {root}: {(done.stderr.splitlines() or ['no message'])[-1]}")
    (path,) = folder.glob("records/*/record.json")
    return records.read_record(path)


def checked_out(commit: str, folder: Path) -> Path:
    """Check a commit of this project out into a new folder and return it.

    Raises:
        ValueError: there is no such commit here.
    """
    try:
        for words in (["clone", "-q", "--no-checkout", str(ROOT), str(folder)], ["-C", str(folder), "checkout", "-q", commit]):
            subprocess.run(["git", *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"commit {commit} cannot be checked out: {getattr(error, 'stderr', '') or error}".strip()) from error
    return folder


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return which of the numbers of two records differ."""
    found = [name for name in NUMBERS if old.get(name) != new.get(name)]
    return found + ["data"] * (old["data"]["fingerprint"] != new["data"]["fingerprint"])


def compare(commit: str, digests: Container[str], argv: Sequence[str], today: str) -> tuple[str, list[str]]:
    """Run a command line's first steps with a commit and with today's code; return the commit's digest, and what differs.

    Args:
        digests: of the sources that give the row's numbers; a commit with another is not its code.
        today: of the sources in memory, for which the pair would be noted.

    Raises:
        ValueError: the commit is not here, or a run failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="mammoth-confirm-"))
    try:
        found = [
            short_run(root, argv, folder / name) for name, root in (("old", checked_out(commit, folder / "code")), ("new", ROOT))
        ]
        old, new = (content["provenance"]["source_digest"] for content in found)
        if old not in digests:
            return old, [f"the row's code, which is not that of commit {commit}, nor confirmed to be the same"]
        if new != today:
            return old, ["today's code, which was edited meanwhile"]
        return old, differences(*found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stale_rows(experiment: Experiment, runs: Sequence[sweep.Run]) -> list[tuple[sweep.Run, Row]]:
    """Return the runs whose committed row is of older code that is not known to give today's numbers, with that row.

    Raises:
        ValueError: the experiment's rows are in no file that is committed.
    """
    if experiment.results is None:
        raise ValueError(f"{experiment.name} has no `results:` file, so no row of it is committed; run it again instead")
    found = [(run, run.published) for run in runs if run.published is not None]
    return [(run, row) for run, row in found if not sweep.is_current(row["source_digest"], run.args)]


def confirm(experiments: Sequence[tuple[Experiment, Sequence[sweep.Run]]], against: str | None = None) -> int:
    """Compare each stale cell, by its first seed; note the digests by which all rows that are committed agree.

    Args:
        against: the commit to compare with; default: each row's own.

    Returns:
        The exit status: 1 if a cell differs or could not be compared.
    """
    stale = [found for experiment, runs in experiments for found in stale_rows(experiment, runs)]
    cells = {(against or row["source_digest"], run.cell): (run, row) for run, row in reversed(stale)}
    different = {row["run_id"]: (run, row) for run, row in reversed(cells.values())}  # a run without memory stands in several cells
    agree: dict[Pair, bool] = {}
    for run, row in different.values():
        commit = against or row["commit"]
        old, reasons = _compared(run, row, commit)
        agree[_pair(run, old, commit)] = not reasons
        _say(f"{run.name}, commit {commit}: {'no: ' + ', '.join(reasons) if reasons else 'the same numbers'}")
    wrong = {pair.old for pair, equal in agree.items() if not equal}
    compared = {row["run_id"] for _, row in stale}
    committed = {row["run_id"]: row for experiment, _ in experiments for row in sweep.published_rows(experiment).values()}
    same = joined({pair.old for pair in agree}, read_pairs())
    others = [row for row in committed.values() if row["run_id"] not in compared and row["source_digest"] in same]
    for row in others[:3]:
        name = f"{row['row']} {row['column']} seed {row['seed']}"
        _say(f"not compared, and of the same code: {name}; give all experiments, without --only, --columns and --seeds")
    wrong |= {row["source_digest"] for row in others}
    wrong = joined(wrong, read_pairs())  # a digest that agrees leads nowhere if one that differs counts as the same
    add_pairs(pair for pair in agree if pair.old not in wrong)
    left = sum(len(stale_rows(experiment, runs)) for experiment, runs in experiments)
    _say(f"{len(stale)} rows of older code: {len(stale) - left} hold, {left} do not")
    return 1 if left else 0


def _compared(run: sweep.Run, row: Row, commit: str) -> tuple[str, list[str]]:
    """Return the digest of the commit's code (of the row's, if that cannot be run), and why the row does not hold, if so."""
    argv = [*run.argv, "--base_path", str(Path(run.args.base_path).resolve())]  # good in any folder; the later of two wins
    try:
        return compare(commit, joined({row["source_digest"]}, read_pairs()), argv, sweep.digest_for(run.args))
    except ValueError as error:
        return row["source_digest"], [str(error)]


def _pair(run: sweep.Run, old: str, commit: str) -> Pair:
    command = f"python main.py {shlex.join(run.argv)} --n_iters {STEPS} --stop_after {TASKS}"
    today = sweep.digest_for(run.args)
    return Pair(old, today, run.args.model, run.args.dataset, commit, records.versions()["torch"], command)


def _say(text: str) -> None:
    print(text, flush=True)


def _planned(experiments: Sequence[Experiment], choice: tuple[Any, ...]) -> Iterator[tuple[Experiment, Sequence[sweep.Run]]]:
    """Yield each experiment with its runs; of several, one that has not what is chosen is left out, and a line says so."""
    for experiment in experiments:
        try:
            yield experiment, sweep.plan(experiment, *choice)
        except ValueError as error:
            if len(experiments) == 1:
                raise
            _say(f"left out: {error}")


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    parser = Parser(prog="python -m mammoth.confirm", description="Whether rows of older code still hold: short runs, compared.")
    parser.add_argument("experiments", type=Path, nargs="+", metavar="FILE", help="experiments/<name>.yaml, or several of them")
    sweep.add_choice_flags(parser)
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit's code, not with each row's own")
    try:
        asked = parser.parse_args(argv)
        experiments = [load_experiment(path) for path in asked.experiments]
        if len(experiments) > 1:
            experiments = [experiment for experiment in experiments if experiment.results is not None]
        seeds = parse_seeds(asked.seeds) if asked.seeds else ()
        choice = (seeds, asked.only, asked.columns, tuple(shlex.split(asked.flags)))
        return confirm(list(_planned(experiments, choice)), asked.against)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was noted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
