"""Requests to stop a run: the step at hand is finished and the state saved before it ends."""

import signal
import threading
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # SLURM warns with one of the last two


class Interrupted(KeyboardInterrupt):
    """A run that stopped because it was asked to, in good order.

    Args:
        number: the signal.
        message: where the state is and how to go on; None if nothing was saved.
    """

    def __init__(self, number: int, message: str | None) -> None:
        super().__init__(message or "")
        self.message = message
        self.status = 130 if number == signal.SIGINT else 143


class StopRequest:
    """In this block a first signal to stop is noted in `number`; a second Ctrl-C raises KeyboardInterrupt at once.

    A signal that was ignored before stays so. Outside the main thread nothing changes.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Take a request to stop."""
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = self.number or number

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            taken = [number for number in STOP if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self.note) for number in taken}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # type: ignore[arg-type]
