"""One run of a sweep, done once, whoever else is at it: claim its folder, look at its record again, run, let go.

A claim is a lock (flock) on the file `claim` in the run's folder. The kernel lets go of it however its process ends, so a run
whose record says `running` while nobody holds the claim was killed. The file stays; it names the last holder.
"""

import contextlib
import fcntl
import os
import platform
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from mammoth import records
from utils.files import remove_leftovers, try_lock

INTERRUPTED = 130
STOPPED = (INTERRUPTED, 143)  # by Ctrl-C, by another signal
ELSEWHERE = 75  # EX_TEMPFAIL: another process has this run
BY_ANOTHER = "done elsewhere"
RECORDS = ("record.json", "rerun.json")


class Outcome(NamedTuple):
    """How a command line ended: an exit status of `main.py`, or `ELSEWHERE`."""

    argv: tuple[str, ...]
    status: int
    message: str


class Job(NamedTuple):
    """A command line to run.

    Args:
        argv: the words after `main.py`.
        log: where its output goes; its folder is the run's, named by the run's id.
        seen: `stamp` of the run's folder when the run was decided on; if it has changed since, somebody else was here.
        checkpoints: the folder of the run's checkpoints, from which it goes on if there are any; None: it always begins anew.
    """

    argv: tuple[str, ...]
    log: Path
    seen: int | None = None
    checkpoints: Path | None = None


class Launcher(Protocol):
    """What a sweep needs of the place where its runs execute; a context manager that stops what still runs at its end."""

    lasting: bool  # whether runs go on when the launcher is gone

    @property
    def width(self) -> int:
        """How many runs go on side by side."""

    @property
    def busy(self) -> bool:
        """Whether any job has no outcome yet."""

    def add(self, jobs: Iterable[Job]) -> None:
        """Take jobs."""

    def running(self) -> dict[tuple[str, ...], float]:
        """Return what runs now, and since when (`time.monotonic`)."""

    def poll(self, timeout: float) -> list[Outcome]:
        """Return what ended; waits up to `timeout` seconds for the first."""

    def notices(self) -> list[str]:
        """Return what the user should know, since this was last asked."""

    def __enter__(self) -> "Launcher": ...

    def __exit__(self, *exc_info: object) -> None: ...


# -- claims ----------------------------------------------------------------------------------------------------------------


class Claim:
    """The right to work on a run, for as long as the `with` block lasts; `held` says whether it was granted.

    Args:
        folder: the run's; made if it is not there.
        patience: seconds to try for, because someone who only looks whether a run is claimed holds it for an instant.
    """

    def __init__(self, folder: Path, patience: float = 0.5) -> None:
        self.path = folder / "claim"
        self.patience = patience
        self.held = False
        self._file: IO[str] | None = None

    def __enter__(self) -> "Claim":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")
        deadline = time.monotonic() + self.patience
        while not (held := try_lock(self._file, fcntl.LOCK_EX)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if held:
            self._file.write(f"{platform.node()} {os.getpid()}\n")
            self._file.flush()
        self.held = held
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.held = False
        if self._file is not None:
            self._file.close()


def claimed(folder: Path) -> bool:
    """Whether a process holds the claim on this run's folder now."""
    try:
        with (folder / "claim").open(encoding="utf-8") as file:
            return not try_lock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def holders(folder: Path) -> list[str]:
    """Return `host pid` of each process that ever claimed this folder, the last one last."""
    try:
        return (folder / "claim").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


# -- what a record says -------------------------------------------------------------------------------------------------------


class Glance(NamedTuple):
    """What a sweep wants to know of a record, without its matrices."""

    status: str
    args: dict[str, Any]
    stages: int
    tasks: int
    provenance: dict[str, Any]
    reason: str
    images: str  # what kind they are: original, recompressed, ...

    def stage(self) -> str:
        """Say how far a run is; empty if it has not begun its first task."""
        return f"task {min(self.stages + 1, self.tasks)} of {self.tasks}" if self.tasks else ""


def stamp(folder: Path) -> int | None:
    """Return a number that changes whenever a run's record is written anew; None if there is none."""
    stamps = [_stamp(folder / name) for name in RECORDS]
    return None if stamps == [None, None] else sum(number or 0 for number in stamps)


def _stamp(path: Path) -> int | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns ^ status.st_ino


def latest(folder: Path) -> Glance | None:
    """Return what the last attempt at a run says: the record, or the rerun that may replace one of older code."""
    return glance(folder / "rerun.json") or glance(folder / "record.json")


def glance(path: Path) -> Glance | None:
    """Return what a record says, if there is a whole one."""
    seen = _stamp(path)
    return None if seen is None else _glance(path, seen)


@cache
def _glance(path: Path, seen: int) -> Glance | None:
    try:
        record = records.read_record(path)
    except (FileNotFoundError, ValueError):
        return None
    tasks = len(record.get("task_sizes") or ())
    reason, images = record.get("reason", ""), (record.get("data") or {}).get("kind", "")
    return Glance(record["status"], record["args"], len(record["class_il"]), tasks, record["provenance"], reason, images)


def is_alive(seen: Glance, folder: Path) -> bool:
    """Whether the process that writes a running record is still there, given that nobody holds the claim.

    One that once held it is not; one that never did (`python main.py` by hand) is looked up by its pid.
    """
    provenance = seen.provenance
    if f"{provenance['host']} {provenance['pid']}" in holders(folder):
        return False
    return records.is_alive({"provenance": provenance})


def settled(job: Job) -> Outcome | None:
    """Return what somebody else made of a run since it was decided on; None if it is still to be done.

    To be asked by who holds the claim, or when nobody does.
    """
    folder = job.log.parent
    seen = latest(folder)
    if seen is None or stamp(folder) == job.seen:
        return None
    if seen.status == "running" and is_alive(seen, folder):
        return Outcome(job.argv, ELSEWHERE, f"running elsewhere (pid {seen.provenance['pid']})")
    outcomes = {"done": Outcome(job.argv, 0, BY_ANOTHER), "failed": Outcome(job.argv, 1, f"error: {seen.reason}")}
    return outcomes.get(seen.status)


# -- doing it ----------------------------------------------------------------------------------------------------------------


def execute(argv: tuple[str, ...], log: Path, heading: str = "") -> Outcome:
    """Run one command line in this process, its output going to a log file; never raises for a run's own failure.

    Args:
        heading: stands above the output.
    """
    from mammoth.cli import main

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        file.write(heading)
        status = main(list(argv), run_id=log.parent.name)
    lines = log.read_text(encoding="utf-8").strip().splitlines()
    return Outcome(argv, status, next((line for line in reversed(lines) if line.startswith("error: ")), ""))


def perform(job: Job, device: str = "") -> Outcome:
    """Do a run in this process, unless another process has it or has done it meanwhile.

    Args:
        job: the run.
        device: where, unless the command line says; empty: not said.

    Raises:
        OSError: the run's folder cannot be written or locked.
    """
    folder = job.log.parent
    with Claim(folder) as claim:
        if not claim.held:
            return Outcome(job.argv, ELSEWHERE, f"running elsewhere ({(holders(folder) or ['?'])[-1]})")
        found = settled(job)
        if found is not None:
            return found
        remove_leftovers(folder, 0)  # who wrote here before has let go of the claim
        outcome = _go_on((*job.argv, *_pin(job.argv, device)), job)._replace(argv=job.argv)
        if outcome.status not in STOPPED:  # SLURM may put one that it stopped back into the queue
            (folder / "queued").unlink(missing_ok=True)
        return outcome


def _go_on(argv: tuple[str, ...], job: Job) -> Outcome:
    """Run a command line, from the run's newest checkpoint if there is one; where none can be used it begins anew."""
    if job.checkpoints is None or next(job.checkpoints.glob("*.pt"), None) is None:
        return execute(argv, job.log)
    outcome = execute((*argv, "--resume", "auto"), job.log)
    if outcome.status != 2:
        return outcome
    why = outcome.message.removeprefix("error: ")
    return execute(argv, job.log, f"the checkpoints in {job.checkpoints} are of no use, so the run begins anew: {why}\n")


def _pin(argv: tuple[str, ...], device: str) -> tuple[str, ...]:
    said = any(word.split("=", 1)[0] == "--device" for word in argv)
    return ("--device", device) if device and not said else ()


__all__ = [
    "BY_ANOTHER", "ELSEWHERE", "INTERRUPTED", "STOPPED", "Claim", "Glance", "Job", "Launcher", "Outcome", "claimed", "execute",
    "glance", "holders", "is_alive", "latest", "perform", "settled", "stamp",
]  # fmt: skip
