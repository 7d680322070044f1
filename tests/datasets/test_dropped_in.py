"""A data set file written for Mammoth: torch data sets of items, handed over by `store_masked_loaders`; made in code."""

import copy
import os
import signal
from argparse import Namespace

import numpy as np
import pytest
import torch
from torchvision import transforms

import datasets
from datasets import get_dataset, get_dataset_class
from datasets.utils import set_default_from_args
from datasets.utils.continual_dataset import (
    ContinualDataset,
    MammothDatasetWrapper,
    fix_class_names_order,
    store_masked_loaders,
)
from datasets.utils.items import ItemTransform
from mammoth.interruption import Interrupted
from models import ContinualModel
from utils import randomness
from utils.checkpoints import load_checkpoint

NAMES = ["ant", "bee", "cat", "dog"]


class Items(torch.utils.data.Dataset):
    """Forty 8 x 8 colour images as bytes, red ten times the class; each item an image, its label and, in training, itself raw."""

    def __init__(self, train, transform):
        self.targets = (np.arange(40) % 4).tolist()
        self.data = np.full((40, 8, 8, 3), 7, dtype=np.uint8)
        self.data[..., 0] = 10 * np.array(self.targets)[:, None, None]
        self.data[..., 1] = np.arange(40)[:, None, None]
        self.train, self.transform = train, transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, label = transforms.functional.to_pil_image(self.data[index]), self.targets[index]
        raw = transforms.functional.to_tensor(image)
        return (self.transform(image), label, raw) if self.train else (self.transform(image), label)


class MadeItems(ContinualDataset):
    """Two tasks of two classes."""

    NAME = "made-items"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 2
    N_TASKS = 2
    SIZE = (8, 8)
    MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    TRANSFORM = transforms.Compose(
        [transforms.RandomCrop(8, padding=2), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)]
    )
    TEST_TRANSFORM = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)])

    def __init__(self, args, shade: int = 7):
        super().__init__(args)
        self.shade = shade

    def get_data_loaders(self):
        return store_masked_loaders(Items(True, self.TRANSFORM), Items(False, self.TEST_TRANSFORM), self)

    def get_transform(self):
        return transforms.Compose([transforms.ToPILImage(), self.TRANSFORM])

    @set_default_from_args("backbone")
    def get_backbone():
        return "mnistmlp"

    @set_default_from_args("batch_size")
    def get_batch_size(self):
        return 8

    @set_default_from_args("n_epochs")
    def get_epochs():
        return 1

    def get_class_names(self):
        return fix_class_names_order(NAMES, self.args)


class MadeDomains(MadeItems):
    """Two tasks of all four classes; in each the images get a shade that is drawn when the task begins."""

    NAME = "made-item-domains"
    SETTING = "domain-il"
    N_CLASSES_PER_TASK = 4

    def get_data_loaders(self):
        shade = float(np.random.rand())
        shaded = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda image: image + shade)])
        return store_masked_loaders(Items(True, shaded), Items(False, shaded), self)


@pytest.fixture(autouse=True)
def _named(monkeypatch):
    """Both are benchmarks while a test runs."""
    for cls in (MadeItems, MadeDomains):
        monkeypatch.setitem(datasets._registry._entries, cls.NAME, cls)


def made(name="made-items", **flags):
    """Return a benchmark of the items, with a seed."""
    randomness.start(0)
    common = {"dataset_config": None, "batch_size": 8, "device": "cpu", "shade": 7}
    return get_dataset(Namespace(**{"dataset": name, **common, **flags}))


def classes_shown(images):
    """Return the class that each image was drawn for, by its red."""
    return (images.data[:, 0, 0, 0] // 10).tolist()


@pytest.mark.parametrize("method", ["er", "icarl", "gdumb", "gem"])
def test_it_runs(method, go):
    """Two tasks, with what its methods give as defaults; nobody knows whether its images are the published ones."""
    found = go("--model", method, "--dataset", "made-items", "--buffer_size", "8", "--lr", "0.1")
    assert found["status"] == "done"
    assert [len(row) for row in found["class_il"]] == [1, 2]
    assert found["data"] == found["data"] | {"train": 40, "test": 40, "kind": "unknown"}
    assert found["class_names"] == NAMES
    assert (found["args"]["batch_size"], found["args"]["n_epochs"], found["args"]["backbone"]) == (8, 1, "mnistmlp")


def test_herded_exemplars_come_back_as_bytes(go):
    """iCaRL's offline form adds stored images to the file's own array."""
    found = go(*"--model icarl --icarl_mode offline --dataset made-items --buffer_size 8 --lr 0.1 --num_classes 4".split())
    assert found["status"] == "done"


def test_each_task_has_its_classes():
    """Task t holds classes 2t and 2t + 1, for training and for testing, and batches carry the right labels."""
    dataset = made()
    for task in range(2):
        loaders = dataset.get_data_loaders()
        for loader in loaders:
            assert set(classes_shown(loader.dataset)) == {2 * task, 2 * task + 1}
        for _, labels, raw in loaders[0]:
            assert torch.equal((raw[:, 0, 0, 0] * 25.5).round().long(), labels)
        assert torch.cat([labels for _, labels, _ in loaders[1]]).unique().tolist() == [2 * task, 2 * task + 1]


def test_classes_and_their_names_are_reordered_together():
    """--permute_classes: label i is the class whose name stands at place i."""
    dataset = made(permute_classes=True)
    dataset.get_data_loaders()
    for classes, label in zip(classes_shown(dataset.split(True)), dataset.split(True).targets.tolist(), strict=True):
        assert dataset.get_class_names()[label] == NAMES[classes]
    assert dataset.class_order != [0, 1, 2, 3]


def test_what_it_draws_follows_from_the_seed_alone():
    """Crops are the same whatever else is drawn, and the global generators stand where they stood."""

    def first_batch(draws):
        dataset = made()
        np.random.rand(draws), torch.rand(draws)
        before = torch.get_rng_state()
        batch = next(iter(dataset.get_data_loaders()[0]))[0]
        assert torch.equal(torch.get_rng_state(), before)
        return batch

    assert torch.equal(first_batch(1), first_batch(1000))


def test_a_domains_images_stay_as_they_were():
    """The first task's test images keep their shade when the second begins with another, and the shade follows from the seed."""

    def shades():
        dataset = made("made-item-domains")
        np.random.rand(len(seen) + 1)
        for _ in range(2):
            dataset.get_data_loaders()
        return [float(next(iter(loader))[0][0, 2, 0, 0]) for loader in dataset.test_loaders]

    seen = []
    seen.append(shades())
    seen.append(shades())
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][1]
    assert made("made-item-domains").N_CLASSES == 4


@pytest.mark.parametrize("flag", ["joint", "eval_future", "custom_task_order"])
def test_another_domains_images_cannot_be_had_early(flag):
    """Flags that need them are refused by name."""
    with pytest.raises(ValueError, match=f"--{flag}: the file of made-item-domains"):
        made("made-item-domains", **{flag: 1})


def test_replayed_images_lose_nothing_on_the_way():
    """All 256 levels pass ToPILImage and ToTensor unchanged."""
    levels = torch.arange(256, dtype=torch.float32).div(255).view(1, 1, 16, 16)
    there_and_back = ItemTransform(transforms.Compose([transforms.ToPILImage(), transforms.ToTensor()]))
    assert torch.equal(there_and_back(levels), levels)
    assert torch.equal(there_and_back(levels[0]), levels[0])


def test_held_out_images_are_not_trained_on():
    """--validation: a fifth of the training images takes the place of the test images, with the test images' transform."""
    dataset = made(validation=0.2)
    train, test = dataset.split(True), dataset.split(False)
    shown = [set(images.data[:, 0, 0, 1].tolist()) for images in (train, test)]
    assert [len(part) for part in shown] == [32, 8]
    assert not shown[0] & shown[1]
    assert len(test[0]) == 3


def test_wrong_labels_are_given_once():
    """--noise_rate: the same labels are wrong each time that the file makes its sets."""
    dataset = made(noise_rate=0.5, noise_type="symmetric")
    first = dataset.split(True).targets.clone()
    dataset.get_data_loaders()
    assert torch.equal(dataset.split(True).targets, first)
    assert not torch.equal(first, torch.arange(40) % 4)


@pytest.mark.parametrize("name", ["made-items", "made-item-domains"])
def test_a_run_that_was_stopped_goes_on(name, go, tmp_path, monkeypatch):
    """Within the second task, bit for bit: images, crops and the domain's shade are drawn as they would have been."""
    words = f"--model er --dataset {name} --buffer_size 8 --lr 0.1 --n_iters 4 --checkpoint_path {tmp_path}/kept".split()
    words += ["--savecheck", "last"]
    whole, steps, observe = go(*words), [], ContinualModel.meta_observe
    last = tmp_path / "kept" / whole["run_id"] / "last.pt"
    weights = load_checkpoint(last)["model"]
    last.unlink()

    def observing(self, *batch, **fields):
        steps.append(1)
        if len(steps) == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return observe(self, *batch, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(ContinualModel, "meta_observe", observing)
        with pytest.raises(Interrupted):
            go(*words)
    again = go(*words, "--resume", "auto")
    assert again["provenance"]["resumed_at"] == [6]
    assert [again[key] for key in ("class_il", "confusion", "data")] == [whole[key] for key in ("class_il", "confusion", "data")]
    assert all(torch.equal(value, weights[name]) for name, value in load_checkpoint(last)["model"].items())


def test_a_checkpoint_knows_how_images_are_prepared():
    """By name and constants, as prediction reads them."""
    assert made().plain_transforms()["TEST_TRANSFORM"] == [{"ToTensor": {}}, {"Normalize": {"mean": [0.5] * 3, "std": [0.25] * 3}}]


def test_the_wrapper_reads_and_writes_the_data_set():
    """Masks of either kind cut it, what is written keeps the data set's own form, fields are added, and a copy is another."""
    images = MammothDatasetWrapper(Items(True, transforms.ToTensor()), train=True)
    images.add_extra_return_field("logits", torch.arange(40))
    assert images[3][3] == 3
    twin = copy.deepcopy(images)
    images.data, images.targets = images.data[np.arange(40) < 4], images.targets[torch.arange(40) < 4]
    assert isinstance(images.dataset.data, np.ndarray)
    assert (len(images), len(twin)) == (4, 40)
    images.data = torch.zeros(4, 8, 8, 3, dtype=torch.uint8)
    assert isinstance(images.dataset.data, np.ndarray)
    images.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    assert float(images[0][0].max()) == -1.0


def test_a_constructors_keyword_is_a_flag(resolve):
    """With its default, and of its type."""
    words = ("--model", "sgd", "--dataset", "made-items", "--lr", "0.1")
    assert resolve(*words).shade == 7
    assert get_dataset(resolve(*words, "--shade", "9")).shade == 9
    with pytest.raises(ValueError, match="shade"):
        resolve(*words, "--shade", "dark")


def test_a_config_may_give_torchvisions_transforms(tmp_path):
    """For stream and replay; SIZE may lack the channels; what torchvision does not know is named with the file."""
    path = tmp_path / "centre.yaml"
    path.write_text("SIZE: [4, 4]\nTRANSFORM: [{CenterCrop: {size: 4}}, ToTensor]\n")
    dataset = made(dataset_config=str(path))
    assert dataset.SIZE == [4, 4, 3]
    assert next(iter(dataset.get_data_loaders()[0]))[0].shape[1:] == (3, 4, 4)
    assert dataset.get_transform()(torch.rand(2, 3, 8, 8)).shape == (2, 3, 4, 4)
    path.write_text("TRANSFORM: [CentreCrop]\n")
    with pytest.raises(ValueError, match=r"centre\.yaml: TRANSFORM: unknown transform 'CentreCrop'"):
        made(dataset_config=str(path))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"get_data_loaders": lambda self: None}, "does not end in store_masked_loaders"),
        ({"N_TASKS": None}, "states no N_TASKS"),
    ],
)
def test_a_file_that_does_not_keep_to_the_form(facts, said, monkeypatch):
    """What is missing is named."""
    wrong = type("Wrong", (MadeItems,), facts)
    monkeypatch.setitem(datasets._registry._entries, "made-items", wrong)
    with pytest.raises(ValueError, match=said):
        made().get_data_loaders()


def test_a_native_benchmark_is_left_alone():
    """One that states its images is run as it is."""
    assert get_dataset_class("seq-digits").__name__ == "SequentialDigits"
    assert get_dataset_class("seq-digits").__mro__[1] is ContinualDataset
