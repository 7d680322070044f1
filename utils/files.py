"""Files that are whole or not there, locks between processes, and pickles that cannot execute anything."""

import fcntl
import io
import os
import pickle
import pickletools
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

ABANDONED_S = 600  # since a temporary file was written to last: its writer is gone


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, sync it, and rename it: readers see the old file or the new one, never a part.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file stands.
    """
    data = content.encode() if isinstance(content, str) else content
    write_stream_atomically(path, lambda file: file.write(data))


def write_stream_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """The same for content that a function writes into an open file.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file stands.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o666 & ~_umask())  # a temporary file is private; the result is like any other file
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # there only if something went wrong


def remove_leftovers(folder: Path, idle_s: float = ABANDONED_S) -> None:
    """Remove the temporary files of writers that were killed: those in a folder that nobody has written to for so many seconds."""
    for path in folder.glob(".*.tmp"):
        with suppress(FileNotFoundError):  # one that was renamed meanwhile
            if time.time() - path.stat().st_mtime >= idle_s:
                path.unlink()


# -- locks ---------------------------------------------------------------------------------------------------------------


def try_lock(file: IO[Any], kind: int) -> bool:
    """Lock an open file without waiting; returns False if another process holds it.

    Raises:
        OSError: the file system has no locks; names the file.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(
            error.errno, f"cannot lock it, and without locks runs could be done twice ({error.strerror})", file.name
        ) from error
    return True


@contextmanager
def locked(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock that goes with a file or folder, waiting for it: who reads, changes and writes there does so alone.

    Args:
        waiting: called if another process holds it.

    Raises:
        OSError: the folder cannot be written, or its file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a", encoding="utf-8") as file:
        if not try_lock(file, fcntl.LOCK_EX):
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- pickles -------------------------------------------------------------------------------------------------------------


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Stand in for `_codecs.encode`, by which old pickles spell bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"a pickle of arrays has no use for the codec {encoding!r}")
    return text.encode("latin1")


def _check_memo(data: bytes) -> None:
    """Raise UnpicklingError if a pickle numbers its parts beyond its length: the unpickler would make room for them all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a text with odd escapes is not what is looked for here
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and isinstance(argument, int) and argument > len(data):
                raise pickle.UnpicklingError(f"part number {argument} in {len(data)} bytes")


class _ArrayUnpickler(pickle.Unpickler):
    """Reads numpy arrays, bytes, lists, dicts, str and numbers; refuses whatever else a pickle may name."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.ndarray.__reduce__(np.empty(0))[0]
        if name == "_frombuffer" and module in ("numpy.core.numeric", "numpy._core.numeric"):
            return np.ndarray.__reduce_ex__(np.empty(1), 5)[0]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only plain arrays are admitted")


def read_array_pickle(path: Path) -> dict[str, Any]:
    """Read a pickled dict of plain arrays and lists, as CIFAR's files are. Nothing in it can be executed.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is truncated, corrupt, no dict, or asks for anything but plain data; names the file.
    """
    try:
        data = path.read_bytes()
        _check_memo(data)
        content = _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, SystemError,
            ImportError, MemoryError, OverflowError, UnicodeDecodeError) as error:  # fmt: skip
        raise ValueError(f"{path} is corrupt or truncated: {str(error).splitlines()[0] if str(error) else error!r}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is corrupt: it holds a {type(content).__name__}, not a dict")
    return content
