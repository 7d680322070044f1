"""Image files to uint8 tensors: decoded in parallel, whatever their mode, and kept in one cache file until a source changes."""

import errno
import hashlib
import os
import pickle
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from utils.files import write_atomically, write_stream_atomically
from utils.loggers import LOG

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
LEAST_OF_16_BITS = 4096  # a brighter pixel must be there: greys of 12 bits or fewer would come out black
LARGEST_SIDE = 30_000  # pixels
LARGEST_AREA = 100_000_000  # pixels: what a decoded image may take in memory, before it is made small
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, TypeError, IndexError, KeyError, RuntimeError, struct.error, zlib.error)


class Decoded(NamedTuple):
    """What became of a list of files."""

    images: Tensor  # (n, height, width, channels) uint8
    kept: list[int]  # index of each image's file in the list
    bad: list[tuple[Path, str]]  # the others, and why

    def bad_names(self) -> list[tuple[str, str]]:
        """Return absolute paths of the files that cannot be read, and why: what a cache keeps of them."""
        return [(str(path.absolute()), reason) for path, reason in self.bad]


def read_image(path: Path, size: tuple[int, int] | None, channels: int) -> np.ndarray:
    """Decode a file: upright (EXIF), over white where it is transparent, cut from the centre in the shape asked for and scaled.

    Args:
        path: of any format that Pillow reads: grey, colour, palette, CMYK, with alpha, 8 or 16 bits a channel.
        size: (height, width); None keeps the file's own.
        channels: 1 for grey, 3 for RGB.

    Returns:
        (height, width, channels) uint8.

    Raises:
        ValueError: the file is no image, is damaged, or is too large; says why, without the file's name.
    """
    from PIL import Image, ImageOps  # only where images are decoded

    try:
        with Image.open(path) as image:
            width, height = image.size
            if max(width, height) > LARGEST_SIDE or width * height > LARGEST_AREA:
                raise ValueError(f"{width} x {height} pixels; at most {LARGEST_SIDE} a side and {LARGEST_AREA:,} in all are read")
            if size is not None:
                image.draft("RGB" if channels == 3 else "L", (2 * size[1], 2 * size[0]))  # large JPEG files: at reduced size
            upright = _eight_bit(ImageOps.exif_transpose(image), "RGB" if channels == 3 else "L")
            if size is not None and (upright.height, upright.width) != size:
                upright = ImageOps.fit(upright, (size[1], size[0]), Image.Resampling.BILINEAR)
            return np.asarray(upright).reshape(upright.height, upright.width, channels)
    except Image.DecompressionBombError as error:
        raise ValueError(f"too large to be read ({_reason(error)})") from error
    except UNREADABLE as error:
        empty = "an empty file" if path.is_file() and not path.stat().st_size else _reason(error)
        raise ValueError(empty.replace(f" {str(path)!r}", "").replace(f": {str(path)!r}", "")) from error


def _reason(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _eight_bit(image: Any, mode: str) -> Any:
    """Return a Pillow image in `RGB` or `L`: 16-bit greys by their upper byte, transparent parts over white.

    Raises:
        ValueError: greys that are of fewer than 16 bits or more, or floating-point.
    """
    from PIL import Image

    if image.mode.startswith("I"):  # 16-bit grey, which Pillow opens as I;16 or as I
        values = np.asarray(image).astype(np.int64)
        brightest = int(values.max(initial=0))
        if 0 < brightest < LEAST_OF_16_BITS or brightest > 65535:
            raise ValueError(f"greys from 0 to {brightest}, not of 16 bits: scale them to 0-65535, or to 8 bits")
        image = Image.fromarray((values >> 8).clip(0, 255).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", coloured.size, (255, 255, 255, 255)), coloured)
    return image.convert(mode)


def decode_images(paths: Sequence[Path], size: tuple[int, int] | None, channels: int, skip_bad: bool = False) -> Decoded:
    """Decode files in parallel, a thread a core (decoding happens outside Python's lock); with a bar on a terminal.

    Args:
        paths: at least one.
        size: (height, width) of all images; None: they must agree, and keep it.
        channels: 1 or 3.
        skip_bad: leave out what cannot be read, instead of raising.

    Raises:
        ValueError: files that cannot be read (the first ones are named, all are counted), or sizes that differ.
    """
    images: Tensor | None = None
    bad: list[tuple[Path, str]] = []
    kept: list[int] = []
    for place, found in enumerate(_decoded(paths, size, channels)):
        if isinstance(found, str):
            bad.append((paths[place], found))
            continue
        if images is None:
            images = torch.empty((len(paths), *found.shape), dtype=torch.uint8)
        if found.shape != tuple(images.shape[1:]):
            shapes = " and ".join(f"{shape[1]} x {shape[0]}" for shape in (tuple(images.shape[1:]), found.shape))
            raise ValueError(f"{paths[place]}: images of different sizes, {shapes} pixels; give one size for all")
        images[len(kept)] = torch.from_numpy(found)
        kept.append(place)
    if bad and not skip_bad:
        raise ValueError(f"{unreadable(bad)}\nRepair or delete them, or leave them out with --skip_bad_images 1")
    if images is None:
        raise ValueError(f"none of {len(paths)} files can be read; the first: {unreadable(bad[:1])}")
    return Decoded(images[: len(kept)], kept, bad)


def is_plain(name: str) -> bool:
    """Whether a name in a list of files stays in the folder that the list is of."""
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name)


def unreadable(bad: Sequence[tuple[Path | str, str]], shown: int = 3) -> str:
    """Return one line that counts the files that cannot be read and names the first ones with the reason."""
    names = "; ".join(f"{path} ({reason})" for path, reason in bad[:shown])
    more = f"; and {len(bad) - shown} more" if len(bad) > shown else ""
    return f"{len(bad)} file(s) cannot be read: {names}{more}"


def list_left_out(path: Path, bad: Sequence[tuple[str, str]]) -> str:
    """Write a file that names every image that was left out, a line each; without any, remove it.

    Args:
        path: of that file.
        bad: the images' paths, each with the reason.

    Returns:
        One line that counts them, names the first ones and says where all are; empty without any.

    Raises:
        OSError: the file cannot be written.
    """
    if not bad:
        if path.exists():  # even a file that is not there cannot be removed from a folder that is read-only
            path.unlink(missing_ok=True)
        return ""
    lines = "".join(f"{name} ({reason})\n" for name, reason in bad).encode(errors="surrogateescape")  # as the file system has them
    if not (path.is_file() and path.read_bytes() == lines):
        write_atomically(path, lines)
    said = f"left out: {unreadable(bad)}; all are named in {path.absolute()}"
    return said.encode(errors="backslashreplace").decode()


def _decoded(paths: Sequence[Path], size: tuple[int, int] | None, channels: int) -> Iterable[np.ndarray | str]:
    """Yield each file's image in order, or the reason why there is none."""

    def one(path: Path) -> np.ndarray | str:
        try:
            return read_image(path, size, channels)
        except ValueError as error:
            return str(error)

    from PIL import Image
    from tqdm import tqdm

    bar = tqdm(total=len(paths), desc="decoding", unit="image", disable=not sys.stderr.isatty(), leave=False)
    with warnings.catch_warnings(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads, bar:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # sizes are looked at above
        warnings.simplefilter("ignore", UserWarning)  # damaged EXIF and the like
        for first in range(0, len(paths), 1024):  # a block at a time bounds what waits in memory
            for found in threads.map(one, paths[first : first + 1024]):
                bar.update(1)
                yield found


def fingerprint_of(paths: Iterable[Path], *more: object) -> str:
    """Return a digest of files by name, size and time of change, and of what else decides on the result."""
    digest = hashlib.blake2b(repr(more).encode(), digest_size=16)
    for path in paths:
        status = path.stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def cached(folder: Path, name: str, fingerprint: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `make` returns, from `<folder>/<name>.pt` if that was made of the same sources.

    Args:
        folder: made if it is not there.
        name: of the file.
        fingerprint: of the sources; another one makes the file anew.
        make: returns tensors, numbers, texts and lists of these.

    Returns:
        The same; its tensors are mapped from the file, so that processes side by side share their memory.

    In a folder that is read-only nothing is kept, and a warning says so.

    Raises:
        OSError: the file cannot be written for another reason, such as a full disk.
    """
    path = folder / f"{name}.pt"
    found = _cache(path, fingerprint)
    if found is None:
        made = make()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_stream_atomically(path, lambda file: torch.save({"fingerprint": fingerprint, "content": made}, file))
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            LOG.warning("%s cannot be written (%s): images are decoded again at each run", path, error.strerror)
        found = _cache(path, fingerprint) or made
    return found


def _cache(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return a cache file's content; None if there is none that can be read, or it was made of other sources."""
    try:
        with zipfile.ZipFile(path) as archive:  # the checksum of all but the tensors, at which torch does not look
            archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, EOFError, LookupError, StopIteration, NotImplementedError, zlib.error,
            zipfile.BadZipFile, pickle.UnpicklingError):  # fmt: skip
        return None
    return found["content"] if isinstance(found, dict) and found.get("fingerprint") == fingerprint else None
