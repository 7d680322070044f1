"""Runs side by side on this machine: one process a core, one thread each, each taking run after run."""

import contextlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from utils.threads import available_cores


class Outcome(NamedTuple):
    """How a command line ended."""

    argv: tuple[str, ...]
    status: int
    message: str


def execute(argv: tuple[str, ...], log: Path) -> Outcome:
    """Run one command line in this process, its output going to a log file; never raises for a run's own failure."""
    from mammoth.cli import main

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        status = main(list(argv))
    lines = log.read_text(encoding="utf-8").strip().splitlines()
    return Outcome(argv, status, next((line for line in reversed(lines) if line.startswith("error: ")), ""))


def _one_thread() -> None:
    """Begin a worker: SIGINT is the parent's affair, and numerical libraries take one thread."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_all(jobs: Sequence[tuple[tuple[str, ...], Path]], workers: int = 0) -> Iterator[Outcome]:
    """Run command lines, yielding each outcome as it comes; a worker that dies fails its own run, and the rest go on.

    Args:
        jobs: (command line, log file) each.
        workers: processes side by side; 0: as many as cores.
    """
    waiting = list(jobs)
    count = max(1, min(workers or available_cores(), len(waiting)))
    threads = str(max(1, available_cores() // count)) if count == 1 else "1"
    attempts: dict[tuple[str, ...], int] = {}
    while waiting:
        with _environment(OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", threads)):
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(count, mp_context=context, initializer=_one_thread) as pool:
                futures = {pool.submit(execute, *job): job for job in waiting}
                lost = []
                for future in as_completed(futures):
                    job = futures[future]
                    outcome = _outcome(future, job[0])
                    if outcome is None and attempts.setdefault(job[0], 0) < 1:
                        attempts[job[0]] += 1
                        lost.append(job)
                    else:
                        yield outcome or Outcome(job[0], 1, "error: its process was killed, twice")
                waiting = lost


def _outcome(future: "Future[Outcome]", argv: tuple[str, ...]) -> Outcome | None:
    """Return how a run ended; None if its process (or a neighbour in the pool) was killed."""
    try:
        return future.result()
    except BrokenProcessPool:
        return None
    except OSError as error:
        return Outcome(argv, 1, f"error: {error}")


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables for the processes started in this block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


__all__ = ["Outcome", "execute", "run_all"]
