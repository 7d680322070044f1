"""The MNIST family: files in the published format, split, permuted and rotated; and what is wrong with a file."""

import gzip
import struct

import numpy as np
import pytest
import torch

from datasets import get_dataset
from datasets.rot_mnist import rotated
from datasets.utils.mnist import read_idx
from mammoth.runner import InputError
from tests.datasets.made_files import write_mnist
from utils import randomness

RUN = ("--model", "er", "--buffer_size", "20", "--n_iters", "3", "--stop_after", "2", "--batch_size", "4", "--lr", "0.1")


@pytest.fixture
def dataset(resolve, tmp_path):
    """Return a function from a name and flags to the benchmark, on made files."""
    write_mnist(tmp_path / "MNIST" / "raw")

    def made(name, *more):
        return get_dataset(resolve("--model", "sgd", "--dataset", name, "--lr", "0.1", *more))

    return made


# -- files -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "packed"), [("MNIST/raw", False), ("MNIST/MNIST/raw", True), ("MNIST/MyMNIST/raw", False)])
def test_the_files_are_found_packed_or_not(folder, packed, resolve, tmp_path):
    """Where torchvision puts them, and where Mammoth's subclasses do: the same images."""
    images, labels = write_mnist(tmp_path / folder, packed)["train"]
    found = get_dataset(resolve("--model", "sgd", "--dataset", "seq-mnist", "--lr", "0.1")).split(train=True)
    assert np.array_equal(found.data[..., 0].numpy(), images)
    assert found.targets.tolist() == labels.tolist()


def test_fashion_mnist_has_its_own_files_and_names(resolve, tmp_path):
    """Under FashionMNIST/raw; label 9 is an ankle boot."""
    write_mnist(tmp_path / "FashionMNIST" / "raw")
    made = get_dataset(resolve("--model", "sgd", "--dataset", "seq-fmnist", "--lr", "0.1"))
    assert len(made.split(train=False)) == 20
    assert made.get_class_names()[9] == "ankle boot"


def test_fewer_images_than_published_are_a_sample(dataset, monkeypatch):
    """The made files are none of the originals; labels as many as published pass for them."""
    assert dataset("seq-mnist").data_kind() == "sample"
    monkeypatch.setattr("datasets.utils.mnist.read_idx", lambda path: range(60_000 if path.name.startswith("train") else 10_000))
    assert dataset("seq-mnist").data_kind() == "original"


def test_missing_files_say_where_they_are_looked_for(go, tmp_path, monkeypatch):
    """No files and no network: the places, the names, the reason."""

    def offline(*args, **options):
        raise RuntimeError("no network")

    monkeypatch.setattr("torchvision.datasets.MNIST", offline)
    with pytest.raises(InputError, match="train-images-idx3-ubyte") as error:
        go(*RUN, "--dataset", "seq-mnist")
    assert "no network" in str(error.value)
    assert str(tmp_path / "MNIST" / "raw") in str(error.value)


GOOD = struct.pack(">4I", 2051, 2, 28, 28) + bytes(2 * 784)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no idx file"),
        (GOOD[:8], "no idx file"),
        (b"\x80\x02cos\nsystem\n" + bytes(20), "no idx file"),
        (GOOD[:-1], "cut off or too long"),
        (GOOD + b"x", "cut off or too long"),
        (struct.pack(">4I", 2051, 2**31, 2**31, 28), "cut off or too long"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_file_is_named(data, says, packed, tmp_path):
    """Empty, cut off, too long, code, a size that no memory holds; packed and not."""
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(ValueError, match=says) as error:
        read_idx(path)
    assert str(path) in str(error.value)


def test_a_damaged_packing_is_named(tmp_path):
    """gzip's own check, and a file that only has the name."""
    whole = gzip.compress(GOOD)
    for number, data in enumerate((whole[:-9], b"not packed", whole[:20] + b"xx" + whole[22:])):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"{number}\.gz is corrupt"):
            read_idx(path)


# -- domains ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["perm-mnist", "rot-mnist"])
def test_each_task_shows_all_digits_in_its_own_way(name, dataset):
    """Twenty tasks of ten classes; training and test images of a task are changed alike, another task's otherwise."""
    made = dataset(name)
    assert (made.N_TASKS, made.task_sizes[0]) == (20, 10)
    shown = [[loader.dataset.data for loader in made.get_data_loaders()] for _ in range(2)]
    whole = made.split(train=True), made.split(train=False)
    for task in range(2):
        for found, images in zip(shown[task], whole, strict=True):
            assert torch.equal(found, made.task_images(images, task).data)
    assert not torch.equal(shown[0][0], shown[1][0])


@pytest.mark.parametrize("name", ["perm-mnist", "rot-mnist"])
def test_the_change_depends_on_seed_and_task_alone(name, dataset):
    """Other draws, another method or order of asking change nothing; another seed does."""
    first, images = dataset(name), dataset(name).split(train=False)
    expected = [first.task_images(images, task).data for task in (3, 0)]
    torch.rand(5)
    second = dataset(name, "--permute_classes", "1")
    assert all(torch.equal(second.task_images(images, task).data, found) for task, found in zip((3, 0), expected, strict=True))
    other = dataset(name, "--seed", "1")
    randomness.start(1)
    assert not torch.equal(other.task_images(images, 3).data, expected[0])


@pytest.mark.parametrize("name", ["perm-mnist", "rot-mnist"])
def test_an_order_of_tasks_is_an_order_of_domains(name, dataset):
    """Task t shows the t-th domain of --custom_task_order, in training and test, and not its own."""
    order = [1, 2, 0, *range(4, 20), 3]
    natural, ordered = dataset(name), dataset(name, "--custom_task_order", ",".join(map(str, order)))
    for task in range(3):
        shown = ordered.get_data_loaders()
        for loader, train in zip(shown, (True, False), strict=True):
            images = natural.split(train)
            assert torch.equal(loader.dataset.data, natural.task_images(images, order[task]).data)
            assert not torch.equal(loader.dataset.data, natural.task_images(images, task).data)


@pytest.mark.parametrize("name", ["perm-mnist", "rot-mnist"])
def test_upstreams_way_of_drawing_is_at_hand(name, dataset):
    """--domain_draws global: the task's change depends on what was drawn before, and is one for training and test."""

    def shown(draws):
        made = dataset(name, "--domain_draws", "global")
        randomness.start(0)
        torch.rand(draws)
        loaders = made.get_data_loaders()
        for loader, train in zip(loaders, (True, False), strict=True):
            assert torch.equal(loader.dataset.data, made.task_images(made.split(train), 0).data)
        return loaders[0].dataset.data

    assert torch.equal(shown(1), shown(1))
    assert not torch.equal(shown(1), shown(2))


def test_a_run_with_global_draws_cannot_go_on(dataset):
    """A checkpoint does not have them."""
    with pytest.raises(ValueError, match="--domain_draws global"):
        dataset("perm-mnist", "--domain_draws", "global", "--resume", "auto")


def test_a_runs_name_is_as_it_was_without_the_flag(resolve):
    """A flag that is not given is not in the arguments."""
    assert not hasattr(resolve(*RUN, "--dataset", "perm-mnist"), "domain_draws")


def test_a_permutation_moves_pixels_and_loses_none(dataset):
    """The same values in another order, the same order for every image."""
    made = dataset("perm-mnist")
    images = made.split(train=True)
    changed = made.task_images(images, 4).data.flatten(1)
    assert torch.equal(changed.sort(1).values, images.data.flatten(1).sort(1).values)
    marked = images.data.clone().flatten(1)
    marked[:] = torch.arange(784) % 256
    twice = made.task_images(type(images)(marked.view_as(images.data), images.targets), 4).data.flatten(1)
    assert torch.equal(twice[0], twice[1])


def test_rotation_by_hand():
    """A quarter turn counter-clockwise: the right column becomes the top row; a whole turn changes nothing."""
    image = torch.zeros(1, 4, 4, 1, dtype=torch.uint8)
    image[0, :, 3, 0] = torch.tensor([1, 2, 3, 4])
    assert rotated(image, 90.0)[0, 0, :, 0].tolist() == [1, 2, 3, 4]
    assert torch.equal(rotated(image, 360.0), image)
    assert torch.equal(rotated(rotated(image, 90.0), 270.0), image)


@pytest.mark.parametrize("name", ["seq-mnist", "perm-mnist", "rot-mnist"])
def test_runs(name, go, dataset):
    """Two tasks of three steps; a domain-il record has no Task-IL accuracies of its own."""
    record = go(*RUN, "--dataset", name)
    assert [len(row) for row in record["class_il"]] == [1, 2]
    assert record["setting"] == ("class-il" if name == "seq-mnist" else "domain-il")


def test_all_domains_at_once(go, dataset):
    """`--joint 1` on a domain-il sequence trains on the images of all tasks and tests on each."""
    record = go("--model", "joint", "--dataset", "perm-mnist", "--dataset_config", "10tasks", "--lr", "0.1", "--n_iters", "2")
    assert len(record["class_il"][0]) == 10
    made = dataset("perm-mnist", "--joint", "1", "--dataset_config", "10tasks")
    loader, _ = made.get_data_loaders()
    assert len(loader.dataset) == 10 * 40
