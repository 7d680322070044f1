"""A memory whose owner decides which slot each row takes."""

from typing import Any

from torch import Tensor

from utils.buffer import Buffer


class PlacedBuffer(Buffer):
    """A memory without a rule of its own: `put` writes rows where it is told."""

    def put(self, slots: dict[int, int], seen: int, **columns: Tensor) -> None:
        """Write rows into slots, and count what the stream brought.

        Args:
            slots: {slot: row of the columns}. Free slots must be taken in order.
            seen: how many rows of the stream were offered, kept or not.
            columns: examples, labels, ... (batch, ...) each.
        """
        self.num_seen_examples += seen
        if slots:
            self._write(columns, slots)

    def add_data(self, *columns: Any, **named: Any) -> None:
        """Refuse: without a rule there is no slot for the rows.

        Raises:
            TypeError: always.
        """
        raise TypeError("this memory has no rule of its own: use put(slots, seen, ...)")
