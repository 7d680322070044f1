"""Signals that ask a process to stop: each is treated like Ctrl-C, once."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STOP = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # SLURM warns with one of the latter before a time limit


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """In this block a signal to stop raises KeyboardInterrupt, once; later ones are ignored, so that closing is not disturbed.

    A signal that was ignored before (SIGHUP under nohup) stays so. Outside the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in STOP if signal.getsignal(number) is not signal.SIG_IGN]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextlib.contextmanager
def ctrl_c_withheld() -> Iterator[None]:
    """Processes started in this block never see Ctrl-C: a terminal sends it to them too, but their parent stops them in order."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
