"""Files that were made to do harm: each is refused in a line that names it, nothing is executed, and memory stays bounded."""

import contextlib
import functools
import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
import threading
import zipfile
import zlib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from PIL import Image

from datasets.seq_cifar10 import SequentialCIFAR10
from datasets.seq_miniimg import LISTS, PICKLES
from datasets.utils.cifar import _download
from datasets.utils.decode import read_image
from datasets.utils.mnist import read_idx
from mammoth import cli
from tests.datasets.made_files import write_image, write_mnist, write_tiny_folder
from utils.checkpoints import load_checkpoint
from utils.yaml_files import ROOT, read_yaml


class Hostile:
    """Unpickled, it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def refused(tmp_path, capsys):
    """Return a function that runs a command line, which must end with status 2 and one error; returns the error."""

    def ended(*words):
        capsys.readouterr()
        quiet = ("--model", "sgd", "--lr", "0.1", "--seed", "0", "--device", "cpu", "--non_verbose", "1")
        assert cli.main([*words, *quiet, "--base_path", str(tmp_path)]) == 2
        error = capsys.readouterr().err.rpartition("error: ")[2]
        assert 1 <= len(error.splitlines()) <= 2
        return error

    return ended


# -- that would execute code ---------------------------------------------------------------------------------------------------


def test_miniimagenets_pickles(refused, tmp_path):
    """The file is named, and nothing is made."""
    root = tmp_path / "MiniImageNet"
    root.mkdir()
    for name in PICKLES:
        (root / name).write_bytes(pickle.dumps({"image_data": Hostile(tmp_path / "made"), "class_dict": {}}))
    error = refused("--dataset", "seq-miniimg")
    assert error.startswith(f"{root / PICKLES[0]} is corrupt or truncated")
    assert "it asks for posix.mkdir" in error
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [
        "TRANSFORM: !!python/object/apply:os.mkdir [{path}]",
        "batch_size: !!python/name:os.system",
        "batch_size: 2001-99-99",
        500 * "[" + 500 * "]",
        "a: [b, c\n",
        "a: \0",
    ],
    ids=["call", "name", "no date", "brackets", "open", "zero byte"],
)
def test_yaml(text, refused, tmp_path):
    """A config that names code, or is no YAML: named, and nothing is made."""
    path = tmp_path / "config.yaml"
    path.write_text(text.format(path=tmp_path / "made") if "{path}" in text else text)
    assert f"{path} is no valid YAML: " in refused("--dataset", "seq-digits", "--dataset_config", str(path))
    with pytest.raises(ValueError, match="is no valid YAML"):
        read_yaml(path)
    assert not (tmp_path / "made").exists()


def test_all_yaml_is_read_by_one_function():
    """No other file of the project reads YAML."""
    folders = ("mammoth", "models", "datasets", "utils", "backbone", "scripts")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    reading = [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if "yaml.load" in (text := path.read_text()) or "_load(path.read" in text
    ]
    assert reading == ["utils/yaml_files.py"]
    assert "class _Loader(yaml.SafeLoader)" in (ROOT / "utils" / "yaml_files.py").read_text()


# -- that take memory ------------------------------------------------------------------------------------------------------------


def test_an_idx_file_that_unpacks_to_two_gigabytes(little_memory, tmp_path):
    """2 MB on disk: read no further than its head promises."""
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(struct.pack(">4I", 2051, 2, 28, 28)) + 2000 * gzip.compress(bytes(2**20), 1))
    with pytest.raises(ValueError, match=r"cut off or too long: more bytes for 2 x 28 x 28"):
        read_idx(path)


def test_a_compressed_checkpoint(tmp_path):
    """A file of torch's is stored as it is; one that would unpack to any size is refused before it does."""
    torch.save({"schema": 1, "model": {"w": torch.zeros(10_000)}}, tmp_path / "plain.pt")
    assert load_checkpoint(tmp_path / "plain.pt")["schema"] == 1
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb:
        for part in plain.infolist():
            bomb.writestr(part.filename, plain.read(part))
    with pytest.raises(ValueError, match=r"bomb\.pt is corrupt or no checkpoint: it is compressed"):
        load_checkpoint(tmp_path / "bomb.pt")


def test_a_png_whose_text_unpacks_to_a_gigabyte(little_memory, tmp_path):
    """The picture is small, its comment is not."""
    whole = io.BytesIO()
    Image.new("L", (8, 8)).save(whole, format="png")
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(64)) + packer.flush()
    chunk = b"zTXt" + b"Comment\0\0" + packed
    bomb = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    head = whole.getvalue()[:33]
    (tmp_path / "a.png").write_bytes(head + bomb + whole.getvalue()[33:])
    with pytest.raises(ValueError, match="too large"):
        read_image(tmp_path / "a.png", (8, 8), 1)


@pytest.mark.parametrize(("mode", "size"), [("1", (20_000, 20_000)), ("L", (100_000, 1))])
def test_large_pictures(mode, size, request, tmp_path):
    """400 megapixels in a few kB, and a line of 100,000 pixels: refused before they are decoded."""
    Image.new(mode, size).save(tmp_path / "large.png")
    request.getfixturevalue("little_memory")
    with pytest.raises(ValueError, match=r"too large to be read|at most 30000 a side"):
        read_image(tmp_path / "large.png", (8, 8), 3)


# -- that are not what they say -------------------------------------------------------------------------------------------------


def arrays(root, **changes):
    """Write Tiny ImageNet as Mammoth's arrays, some of them replaced by bytes."""
    root.mkdir(parents=True)
    for kind in ("train", "val"):
        for part in range(1, 21):
            np.save(root / f"x_{kind}_{part:02}.npy", np.zeros((10, 64, 64, 3)))
            np.save(root / f"y_{kind}_{part:02}.npy", np.arange(10 * part - 10, 10 * part))
    for name, content in changes.items():
        (root / f"{name}.npy").write_bytes(content)


def npy(array, **head):
    """Return an array as a file's bytes, with another head if asked for."""
    file = io.BytesIO()
    if head:
        np.lib.format.write_array_header_1_0(file, {"descr": array.dtype.str, "fortran_order": False, **head})
        file.write(array.tobytes())
    else:
        np.save(file, array)
    return file.getvalue()


def several_arrays():
    """Return a file of numpy's that holds two."""
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3), b=np.zeros(3))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy(np.zeros((10, 64, 64, 3)), shape=(10**9, 64, 64, 3)), "is corrupt or no plain array"),
        (npy(np.zeros((10, 64, 64, 3)))[:-1000], "is corrupt or no plain array"),
        (several_arrays(), "several arrays"),
        (npy(np.full((10, 64, 64, 3), "a")), "an array of <U1"),
        (npy(np.zeros((10, 64, 64, 3), dtype=np.int64)), "an array of int64"),
        (npy(np.float64(3)), r"an array of shape \(\)"),
    ],
    ids=["vast", "cut off", "several", "texts", "whole numbers", "a number"],
)
def test_arrays(content, says, refused, tmp_path):
    """A head that promises terabytes, a file cut off, another kind of content."""
    arrays(tmp_path / "TINYIMG" / "processed", x_train_07=content)
    error = refused("--dataset", "seq-tinyimg")
    assert "x_train_07.npy" in error
    with pytest.raises(ValueError, match=says):
        raise ValueError(error)


def test_counts_and_labels(refused, tmp_path):
    """Nine labels for ten images; a label beyond the classes: of arrays and of idx files."""
    root = tmp_path / "TINYIMG" / "processed"
    arrays(root, y_train_03=npy(np.arange(9)))
    assert "200 images and 199 labels" in refused("--dataset", "seq-tinyimg")
    (root / "y_train_03.npy").write_bytes(npy(np.full(10, 200)))
    assert "labels from 0 to 200, expected 0 to 199" in refused("--dataset", "seq-tinyimg")
    folder = tmp_path / "MNIST" / "raw"
    write_mnist(folder)
    path = folder / "train-labels-idx1-ubyte"
    path.write_bytes(struct.pack(">2I", 2049, 39) + bytes(39))
    assert "40 images and 39 labels" in refused("--dataset", "seq-mnist")
    path.write_bytes(struct.pack(">2I", 2049, 40) + bytes(39) + b"\x0a")
    assert "labels from 0 to 10, expected 0 to 9" in refused("--dataset", "seq-mnist")


# -- that lead elsewhere ----------------------------------------------------------------------------------------------------------


def test_lists_that_leave_their_folder(refused, tmp_path):
    """MiniImageNet's and Tiny ImageNet's lists of files stay in the folders that they are of, though the file outside is there."""
    root = tmp_path / "MiniImageNet"
    write_image(root / "images" / "inside.png", 1)
    write_image(tmp_path / "outside.png", 1)
    for name in LISTS:
        (root / name).write_text("filename,label\n../../outside.png,n01532829\n")
    assert "'../../outside.png,n01532829' is no `filename,label`" in refused("--dataset", "seq-miniimg")
    folder = tmp_path / "TINYIMG" / "tiny-imagenet-200"
    names = write_tiny_folder(folder)
    (folder / "val" / "val_annotations.txt").write_text(f"../../../../outside.png\t{names[0]}\n")
    assert "val_annotations.txt, line 1" in refused("--dataset", "seq-tinyimg")
    (folder / "wnids.txt").write_text("\n".join(["../val", *names[1:]]))
    assert "'../val' is no name of a folder" in refused("--dataset", "seq-tinyimg")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def served(folder):
    """Serve a folder on this machine; gives the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("kind", ["a member with ..", "cut off"])
def test_an_archive_that_is_not_the_published_one(kind, tmp_path):
    """It is not even unpacked: nothing lies beside the data set's folder, and the reason is said."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        member = tarfile.TarInfo("../outside.txt")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"harm"))
    published = SequentialCIFAR10.ARCHIVE
    path = tmp_path / "served" / published.url.rpartition("/")[2]
    path.parent.mkdir()
    path.write_bytes(whole.getvalue() if kind != "cut off" else whole.getvalue()[:-20])
    assert hashlib.md5(path.read_bytes()).hexdigest() != published.md5
    with served(path.parent) as address, pytest.raises(FileNotFoundError, match=r"download failed \(File not found or corrupted"):
        _download(published._replace(url=f"{address}/{path.name}"), tmp_path / "CIFAR10")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["CIFAR10", "served"]
