"""How many threads a run takes: all cores for a run alone, a fair share beside others.

Two runs with two threads each on two cores are ten times slower, not two: OpenMP's threads spin while they wait. So each run holds
a lock on a file of its own while it lives, and a new run shares the cores with those that it finds.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

SPIN = "1000"  # GNU OpenMP's waiting loop: short enough to share a core, long enough to cost a run alone little


def prepare_environment() -> None:
    """Shorten OpenMP's waiting loop, unless the user set it. Must run before torch is imported."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RunSlot:
    """A lock file that shows other processes of this user that a run is alive; let go when the process ends, however it ends."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.gettempdir()) / f"mammoth-runs-{os.getuid()}"
        self._file: IO[str] | None = None

    def others(self) -> int:
        """Count the other runs alive; removes the files of those that ended."""
        alive = 0
        for path in self.folder.glob("*.lock"):
            if path.name == f"{os.getpid()}.lock":
                continue
            try:
                with path.open("r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink(missing_ok=True)
            except BlockingIOError:
                alive += 1
            except OSError:  # vanished, or another user's
                continue
        return alive

    def __enter__(self) -> "RunSlot":
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            file = (self.folder / f"{os.getpid()}.lock").open("w")
        except OSError:  # a temporary folder that cannot be written costs the sharing, not the run
            return self
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = file
        except BlockingIOError:  # another run of this very process holds it
            file.close()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._file is not None:
            Path(self._file.name).unlink(missing_ok=True)
            self._file.close()


def choose_threads(asked: int, others: int, cores: int | None = None) -> int:
    """Return the number of threads for a run.

    Args:
        asked: `--threads`; 0 means: choose. Then OMP_NUM_THREADS decides if set, else the cores are shared with `others`.
        others: runs alive beside this one.
        cores: cores at hand.
    """
    if asked > 0:
        return asked
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    return max(1, (cores or available_cores()) // (1 + others))
