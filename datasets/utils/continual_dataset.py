"""The base of every benchmark: how its classes become a sequence of tasks.

A benchmark is one file that states its facts (class attributes) and reads its images (`load`). Labels are renumbered by order of
appearance, so task t holds the classes [first, past last) whatever the class order is.
"""

import hashlib
import itertools
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from datasets.utils.image_set import BatchLoader, ImageSet, select
from datasets.utils.items import MammothDatasetWrapper, fix_class_names_order, store_masked_loaders
from datasets.utils.label_changes import partly_unlabelled, with_noise
from utils import randomness
from utils.augmentations import BatchTransform, Spec
from utils.conf import get_device
from utils.evaluate import evaluate

HELD_OUT = "held-out training images"


def evaluation_batch(device: torch.device) -> int:
    """Return the number of test images to take at once: few enough for a CPU's caches (docs/log.md), or more for a GPU."""
    return 50 if device.type == "cpu" else 200


class Split(NamedTuple):
    """Images and labels as a benchmark's `load` returns them."""

    images: Tensor  # (n, height, width, channels) uint8
    labels: Tensor  # (n,) int64, the benchmark's own numbering


class ContinualDataset:
    """A benchmark: its classes split into a sequence of tasks.

    Class attributes to set: `NAME`, `SETTING`, `N_CLASSES_PER_TASK` (an int, or a list with one entry a task), `N_TASKS`,
    `N_CLASSES`, `SIZE` (height, width, channels), `TRANSFORM` (training images) and `TEST_TRANSFORM`, lists of torchvision
    names; and the method `load`. A YAML file in `datasets/configs/<NAME>/` may override any of them.

    Args:
        args: the resolved arguments.

    Raises:
        ValueError: the tasks do not add up to the classes, or an order is not a permutation.
    """

    NAME: str
    SETTING: str
    N_CLASSES_PER_TASK: int | list[int]
    N_TASKS: int
    N_CLASSES: int
    SIZE: tuple[int, int, int]
    TRANSFORM: list[Spec] = ["ToTensor"]
    TEST_TRANSFORM: list[Spec] = ["ToTensor"]
    CLASS_NAMES: list[str] = []
    CONFUSED_WITH: dict[int, int] = {}
    EIGHT_BIT = True

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser | None:
        """Add the benchmark's own flags, and return the parser."""
        return parser

    @classmethod
    def facts_from(cls, flags: Namespace) -> dict[str, Any]:
        """Return the facts that follow from the benchmark's own flags; they win over its class attributes and its config.

        Args:
            flags: the benchmark's own flags and `base_path`, read before all others; a flag that is not given has its default.

        Raises:
            ValueError: the flags do not fit what is on disk.
        """
        return {}

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.c_task = -1
        self.train_loader: BatchLoader | None = None
        self.test_loaders: list[BatchLoader] = []
        self.joint = bool(getattr(args, "joint", 0))
        self.task_sizes = [self.N_CLASSES] * self.N_TASKS  # of a domain-il sequence, where each task has all classes
        if self.SETTING != "domain-il":
            self.task_sizes = task_sizes(self.N_CLASSES_PER_TASK, self.N_TASKS, self.N_CLASSES, self.NAME)
        self.task_order = list(range(self.N_TASKS))  # which of its tasks, or domains, a benchmark shows when
        self.class_order = self._class_order()
        self._splits: dict[bool, ImageSet] = {}

    # -- what a benchmark defines --------------------------------------------------------------------------------------

    def load(self, train: bool) -> Split:
        """Read a split from disk: uint8 images and the benchmark's own labels.

        Raises:
            FileNotFoundError: the files are missing and cannot be had; names the path and what is expected there.
            ValueError: a file is corrupt; names it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no load(train)")

    def data_kind(self) -> str:
        """Say whether the images are the published ones: `original`, `recompressed`, `sample` or `altered`; or the user's `own`."""
        return "original"

    def left_out(self) -> int:
        """Return how many files were left out because they cannot be read."""
        return 0

    def evaluated_on(self) -> str:
        """Say which images the accuracies are of."""
        return HELD_OUT if getattr(self.args, "validation", 0.0) > 0 else "test images"

    # -- tasks and classes ---------------------------------------------------------------------------------------------

    @property
    def current_task(self) -> int:
        """Index of the task whose loaders were made last; -1 before the first."""
        return self.c_task

    @property
    def n_training_tasks(self) -> int:
        """Number of tasks that training goes through: one when all classes come together (`--joint 1`)."""
        return 1 if self.joint else self.N_TASKS

    def get_offsets(self, task: int | None = None) -> tuple[int, int]:
        """Return the first class of a task (default: the current one) and one past its last."""
        task = max(self.c_task, 0) if task is None else task
        if self.SETTING == "domain-il":
            return 0, self.N_CLASSES
        return sum(self.task_sizes[:task]), sum(self.task_sizes[: task + 1])

    def training_range(self) -> tuple[int, int]:
        """Return the first class that is in training now and one past the last."""
        return (0, self.N_CLASSES) if self.joint else self.get_offsets()

    def _class_order(self) -> list[int]:
        """Return the benchmark's own class numbers in the order of their appearance."""
        order = list(range(self.N_CLASSES))
        custom = getattr(self.args, "custom_class_order", None)
        tasks = getattr(self.args, "custom_task_order", None)
        permuted = bool(getattr(self.args, "permute_classes", False))
        if [bool(custom), bool(tasks), permuted].count(True) > 1:
            raise ValueError("give one of --permute_classes, --custom_class_order, --custom_task_order, not several")
        if permuted:
            return torch.randperm(self.N_CLASSES, generator=randomness.fresh("class_order")).tolist()
        if custom:
            return _permutation(custom, self.N_CLASSES, "--custom_class_order")
        if tasks:
            ends = list(itertools.accumulate(self.task_sizes))
            blocks = [order[end - size : end] for end, size in zip(ends, self.task_sizes, strict=True)]
            self.task_order = _permutation(tasks, self.N_TASKS, "--custom_task_order")
            if self.SETTING == "domain-il":
                return order
            self.task_sizes = [self.task_sizes[task] for task in self.task_order]
            return [label for task in self.task_order for label in blocks[task]]
        return order

    def get_class_names(self) -> list[str]:
        """Return the class names in the order of training labels; numbers where the benchmark has no names."""
        names = self.CLASS_NAMES or [str(label) for label in range(self.N_CLASSES)]
        return [names[label] for label in self.class_order]

    # -- images --------------------------------------------------------------------------------------------------------

    def split(self, train: bool) -> ImageSet:
        """Return the whole training or test split, read at the first call, renumbered, on the run's device."""
        if train not in self._splits:
            self._read(train or getattr(self.args, "validation", 0.0) > 0)
        return self._splits[train]

    def _read(self, train: bool) -> None:
        images, labels = self.load(train)
        if images.dtype is not torch.uint8:
            raise ValueError(f"{self.NAME}: load() returned {images.dtype} images, expected torch.uint8, from 0 to 255")
        if len(images) != len(labels) or not len(images):
            raise ValueError(f"{self.NAME}: {len(images)} images and {len(labels)} labels in one split")
        if int(labels.min()) < 0 or int(labels.max()) >= self.N_CLASSES:
            span = f"{int(labels.min())} to {int(labels.max())}"
            raise ValueError(f"{self.NAME}: labels from {span}, expected 0 to {self.N_CLASSES - 1}")
        position = torch.empty(self.N_CLASSES, dtype=torch.int64)
        position[torch.tensor(self.class_order)] = torch.arange(self.N_CLASSES)
        device = get_device(getattr(self.args, "device", None))
        transform = BatchTransform(self.TRANSFORM if train else self.TEST_TRANSFORM, "augmentation")
        self._splits[train] = ImageSet(images.to(device), position[labels].to(device), transform)
        if train and getattr(self.args, "validation", 0.0) > 0:
            self._hold_out()
        if train:
            self._splits[True].targets = with_noise(
                self._splits[True].targets, self.args, self.N_CLASSES, self._confused(), self.NAME
            )

    def _confused(self) -> list[int] | None:
        """Return the training label that each class's is taken for (asymmetric noise); None where that is unknown."""
        if not self.CONFUSED_WITH:
            return None
        return [self.class_order.index(self.CONFUSED_WITH.get(label, label)) for label in self.class_order]

    def _hold_out(self) -> None:
        """Set part of the training images aside and evaluate on these instead of the test images (`--validation`)."""
        share = self.args.validation if self.args.validation < 1 else self.args.validation / 100
        whole = self._splits[True]
        order = torch.randperm(len(whole), generator=randomness.fresh("validation")).to(whole.targets.device)
        held = order[: round(share * len(whole))]
        kept = order[len(held) :].sort().values
        test_transform = BatchTransform(self.TEST_TRANSFORM, "augmentation")
        self._splits[False] = ImageSet(whole.data[held], whole.targets[held], test_transform)
        self._splits[True] = ImageSet(whole.data[kept], whole.targets[kept], whole.transform)

    def get_data_loaders(self) -> tuple[BatchLoader, BatchLoader]:
        """Go on to the next task: return its training loader and its test loader.

        The training loader yields (augmented images, labels, images in [0, 1]); the test loader of each task so far stays in
        `test_loaders`.
        """
        self.c_task += 1
        images = self._training_images()
        images.targets = partly_unlabelled(images.targets, self.args, self.c_task)
        generator = randomness.fresh(f"stream_order/{self.c_task}")
        self.train_loader = BatchLoader(images, self.get_batch_size(), generator, bool(getattr(self.args, "drop_last", 0)))
        for task in range(self.N_TASKS) if self.joint else [self.c_task]:
            self.test_loaders.append(self.test_loader(task))
        return self.train_loader, self.test_loaders[-1]

    def test_loader(self, task: int) -> BatchLoader:
        """Return the loader of a task's test images, whether the task has come or not."""
        images = select(self.split(train=False), *self.get_offsets(task))
        return BatchLoader(self.task_images(images, self.task_order[task]), self.test_batch())

    def test_batch(self) -> int:
        """Return the number of images in a test batch; in debug mode, where six of them count, no more than in training."""
        if getattr(self.args, "debug_mode", 0):
            return self.get_batch_size()
        return evaluation_batch(get_device(getattr(self.args, "device", None)))

    def _training_images(self) -> ImageSet:
        """Return the images to train on now; of a domain-il sequence taken at once (`--joint 1`), those of all its tasks."""
        images = select(self.split(train=True), *self.training_range())
        if not (self.joint and self.SETTING == "domain-il"):
            return self.task_images(images, self.task_order[self.c_task])
        parts = [self.task_images(images, task) for task in range(self.N_TASKS)]
        data, targets = (torch.cat([getattr(part, name) for part in parts]) for name in ("data", "targets"))
        return ImageSet(data, targets, images.transform)

    def task_images(self, images: ImageSet, task: int) -> ImageSet:
        """Return a task's images as that task shows them; a domain-il benchmark overrides this. Training and test images alike.

        Args:
            images: of the task's classes; task: its index in the benchmark, wherever `--custom_task_order` puts it.
        """
        return images

    def images_per_task(self, train: bool) -> list[int]:
        """Return the number of training or test images of each task."""
        counts = torch.bincount(self.split(train).targets, minlength=self.N_CLASSES).tolist()
        if self.joint:
            return [sum(counts) * (self.N_TASKS if train and self.SETTING == "domain-il" else 1)]
        return [sum(counts[slice(*self.get_offsets(task))]) for task in range(self.N_TASKS)]

    def has_batch_of_one(self, steps: float = torch.inf) -> bool:
        """Whether a training batch may come out as a single image that has a label, if a pass ends after so many steps."""
        size = self.get_batch_size()
        if size == 1 or getattr(self.args, "label_perc", 1) != 1 or getattr(self.args, "label_perc_by_class", 1) != 1:
            return True
        last = [count % size for count in self.images_per_task(True) if steps > count // size]
        return 1 in last and not getattr(self.args, "drop_last", 0)

    def check_tasks(self) -> None:
        """Raise ValueError if a task has no test image, or too few training images for a step."""
        least = self.get_batch_size() if getattr(self.args, "drop_last", 0) else 1
        for task, (train, test) in enumerate(zip(self.images_per_task(True), self.images_per_task(False), strict=True), 1):
            if train < least:
                why = " (a full batch, with --drop_last 1)" if least > 1 else ""
                why += "; lower --validation" if getattr(self.args, "validation", 0.0) > 0 else ""
                raise ValueError(f"{self.NAME}: task {task} has {train} training images and needs at least {least}{why}")
            if not test:
                raise ValueError(f"{self.NAME}: task {task} has no test images")

    def fingerprint(self) -> str:
        """Return a digest of all images and labels, training and test."""
        digest = hashlib.blake2b(digest_size=16)
        for train in (True, False):
            digest.update(self.split(train).data.cpu().numpy().tobytes())
            digest.update(self.split(train).targets.cpu().numpy().tobytes())
        return digest.hexdigest()

    # -- transforms, loss, defaults ------------------------------------------------------------------------------------

    def get_transform(self) -> BatchTransform | None:
        """Return augmentation and normalisation for replayed images (float batch in [0, 1]); None if there is none."""
        transform = BatchTransform(self.TRANSFORM, "replay_augmentation")
        return None if transform.deterministic and transform.mean is None else transform

    def plain_transforms(self) -> dict[str, list[Spec]]:
        """Return the transforms by name and arguments, as a checkpoint keeps them."""
        return {"TRANSFORM": self.TRANSFORM, "TEST_TRANSFORM": self.TEST_TRANSFORM}

    def get_normalization_transform(self) -> BatchTransform:
        """Return the normalisation alone, for a float batch in [0, 1]."""
        return BatchTransform(self.TEST_TRANSFORM)

    def get_loss(self) -> Any:
        """Return the loss function: cross-entropy, a mean over the batch."""
        return F.cross_entropy

    def get_batch_size(self) -> int:
        """Return the number of stream images per step."""
        return self.args.batch_size

    def get_minibatch_size(self) -> int:
        """Return the number of replayed images per step."""
        return getattr(self.args, "minibatch_size", None) or self.get_batch_size()

    def get_epochs(self) -> int:
        """Return the number of passes over each task."""
        return self.args.n_epochs

    def get_iters(self) -> int | None:
        """Return the number of steps per task where the run is counted in steps."""
        return getattr(self.args, "n_iters", None)

    @staticmethod
    def evaluate(model: Any, dataset: "ContinualDataset", last: bool = False, return_loss: bool = False) -> Any:
        """Return (Class-IL, Task-IL) accuracies in percent, one entry a task; see `utils.evaluate.evaluate`."""
        return evaluate(model, dataset, last, return_loss)


def task_sizes(per_task: int | list[int], n_tasks: int, n_classes: int, name: str) -> list[int]:
    """Return the number of classes of each task.

    Raises:
        ValueError: the sizes do not fit the number of tasks and classes.
    """
    sizes = [per_task] * n_tasks if isinstance(per_task, int) else list(per_task)
    if len(sizes) != n_tasks:
        raise ValueError(f"{name}: N_CLASSES_PER_TASK lists {len(sizes)} tasks, N_TASKS is {n_tasks}")
    if any(size < 1 for size in sizes) or sum(sizes) > n_classes:
        raise ValueError(f"{name}: {n_tasks} tasks of {per_task} classes do not fit in {n_classes} classes")
    if sum(sizes) < n_classes:
        raise ValueError(f"{name}: {n_tasks} tasks of {per_task} classes do not add up to its {n_classes} classes")
    return sizes


def _permutation(text: str, size: int, flag: str) -> list[int]:
    """Read `2,0,1`. Raises ValueError unless it is a permutation of 0 .. size - 1."""
    words = [word.strip() for word in str(text).split(",")]
    if sorted(words) != sorted(str(index) for index in range(size)):
        raise ValueError(f"{flag} {text}: expected each of 0 to {size - 1} once, with commas between")
    return [int(word) for word in words]


def data_folder(args: Namespace, name: str) -> Path:
    """Return the folder under the base path that holds a benchmark's files, as an absolute path: messages name it."""
    return Path(getattr(args, "base_path", "./data/")).absolute() / name


__all__ = [
    "ContinualDataset", "MammothDatasetWrapper", "Split", "data_folder", "fix_class_names_order", "store_masked_loaders",
    "task_sizes",
]  # fmt: skip
