"""Split MiniImageNet (Vinyals et al. 2016): 100 classes of 600 images of 84x84 pixels, of which 500 train and 100 test."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datasets.utils.continual_dataset import ContinualDataset, Split, data_folder
from datasets.utils.decode import SUFFIXES, cached, decode_images, fingerprint_of, is_plain, list_left_out
from utils.args import yes_or_no
from utils.files import read_array_pickle
from utils.loggers import LOG

# The field's order (Ravi and Larochelle 2017): 64 classes of meta-training, 16 of meta-validation, 20 of meta-test.
CLASSES = """
    n01532829 n01558993 n01704323 n01749939 n01770081 n01843383 n01910747 n02074367 n02089867 n02091831
    n02101006 n02105505 n02108089 n02108551 n02108915 n02111277 n02113712 n02120079 n02165456 n02457408
    n02606052 n02687172 n02747177 n02795169 n02823428 n02966193 n03017168 n03047690 n03062245 n03207743
    n03220513 n03337140 n03347037 n03400231 n03476684 n03527444 n03676483 n03838899 n03854065 n03888605
    n03908618 n03924679 n03998194 n04067472 n04243546 n04251144 n04258138 n04275548 n04296562 n04389033
    n04435653 n04443257 n04509417 n04515003 n04596742 n04604644 n04612504 n06794110 n07584110 n07697537
    n07747607 n09246464 n13054560 n13133613 n01855672 n02091244 n02114548 n02138441 n02174001 n02950826
    n02971356 n02981792 n03075370 n03417042 n03535780 n03584254 n03770439 n03773504 n03980874 n09256479
    n01930112 n01981276 n02099601 n02110063 n02110341 n02116738 n02129165 n02219486 n02443484 n02871525
    n03127925 n03146219 n03272010 n03544143 n03775546 n04146614 n04149813 n04418357 n04522168 n07613480
""".split()
PER_CLASS, TRAINED = 600, 500
LISTS = ("train.csv", "val.csv", "test.csv")
PICKLES = ("mini-imagenet-cache-train.pkl", "mini-imagenet-cache-val.pkl", "mini-imagenet-cache-test.pkl")
LAYOUTS = f"train/<class>/ and val/<class>/ with images; images/ with {', '.join(LISTS)}; or {', '.join(PICKLES)}"
Files = dict[str, list[Path]]  # by class


class SequentialMiniImagenet(ContinualDataset):
    """MiniImageNet in 20 tasks of 5 classes, 84x84 pixels."""

    NAME = "seq-miniimg"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 5
    N_TASKS = 20
    N_CLASSES = 100
    SIZE = (84, 84, 3)
    CLASS_NAMES = CLASSES

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        text = "leave out images that cannot be read, instead of stopping"
        parser.add_argument("--skip_bad_images", type=yes_or_no, default=0, metavar="0|1", help=text)
        return parser

    def load(self, train: bool) -> Split:
        content = self._content()
        which = "train" if train else "test"
        return Split(content[f"{which}_images"], content[f"{which}_labels"])

    def data_kind(self) -> str:
        kind: str = self._content()["kind"]
        return "sample" if self.left_out() else kind

    def left_out(self) -> int:
        return len(self._content().get("bad", ()))

    def _content(self) -> dict[str, Any]:
        """Return images and labels of both splits and the kind of the data, from whichever layout is there."""
        if not hasattr(self, "_loaded"):
            root = data_folder(self.args, "MiniImageNet")
            pickles = [root / name for name in PICKLES]
            trees = {split: _tree(root / split) for split in ("train", "val")}
            if all(path.is_file() for path in pickles):
                self._loaded = _from_pickles(pickles)
            elif all(trees.values()):
                self._loaded = self._from_files(root, trees["train"], trees["val"])
            elif (root / "images").is_dir() and all((root / name).is_file() for name in LISTS):
                listed = _listed(root)
                train = {name: files[:TRAINED] for name, files in listed.items()}
                test = {name: files[TRAINED:] for name, files in listed.items()}
                self._loaded = self._from_files(root, train, test)
            else:
                there = ", ".join(sorted(path.name for path in root.iterdir())[:5]) if root.is_dir() else "no such folder"
                raise FileNotFoundError(f"no MiniImageNet in {root} ({there or 'empty'}).\nPut there: {LAYOUTS}")
        return self._loaded

    def _from_files(self, root: Path, train: Files, test: Files) -> dict[str, Any]:
        """Decode image files, or take them from the cache in `root`."""
        _check_classes(root, train, test)
        splits = {"train": train, "test": test}
        paths = {split: [path for name in CLASSES for path in files[name]] for split, files in splits.items()}
        skip = bool(self.args.skip_bad_images)
        fingerprint = fingerprint_of([*paths["train"], *paths["test"]], self.SIZE, f"skip={skip}")

        def decoded() -> dict[str, Any]:
            content: dict[str, Any] = {"kind": _kind(train, test)}
            bad = []
            for split, files in splits.items():
                found = decode_images(paths[split], self.SIZE[:2], 3, skip)
                labels = [label for label, name in enumerate(CLASSES) for _ in files[name]]
                content[f"{split}_images"] = found.images
                content[f"{split}_labels"] = torch.tensor(labels)[found.kept]
                bad += found.bad_names()
            return {**content, "bad": bad}

        content = cached(root, "decoded-84x84", fingerprint, decoded)
        if notice := list_left_out(root / "decoded-84x84.left_out.txt", content["bad"]):
            LOG.warning(notice)
        return content


def _tree(folder: Path) -> Files:
    """Return the images of each class folder, in the order of their names; nothing if there is no such folder."""
    if not folder.is_dir():
        return {}
    return {path.name: _images(path) for path in sorted(folder.iterdir()) if path.is_dir()}


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _listed(root: Path) -> Files:
    """Return the images that the three lists (filename,label) name, by class, in the order of their names.

    Raises:
        ValueError: a line is no pair, or its file is missing; names both.
    """
    found: Files = {}
    for name in LISTS:
        for number, line in enumerate((root / name).read_text(encoding="utf-8").split()[1:], 2):
            words = line.split(",")
            path = root / "images" / words[0]
            if len(words) != 2 or not is_plain(words[0]) or not path.is_file():
                raise ValueError(f"{root / name}, line {number}: {line!r} is no `filename,label` of a file in {root / 'images'}")
            found.setdefault(words[1], []).append(path)
    return {label: sorted(files) for label, files in found.items()}


def _check_classes(root: Path, train: Files, test: Files) -> None:
    """Raise ValueError unless each of the 100 classes, and no other, has training and test images."""
    for split, files in (("training", train), ("test", test)):
        strange = sorted(files.keys() - set(CLASSES))
        if strange:
            raise ValueError(
                f"{root}: {strange[0]!r} is none of MiniImageNet's 100 classes; use --dataset seq-folder for other images"
            )
        missing = [name for name in CLASSES if not files.get(name)]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ValueError(f"{root}: class {missing[0]}{more} without {split} images")


def _kind(train: Files, test: Files) -> str:
    """Return `original` where every class has its 500 and 100 images, else `sample`."""
    whole = all(len(train[name]) == TRAINED and len(test[name]) == PER_CLASS - TRAINED for name in CLASSES)
    return "original" if whole else "sample"


def _from_pickles(paths: list[Path]) -> dict[str, Any]:
    """Read the three cached pickles: `image_data` (n, 84, 84, 3) and `class_dict`, indices by class."""
    images: dict[str, np.ndarray] = {}
    for path in paths:
        content = read_array_pickle(path)
        pixels, places = content.get("image_data"), content.get("class_dict")
        if not isinstance(pixels, np.ndarray) or pixels.shape[1:] != (84, 84, 3) or pixels.dtype != np.uint8:
            raise ValueError(f"{path} is corrupt: expected 'image_data', (n, 84, 84, 3) uint8")
        if not isinstance(places, dict) or not all(_are_places(value, len(pixels)) for value in places.values()):
            raise ValueError(f"{path} is corrupt: expected 'class_dict', places in 'image_data' by class")
        images |= {str(name): pixels[np.asarray(value)] for name, value in places.items()}
    short = [name for name in CLASSES if len(images.get(name, ())) != PER_CLASS]
    if short or len(images) != len(CLASSES):
        seen = (
            f"class {short[0]} has {len(images.get(short[0], ()))} images, not {PER_CLASS}" if short else f"{len(images)} classes"
        )
        raise ValueError(
            f"{paths[0].parent}: {seen}; expected {len(CLASSES)} classes of {PER_CLASS} images in {', '.join(PICKLES)}"
        )
    parts = {"train": slice(0, TRAINED), "test": slice(TRAINED, PER_CLASS)}
    content = {"kind": "original"}
    for split, part in parts.items():
        content[f"{split}_images"] = torch.from_numpy(np.concatenate([images[name][part] for name in CLASSES]))
        content[f"{split}_labels"] = torch.arange(len(CLASSES)).repeat_interleave(part.stop - part.start)
    return content


def _are_places(value: Any, count: int) -> bool:
    places = np.asarray(value)
    return places.ndim == 1 and places.dtype.kind in "iu" and (not len(places) or (0 <= places.min() and places.max() < count))
