"""Lines that stay, and below them, on a terminal, a few that are drawn again in place."""

import shutil
from collections.abc import Sequence
from typing import TextIO

CLEAR = "\x1b[{}F\x1b[J"  # up so many lines, then wipe from there


class Live:
    """A console's bottom lines, kept up to date; without a terminal only the lines that stay are written."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.moving = stream.isatty()
        self._drawn = 0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._wipe()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def show(self, lines: Sequence[str]) -> None:
        """Draw these lines in place of those drawn before."""
        if not self.moving:
            return
        size = shutil.get_terminal_size()
        shown = [line[: size.columns - 1] for line in lines[: max(1, size.lines - 2)]]
        self._wipe()
        self.stream.write("".join(f"{line}\n" for line in shown))
        self.stream.flush()
        self._drawn = len(shown)

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wipe()
        self.stream.flush()

    def _wipe(self) -> None:
        if self._drawn:
            self.stream.write(CLEAR.format(self._drawn))
        self._drawn = 0
