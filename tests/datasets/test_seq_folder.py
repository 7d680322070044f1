"""One's own images: layouts, order, the split, the cache, the run's name, and what each kind of bad folder gets."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datasets import get_dataset, seq_folder
from datasets.seq_folder import natural, split_files
from mammoth import cli, settings

COLOURS = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200), "dark": (5, 5, 5), "white": (250, 250, 250)}


def write_class(folder, colour, count, seed=0, size=(40, 32)):
    """Write noisy images of one colour."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number in range(count):
        pixels = np.clip(np.array(colour) + rng.integers(-5, 6, (*size, 3)), 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")


def write_tree(root, classes=COLOURS, train=6, test=2):
    """Write the layout with folders for training and testing; returns its root."""
    for split, count in (("train", train), ("test", test)):
        for place, name in enumerate(classes):
            write_class(root / split / name, COLOURS.get(name, (0, 0, 0)), count, seed=2 * place + (split == "test"))
    return root


@pytest.fixture
def words(tmp_path):
    """Return the words of a command line on a folder; results and cache go to a temporary folder."""

    def made(root, *more):
        quiet = ("--device", "cpu", "--threads", "1", "--seed", "0", "--base_path", str(tmp_path / "base"))
        return ["--model", "pvbf", "--dataset", "seq-folder", "--data_path", str(root), *quiet, *more]

    return made


@pytest.fixture
def refused(words, capsys, tmp_path):
    """Return a function that asserts that a folder is refused in one or two lines, with nothing left behind."""

    def run(root, *more):
        capsys.readouterr()
        assert cli.main(words(root, *more)) == 2
        error = capsys.readouterr().err
        assert 1 <= len(error.splitlines()) <= 2
        assert error.startswith("error: ")
        assert not [path for path in (tmp_path / "base").rglob("*") if path.is_file()]
        return error

    return run


def dataset_of(arguments):
    return get_dataset(settings.resolve(arguments).args)


# -- what works ----------------------------------------------------------------------------------------------------------


def test_pvbf_learns_colours_from_a_folder(tmp_path, words, capsys):
    """The page's command: five classes, two a task, the last task has one; the command line ends well, the record has the names."""
    root = write_tree(tmp_path / "photos")
    backbone = ("--backbone", "mnistmlp", "--image_size", "8", "--n_epochs", "3")
    assert cli.main(words(root, *backbone)) == 0
    out = capsys.readouterr().out
    assert "pvbf on seq-folder (default, online)" in out
    (path,) = (tmp_path / "base").glob("results/records/*/record.json")
    record = settings.records.read_record(path)
    assert record["task_sizes"] == [2, 2, 1]
    assert record["class_names"] == ["blue", "dark", "green", "red", "white"]
    assert record["data"] | {"fingerprint": ""} == {
        "name": "seq-folder",
        "train": 30,
        "test": 10,
        "fingerprint": "",
        "kind": "own",
        "left_out": 0,
        "evaluated_on": "test images",
    }
    assert record["args"]["buffer_size"] == 500
    assert np.mean(record["class_il"][-1]) > 50
    assert sorted(path.name for path in root.iterdir()) == ["test", "train"]  # nothing is written beside the photos


def test_the_network_fits_the_images(tmp_path, words):
    """Number of outputs and size of inputs follow from the folder and the flags, before anything is decoded."""
    args = settings.resolve(words(write_tree(tmp_path / "photos"), "--image_size", "64")).args
    assert (args.num_classes, args.input_height, args.input_channels, args.backbone) == (5, 64, 3, "reduced-resnet18")


def test_help_needs_no_folder(capsys):
    """`--help` shows the benchmark's flags, with and without a folder that is there."""
    for more in ([], ["--data_path", "/nowhere"]):
        assert cli.main(["--model", "pvbf", "--dataset", "seq-folder", *more, "--help"]) == 0
        assert "--classes_per_task" in capsys.readouterr().out


def test_a_missing_path_is_named(capsys):
    """Without --data_path there is nothing to run on."""
    assert cli.main(["--model", "pvbf", "--dataset", "seq-folder"]) == 2
    assert "--data_path" in capsys.readouterr().err


def test_one_tree_is_divided(tmp_path):
    """A share of each class tests, at least one image and not all; the same images each time, and most stay when files come."""
    for name, count in (("a", 10), ("b", 2), ("c", 100)):
        write_class(tmp_path / "photos" / name, (0, 0, 0), count, size=(2, 2))
    found = split_files(tmp_path / "photos", 0.2)
    counts = {name: (len(found["train"][name]), len(found["test"][name])) for name in "abc"}
    assert counts == {"a": (8, 2), "b": (1, 1), "c": (80, 20)}
    assert found == split_files(tmp_path / "photos")
    assert not set(found["train"]["c"]) & set(found["test"]["c"])
    Image.new("RGB", (2, 2)).save(tmp_path / "photos" / "c" / "one_more.png")
    again = split_files(tmp_path / "photos", 0.2)
    assert len(set(again["test"]["c"]) & set(found["test"]["c"])) >= 19


def test_names_are_sorted_as_people_do():
    """Numbers by value, letters without regard to case."""
    names = ["img10", "img2", "Img1", "10", "9", "zebra", "Apple"]
    assert sorted(names, key=natural) == ["9", "10", "Apple", "Img1", "img2", "img10", "zebra"]


def test_subfolders_belong_to_the_class_and_clutter_does_not(tmp_path):
    """Photos sorted by day within a class; hidden files and what file managers write are no images."""
    root = write_tree(tmp_path / "photos", ["red", "blue"], train=1, test=1)
    write_class(root / "train" / "red" / "2024" / "May", (0, 0, 0), 2)
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (root / "train" / "red" / name).write_bytes(b"x")
    (root / "train" / ".cache").mkdir()
    for name in (".thumbnails", "@eaDir"):
        write_class(root / "train" / "red" / name, (0, 0, 0), 2)
    assert [str(path.relative_to(root / "train" / "red")) for path in split_files(root)["train"]["red"]] == [
        "0.png", "2024/May/0.png", "2024/May/1.png",
    ]  # fmt: skip


def test_linked_subfolders_belong_to_the_class_too(tmp_path):
    """Once each, and a link that leads back ends."""
    root = write_tree(tmp_path / "photos", ["red", "blue"], train=1, test=1)
    write_class(tmp_path / "elsewhere", (9, 9, 9), 2)
    (root / "train" / "red" / "more").symlink_to(tmp_path / "elsewhere")
    (root / "train" / "red" / "round").symlink_to(root / "train" / "red")
    assert [str(path.relative_to(root / "train" / "red")) for path in split_files(root)["train"]["red"]] == [
        "0.png", "more/0.png", "more/1.png",
    ]  # fmt: skip


def test_a_config_of_ones_own_for_larger_images(tmp_path, words, refused):
    """Transforms are tried at --image_size; what follows from the folder cannot be set in a config."""
    root, path = write_tree(tmp_path / "photos", ["red", "blue"]), tmp_path / "mine.yaml"
    flags = "backbone: resnet18\nbatch_size: 4\nn_epochs: 1\nlr: 0.1\nbuffer_per_class: 10\n"
    path.write_text(f"{flags}TRANSFORM: [{{RandomCrop: {{size: 64, padding: 4}}}}, ToTensor]\n")
    settings.resolve(words(root, "--dataset_config", str(path), "--image_size", "64"))
    assert "mine.yaml: TRANSFORM" in refused(root, "--dataset_config", str(path))
    path.write_text(f"{flags}N_TASKS: 3\n")
    assert "N_TASKS follows from the benchmark's own flags" in refused(root, "--dataset_config", str(path))


def test_a_class_order_from_a_file(tmp_path, words):
    """A name a line; blank lines do not count; the classes appear in that order and keep their own images."""
    root = write_tree(tmp_path / "photos")
    order = tmp_path / "order.txt"
    order.write_text("white\nblue\n\nred\ndark\ngreen\n", encoding="utf-8")
    dataset = dataset_of(words(root, "--class_order", str(order), "--classes_per_task", "5"))
    assert dataset.get_class_names() == ["white", "blue", "red", "dark", "green"]
    images = dataset.split(train=True)
    for label, name in enumerate(dataset.get_class_names()):
        mean = images.data[images.targets == label].float().mean((0, 1, 2))
        assert torch.allclose(mean, torch.tensor(COLOURS[name]).float(), atol=4)


def test_a_path_with_spaces_and_other_letters(tmp_path, words):
    """Spaces, accents, non-Latin letters, in the path and as class names; accents stored apart (macOS) are the same name."""
    root = write_tree(tmp_path / "Fotos von Zoë 写真", ["e\u0301clair", "北京", "a b"], train=2, test=1)
    shutil.move(root / "test" / "e\u0301clair", root / "test" / "\u00e9clair")
    dataset = dataset_of(words(root, "--classes_per_task", "3"))
    assert dataset.get_class_names() == ["a b", "\u00e9clair", "北京"]
    assert len(dataset.split(train=False)) == 3


# -- the cache and the run's name ------------------------------------------------------------------------------------------


def test_images_are_decoded_once(tmp_path, words, monkeypatch):
    """The second run takes the cache, wherever the folder's times stand; a changed image, another size or order decodes again."""
    root, decoded = write_tree(tmp_path / "photos", ["red", "blue"]), []
    decode = seq_folder.decode_images
    monkeypatch.setattr(seq_folder, "decode_images", lambda *given: decoded.append(1) or decode(*given))

    def fingerprint(*more):
        return dataset_of(words(root, *more)).fingerprint()

    first = fingerprint()
    os.utime(root / "train" / "red" / "0.png", (1, 1))
    assert (fingerprint(), len(decoded)) == (first, 1)
    assert len(list((tmp_path / "base" / "seq-folder").iterdir())) == 1
    Image.new("RGB", (9, 9)).save(root / "train" / "red" / "0.png")
    second = fingerprint()
    assert (second != first, len(decoded)) == (True, 2)
    fingerprint("--image_size", "16")
    assert len(decoded) == 3


def test_the_run_is_named_after_the_content(tmp_path, words):
    """A moved folder keeps its runs' names; another image, another split or other tasks change them."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    name = settings.resolve(words(root)).args.run_id
    moved = shutil.copytree(root, tmp_path / "elsewhere")
    assert settings.resolve(words(moved)).args.run_id == name
    assert settings.resolve(words(moved, "--classes_per_task", "1")).args.run_id != name
    shutil.move(moved / "test" / "red" / "0.png", moved / "train" / "red" / "new.png")
    assert settings.resolve(words(moved)).args.run_id != name


# -- what does not ---------------------------------------------------------------------------------------------------------


def test_an_empty_folder(tmp_path, refused):
    """Says what is expected there."""
    (tmp_path / "empty").mkdir()
    assert "0 class folder(s)" in refused(tmp_path / "empty")
    assert "no folder" in refused(tmp_path / "nowhere")


def test_a_class_with_no_image(tmp_path, refused):
    """In training or in testing."""
    root = write_tree(tmp_path / "photos")
    (root / "train" / "void").mkdir()
    assert "void: no image in this class" in refused(root)


def test_one_class_only(tmp_path, refused):
    """There is nothing to tell apart."""
    assert "1 class folder(s), and at least 2" in refused(write_tree(tmp_path / "photos", ["red"]))


def test_a_test_class_that_training_lacks(tmp_path, refused):
    """The nearest training class is named; so is a training class without test images."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    shutil.move(root / "test" / "red", root / "test" / "Red")
    assert "class 'Red' is not among the training classes; did you mean red?" in refused(root)
    shutil.rmtree(root / "test" / "Red")
    (root / "test" / "blue2").mkdir()
    shutil.rmtree(root / "test" / "blue2")
    write_class(root / "train" / "green", (0, 0, 0), 1)
    write_class(root / "test" / "green", (0, 0, 0), 1)
    assert "no folder for class 'red'" in refused(root)


def test_classes_that_differ_in_letter_case(tmp_path, refused):
    """Where a file system can hold both, another cannot."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    write_class(root / "train" / "RED", (0, 0, 0), 1)
    if len(list((root / "train").iterdir())) < 3:
        pytest.skip("this file system does not tell letter case")
    assert "differ in letter case" in refused(root)


BAD_FILES = {
    "text.jpg": lambda path: path.write_text("not an image"),
    "notes.txt": lambda path: path.write_text("not an image"),
    "zero.png": lambda path: path.write_bytes(b""),
    "bomb.pgm": lambda path: path.write_bytes(b"P5 40000 40000 255 "),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_image(name, tmp_path, refused, words):
    """Named with the reason, and left out on demand, which is counted."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    BAD_FILES[name](root / "train" / "red" / name)
    error = refused(root)
    assert f"1 file(s) cannot be read: {root / 'train' / 'red' / name}" in error
    assert "--skip_bad_images 1" in error
    dataset = dataset_of(words(root, "--skip_bad_images", "1"))
    assert (len(dataset.split(train=True)), dataset.data_kind(), dataset.left_out()) == (12, "own", 1)


def test_all_that_was_left_out_is_named(tmp_path, words, capsys):
    """Five bad files: three on the screen, all with their reasons in a file whose path is printed; the record counts them."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    bad = [
        root / "train" / "red" / name for name in (*(f"bad{number}.png" for number in range(4)), os.fsdecode(b"not utf-8 \xff.png"))
    ]
    for path in bad:
        path.write_bytes(b"")
    backbone = ("--backbone", "mnistmlp", "--image_size", "8", "--skip_bad_images", "1")
    for _ in range(2):  # from the files, then from the cache
        assert cli.main(words(root, *backbone)) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
        listed = Path(line.rsplit("all are named in ", 1)[1])
        assert "5 file(s)" in line
        assert "and 2 more" in line
        assert listed.read_text(errors="surrogateescape").splitlines() == [f"{path} (an empty file)" for path in bad]
    (record,) = (tmp_path / "base").glob("results/records/*/record.json")
    assert settings.records.read_record(record)["data"]["left_out"] == 5
    for path in bad:
        path.unlink()
    assert dataset_of(words(root, *backbone)).left_out() == 0
    assert not listed.exists()


def test_a_class_of_bad_images_only(tmp_path, refused):
    """Leaving out must not empty a class."""
    root = write_tree(tmp_path / "photos", ["red", "blue"], test=1)
    (root / "test" / "red" / "0.png").write_bytes(b"")
    assert "class 'red' has no test image that can be read" in refused(root, "--skip_bad_images", "1")


@contextmanager
def another_user():
    """Give up the rights of root, for which every file is open."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no users")
def test_no_permission_to_read(tmp_path):
    """A folder that may not be listed is one clear line; a file that may not be read is named like any that cannot."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    for folder in (tmp_path, *tmp_path.parents[:3]):  # pytest's own, one more when it runs in parallel
        folder.chmod(0o755)
    (root / "train" / "red").chmod(0o000)
    with another_user(), pytest.raises(ValueError, match=r"train/red cannot be read \(Permission denied\)"):
        split_files(root)
    (root / "train" / "red").chmod(0o755)
    (root / "train" / "red" / "0.png").chmod(0o000)
    files = split_files(root)
    with another_user(), pytest.raises(ValueError, match=r"1 file\(s\) cannot be read: .*red/0.png \(.*Permission denied"):
        seq_folder.decode_images(files["train"]["red"], (8, 8), 3)
    with another_user():
        assert seq_folder.content_digest(root, files)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--classes_per_task", "6"), "has 5 classes"),
        (("--test_fraction", "0.5"), "leave the flag out"),
        (("--image_size", "2"), "out of range"),
        (("--image_size", "8"), "too small"),
    ],
)
def test_flags_that_do_not_fit(more, says, tmp_path, refused):
    """One line each."""
    assert says in refused(write_tree(tmp_path / "photos"), *more)


@pytest.mark.parametrize(
    ("text", "says"), [("red\nblu", "did you mean blue"), ("red", "'blue' is missing"), ("red\nblue\nred", "listed twice")]
)
def test_a_class_order_that_does_not_fit(text, says, tmp_path, refused):
    """Unknown, missing or double names."""
    order = tmp_path / "order.txt"
    order.write_text(text, encoding="utf-8")
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    assert says in refused(root, "--class_order", str(order))
    assert "cannot be read" in refused(root, "--class_order", str(Path(tmp_path / "nowhere")))


@pytest.mark.parametrize("names", [("Train", "Test"), ("seg_train", "seg_test"), ("training", "validation")])
def test_splits_are_no_classes(names, tmp_path, refused):
    """Folders named like splits, but not train and test, would be two classes with everything in them."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    for old, new in zip(("train", "test"), names, strict=True):
        (root / old).rename(root / new)
    assert "look like splits, not classes" in refused(root)


def test_half_a_layout(tmp_path, refused):
    """train/ without test/ is neither layout."""
    root = write_tree(tmp_path / "photos", ["red", "blue"])
    shutil.rmtree(root / "test")
    assert "must both be there" in refused(root)
