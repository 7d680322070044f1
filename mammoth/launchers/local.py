"""Runs side by side on this machine: one process a core (or GPU), one thread each, each taking run after run."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from mammoth.launchers.jobs import INTERRUPTED, STOPPED, Job, Outcome, execute
from mammoth.launchers.signals import ctrl_c_withheld
from mammoth.launchers.worker import GRACE, read_outcome, to_line
from utils.threads import available_cores
from utils.yaml_files import ROOT

WORKER = (sys.executable, "-m", "mammoth.launchers.worker")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def slots(jobs: int = 0, jobs_per_gpu: int = 0) -> list[str]:
    """Return one device for each worker; an empty one leaves the choice to the run.

    Args:
        jobs: workers; 0: as many as cores, or, where there are GPUs, as GPUs times `jobs_per_gpu`.
        jobs_per_gpu: workers on each GPU; 0: one.

    Raises:
        ValueError: `jobs_per_gpu` without a GPU.
    """
    from torch import cuda

    gpus = cuda.device_count()
    if jobs_per_gpu and not gpus:
        raise ValueError(f"--jobs_per_gpu {jobs_per_gpu}: no GPU here; give --jobs instead")
    if not gpus:
        return [""] * (jobs or available_cores())
    return [f"cuda:{number % gpus}" for number in range(jobs or gpus * (jobs_per_gpu or 1))]


class Worker:
    """A process that does one run after another, seen from its parent."""

    def __init__(self, device: str, threads: int, command: Sequence[str]) -> None:
        with ctrl_c_withheld():
            self.process = subprocess.Popen(
                [*command, str(os.getpid()), device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(threads)
            )
        self.job: Job | None = None
        self.since = 0.0

    def give(self, job: Job) -> None:
        """Hand it a job; if it is dead already, `take` will say so."""
        self.job, self.since = job, time.monotonic()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(to_line(job))
            self.process.stdin.flush()

    def take(self) -> Outcome | None:
        """Return its outcome; None if the process has ended without one. Waits for either."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return read_outcome(line) if line.endswith(b"\n") else None

    def dismiss(self) -> None:
        """Tell it that nothing more comes, and to stop what it is at."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.job is not None:
            self.process.terminate()

    def bury(self, deadline: float = 0.0) -> int:
        """Wait for its end, not longer than `deadline` (`time.monotonic`), then kill it; returns the exit status."""
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        return self.process.wait()


def _environment(threads: int) -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONPATH": os.pathsep.join(paths)}


class Pool:
    """Workers that take runs. One that is killed fails its own run only, and not before a second try in a new process.

    Args:
        devices: one for each worker (`slots`).
        threads: that each worker's numerical libraries take.
        command: what starts a worker; its parent's pid and device are appended.
    """

    lasting = False

    def __init__(self, devices: Sequence[str], threads: int = 1, command: Sequence[str] = WORKER) -> None:
        self.devices = tuple(devices)
        self.threads = threads
        self.command = command
        self._waiting: deque[Job] = deque()
        self._workers: dict[int, Worker] = {}
        self._tried: set[tuple[str, ...]] = set()
        self._notices: list[str] = []

    @property
    def width(self) -> int:
        """How many runs go on side by side."""
        return len(self.devices)

    @property
    def busy(self) -> bool:
        """Whether any job has no outcome yet."""
        return bool(self._waiting or self.running())

    def add(self, jobs: Iterable[Job]) -> None:
        """Take jobs."""
        self._waiting.extend(jobs)

    def running(self) -> dict[tuple[str, ...], float]:
        """Return what runs now, and since when (`time.monotonic`)."""
        return {worker.job.argv: worker.since for worker in self._workers.values() if worker.job is not None}

    def poll(self, timeout: float) -> list[Outcome]:
        """Return what ended; waits up to `timeout` seconds for the first."""
        self._hand_out()
        listening: dict[Any, int] = {worker.process.stdout: slot for slot, worker in self._workers.items() if worker.job}
        if not listening:
            time.sleep(timeout)
            return []
        outcomes = [self._receive(listening[stream]) for stream in wait(list(listening), timeout)]
        self._hand_out()
        return [outcome for outcome in outcomes if outcome is not None]

    def _hand_out(self) -> None:
        for slot, device in enumerate(self.devices):
            if self._waiting and slot not in self._workers:
                self._workers[slot] = Worker(device, self.threads, self.command)
            if self._waiting and self._workers[slot].job is None:
                self._workers[slot].give(self._waiting.popleft())

    def _receive(self, slot: int) -> Outcome | None:
        """Return how a worker's run ended; None if its process was killed and the run is to be tried again."""
        worker = self._workers[slot]
        job, outcome = worker.job, worker.take()
        assert job is not None
        worker.job = None
        if outcome is not None and outcome.status not in STOPPED:
            return outcome
        status = self._workers.pop(slot).bury(time.monotonic() + GRACE)
        if outcome is not None or status == INTERRUPTED:
            return Outcome(job.argv, INTERRUPTED, "error: interrupted by a signal to its process")
        if status >= 0:
            return Outcome(job.argv, 1, f"error: its process ended with status {status}: {_last_line(job.log)}")
        if job.argv in self._tried:
            return Outcome(job.argv, 1, f"error: its process was killed ({signal.Signals(-status).name}), twice")
        self._tried.add(job.argv)
        self._notices.append(f"killed ({signal.Signals(-status).name}), trying it again: {job.log.parent.name}")
        self._waiting.append(job)
        return None

    def notices(self) -> list[str]:
        """Return what the user should know, since this was last asked."""
        told, self._notices = self._notices, []
        return told

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop all workers: they close their records; one that takes too long is killed."""
        for worker in self._workers.values():
            worker.dismiss()
        deadline = time.monotonic() + GRACE
        for worker in self._workers.values():
            worker.bury(deadline)
        self._workers.clear()


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "no log"
    return lines[-1] if lines else "an empty log"


def run_all(
    jobs: Iterable[tuple[tuple[str, ...], Path] | Job], workers: int = 0, threads: int = 1, command: Sequence[str] = WORKER
) -> Iterator[Outcome]:
    """Run command lines, yielding each outcome as it comes; a worker that dies fails its own run, and the rest go on.

    Args:
        jobs: (command line, log file) each; the log's folder is the run's.
        workers: processes side by side; 0: `slots`.
        threads: of each.
        command: what starts a worker.
    """
    todo = [Job(*job) for job in jobs]
    with Pool(slots(workers)[: len(todo)], threads, command) as pool:
        pool.add(todo)
        while pool.busy:
            yield from pool.poll(1.0)


__all__ = ["Outcome", "Pool", "execute", "run_all", "slots"]
