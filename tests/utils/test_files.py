"""Files that are whole or not there, and pickles that cannot execute anything."""

import os
import pickle
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from utils.files import ABANDONED_S, read_array_pickle, remove_leftovers, write_atomically
from utils.yaml_files import ROOT

PEAK = """
import sys
from pathlib import Path
from utils.files import read_array_pickle
try:
    read_array_pickle(Path(sys.argv[1]))
except ValueError:
    pass
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


class Canary:
    """Pickles to a call of any function with any arguments."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


class Named:
    """Stands for a global in a pickle written by hand."""


def cifar(count=20):
    """Return the content of a file of CIFAR's."""
    rng = np.random.default_rng(0)
    return {
        "batch_label": "training batch 1 of 5",
        "data": rng.integers(256, size=(count, 3072), dtype=np.uint8),
        "labels": [int(label) for label in rng.integers(10, size=count)],
        "filenames": [f"image_{number}.png" for number in range(count)],
    }


def python_2_pickle(count=3):
    """Return the bytes that Python 2 wrote for CIFAR (protocol 2, all strings and the array's bytes as 8-bit str)."""

    def text(value):
        return b"T" + len(value).to_bytes(4, "little") + value

    pixels = bytes(number % 256 for number in range(count * 3072))
    shape = b"K" + bytes([count]) + b"M" + (3072).to_bytes(2, "little") + b"\x86"
    dtype = (
        b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(pixels) + b"tb"
    labels = b"](" + b"".join(b"K" + bytes([number]) for number in range(count)) + b"e"
    names = text(b"batch_label") + text("caf\xe9".encode("latin1"))
    return b"\x80\x02}(" + names + text(b"data") + array + text(b"labels") + labels + b"u."


def write(path, content):
    """Write bytes to a path and return it."""
    path.write_bytes(content)
    return path


def same(found, expected):
    """Whether two contents agree, arrays included."""
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in expected)


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "expected"), [("caf\xe9\n", b"caf\xc3\xa9\n"), (b"\x00\xff", b"\x00\xff"), ("", b"")])
def test_text_and_bytes_are_written(tmp_path, content, expected):
    """Text as UTF-8; the folder holds nothing else afterwards."""
    write_atomically(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == expected
    assert os.listdir(tmp_path) == ["file"]


def test_an_old_file_is_replaced(tmp_path):
    """Also by a shorter one."""
    path = write(tmp_path / "file", b"something long")
    write_atomically(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_stands_when_writing_fails(tmp_path, monkeypatch, step):
    """A full disk at either step: the old content is there, no temporary file is left."""
    path = write(tmp_path / "file", b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(tmp_path):
    """By the time since somebody wrote to it; other files are nobody's leftovers."""
    old, new, other = (tmp_path / name for name in (".record.json.x1.tmp", ".record.json.x2.tmp", "mine.tmp"))
    for path in (old, new, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (0, time.time() - ABANDONED_S - 5))
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == [new, other]


def test_the_old_file_stands_when_interrupted(tmp_path, monkeypatch):
    """Ctrl-C while the data are synced leaves no temporary file either."""
    path = write(tmp_path / "file", b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_folder_is_an_os_error(tmp_path):
    """Nothing is made."""
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "absent" / "file", "new")
    assert not (tmp_path / "absent").exists()


def test_the_file_is_as_readable_as_any_other(tmp_path):
    """Records are shared between users: the mode follows the umask, as `open` has it, not mkstemp's 0600."""
    plain = write(tmp_path / "plain", b"")
    write_atomically(tmp_path / "atomic", "new")
    assert stat.S_IMODE((tmp_path / "atomic").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


# -- reading pickles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_files_like_cifars_are_read(tmp_path, protocol):
    """Whatever protocol they are written in."""
    content = cifar()
    path = write(tmp_path / "batch", pickle.dumps(content, protocol=protocol))
    found = read_array_pickle(path)
    assert same(found, content)
    assert found["data"].dtype == np.uint8


def test_a_file_of_python_2_is_read(tmp_path):
    """Byte strings become text as latin1, the array's bytes survive."""
    found = read_array_pickle(write(tmp_path / "batch", python_2_pickle()))
    assert found["batch_label"] == "caf\xe9"
    assert found["labels"] == [0, 1, 2]
    assert found["data"].shape == (3, 3072)
    assert np.array_equal(found["data"].flatten(), np.arange(3 * 3072) % 256)


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    """Not a ValueError: the caller may download it."""
    with pytest.raises(FileNotFoundError, match="absent"):
        read_array_pickle(tmp_path / "absent")


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "call",
    [
        lambda target: Canary(os.system, f"touch {target}"),
        lambda target: Canary(eval, f"open({str(target)!r}, 'w').close()"),
        lambda target: Canary(exec, f"open({str(target)!r}, 'w').close()"),
        lambda target: Canary(open, str(target), "w"),
        lambda target: Canary(Path.touch, Path(str(target))),
        lambda target: Canary(subprocess.call, ["touch", str(target)]),
        lambda target: Canary(os.mkdir, str(target)),
    ],
    ids=["os.system", "eval", "exec", "open", "pathlib", "subprocess", "mkdir"],
)
def test_calls_are_refused_and_never_happen(tmp_path, call, protocol):
    """The file is named, and the canary is not there."""
    canary = tmp_path / "canary"
    path = write(tmp_path / "batch", pickle.dumps({"data": call(canary)}, protocol=protocol))
    with pytest.raises(ValueError, match=r"batch is corrupt.*only plain arrays"):
        read_array_pickle(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("__builtin__", "apply"),
        ("posix", "system"),
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy", "fromfile"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy", "core.multiarray._reconstruct"),
        ("numpy.f2py", "_reconstruct"),
        ("_codecs", "decode"),
        ("codecs", "encode"),
        ("copyreg", "_reconstructor"),
        ("collections", "OrderedDict"),
        ("importlib", "import_module"),
    ],
)
@pytest.mark.parametrize("style", ["global", "stack_global"])
def test_any_other_global_is_refused(tmp_path, module, name, style):
    """Even where it is only named and never called."""
    if style == "global":
        body = b"\x80\x02}U\x04datac" + f"{module}\n{name}\n".encode() + b"s."
    else:
        words = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
        body = b"\x80\x04}\x8c\x04data" + words + b"\x93s."
    with pytest.raises(ValueError, match=r"batch is corrupt.*it asks for"):
        read_array_pickle(write(tmp_path / "batch", body))


def test_refused_modules_are_not_even_imported(tmp_path):
    """Importing runs a module's code."""
    name = "antigravity"
    assert name not in sys.modules
    with pytest.raises(ValueError, match="antigravity"):
        read_array_pickle(write(tmp_path / "batch", f"c{name}\nfly\n.".encode()))
    assert name not in sys.modules


def test_a_codec_other_than_latin1_is_refused(tmp_path):
    """`_codecs.encode` may spell bytes and nothing else."""
    body = b"\x80\x02}U\x04datac_codecs\nencode\nU\x03abcU\x05rot13\x86Rs."
    with pytest.raises(ValueError, match="rot13"):
        read_array_pickle(write(tmp_path / "batch", body))


@pytest.mark.parametrize("content", [[1, 2], "text", 5, None, np.zeros(3)])
def test_no_dict_is_a_value_error(tmp_path, content):
    """Names the file and what it holds."""
    path = write(tmp_path / "batch", pickle.dumps(content))
    with pytest.raises(ValueError, match=f"batch is corrupt: it holds a {type(content).__name__}, not a dict"):
        read_array_pickle(path)


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x09.", b"no pickle at all", b"<html>404</html>", b"\x00" * 100, b"."])
def test_files_that_are_no_pickles_are_value_errors(tmp_path, content):
    """Such as a saved error page."""
    with pytest.raises(ValueError, match="batch is corrupt"):
        read_array_pickle(write(tmp_path / "batch", content))


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_truncated_files_are_value_errors(tmp_path, protocol):
    """Cut at 200 places, the last byte included."""
    whole = pickle.dumps(cifar(2), protocol=protocol)
    rng = random.Random(protocol)
    cuts = {0, 1, 2, 3, len(whole) - 1, len(whole) - 2, *(rng.randrange(len(whole)) for _ in range(200))}
    for cut in cuts:
        with pytest.raises(ValueError, match="batch is corrupt or truncated"):
            read_array_pickle(write(tmp_path / "batch", whole[:cut]))


@pytest.mark.filterwarnings("ignore::numpy.exceptions.VisibleDeprecationWarning")
@pytest.mark.parametrize("kind", [0, 2, 4, "python_2"])
def test_flipped_bits_give_a_dict_or_a_value_error(tmp_path, little_memory, kind):
    """Any bit outside the pixels (a flipped pixel is for the MD5 sum): the error names the file; nothing else is raised."""
    body = bytearray(python_2_pickle(1) if kind == "python_2" else pickle.dumps(cifar(1), protocol=kind))
    places = [place for place in range(len(body)) if not 400 < place < len(body) - 150]
    refused, others = 0, set()
    for number, place in enumerate(random.Random(1).choices(places, k=600)):
        flipped = bytearray(body)
        flipped[place] ^= 1 << number % 8
        try:
            assert isinstance(read_array_pickle(write(tmp_path / f"batch{number}", bytes(flipped))), dict)
        except ValueError as error:
            refused += f"batch{number} is corrupt" in str(error)
        except Exception as error:  # noqa: BLE001 - which others there are is what is tested
            others.add((type(error).__name__, place, number % 8))
    assert others == set()
    assert refused > 150


@pytest.mark.parametrize("state", [b"}", b"]", b"K\x01", b"N", b")"])
def test_an_array_type_with_a_broken_state_is_a_value_error(tmp_path, state):
    """One flipped bit turns the state's tuple into a dict, for which numpy raises SystemError."""
    body = b"\x80\x02}U\x01xcnumpy\ndtype\nU\x02u1K\x00K\x01\x87R" + state + b"bs."
    with pytest.raises(ValueError, match="batch is corrupt"):
        read_array_pickle(write(tmp_path / "batch", body))


def test_a_corrupt_file_of_a_few_bytes_takes_no_memory(tmp_path):
    """One flipped bit turns REDUCE into LONG_BINPUT, whose argument sizes the memo: 2^26 entries are 1 GB."""
    path = write(tmp_path / "batch", b"\x80\x02}r\xff\xff\xff\x03.")
    found = subprocess.run([sys.executable, "-c", PEAK, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 300_000  # kilobytes at the peak, Python and numpy included


@pytest.mark.filterwarnings("ignore::numpy.exceptions.VisibleDeprecationWarning")
@pytest.mark.usefixtures("little_memory")
@given(junk=st.binary(max_size=60), place=st.integers(0, 300))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_junk_in_the_middle_is_a_dict_or_a_value_error(tmp_path_factory, junk, place):
    """Bytes overwritten anywhere near the start."""
    body = bytearray(pickle.dumps(cifar(1), protocol=4))
    body[place : place + len(junk)] = junk
    path = write(tmp_path_factory.getbasetemp() / "junk_batch", bytes(body))
    try:
        assert isinstance(read_array_pickle(path), dict)
    except ValueError as error:
        assert "junk_batch is corrupt" in str(error)  # noqa: PT017 - the one or the other
