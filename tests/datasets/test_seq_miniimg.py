"""MiniImageNet from each of the three layouts that it is passed around in, and what is wrong with a folder."""

import pickle

import numpy as np
import pytest

from datasets import seq_miniimg
from datasets.seq_miniimg import CLASSES, LISTS, PICKLES
from mammoth.runner import InputError
from tests.datasets.made_files import write_image, write_mini_tree

COMMAND = ("--model", "sgd", "--dataset", "seq-miniimg", "--dataset_config", "online", "--n_iters", "1", "--stop_after", "1")


@pytest.fixture
def images(resolve):
    """Return a function that reads the data set under the temporary base path."""
    from datasets import get_dataset

    def read(*more):
        return get_dataset(resolve(*COMMAND, *more))

    return read


@pytest.fixture
def root(tmp_path):
    return tmp_path / "MiniImageNet"


def test_the_order_of_the_classes_is_the_fields():
    """100 different ids; the first of meta-training, the first of meta-validation (65th), the last of meta-test."""
    assert len(set(CLASSES)) == len(CLASSES) == 100
    assert (CLASSES[0], CLASSES[64], CLASSES[99]) == ("n01532829", "n01855672", "n07613480")


def test_a_tree_of_folders(images, root):
    """Its own split is kept, labels follow the field's order, and the kind says that it is a sample."""
    write_mini_tree(root, train=2)
    dataset = images()
    train, test = dataset.split(True), dataset.split(False)
    assert train.data.shape == (200, 84, 84, 3)
    assert test.data.shape == (100, 84, 84, 3)
    assert train.data[:, 0, 0, 0].tolist() == train.targets.tolist() == [place for place in range(100) for _ in range(2)]
    assert dataset.data_kind() == "sample"
    assert dataset.get_class_names() == CLASSES


def test_a_run_over_a_tree(go, root):
    """Twenty tasks of five classes, 84x84 through the reduced ResNet-18, whose features are then 640."""
    write_mini_tree(root)
    record = go(*COMMAND)
    assert record["task_sizes"] == [5] * 20
    assert record["data"]["kind"] == "sample"
    assert record["provenance"]["parameters"] > 1_100_000


def write_lists(root, count):
    """Write `images/` with `count` images of each class, the red its number, and the lists, each class backwards."""
    for name in CLASSES:
        for number in range(count):
            write_image(root / "images" / f"{name}_{number:04}.png", number)
    for file, classes in zip(LISTS, (CLASSES[:64], CLASSES[64:80], CLASSES[80:]), strict=True):
        lines = [f"{name}_{number:04}.png,{name}" for name in classes for number in reversed(range(count))]
        (root / file).write_text("filename,label\n" + "\n".join(lines) + "\n")


def test_the_three_lists(images, root, monkeypatch):
    """`images/` and three lists: of each class the first (of 500, here 2) names train, the rest test, whatever the lists' order."""
    monkeypatch.setattr(seq_miniimg, "TRAINED", 2)
    write_lists(root, 3)
    dataset = images()
    assert dataset.split(True).data[:, 0, 0, 0].tolist() == [0, 1] * 100
    assert dataset.split(False).data[:, 0, 0, 0].tolist() == [2] * 100
    assert dataset.split(True).targets.tolist() == [label for label in range(100) for _ in range(2)]


def test_lists_of_too_few_images(images, root):
    """Two images of a class, where 500 train: nothing is left to test on."""
    write_lists(root, 2)
    with pytest.raises(ValueError, match=f"class {CLASSES[0]} and 99 more without test images"):
        images().split(True)


def write_pickles(root, count=600, **changes):
    """The three pickles; the green of an image is its number modulo 256, the red its class. Stored backwards, as places may be."""
    root.mkdir(parents=True)
    for name, classes in zip(PICKLES, (CLASSES[:64], CLASSES[64:80], CLASSES[80:]), strict=True):
        pixels = np.zeros((len(classes) * count, 84, 84, 3), dtype=np.uint8)
        places = {label: list(range(k * count, (k + 1) * count))[::-1] for k, label in enumerate(classes)}
        for label in classes:
            pixels[places[label], :, :, 0] = CLASSES.index(label)
            pixels[places[label], :, :, 1] = (np.arange(count) % 256)[:, None, None]
        (root / name).write_bytes(pickle.dumps({"image_data": pixels, "class_dict": places, **changes}))


@pytest.mark.long
def test_the_three_pickles(images, root):
    """The first 500 stored places of each class train, the last 100 test: the published data."""
    write_pickles(root)
    dataset = images()
    train, test = dataset.split(True), dataset.split(False)
    assert (len(train), len(test)) == (50_000, 10_000)
    assert (train.data[:, 0, 0, 0] == train.targets).all()
    assert train.data[:500, 0, 0, 1].tolist() == [number % 256 for number in range(500)]
    assert test.data[:100, 0, 0, 1].tolist() == [number % 256 for number in range(500, 600)]
    assert dataset.data_kind() == "original"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "class n01532829 has 2 images, not 600"),
        ({"image_data": np.zeros((4, 3, 84, 84), dtype=np.uint8)}, "image_data"),
        ({"class_dict": {"n01532829": [10**6]}}, "class_dict"),
        ({"class_dict": "x"}, "class_dict"),
    ],
)
def test_wrong_pickles_are_named(changes, says, images, root):
    """Too few images, another shape, places that are not there, no dict."""
    write_pickles(root, 2, **changes)
    with pytest.raises(ValueError, match=says):
        images().split(True)


def test_nothing_there_says_what_is_expected_where(go, root):
    """No folder, and a folder of something else: the path, what is there, and the three layouts."""
    with pytest.raises(InputError, match="no such folder") as error:
        go(*COMMAND)
    assert str(root) in str(error.value)
    assert "mini-imagenet-cache-train.pkl" in str(error.value)
    (root / "imgs").mkdir(parents=True)
    with pytest.raises(InputError, match="imgs"):
        go(*COMMAND)


def test_wrong_folders_are_named(images, root):
    """A class that is not MiniImageNet's; a class that the training images lack; a list with a file that is not there."""
    write_mini_tree(root, classes=[*CLASSES[:-1], "cats"])
    with pytest.raises(ValueError, match=r"'cats' is none of .* seq-folder"):
        images().split(True)
    (root / "train" / "cats").rename(root / "train" / CLASSES[-1])
    (root / "val" / "cats").rename(root / "val" / CLASSES[-1])
    assert len(images().split(True)) == 100
    (root / "val" / CLASSES[3] / f"{CLASSES[3]}_0.png").unlink()
    with pytest.raises(ValueError, match=f"class {CLASSES[3]} without test images"):
        images().split(True)
    (root / "val").rename(root / "images")
    for name in LISTS:
        (root / name).write_text("filename,label\nnowhere.jpg,n01532829\n")
    with pytest.raises(ValueError, match=r"train\.csv, line 2"):
        images().split(True)


def test_a_bad_image_stops_or_is_left_out(images, root, monkeypatch):
    """One empty file: named with the way out; with --skip_bad_images 1 the others are used, and it is a sample from then on."""
    monkeypatch.setattr(seq_miniimg, "TRAINED", 2)
    monkeypatch.setattr(seq_miniimg, "PER_CLASS", 3)
    write_mini_tree(root, train=2)
    assert images().data_kind() == "original"
    (root / "train" / CLASSES[0] / f"{CLASSES[0]}_0.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"an empty file.*\n.*--skip_bad_images 1"):
        images().split(True)
    dataset = images("--skip_bad_images", "1")
    assert (len(dataset.split(True)), dataset.left_out(), dataset.data_kind()) == (199, 1, "sample")
    assert "_0.png (an empty file)" in (root / "decoded-84x84.left_out.txt").read_text()
