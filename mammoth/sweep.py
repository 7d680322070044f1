"""Sweeps: every run of an experiment's YAML file.

    python -m mammoth.sweep plan|run|status|retry|collect experiments/<name>.yaml [--seeds 0:3] [--jobs 2] [--only pvbf,er_ace]

`plan` lists the runs, `status` counts them. `run` skips what is done, goes on after a failure, and ends with status 1 if anything
failed, naming it; `retry` runs what failed or was interrupted; `collect` only brings rows together. Several sweeps may work on one
folder: a run is done once (`launchers/jobs.py`), and a sweep waits for the runs that others have in hand, then looks at them again.
A run that left a checkpoint goes on from it.
"""

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import get_dataset_class
from mammoth import confirmed, records, results, settings
from mammoth.estimates import Estimates, duration
from mammoth.experiments import Cell, Experiment, load_experiment, parse_seeds
from mammoth.launchers import local, slurm
from mammoth.launchers.jobs import BY_ANOTHER, ELSEWHERE, STOPPED, Job, Launcher, Outcome, claimed, glance, is_alive, latest, stamp
from mammoth.launchers.live import Live
from mammoth.launchers.signals import stop_signals
from models import get_model_class
from utils.args import Parser, number
from utils.checkpoints import checkpoint_path
from utils.files import locked
from utils.metrics import average_accuracy
from utils.registry import canonical, nearest

STATES = ("done", "stale", "failed", "interrupted", "queued", "running", "missing")
OTHER_IMAGES = ("recompressed", "altered")  # kinds of data that `--verify_data 1` refuses
OTHER_CODE = "by other code than this sweep's: something was edited while it ran; start the sweep again"
IN_HAND = ("running", "queued")  # somebody is at it
TO_DO = {"run": ("stale", "failed", "interrupted", "missing"), "retry": ("failed", "interrupted")}


@dataclass(frozen=True)
class Run:
    """One run of an experiment."""

    cell: Cell
    seed: int
    argv: tuple[str, ...]
    args: Namespace
    published: results.Row | None = None  # its committed row, if there is one

    def _published_state(self) -> str:
        """Say how a run without a record stands: its committed row counts, as on a fresh clone."""
        if self.published is None:
            return "missing"
        return "done" if self._holds(self.published["source_digest"], self.published["data"]) else "stale"

    def _holds(self, digest: str, images: str) -> bool:
        """Whether numbers of code with this digest, on images of this kind, are what the command line asks for today."""
        return not (self.args.verify_data and images.startswith(OTHER_IMAGES)) and is_current(digest, self.args)

    @property
    def name(self) -> str:
        """How it is called in what a sweep says."""
        return f"{self.cell.row} {self.cell.column} seed {self.seed}"

    @property
    def record_path(self) -> Path:
        """Where its record is, or will be."""
        return records.results_folder(self.args) / "records" / self.args.run_id / "record.json"

    @property
    def folder(self) -> Path:
        """Where its record, log and claim are."""
        return self.record_path.parent

    def is_own(self, experiment: Experiment) -> bool:
        """Whether it is what the experiment's file asks for; `--flags` may have made another run of it."""
        return _resolved(experiment, self.cell, self.seed, ()).args.run_id == self.args.run_id

    def record(self) -> dict[str, Any] | None:
        """Return its record, if there is a whole one."""
        try:
            return records.read_record(self.record_path)
        except (FileNotFoundError, ValueError):
            return None

    def job(self) -> Job:
        """Return what a launcher is given."""
        checkpoints = checkpoint_path(self.args).parent if self.args.resume is None else None
        return Job(self.argv, self.folder / "log.txt", stamp(self.folder), checkpoints)

    def state(self) -> str:
        """Say how it stands: one of `STATES` but `queued`.

        Stale: done by other code than today's, or on other images than the published ones where `--verify_data 1` asks for these.
        """
        if claimed(self.folder):
            return "running"
        last, record = latest(self.folder), glance(self.record_path)
        if last is None:
            return self._published_state()
        if last.status == "running" and is_alive(last, self.folder):
            return "running"
        if record and record.status == "done" and self._holds(record.provenance.get("source_digest", ""), record.images):
            return "done"
        if last.status == "done" and self._published_state() == "done":  # today's row came from elsewhere, with the commits
            return "done"
        return {"done": "stale", "running": "interrupted"}.get(last.status, last.status)


def published_rows(experiment: Experiment) -> dict[str, results.Row]:
    """Return the committed row of each run that has one, by run id."""
    if experiment.results is None:
        return {}
    return {row["run_id"]: row for row in results.read_together(experiment.results)}


def look(runs: Sequence[Run]) -> list[tuple[Run, Job, str]]:
    """Return each run, its job and its state, the job made first: it shows whether somebody was there after the look."""
    made = [run.job() for run in runs]
    return list(zip(runs, made, states_of(runs), strict=True))


def states_of(runs: Sequence[Run]) -> list[str]:
    """Return how each run stands, the queue of a cluster included, which is asked only if a run waits in it."""
    states = [run.state() for run in runs]
    tickets = [
        slurm.ticket(run.folder) if state not in ("done", "running") else "" for run, state in zip(runs, states, strict=True)
    ]
    listed = slurm.queue() if any(tickets) else {}
    waiting = {*filter(None, tickets)} if listed is None else listed  # no answer: what waited is taken to wait still
    return ["queued" if waits_for in waiting else state for waits_for, state in zip(tickets, states, strict=True)]


_digests: dict[tuple[str, str], str] = {}


def digest_for(args: Namespace) -> str:
    """Return the digest of the code that a run would use now."""
    key = (args.model, args.dataset)
    if key not in _digests:
        _digests[key] = records.source_digest(get_model_class(args.model), get_dataset_class(args.dataset))
    return _digests[key]


def is_current(digest: str, args: Namespace) -> bool:
    """Whether code of this digest gives the numbers that today's would: the same digest, or one that has been confirmed to."""
    today = digest_for(args)
    return digest == today or confirmed.same_numbers(digest, today, confirmed.read_pairs())


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
    methods = sorted({run_model(cell) for cell in experiment.cells})
    rows = _chosen("--only", only, [*experiment.rows, *methods], experiment)
    wanted_columns = _chosen("--columns", columns, experiment.columns, experiment)
    cells = [cell for cell in experiment.cells if not columns or canonical(cell.column) in wanted_columns]
    runs = [_resolved(experiment, cell, seed, extra) for cell in cells for seed in seeds or experiment.seeds]
    published = published_rows(experiment)
    runs = [replace(run, published=published.get(run.args.run_id)) for run in runs]
    runs = [run for run in runs if not only or {canonical(run.args.model), canonical(run.cell.row)} & rows]
    if not runs:
        raise ValueError(f"--only {only}: {experiment.name} has no such row in --columns {columns}")
    return runs


def _chosen(flag: str, text: str, labels: Iterable[str], experiment: Experiment) -> set[str]:
    """Return the labels that a flag names, with commas between; a label may hold commas itself.

    Raises:
        ValueError: a name that is none of them; says which are nearest.
    """
    known, found, words = {canonical(label) for label in labels}, set(), text.split(",") if text else []
    while words:
        size = next((n for n in range(len(words), 0, -1) if canonical(",".join(words[:n])) in known), 0)
        if not size:
            raise ValueError(f"{flag} {words[0].strip()}: no such label in {experiment.name}; {nearest(words[0], known)}")
        found.add(canonical(",".join(words[:size])))
        words = words[size:]
    return found


def own_rows(experiment: Experiment, rows: Sequence[results.Row]) -> list[results.Row]:
    """Return the rows that the experiment's own command lines gave, whichever experiment's sweep they were run by.

    A run is known by its id: its row gets the labels of each cell that asks for it, and `stale`, whether other code than today's
    has made it. A row that no cell asks for (any more) is left out.

    Raises:
        ValueError: a command line that is wrong; names the row.
    """
    made = {row["run_id"]: row for row in rows}
    seeds = sorted({int(row["seed"]) for row in rows})
    asked = [_resolved(experiment, cell, seed, ()) for cell in experiment.cells for seed in seeds]
    found = [(run, made[run.args.run_id]) for run in asked if run.args.run_id in made]
    return [
        {**row, "row": run.cell.row, "column": run.cell.column, "stale": not is_current(row["source_digest"], run.args)}
        for run, row in found
    ]


def _resolved(experiment: Experiment, cell: Cell, seed: int, extra: tuple[str, ...]) -> Run:
    argv = (*cell.argv, *extra, "--seed", str(seed))
    try:
        return Run(cell, seed, argv, settings.resolve(list(argv)).args)
    except ValueError as error:
        raise ValueError(f"{experiment.name}, row {cell.row!r}: {error}") from error


def run_model(cell: Cell) -> str:
    """Return the method that a cell's command line names."""
    return cell.argv[cell.argv.index("--model") + 1] if "--model" in cell.argv else "?"


def results_path(experiment: Experiment, run: Run) -> Path:
    """Return the CSV file that an experiment's rows go to."""
    return experiment.results or records.results_folder(run.args) / f"{experiment.name}.csv"


def collect(experiment: Experiment, runs: Iterable[Run]) -> Path:
    """Bring the rows of all runs that are done into the experiment's CSV file, which a lock guards; returns its path."""
    runs = list(runs)
    path = results_path(experiment, runs[0])
    runs = [run for run in runs if run.is_own(experiment)]
    found = [(record, run.cell) for run in runs if (record := run.record()) and record["status"] == "done"]
    rows = [results.row_of(record, cell.row, cell.column) for record, cell in found]
    variations = [entry for record, cell in found if (entry := results.variation_of(record, cell.row, cell.column))]
    with locked(path):
        results.write_rows(path, results.merge(results.read_rows(path), rows))
        if variations:
            beside = results.variation_path(path)
            results.write_variation(beside, results.merge(results.read_variation(beside), variations))
    return path


# -- running -----------------------------------------------------------------------------------------------------------------


class Sweep:
    """The runs of an experiment while a launcher does them.

    Args:
        experiment: where rows go.
        runs: all of them; identical ones are done once.
        launcher: where they execute.
        live: where progress is shown.
    """

    def __init__(self, experiment: Experiment, runs: Sequence[Run], launcher: Launcher, live: Live) -> None:
        self.experiment = experiment
        self.launcher = launcher
        self.live = live
        self.estimates = Estimates(_folders(runs))
        self.failed: list[str] = []
        self._cells: dict[str, list[Run]] = {}
        for run in runs:
            self._cells.setdefault(run.args.run_id, []).append(run)
        self._by_argv: dict[tuple[str, ...], Run] = {}
        self._open: dict[str, Run] = {}
        self._elsewhere: dict[str, Run] = {}
        self._looked = -slurm.LOOK_EVERY
        self._ended = 0

    def start(self, todo: Iterable[tuple[Run, Job]], elsewhere: Iterable[Run] = ()) -> None:
        """Hand runs to the launcher, identical ones once, and wait for others that somebody has in hand."""
        self._elsewhere |= {run.args.run_id: run for run in elsewhere}
        unique = {run.args.run_id: (run, job) for run, job in reversed(list(todo))}
        chosen = list(reversed(unique.values()))
        self._open |= {run.args.run_id: run for run, _ in chosen}
        self._by_argv |= {run.argv: run for run, _ in chosen}
        self.launcher.add([job for _, job in chosen])

    def tell(self) -> None:
        """Say what the launcher has to say."""
        for notice in self.launcher.notices():
            self.live.say(notice)

    def finish(self, wait: bool = True) -> None:
        """Follow the runs until all have ended.

        Args:
            wait: also for those that somebody else has in hand, and for a cluster.
        """
        self.tell()
        while (self.launcher.busy and (wait or not self.launcher.lasting)) or (wait and self._elsewhere):
            for outcome in self.launcher.poll(1.0):
                self._take(self._by_argv[outcome.argv], outcome)
            self.tell()
            self._look_elsewhere()
            self.live.show(self._picture())
        for run in self._elsewhere.values():
            self.live.say(f"running elsewhere: {run.name}")

    def _take(self, run: Run, outcome: Outcome) -> None:
        """Note how a run ended, and bring its rows in."""
        del self._open[run.args.run_id]
        if outcome.status == ELSEWHERE:
            self._elsewhere[run.args.run_id] = run
            return
        self._ended += 1
        if outcome.status == 0 and run.state() not in ("done", "running"):  # running: a second sweep looks at what is done
            outcome = outcome._replace(status=1, message=f"error: it is not there as planned, {OTHER_CODE}")
        if outcome.status:
            self.failed.append(f"{run.cell.row}, {run.cell.column}, seed {run.seed}: {outcome.message}")
        if outcome.status and outcome.status not in STOPPED and latest(run.folder) is None:  # it failed before it had a record
            records.Record(run.args, ["main.py", *run.argv]).finish("failed", outcome.message.removeprefix("error: "))
        collect(self.experiment, self._cells[run.args.run_id])
        self.estimates.note(run.record_path)
        total = self._ended + len(self._open) + len(self._elsewhere)
        self.live.say(f"[{self._ended}/{total}] {_result(run, outcome)}, {duration(self._seconds_left())} left")

    def _look_elsewhere(self) -> None:
        """Take back the runs that nobody has in hand any more: what was not done is done here, unless code was edited meanwhile."""
        queued = any(slurm.ticket(run.folder) for run in self._elsewhere.values())
        if not self._elsewhere or time.monotonic() - self._looked < (slurm.LOOK_EVERY if queued else 0):
            return
        self._looked = time.monotonic()
        left = []
        for run, job, state in look(list(self._elsewhere.values())):
            if state in IN_HAND:
                continue
            del self._elsewhere[run.args.run_id]
            edited = state == "stale" and records.was_edited(get_model_class(run.args.model), get_dataset_class(run.args.dataset))
            if state not in ("done", "failed") and not edited:
                left.append((run, job))
                continue
            self._open[run.args.run_id] = run
            seen = latest(run.folder)
            reason = seen.reason if seen and state == "failed" else BY_ANOTHER
            self._take(run, Outcome(run.argv, int(state == "failed"), reason))
        self.start(left)

    def _seconds_left(self) -> float | None:
        """Return the time until the launcher's last run ends; None if nothing is known of how long they take."""
        return seconds_left(self._open.values(), self.estimates, self.launcher.width, self._elapsed())

    def _elapsed(self) -> dict[str, float]:
        now = time.monotonic()
        return {self._by_argv[argv].args.run_id: now - since for argv, since in self.launcher.running().items()}

    def _picture(self) -> list[str]:
        """Return the live table: what is done, what runs, how far it is, and the time left."""
        elapsed = self._elapsed()
        waiting = len(self._open) - len(elapsed)
        counts = [f"{self._ended} ended", f"{len(self.failed)} failed", f"{len(elapsed)} running", f"{waiting} waiting"]
        counts += [f"{len(self._elsewhere)} running elsewhere"] if self._elsewhere else []
        lines = [f"{', '.join(counts)}; {duration(self._seconds_left())} left"]
        return lines + [self._line(self._open[run_id], seconds) for run_id, seconds in elapsed.items() if run_id in self._open]

    def _line(self, run: Run, elapsed: float) -> str:
        seen, expected = latest(run.folder), duration(self.estimates.seconds(run.args))
        stage = seen.stage() if seen and seen.status == "running" else ""
        return f"  {run.name:40} {duration(elapsed):>8} of {expected:8} {stage}"


def execute(
    experiment: Experiment,
    runs: list[Run],
    launcher: Launcher,
    states: tuple[str, ...] = TO_DO["run"],
    wait: bool = True,
) -> int:
    """Run those in one of these states; returns the exit status.

    Args:
        experiment: where their rows go.
        runs: all that are looked at.
        launcher: where they execute.
        states: of the runs to do.
        wait: for what another sweep has in hand, and for a cluster.

    Raises:
        ValueError: the launcher refuses them.
        KeyboardInterrupt: Ctrl-C or a signal to stop; the launcher has stopped what ran.
    """
    looked = look(runs)
    todo = [(run, job) for run, job, state in looked if state in states]
    in_hand = [run for run, _, state in looked if state in IN_HAND and "missing" in states]
    with Live(sys.stdout) as live:
        live.say(f"{experiment.title}: {_counts(runs, [run for run, _ in todo], in_hand)}")
        foreign = sum(not run.is_own(experiment) for run, _ in todo)
        if foreign:
            live.say(f"--flags makes other runs of {foreign} of them: they are recorded, but their rows stay out of the table")
        for line in filter(None, map(_whereabouts, in_hand)):
            live.say(line)
        sweep = Sweep(experiment, runs, launcher, live)
        try:
            with stop_signals(), launcher:
                sweep.start(todo, in_hand)
                sweep.finish(wait)
        finally:
            sweep.tell()
    _say(f"rows: {collect(experiment, runs)}")
    for line in sweep.failed:
        sys.stderr.write(f"failed: {line}\n")
    return 1 if sweep.failed else 0


def _whereabouts(run: Run) -> str:
    """Return who has a run in hand, and what to do if not: a process on another machine cannot be looked up. Empty: not known."""
    seen = latest(run.folder)
    if seen is None or seen.status != "running":
        return ""
    process = f"process {seen.provenance.get('pid')} on {seen.provenance.get('host')}"
    return f"in hand elsewhere: {run.name}, {process}; if that is gone, delete {run.folder}"


def _counts(runs: Sequence[Run], todo: Sequence[Run], in_hand: Sequence[Run]) -> str:
    """Return how many runs there are, are skipped, run elsewhere, and are to be done; one that fills several cells counts once."""
    every, left, elsewhere = (len({run.args.run_id for run in some}) for some in (runs, todo, in_hand))
    cells = f" for {len(runs)} cells" if every < len(runs) else ""
    others = f", {elsewhere} running elsewhere" if elsewhere else ""
    return f"{every} runs{cells}, {every - left - elsewhere} skipped{others}, {left} to do"


def _result(run: Run, outcome: Outcome) -> str:
    record = run.record()
    if outcome.status or record is None or record["status"] != "done":
        return f"{run.name}: failed ({outcome.message or f'status {outcome.status}'})"
    whose = f" ({BY_ANOTHER})" if outcome.message == BY_ANOTHER else ""
    return f"{run.name}: ACC {average_accuracy(record['class_il']):.2f} % in {duration(record['provenance']['wall_s'])}{whose}"


# -- looking -----------------------------------------------------------------------------------------------------------------


def _folders(runs: Iterable[Run]) -> set[Path]:
    return {records.results_folder(run.args) for run in runs}


def seconds_left(runs: Iterable[Run], estimates: Estimates, width: int, elapsed: dict[str, float]) -> float | None:
    """Return the time that runs still take; None if there are some and nothing is known of any.

    Args:
        runs: not yet ended; one without an estimate counts as the mean of the others.
        estimates: of their times.
        width: how many go on side by side.
        elapsed: seconds so far, by run id, of those that run now.
    """
    expected = {run.args.run_id: estimates.seconds(run.args) for run in runs}
    known = [seconds for seconds in expected.values() if seconds is not None]
    if not known:
        return None if expected else 0.0
    mean = sum(known) / len(known)
    left = [max(0.0, (mean if total is None else total) - elapsed.get(run_id, 0.0)) for run_id, total in expected.items()]
    return max(sum(left) / width, max(left))


def plan_table(runs: Sequence[Run], width: int) -> str:
    """Return a line a run: state, estimate of its time, command line; and a line on all that is to be done."""
    estimates, states = Estimates(_folders(runs)), states_of(runs)
    lines = []
    for run, state in zip(runs, states, strict=True):
        lines.append(f"{state:12}{duration(estimates.seconds(run.args)):>8}  python main.py {shlex.join(run.argv)}")
    return "\n".join([*lines, _summary(runs, states, estimates, width)])


def status_table(runs: Sequence[Run], width: int = 0) -> str:
    """Return how many runs of each row stand in which state, and the hours left.

    Args:
        runs: to be looked at.
        width: runs side by side; 0: leave the hours out.
    """
    states = states_of(runs)
    rows: dict[str, dict[str, int]] = {}
    for run, state in zip(runs, states, strict=True):
        rows.setdefault(run.cell.row, dict.fromkeys(STATES, 0))[state] += 1
    label = max(24, *(len(row) + 1 for row in rows))
    lines = [f"{'':{label}}" + "".join(f"{state:>12}" for state in STATES)]
    lines += [f"{row:{label}}" + "".join(f"{counts[state]:>12}" for state in STATES) for row, counts in rows.items()]
    if width:
        lines.append(_summary(runs, states, Estimates(_folders(runs)), width))
    return "\n".join(lines)


def _summary(runs: Sequence[Run], states: Sequence[str], estimates: Estimates, width: int) -> str:
    """Return how many runs there are, how many are left, and how long they take; identical ones count once."""
    left = {run.args.run_id: run for run, state in zip(runs, states, strict=True) if state != "done"}
    unknown = sum(estimates.seconds(run.args) is None for run in left.values())
    guess = f" ({unknown} without an estimate)" if 0 < unknown < len(left) else ""
    time_left = duration(seconds_left(left.values(), estimates, width, {}))
    different = len({run.args.run_id for run in runs})
    return f"{len(runs)} cells, {different} different runs, {len(left)} not done: {time_left} left{guess} with {width} side by side"


def _say(text: str) -> None:
    print(text, flush=True)


# -- the command line --------------------------------------------------------------------------------------------------------


def parser() -> ArgumentParser:
    """Return the command line's parser."""
    made = Parser(prog="python -m mammoth.sweep", description="Run, or look at, all runs of an experiment's YAML file.")
    made.add_argument("what", choices=["plan", "run", "status", "retry", "collect"])
    made.add_argument("experiment", type=Path, help="experiments/<name>.yaml")
    made.add_argument("--scale", default="", metavar="NAME", help="a smaller experiment: tiny (on the bundled digits)")
    add_choice_flags(made)
    made.add_argument("--launcher", choices=["local", "slurm"], default="local", help="where runs execute")
    made.add_argument("--no_wait", action="store_true", help="return at once from SLURM; skip what another sweep has in hand")
    _add_local_flags(made.add_argument_group("on this machine"))
    _add_slurm_flags(made.add_argument_group("on SLURM"))
    return made


def add_choice_flags(parser: Any) -> None:
    """Add the flags that choose among an experiment's runs."""
    parser.add_argument("--seeds", default="", metavar="A:B", help="instead of the file's: a count, a range 0:3, or a list 1,5")
    parser.add_argument("--only", default="", metavar="A,B", help="these methods or rows")
    parser.add_argument("--columns", default="", metavar="A,B", help="these columns")
    parser.add_argument("--flags", default="", metavar='"..."', help="flags added to every run, such as --verify_data 0")


def _add_local_flags(group: Any) -> None:
    count = number(int, 0)
    group.add_argument("--jobs", type=count, default=0, metavar="N", help="runs side by side (0: one a core, or a GPU)")
    group.add_argument("--jobs_per_gpu", type=count, default=0, metavar="N", help="runs side by side on each GPU")


def _add_slurm_flags(group: Any) -> None:
    count, default = number(int, 1), slurm.Options()
    group.add_argument("--slurm_partition", default="", metavar="NAME", help="the partition (default: the cluster's)")
    group.add_argument("--slurm_time", default="1440", metavar="TIME", help="limit of a task: minutes, H:MM:SS or D-HH:MM:SS")
    group.add_argument("--slurm_cpus", type=count, default=default.cpus, metavar="N", help="cores, and threads, of a task")
    group.add_argument("--slurm_gpus", type=number(int, 0), default=default.gpus, metavar="N", help="GPUs of a task")
    parallelism, runs = default.array_parallelism, default.runs_per_job
    group.add_argument("--slurm_array_parallelism", type=count, default=parallelism, metavar="N", help="tasks at the same time")
    group.add_argument("--slurm_runs_per_job", type=count, default=runs, metavar="N", help="runs that a task does in turn")
    group.add_argument("--slurm_extra", default="", metavar="A=B,..", help="other options of sbatch: account=me,qos=high")


def make_launcher(asked: Namespace, runs: Sequence[Run]) -> Launcher:
    """Return the launcher that a command line asks for.

    Raises:
        ValueError: it is not to be had here.
    """
    if asked.launcher == "local":
        return local.Pool(local.slots(asked.jobs, asked.jobs_per_gpu))
    options = slurm.Options(
        asked.slurm_partition,
        slurm.read_minutes(asked.slurm_time),
        asked.slurm_cpus,
        asked.slurm_gpus,
        asked.slurm_array_parallelism,
        asked.slurm_runs_per_job,
        slurm.read_extra(asked.slurm_extra),
    )
    return slurm.Array(records.results_folder(runs[0].args), options)


def width(asked: Namespace) -> int:
    """Return how many runs a command line would have side by side."""
    return asked.slurm_array_parallelism if asked.launcher == "slurm" else len(local.slots(asked.jobs, asked.jobs_per_gpu))


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        asked = parser().parse_args(argv)
        experiment = load_experiment(asked.experiment, asked.scale)
        seeds = parse_seeds(asked.seeds) if asked.seeds else ()
        runs = plan(experiment, seeds, asked.only, asked.columns, tuple(shlex.split(asked.flags)))
        return _do(asked, experiment, runs)
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        return 141
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; the same command goes on from here\n")
        return 130


def _do(asked: Namespace, experiment: Experiment, runs: list[Run]) -> int:
    if asked.what in TO_DO:
        return execute(experiment, runs, make_launcher(asked, runs), TO_DO[asked.what], not asked.no_wait)
    if asked.what == "collect":
        _say(f"rows: {collect(experiment, runs)}")
    else:
        _say(plan_table(runs, width(asked)) if asked.what == "plan" else status_table(runs, width(asked)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
