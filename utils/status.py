"""A progress bar for each task: loss, rate, time left. Silent when stderr is no terminal or the user wants it so."""

import sys
from typing import Any


class TaskBar:
    """Wraps tqdm; reads the loss (which waits for a GPU) only when the bar is redrawn.

    Args:
        total: steps of the task; task, tasks: its number from 1, and how many there are.
        silent: draw nothing.
    """

    REDRAW_S = 0.3

    def __init__(self, total: int, task: int, tasks: int, silent: bool) -> None:
        self._bar: Any = None
        if not silent and sys.stderr.isatty():
            from tqdm import tqdm  # only where there is something to draw on

            self._bar = tqdm(
                total=total,
                desc=f"task {task}/{tasks}",
                unit="step",
                mininterval=self.REDRAW_S,
                dynamic_ncols=True,
                leave=False,
            )

    def update(self, loss: Any) -> None:
        """Count a step."""
        if self._bar is not None and self._bar.update(1):
            self._bar.set_postfix_str(f"loss {float(loss):.3f}", refresh=False)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.close()
