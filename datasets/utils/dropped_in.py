"""Benchmarks written for Mammoth: files that define `get_data_loaders` and end it in `store_masked_loaders`, and no `load`."""

import functools
import hashlib
import inspect
from argparse import Namespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset
from datasets.utils.image_set import BatchLoader, ImageSet
from datasets.utils.items import ItemTransform, MammothDatasetWrapper, chosen, drawing_from
from datasets.utils.label_changes import with_noise
from utils import randomness
from utils.args import yes_or_no
from utils.augmentations import BatchTransform, Spec
from utils.conf import get_device

TRANSFORMS = ("TRANSFORM", "TEST_TRANSFORM")


def is_dropped_in(cls: type[ContinualDataset]) -> bool:
    """Whether a benchmark makes its own loaders instead of stating its images."""
    return cls.load is ContinualDataset.load and cls.get_data_loaders is not ContinualDataset.get_data_loaders


@functools.cache
def adapted(cls: type[ContinualDataset]) -> type[ContinualDataset]:
    """Return a benchmark that makes its own loaders as one that the engine can run; others as they are.

    Facts that this project states otherwise are completed: SIZE gets its channels (three where MEAN has three, else one), and a
    domain-il sequence has the classes of each of its tasks.
    """
    if not is_dropped_in(cls):
        return cls
    facts: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__, "SIZE": full_size(cls, getattr(cls, "SIZE", ()))}
    per_task = getattr(cls, "N_CLASSES_PER_TASK", None)
    if getattr(cls, "SETTING", "") == "domain-il":
        facts["N_CLASSES"] = per_task
    elif not hasattr(cls, "N_CLASSES") and per_task is not None:
        facts["N_CLASSES"] = sum(per_task) if isinstance(per_task, list) else per_task * (getattr(cls, "N_TASKS", None) or 1)
    return type(cls.__name__, (DroppedIn, cls), facts)


def full_size(cls: type, size: Any) -> tuple[int, ...]:
    """Return a size as (height, width, channels), from (height, width), or (values,) of a vector."""
    mean = getattr(cls, "MEAN", ())
    channels = len(mean) if isinstance(mean, list | tuple) and mean else 1
    given = tuple(size)
    return (1, *given, 1) if len(given) == 1 else (*given, channels) if len(given) == 2 else given


class DroppedIn(ContinualDataset):
    """What stands before such a file's class: it takes the sets that the file makes and gives out tasks, like any other benchmark.

    Args:
        args: the resolved arguments; the file's constructor gets those that it names.

    Raises:
        ValueError: a fact is missing, or a flag asks for another task's images before their time.
    """

    MORE_FACTS = ("MEAN", "STD")
    EIGHT_BIT = False

    def __init__(self, args: Namespace) -> None:
        missing = [name for name in ("SETTING", "N_CLASSES_PER_TASK", "N_TASKS") if getattr(self, name, None) is None]
        if missing:
            raise ValueError(f"the data set {args.dataset} states no {', no '.join(missing)}")
        for flag in ("joint", "eval_future", "custom_task_order"):
            if getattr(args, flag, None) and self.SETTING == "domain-il":
                raise ValueError(
                    f"--{flag}: the file of {self.NAME} makes each task's images when the task begins; leave the flag out"
                )
        self.class_names: list[str] | None = None
        self._looking = self._taken = False
        self._transform_given = isinstance(self.TRANSFORM, list) and type(self).TRANSFORM is not ContinualDataset.TRANSFORM
        for name in TRANSFORMS:
            if isinstance(getattr(self, name), list):
                setattr(self, name, composed(getattr(self, name)))
        own = {name: getattr(args, name) for name in self.own_flags()}
        super().__init__(args, **own)
        if self.class_order != sorted(self.class_order):
            args.class_order = self.class_order  # fix_class_names_order reads it

    @classmethod
    def own_flags(cls) -> dict[str, inspect.Parameter]:
        """Return the keywords of the file's constructor."""
        parameters = inspect.signature(behind(cls)).parameters
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {name: entry for name, entry in parameters.items() if entry.kind in plain and name != "args"}

    @classmethod
    def get_parser(cls, parser: Any) -> Any:
        """Add a flag for each keyword of the file's constructor, and the defaults that the file sets."""
        for name, entry in cls.own_flags().items():
            if f"--{name}" not in parser._option_string_actions:
                default = None if entry.default is inspect.Parameter.empty else entry.default
                kind = yes_or_no if isinstance(default, bool) else str if default is None else type(default)
                parser.add_argument(f"--{name}", type=kind, default=default, metavar="X", help="of the data set's file")
        return parser

    @classmethod
    def default_flags(cls) -> dict[str, Any]:
        """Return the defaults that the file's methods give for flags (`set_default_from_args`)."""
        found = {}
        for name in dir(behind(cls)):
            method = inspect.getattr_static(behind(cls), name)
            if hasattr(method, "default_of"):
                found[method.default_of] = method()
        return found

    # -- the sets that the file makes ----------------------------------------------------------------------------------

    def get_data_loaders(self) -> tuple[BatchLoader, BatchLoader]:
        """Let the file make the next task's sets; what it draws meanwhile follows from the seed and the task alone."""
        self._taken = False
        task = self.c_task if self._looking else self.c_task + 1
        with drawing_from(randomness.derive_seed(randomness.current().seed, f"task's images/{max(task, 0)}")):
            try:
                super().get_data_loaders()
            except RuntimeError as error:  # of torchvision, where files are missing or corrupt
                raise ValueError(f"{self.NAME}: its file cannot make its images: {error}") from error
        if not self._taken:
            raise ValueError(f"get_data_loaders of {self.NAME} does not end in store_masked_loaders")
        return self.train_loader, self.test_loaders[-1] if self.test_loaders else None  # type: ignore[return-value]

    def take(self, train: MammothDatasetWrapper, test: MammothDatasetWrapper) -> Any:
        """Take the sets that the file made (`store_masked_loaders` calls this), renumber their labels, go on to the next task."""
        self._taken = True
        position = torch.empty(self.N_CLASSES, dtype=torch.int64)
        position[torch.tensor(self.class_order)] = torch.arange(self.N_CLASSES)
        for part in (train, test):
            if not len(part) or int(part.targets.min()) < 0 or int(part.targets.max()) >= self.N_CLASSES:
                raise ValueError(f"{self.NAME}: {len(part)} images in a split, with labels beyond 0 to {self.N_CLASSES - 1}")
            part.run_device = get_device(getattr(self.args, "device", None))
            part.targets = position[part.targets]
        share = getattr(self.args, "validation", 0.0)
        if share > 0:
            train, test = held_out(train, test, share if share < 1 else share / 100)
        train.targets = with_noise(train.targets, self.args, self.N_CLASSES, self._confused(), self.NAME)
        self._splits = {True: train, False: test}
        return (None, None) if self._looking else ContinualDataset.get_data_loaders(self)

    def split(self, train: bool) -> ImageSet:
        """Return the whole training or test split as the file made it last."""
        if train not in self._splits:
            self._looking = True
            try:
                self.get_data_loaders()
            finally:
                self._looking = False
        return self._splits[train]

    def _of_classes(self, train: bool, first: int, past_last: int) -> ImageSet:
        whole: Any = self.split(train)
        return whole.subset(((whole.targets >= first) & (whole.targets < past_last)).nonzero()[:, 0])

    def test_loader(self, task: int) -> BatchLoader:
        """Return the loader of a task's test images."""
        return BatchLoader(self._of_classes(False, *self.get_offsets(task)), self.test_batch())

    def _training_images(self) -> ImageSet:
        return self._of_classes(True, *self.training_range())

    def data_kind(self) -> str:
        """Nobody compared them with the published images."""
        return "unknown"

    def fingerprint(self) -> str:
        """Return a digest of all images and labels, training and test, before any transform."""
        digest = hashlib.blake2b(digest_size=16)
        for train in (True, False):
            for values in (self.split(train).data, self.split(train).targets):
                digest.update(as_bytes(values))
        return digest.hexdigest()

    # -- transforms, loss, defaults ------------------------------------------------------------------------------------

    def get_transform(self) -> Any:
        """Return the transform of replayed images: a config's, else the file's; None if there is none."""
        if self._transform_given:
            return ItemTransform(composed(["ToPILImage", self.TRANSFORM]))
        transform: Any = super().get_transform() if defines(self, "get_transform") else None
        return None if transform is None else ItemTransform(transform)

    def plain_transforms(self) -> dict[str, list[Spec]]:
        """Return the names of the steps that both sets go through; sizes and constants of those that prediction needs."""
        return {
            name: specs_of(getattr(self.split(train), "transform", None))
            for name, train in (("TRANSFORM", True), ("TEST_TRANSFORM", False))
        }

    def get_normalization_transform(self) -> Any:
        """Return the normalisation alone: the file's, else by its MEAN and STD, else none."""
        made = super().get_normalization_transform() if defines(self, "get_normalization_transform") else None
        if made is None and getattr(self, "MEAN", None) is not None:
            return BatchTransform([{"Normalize": {"mean": list(self.MEAN), "std": list(self.STD)}}])  # type: ignore[attr-defined]
        return made

    get_batch_size = ContinualDataset.get_batch_size
    get_minibatch_size = ContinualDataset.get_minibatch_size
    get_epochs = ContinualDataset.get_epochs
    get_iters = ContinualDataset.get_iters

    def get_class_names(self) -> list[str]:
        """Return the class names in the order of training labels: the file's, else numbers."""
        return list(super().get_class_names()) if defines(self, "get_class_names") else [str(label) for label in self.class_order]


def behind(cls: type) -> Any:
    """Return the class of the file that a `DroppedIn` stands before."""
    return cls.__mro__[cls.__mro__.index(DroppedIn) + 1]


def defines(dataset: ContinualDataset, name: str) -> bool:
    """Whether the file of a dropped-in benchmark defines a method that the base has too."""
    return getattr(behind(type(dataset)), name) is not getattr(ContinualDataset, name)


def held_out(
    train: MammothDatasetWrapper, test: MammothDatasetWrapper, share: float
) -> tuple[MammothDatasetWrapper, MammothDatasetWrapper]:
    """Set a share of the training items aside, to be read by the test set in the place of its own (`--validation`)."""
    order = torch.randperm(len(train), generator=randomness.fresh("validation"))
    held, kept = order[: round(share * len(train))], order[round(share * len(train)) :].sort().values
    test.data, test.targets, test.indexes = chosen(train.data, held), train.targets[held], held
    return train.subset(kept), test


def specs_of(transform: Any) -> list[Spec]:
    """Return torchvision's transforms as names, or `{name: arguments}` where prediction needs these."""
    specs: list[Spec] = []
    for step in getattr(transform, "transforms", [] if transform is None else [transform]):
        needed = [name for name in ("size", "mean", "std") if hasattr(step, name)]
        arguments = {name: plain(getattr(step, name)) for name in needed}
        specs += specs_of(step) if hasattr(step, "transforms") else [{type(step).__name__: arguments}]
    return specs


def plain(value: Any) -> Any:
    """Return a number, or a list of numbers."""
    return [float(part) if isinstance(part, float) else int(part) for part in value] if isinstance(value, list | tuple) else value


def as_bytes(values: Any) -> bytes:
    """Return the bytes of a tensor or an array, or the text of a list."""
    if isinstance(values, Tensor):
        values = values.cpu().numpy()
    return values.tobytes() if isinstance(values, np.ndarray) and values.dtype != object else repr(list(values)).encode()


def composed(specs: list[Any]) -> Any:
    """Return torchvision's transforms of these names, `{name: arguments}` or transforms, one after the other.

    Raises:
        ValueError: torchvision has no such transform, or it does not take the arguments.
    """
    from torchvision import transforms  # a second of imports, so only here

    steps = []
    for spec in specs:
        name, arguments = (spec, {}) if isinstance(spec, str) else next(iter(spec.items())) if isinstance(spec, dict) else ("", {})
        if name and not hasattr(transforms, name):
            raise ValueError(f"unknown transform {name!r}: torchvision has none of that name")
        try:
            steps.append(getattr(transforms, name)(**(arguments or {})) if name else spec)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from error
    return transforms.Compose(steps)


__all__ = ["DroppedIn", "adapted", "is_dropped_in"]
