"""Runs on a SLURM cluster, as a job array submitted by submitit (optional: `pip install -r requirements-slurm.txt`).

An array task runs a worker as on this machine (`local`): claims, retries and logs are the same. SLURM's warning before a time limit
and its SIGTERM interrupt the run at hand, whose record is closed; the next `run` does it again. Until its task begins, a run's
folder holds a file `queued` with the task's name, which `queue` looks for.
"""

import contextlib
import getpass
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mammoth.launchers import local
from mammoth.launchers.jobs import INTERRUPTED, Job, Outcome, claimed, settled
from mammoth.launchers.signals import stop_signals
from utils.files import write_atomically
from utils.yaml_files import ROOT

LOOK_EVERY = 5.0  # seconds between two looks at the queue
USUAL = ("None", "Priority", "Resources", "JobArrayTaskLimit", "Dependency", "BeginTime", "Cleaning")  # no news
MISSING_FOR = 15.0  # seconds for which a task may be out of the queue before its result arrives over a shared file system


@dataclass(frozen=True)
class Options:
    """What the jobs ask of SLURM.

    Args:
        partition: empty: the cluster's default.
        minutes: time limit of a task.
        cpus: of a task; each run takes as many threads.
        gpus: of a task.
        array_parallelism: tasks at the same time, at most.
        runs_per_job: runs that a task does, one after another.
        extra: further options of sbatch, such as `account` and `qos`.
    """

    partition: str = ""
    minutes: int = 24 * 60
    cpus: int = 1
    gpus: int = 0
    array_parallelism: int = 256
    runs_per_job: int = 1
    extra: dict[str, str] = field(default_factory=dict)


def read_minutes(text: str) -> int:
    """Read a time limit: minutes, `hours:minutes:seconds` or `days-hours[:minutes[:seconds]]`, as SLURM does; at least a minute.

    Raises:
        ValueError: anything else.
    """
    found = re.fullmatch(r"(?:(\d+)-(\d+)(?::(\d+)(?::\d+)?)?|(\d+):(\d+):\d+|(\d+))", text)
    if found is None:
        raise ValueError(f"{text!r} is no time limit; give minutes (90), H:MM:SS (1:30:00) or D-HH:MM:SS (1-00:00:00)")
    days, day_hours, day_minutes, hours, minutes, plain = (int(group or 0) for group in found.groups())
    return max(1, days * 1440 + (day_hours + hours) * 60 + day_minutes + minutes + plain)


def read_extra(text: str) -> dict[str, str]:
    """Read further options of sbatch: `account=me,qos=high`.

    Raises:
        ValueError: a word without a value.
    """
    words = [word.partition("=") for word in text.split(",") if word]
    for name, equals, _ in words:
        if not equals or not name:
            raise ValueError(f"{text!r}: give NAME=VALUE,NAME=VALUE as in account=me,qos=high")
    return {name.strip().removeprefix("--"): value.strip() for name, _, value in words}


# -- on the cluster's node -----------------------------------------------------------------------------------------------------


def run_chunk(jobs: Sequence[Job], threads: int) -> list[Outcome]:
    """Do runs one after another, in an array task; those that a signal keeps from being done end as interrupted."""
    outcomes: list[Outcome] = []
    with stop_signals(), contextlib.suppress(KeyboardInterrupt), local.Pool([""], threads) as pool:
        pool.add(jobs)
        while pool.busy:
            outcomes += pool.poll(1.0)
    done = {outcome.argv for outcome in outcomes}
    return outcomes + [Outcome(job.argv, INTERRUPTED, "error: interrupted by SLURM") for job in jobs if job.argv not in done]


# -- the queue ---------------------------------------------------------------------------------------------------------------


def queue() -> dict[str, str] | None:
    """Return what each of the user's array tasks waits for, by `id name` (`None`: it runs); nothing where there is no SLURM.

    None if the queue does not answer.
    """
    if shutil.which("squeue") is None:
        return {}
    command = ["squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%i %j %r"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    lines = [line.split(maxsplit=2) for line in listed.splitlines()]
    return {f"{words[0]} {words[1]}": words[2] for words in lines if len(words) == 3}


def ticket(folder: Path) -> str:
    """Return the `id name` of the array task that a run waits for; empty if it waits for none."""
    try:
        return (folder / "queued").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


@dataclass
class _Task:
    """An array task that has been submitted: submitit's handle, its runs, and since when the queue has not listed it."""

    handle: Any
    jobs: list[Job]
    absent_since: float | None = None


class Array:
    """Runs as the tasks of job arrays. Leaving the `with` block leaves the tasks in the queue.

    Args:
        folder: of the results, shared by all nodes; logs of the tasks go to `slurm/` in it.
        options: what the tasks ask for.

    Raises:
        ValueError: no submitit, or no SLURM on this machine.
    """

    lasting = True

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder / "slurm" / "%j"
        self.options = options
        self.name = f"mammoth-{secrets.token_hex(4)}"
        self._submitit = _import_submitit()
        self._tasks: list[_Task] = []
        self._since: dict[tuple[str, ...], float] = {}
        self._looked = 0.0
        self._notices: list[str] = []
        self._reasons = set(USUAL)

    @property
    def width(self) -> int:
        """How many runs go on side by side, at most."""
        return max(1, min(self.options.array_parallelism, len(self._tasks)))

    @property
    def busy(self) -> bool:
        """Whether any job has no outcome yet."""
        return bool(self._tasks)

    def add(self, jobs: Iterable[Job]) -> None:
        """Submit jobs as one array.

        Raises:
            ValueError: SLURM refuses; says what it says.
        """
        todo, size = list(jobs), self.options.runs_per_job
        chunks = [todo[start : start + size] for start in range(0, len(todo), size)]
        if not chunks:
            return
        executor = self._executor()
        refusals = (self._submitit.core.utils.FailedJobError, self._submitit.core.utils.FailedSubmissionError)
        try:
            handles = executor.map_array(run_chunk, chunks, [self.options.cpus] * len(chunks))
        except refusals as error:
            lines = [line.strip() for line in str(error).splitlines() if "sbatch: error" in line]
            raise ValueError(f"SLURM refuses the jobs: {'; '.join(lines) or error}") from error
        number = handles[0].job_id.split("_")[0]
        self._notices.append(f"submitted to SLURM as job {number}: {len(todo)} runs in {len(chunks)} tasks; logs: {self.folder}")
        for handle, chunk in zip(handles, chunks, strict=True):
            self._tasks.append(_Task(handle, chunk))
            for job in chunk:
                _queue_up(job.log.parent, f"{handle.job_id} {self.name}")

    def _executor(self) -> Any:
        options, paths = self.options, [str(ROOT), "${PYTHONPATH:-}"]
        executor = self._submitit.SlurmExecutor(folder=self.folder)
        asked: dict[str, Any] = {"job_name": self.name, "time": options.minutes, "cpus_per_task": options.cpus}
        asked |= {"partition": options.partition} if options.partition else {}
        asked |= {"gpus_per_node": options.gpus} if options.gpus else {}
        executor.update_parameters(
            **asked,
            array_parallelism=options.array_parallelism,
            additional_parameters=dict(options.extra),
            setup=[f"export PYTHONPATH={shlex.quote(paths[0])}:{paths[1]}"],
        )
        return executor

    def running(self) -> dict[tuple[str, ...], float]:
        """Return what runs now, and since when (`time.monotonic`): the runs whose claims are held."""
        for task in self._tasks:
            for job in task.jobs:
                if job.argv not in self._since and claimed(job.log.parent):
                    self._since[job.argv] = time.monotonic()
        return dict(self._since)

    def poll(self, timeout: float) -> list[Outcome]:
        """Return what ended; waits `timeout` seconds if nothing has."""
        self._look()
        ended = [task for task in self._tasks if self._has_ended(task)]
        if not ended:
            time.sleep(timeout)
        outcomes = [outcome for task in ended for outcome in self._outcomes(task)]
        self._tasks = [task for task in self._tasks if task not in ended]
        for outcome in outcomes:
            self._since.pop(outcome.argv, None)
        return outcomes

    def _look(self) -> None:
        """Ask the queue, now and then, and note which tasks it no longer lists."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        listed = queue()
        if listed is None:
            return
        for task in self._tasks:
            reason = listed.get(f"{task.handle.job_id} {self.name}")
            if reason is None:
                task.absent_since = task.absent_since or self._looked
                continue
            task.absent_since = None
            if reason not in self._reasons:
                self._reasons.add(reason)
                self._notices.append(f"SLURM holds job {task.handle.job_id} back: {reason}")

    def _has_ended(self, task: _Task) -> bool:
        """Whether a task is over: its result is there, or it has left the queue.

        A result that says only that SLURM stopped it counts when it has left the queue too: it may begin again.
        """
        if task.absent_since is not None and time.monotonic() - task.absent_since > MISSING_FOR:
            return True
        if not task.handle.paths.result_pickle.exists():
            return False
        return task.handle.exception() is not None or any(outcome.status != INTERRUPTED for outcome in task.handle.result())

    def _outcomes(self, task: _Task) -> list[Outcome]:
        """Return how a task's runs ended; what it does not say itself is in the records."""
        if not task.handle.paths.result_pickle.exists():
            return [self._lost(job, task, "without a word") for job in task.jobs]
        error = task.handle.exception()
        if error is None:
            return list(task.handle.result())
        return [self._lost(job, task, str(error).strip().splitlines()[-1]) for job in task.jobs]

    def _lost(self, job: Job, task: _Task, why: str) -> Outcome:
        (job.log.parent / "queued").unlink(missing_ok=True)
        reason = f"error: SLURM ended job {task.handle.job_id} ({why}); see {task.handle.paths.stderr}"
        return settled(job) or Outcome(job.argv, INTERRUPTED, reason)

    def notices(self) -> list[str]:
        """Return what the user should know, since this was last asked: job ids, why SLURM holds tasks back."""
        told, self._notices = self._notices, []
        return told

    def __enter__(self) -> "Array":
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Leave the tasks where they are: SLURM does them without us."""
        ids = sorted({task.handle.job_id.split("_")[0] for task in self._tasks})
        if ids:
            self._notices.append(f"left to SLURM: job {' '.join(ids)} (to take it back: scancel {' '.join(ids)})")


def _queue_up(folder: Path, where: str) -> None:
    """Note which task a run waits for, unless that task has begun already."""
    folder.mkdir(parents=True, exist_ok=True)
    if not claimed(folder):
        write_atomically(folder / "queued", where)


def _import_submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise ValueError("--launcher slurm needs submitit: pip install -r requirements-slurm.txt") from error
    missing = [name for name in ("sbatch", "srun", "squeue") if shutil.which(name) is None]
    if missing:
        raise ValueError(f"--launcher slurm: no {missing[0]} on this machine; start the sweep where jobs are submitted")
    return submitit


__all__ = ["Array", "Options", "queue", "read_extra", "read_minutes", "run_chunk", "ticket"]
