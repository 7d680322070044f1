"""Downloads into places that several runs read: one run fetches, the others wait, and no file is ever there in part."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from utils.files import locked
from utils.loggers import LOG


def fetch(root: Path, present: Callable[[], bool], download: Callable[[Path], object]) -> None:
    """Download into a folder beside the data, and once all is whole move each file to its place under `root`.

    Args:
        present: whether the files are there; asked again once no other run is at it.
        download: fetches into the folder that it is given, laid out as under `root`.

    Raises:
        OSError: a full disk, a folder that cannot be written; and what `download` raises.
    """
    with locked(root / "download", waiting=lambda: LOG.info("another run downloads into %s; waiting for it", root)):
        if present():
            return
        folder = root / ".download"
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
        folder.mkdir()
        try:
            download(folder)
            for path in filter(Path.is_file, sorted(folder.rglob("*"))):
                target = root / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
