"""A worker: a process that imports once and takes run after run. Started by `local.Pool`, never by hand.

Jobs come as JSON lines on stdin, outcomes go as JSON lines to stdout; end of file ends it. A signal to stop, or its parent's
death, interrupts the run at hand, which saves its state and closes its record as interrupted. An exception that a run lets escape
ends the worker, with the traceback in the run's log, so that the next run starts in a fresh process.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from mammoth.launchers import jobs
from mammoth.launchers.jobs import INTERRUPTED, STOPPED, Job, Outcome
from mammoth.launchers.signals import stop_signals

GRACE = 10.0  # seconds from a signal to stop until the process is killed


def to_line(message: Job | Outcome) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message, default=str).encode() + b"\n"


def read_job(line: bytes) -> Job:
    """Read a job from a line."""
    argv, log, seen, checkpoints = json.loads(line)
    return Job(tuple(argv), Path(log), seen, Path(checkpoints) if checkpoints else None)


def read_outcome(line: bytes) -> Outcome:
    """Read an outcome from a line."""
    argv, status, message = json.loads(line)
    return Outcome(tuple(argv), status, message)


def serve(parent: int, device: str = "", perform: Callable[[Job, str], Outcome] = jobs.perform) -> int:
    """Take jobs from stdin until it ends; returns the exit status.

    Args:
        parent: pid of the process that sends the jobs; when it is gone, the worker ends.
        device: where runs compute, such as `cuda:1`; empty: their own choice.
        perform: what does a job.
    """
    channel = _private_stdout()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    with stop_signals():
        try:
            for line in iter(sys.stdin.buffer.readline, b""):
                outcome = _attempt(perform, read_job(line), device)
                channel.write(to_line(outcome))
                channel.flush()
                if outcome.status in STOPPED:
                    break
        except (KeyboardInterrupt, BrokenPipeError):
            return INTERRUPTED
    return 0


def _attempt(perform: Callable[[Job, str], Outcome], job: Job, device: str) -> Outcome:
    """Do a job; a folder that cannot be written is its failure."""
    try:
        _send_output_to(job.log)
        return perform(job, device)
    except OSError as error:
        return Outcome(job.argv, 1, f"error: {error}")


def _private_stdout() -> IO[bytes]:
    """Keep stdout for outcomes: whatever else is printed goes to stderr."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def _send_output_to(log: Path) -> None:
    """Send what libraries and a crash write past Python's own streams to the end of a run's log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def _watch(parent: int) -> None:
    """Wait for the parent's death, then stop the run at hand; kill the process if that takes too long."""
    while os.getppid() == parent:
        time.sleep(0.5)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1]), sys.argv[2]))
