"""Split folder: one's own images, a folder a class, in tasks of `--classes_per_task` classes."""

import hashlib
import os
import re
import unicodedata
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder
from datasets.utils.decode import cached, decode_images, list_left_out
from utils.args import number, whole, yes_or_no
from utils.loggers import LOG
from utils.registry import nearest

Files = dict[str, list[Path]]  # by class
TEST_FRACTION = 0.2  # of a tree that has no test images of its own
SPLITS = re.compile(r"(.*[_-])?(train|training|test|testing|val|valid|validation)", re.IGNORECASE)  # folders that are no classes
NO_FOLDERS = ("@eaDir", "__MACOSX")  # what storage devices and archives leave behind, beside folders whose name starts with a dot
NO_IMAGES = ("Thumbs.db", "desktop.ini")  # what file managers leave behind, beside files whose name starts with a dot
LAYOUTS = "DIR/train/<class>/ and DIR/test/<class>/ with images, or DIR/<class>/ with --test_fraction"


class SequentialFolder(ContinualDataset):
    """One's own images: a folder a class (--data_path DIR)."""

    NAME = "seq-folder"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 2  # this and the rest follow from the folder
    N_TASKS = 1
    N_CLASSES = 2
    DIGEST = ""

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        flag = parser.add_argument
        flag("--data_path", required=True, metavar="DIR", help=f"{LAYOUTS}")
        flag("--classes_per_task", type=whole(), default=2, metavar="N", help="classes a task; the last task may have fewer")
        flag("--image_size", type=number(int, 4, 1024), default=32, metavar="N", help="height and width to which images are scaled")
        text = f"share of each class that is for testing, where there is no test folder; {TEST_FRACTION} if absent"
        flag("--test_fraction", type=number(float, 0, 0.95, open_low=True), metavar="X", help=text)
        flag("--class_order", metavar="FILE", help="class names in the order of their appearance, a line each (default: by name)")
        text = "leave out images that cannot be read, instead of stopping"
        flag("--skip_bad_images", type=yes_or_no, default=0, metavar="0|1", help=text)
        return parser

    @classmethod
    def facts_from(cls, flags: Namespace) -> dict[str, Any]:
        """Look at the folder: its classes, in order, make the tasks; the run's id depends on what is in the files."""
        if getattr(flags, "data_path", None) is None:
            return {}
        files = split_files(Path(flags.data_path), flags.test_fraction)
        names = ordered_classes(list(files["train"]), flags.class_order)
        if flags.classes_per_task > len(names):
            raise ValueError(f"--classes_per_task {flags.classes_per_task}: {flags.data_path} has {len(names)} classes")
        full, rest = divmod(len(names), flags.classes_per_task)
        sizes = [flags.classes_per_task] * full + [rest] * (rest > 0)
        return {
            "CLASS_NAMES": names,
            "N_CLASSES": len(names),
            "N_TASKS": len(sizes),
            "N_CLASSES_PER_TASK": sizes if rest else flags.classes_per_task,
            "SIZE": (flags.image_size, flags.image_size, 3),
            "DIGEST": content_digest(Path(flags.data_path), files),
        }

    def load(self, train: bool) -> Split:
        content = self._content()
        which = "train" if train else "test"
        return Split(content[f"{which}_images"], content[f"{which}_labels"])

    def data_kind(self) -> str:
        """Return `own`: there is nothing published to compare them with."""
        return "own"

    def left_out(self) -> int:
        return len(self._content()["bad"])

    def _content(self) -> dict[str, Any]:
        """Return images and labels of both splits, decoded once and then taken from the cache under the base path."""
        if not hasattr(self, "_loaded"):
            folder = Path(self.args.data_path).resolve()
            which = hashlib.blake2b(os.fsencode(folder), digest_size=4).hexdigest()
            name = f"{re.sub(r'[^A-Za-z0-9_-]+', '_', folder.name)}-{which}-{self.SIZE[0]}"
            skip = bool(self.args.skip_bad_images)
            wanted = f"{self.DIGEST} skip={skip} {self.args.test_fraction} {self.CLASS_NAMES}"
            cache = data_folder(self.args, "seq-folder")
            self._loaded = cached(cache, name, wanted, lambda: self._decoded(skip))
            if notice := list_left_out(cache / f"{name}.left_out.txt", self._loaded["bad"]):
                LOG.warning(notice)
        return self._loaded

    def _decoded(self, skip: bool) -> dict[str, Any]:
        """Decode all files. Raises ValueError if some cannot be read (unless `skip`), or if a class has none left."""
        content: dict[str, Any] = {}
        splits = split_files(Path(self.args.data_path), self.args.test_fraction)
        owned = [
            (split, label, path) for split in splits for label, name in enumerate(self.CLASS_NAMES) for path in splits[split][name]
        ]
        found = decode_images([path for _, _, path in owned], self.SIZE[:2], 3, skip)
        labels = torch.tensor([owned[place][1] for place in found.kept])
        for split in splits:
            chosen = torch.tensor([owned[place][0] == split for place in found.kept])
            content[f"{split}_images"], content[f"{split}_labels"] = found.images[chosen], labels[chosen]
            for label, name in enumerate(self.CLASS_NAMES):
                if not bool((content[f"{split}_labels"] == label).any()):
                    raise ValueError(f"{self.args.data_path}: class {name!r} has no {split} image that can be read")
        return {**content, "bad": found.bad_names()}


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts names as people do: `2` before `10`, without regard to letter case.

    Each stretch of digits becomes (0, its number, itself), the rest (1, 0, the text).
    """
    words = re.findall(r"\d+|\D+", name)
    return [(0, int(word), word) if word.isdecimal() else (1, 0, word.casefold()) for word in words]


def split_files(root: Path, test_fraction: float | None = None) -> dict[str, Files]:
    """Find the images of each class: `train` and `test`, classes and files in natural order.

    Args:
        root: holds `train/<class>/` and `test/<class>/`, or `<class>/`.
        test_fraction: share of each class that is for testing, in a tree without folders of its own for that.

    Raises:
        ValueError: no such folder, none of the layouts, fewer than two classes, a class without images in one of the splits, a
            test class that training lacks, two names that differ in letter case only, or a folder that may not be read.
    """
    try:
        parts = [root / "train", root / "test"]
        if not all(part.is_dir() for part in parts):
            if any(part.is_dir() for part in parts):
                raise ValueError(f"--data_path {root}: train/ and test/ must both be there, or neither; expected {LAYOUTS}")
            return _divided(_classes(root), TEST_FRACTION if test_fraction is None else test_fraction, root)
        if test_fraction is not None:
            raise ValueError(f"--test_fraction: {root} has test images of its own, in test/; leave the flag out")
        train, test = (_classes(part) for part in parts)
    except OSError as error:
        raise ValueError(f"--data_path {root}: {error.filename or root} cannot be read ({error.strerror})") from error
    strange = [name for name in test if name not in train]
    if strange:
        raise ValueError(f"{parts[1]}: class {strange[0]!r} is not among the training classes; {nearest(strange[0], train)}")
    missing = [name for name in train if name not in test]
    if missing:
        raise ValueError(f"{parts[1]}: no folder for class {missing[0]!r}; each class needs test images")
    return {"train": train, "test": {name: test[name] for name in train}}


def _classes(root: Path) -> Files:
    """Return the images of each class folder in `root`."""
    if not root.is_dir():
        raise ValueError(f"--data_path: no folder {root}; expected {LAYOUTS}")
    folders = sorted((path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")), key=_natural_path)
    if len(folders) < 2:
        raise ValueError(f"{root}: {len(folders)} class folder(s), and at least 2 are needed; expected {LAYOUTS}")
    if sum(bool(SPLITS.fullmatch(folder.name)) for folder in folders) > 1:
        found = ", ".join(folder.name for folder in folders[:4])
        raise ValueError(f"{root}: {found} look like splits, not classes; name them train and test. Expected {LAYOUTS}")
    names: dict[str, str] = {}
    for folder in folders:
        other = names.setdefault(_name(folder).casefold(), folder.name)
        if other != folder.name:
            raise ValueError(
                f"{root}: classes {other!r} and {folder.name!r} differ in letter case or accents' spelling only, "
                "which some file systems cannot tell; rename one"
            )
    files = {_name(folder): images_in(folder) for folder in folders}
    empty = [name for name, found in files.items() if not found]
    if empty:
        raise ValueError(f"{root / empty[0]}: no image in this class; remove the folder or fill it ({len(empty)} without images)")
    return files


def _name(folder: Path) -> str:
    """Return a class's name: accents as one character each, since some systems store them apart."""
    return unicodedata.normalize("NFC", folder.name)


def _natural_path(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    return natural(path.name), path.name


def images_in(folder: Path) -> list[Path]:
    """Return the files in a folder and its subfolders, linked ones too, that are meant as images, in natural order.

    Raises:
        OSError: a folder may not be read.
    """

    def stop(error: OSError) -> None:
        raise error

    found, entered = [], set()
    for where, inner, names in os.walk(folder, onerror=stop, followlinks=True):
        place = os.path.realpath(where)
        if place in entered:  # a link back would go round for ever
            inner.clear()
            continue
        entered.add(place)
        inner[:] = [name for name in inner if not name.startswith(".") and name not in NO_FOLDERS]
        found += [Path(where) / name for name in names]
    wanted = [path for path in found if not path.name.startswith(".") and path.name not in NO_IMAGES]
    return sorted(wanted, key=lambda path: (natural(str(path.relative_to(folder))), str(path)))


def _divided(files: Files, fraction: float, root: Path) -> dict[str, Files]:
    """Set a share of each class aside for testing, chosen by the digests of the file names, so that more files change little."""
    train: Files = {}
    test: Files = {}
    for name, found in files.items():
        if len(found) < 2:
            raise ValueError(f"{root / name}: one image cannot both train and test; add images, or remove the class")
        count = min(max(round(fraction * len(found)), 1), len(found) - 1)
        chosen = set(sorted(found, key=lambda path: hashlib.blake2b(os.fsencode(path.name)).digest())[:count])
        train[name] = [path for path in found if path not in chosen]
        test[name] = [path for path in found if path in chosen]
    return {"train": train, "test": test}


def ordered_classes(names: list[str], order: str | None) -> list[str]:
    """Return the classes in the order that a file lists, a name a line; as they are without one.

    Raises:
        ValueError: no such file, an unknown class, or not each class once.
    """
    if order is None:
        return names
    try:
        lines = Path(order).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--class_order {order}: cannot be read ({error})") from error
    listed = [unicodedata.normalize("NFC", line.strip()) for line in lines if line.strip()]
    for name in listed:
        if name not in names:
            raise ValueError(f"--class_order {order}: no class {name!r}; {nearest(name, names)}")
    missing = [name for name in names if name not in listed]
    if missing or len(listed) != len(names):
        what = f"{missing[0]!r} is missing" if missing else "a class is listed twice"
        raise ValueError(f"--class_order {order}: {what}; list each of the {len(names)} classes once")
    return listed


def content_digest(root: Path, splits: dict[str, Files]) -> str:
    """Return a digest of which files each class has in each split and of what is in them, wherever the folder lies."""
    paths = [path for files in splits.values() for found in files.values() for path in found]
    return _digest(root, tuple(paths), tuple(_stamp(path) for path in paths), tuple(_owners(splits)))


def _owners(splits: dict[str, Files]) -> Iterable[str]:
    return (f"{split}/{name}" for split, files in splits.items() for name, found in files.items() for _ in found)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4)
def _digest(root: Path, paths: tuple[Path, ...], stamps: tuple[tuple[int, int], ...], owners: tuple[str, ...]) -> str:
    """Read all files, once in a process as long as their sizes and times stand."""
    digest = hashlib.blake2b(digest_size=16)
    for owner, path in zip(owners, paths, strict=True):
        try:
            content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        except OSError:  # decoding will name it
            content = "unreadable"
        digest.update(f"{owner}\0{path.name}\0{content}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()
