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


def progress_bar(i: int, max_iter: int, epoch: int | str, task_number: int | str, loss: float) -> None:
    """Show how far a loop of a method's own is, on a terminal. Here for upstream's methods, which import it by this name."""
    if sys.stderr.isatty():
        end = "\n" if i + 1 >= max_iter else ""
        sys.stderr.write(f"\rtask {task_number}, epoch {epoch}: {i + 1}/{max_iter}, loss {loss:.3f}{end}")
