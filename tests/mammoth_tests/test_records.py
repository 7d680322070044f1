"""A run's record: what is in it, whole at every moment, and a digest of the code that changes with the code alone."""

import os
import subprocess
import sys

import pytest

import models
from datasets import get_dataset_class
from mammoth import records, runner
from mammoth.records import Record, read_record
from models.sgd import Sgd
from utils.metrics import average_accuracy, forgetting


@pytest.fixture
def record(resolve) -> Record:
    """A fresh record on disk."""
    made = Record(resolve("--model", "er"), ["main.py", "--model", "er"])
    made.save()
    return made


# -- content -------------------------------------------------------------------------------------------------------------


def test_all_that_defends_a_number_is_there(go):
    """Arguments, matrices, confusion, seed, code, versions, machine, time, memory, data: every key, with a value."""
    found = go("--model", "pvbf", "--debug_mode", "1", "--notes", "a try", "--seed", "4")
    assert found["status"] == "done"
    assert found["args"]["seed"] == 4
    assert found["args"]["notes"] == "a try"
    assert found["args"]["pvbf_alpha"] == 0.5
    assert found["command"][:2] == ["--model", "pvbf"]
    assert [len(found[key]) for key in ("class_il", "task_il", "confusion", "diagnostics")] == [5, 5, 5, 5]
    provenance = found["provenance"]
    for key in ("commit", "source_digest", "device", "threads", "host", "started"):
        assert provenance[key], key
    for key in ("wall_s", "peak_memory_mb", "steps", "parameters"):
        assert provenance[key] > 0, key
    assert provenance["dirty"] in (True, False, None)
    assert set(provenance["versions"]) >= {"python", "torch", "numpy"}
    data = found["data"]
    assert (data["name"], data["train"], data["test"], data["kind"]) == ("seq-digits", 1442, 355, "original")
    assert len(data["fingerprint"]) == 32
    assert found["class_order"] == list(range(10))
    assert found["task_sizes"] == [2, 2, 2, 2, 2]


def test_peak_memory_is_the_process_s_own():
    """It grows with what is held, and a process started by a large one does not inherit its peak."""
    before = records.peak_memory_mb()
    held = bytearray(b"x") * (int(before) * 1_000_000 + 200_000_000)
    assert records.peak_memory_mb() >= before + 150
    assert len(held) > 0
    code = "from mammoth.records import peak_memory_mb; print(peak_memory_mb())"
    shown = subprocess.run([sys.executable, "-c", code], cwd=records.ROOT, capture_output=True, text=True, check=True).stdout
    assert 1 < float(shown) < 150


def test_peak_memory_counts_from_a_runs_beginning():
    """What an earlier run of the same process needed is not this one's peak."""
    held = bytearray(b"x") * 400_000_000
    before = records.peak_memory_mb()
    del held
    records.reset_peak()
    assert records.peak_memory_mb() < before - 300


def test_edited_code_is_seen(monkeypatch):
    """What a file holds now against what this process found first; a comment is no edit."""
    assert not records.was_edited(Sgd)
    monkeypatch.setattr(records, "_as_read_first", lambda path: "another program")
    assert records.was_edited(Sgd)


def test_the_class_order_is_recorded(go):
    """A permuted order stands in the record: a number could not be defended without it."""
    order = "9,8,7,6,5,4,3,2,1,0"
    found = go("--model", "sgd", "--debug_mode", "1", "--stop_after", "1", "--custom_class_order", order)
    assert found["class_order"] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert found["class_names"] == list("9876543210")


def test_measures_follow_from_the_matrices(go):
    """ACC and FR of a real run, computed here by hand from the record's matrix."""
    matrix = go("--model", "er", "--debug_mode", "1", "--stop_after", "3")["class_il"]
    (a,), (b, c), (d, e, f) = matrix
    assert average_accuracy(matrix) == pytest.approx((d + e + f) / 3)
    assert forgetting(matrix) == pytest.approx((max(a, b, d) - d + max(c, e) - e) / 2)


def test_the_record_says_what_code_ran(go):
    """The digest in the record is that of the method's and the benchmark's classes, as a sweep asks for it."""
    found = go("--model", "er", "--debug_mode", "1", "--stop_after", "1")
    expected = records.source_digest(models.get_model_class("er"), get_dataset_class("seq-digits"))
    assert found["provenance"]["source_digest"] == expected


# -- on disk -------------------------------------------------------------------------------------------------------------


def test_the_file_is_where_it_should_be(record, tmp_path):
    """<base_path>/<results_path>/records/<run id>/record.json."""
    run_id = record["run_id"]
    assert record.path == tmp_path / "results" / "records" / run_id / "record.json"
    assert run_id.startswith("er_seq-digits_default_b200_s0_")


def test_readable_at_every_stage(resolve, monkeypatch):
    """While a run goes on the file says `running` and holds the tasks done so far."""
    seen = []
    args = resolve("--model", "sgd", "--debug_mode", "1", "--stop_after", "3")
    path = records.results_folder(args) / "records" / args.run_id / "record.json"
    monkeypatch.setattr(Sgd, "begin_task", lambda self, dataset: seen.append(read_record(path)))
    runner.run(args, [])
    assert [(entry["status"], len(entry["class_il"]), len(entry["confusion"])) for entry in seen] == [
        ("running", 0, 0), ("running", 1, 1), ("running", 2, 2),
    ]  # fmt: skip
    done = read_record(path)
    assert (done["status"], len(done["class_il"])) == ("done", 3)


def test_a_write_that_fails_leaves_the_old_file(record, monkeypatch):
    """A full disk in the middle of a save: the old record stands, whole, and no scrap is left beside it."""
    before = record.path.read_text()

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        record.finish("done")
    assert record.path.read_text() == before
    assert [path.name for path in record.path.parent.iterdir()] == ["record.json"]


def test_a_rename_that_fails_leaves_the_old_file(record, monkeypatch):
    """The same for the last step."""
    before = record.path.read_text()

    def no_rename(*paths):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", no_rename)
    with pytest.raises(OSError, match="Permission"):
        record.finish("done")
    assert record.path.read_text() == before
    assert [path.name for path in record.path.parent.iterdir()] == ["record.json"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_record_is_an_error(share, record):
    """A file cut off anywhere is named and refused."""
    text = record.path.read_text()
    record.path.write_text(text[: int(share * len(text))])
    with pytest.raises(ValueError, match=str(record.path)):
        read_record(record.path)


@pytest.mark.parametrize(
    "content", [b"[]", b"3", b"null", b"{}", b'{"schema": 99, "status": "done"}', b'{"schema": 1}', b"\xff\xfe", b"{" * 100000],
    ids=["list", "number", "null", "empty", "schema", "no status", "bytes", "deep"],
)  # fmt: skip
def test_a_file_that_is_no_record_is_an_error(content, record):
    """Valid JSON of another kind, another schema, or no text at all."""
    record.path.write_bytes(content)
    with pytest.raises(ValueError, match=str(record.path)):
        read_record(record.path)


def test_an_absent_record_is_file_not_found(tmp_path):
    """Absent and corrupt are told apart."""
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "record.json")


@pytest.mark.parametrize(
    ("error", "status"), [(None, "done"), (KeyboardInterrupt(), "interrupted"), (RuntimeError("why\nmore"), "failed")]
)
def test_the_record_is_closed_as_what_happened(error, status, record):
    """Done, interrupted, or failed with the error's first line."""

    def happens():
        with record:
            if error is not None:
                raise error

    if error is None:
        happens()
    else:
        with pytest.raises(type(error)):
            happens()
    found = read_record(record.path)
    assert found["status"] == status
    assert found["provenance"]["wall_s"] >= 0
    if status == "failed":
        assert found["reason"] == "why"


# -- the digest of the code ----------------------------------------------------------------------------------------------

SOURCE = '''"""A module."""


def double(x):
    """Twice x."""
    return 2 * x  # fast
'''


def test_the_digest_is_of_the_code_that_this_process_runs(digest, tmp_path):
    """A file edited while a worker goes on stays, for its records, what it imported."""
    first = digest(SOURCE)
    (tmp_path / "mammoth" / "runner.py").write_text(SOURCE + "\nSTEPS = 3\n")
    assert records.source_digest() == first


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """Return a function from a program's text to the digest of a project that has it as its runner."""
    monkeypatch.setattr(records, "ROOT", tmp_path)
    file = tmp_path / "mammoth" / "runner.py"
    file.parent.mkdir()

    def of(text: str) -> str:
        file.write_text(text)
        records._as_read_first.cache_clear()
        return records.source_digest()

    return of


@pytest.mark.parametrize(
    "text",
    [
        SOURCE.replace("# fast", "# slow"),
        SOURCE.replace("Twice x.", "The double of x."),
        SOURCE.replace('"""A module."""', '"""Another text."""'),
        SOURCE.replace("    return 2 * x", "\n    return  2*x"),
    ],
    ids=["comment", "docstring", "module docstring", "layout"],
)
def test_the_digest_ignores_words(text, digest):
    """Comments, docstrings and layout compute nothing."""
    assert text != SOURCE
    assert digest(text) == digest(SOURCE)


@pytest.mark.parametrize(
    "text",
    [SOURCE.replace("2 * x", "3 * x"), SOURCE.replace("2 * x", "x * 2"), SOURCE + "\nSTEPS = 3\n", SOURCE + '\nNAME = "a"\n'],
    ids=["number", "order", "constant", "text"],
)
def test_the_digest_changes_with_the_code(text, digest):
    """A number, an order of operands, a new line."""
    assert digest(text) != digest(SOURCE)


def test_the_digest_changes_with_a_string_that_is_no_docstring(digest):
    """Strings that are values count."""
    assert digest(SOURCE + '\nNAME = "a"\n') != digest(SOURCE + '\nNAME = "b"\n')


def names(model: str) -> set[str]:
    files = records.source_files(models.get_model_class(model), get_dataset_class("seq-digits"))
    return {path.relative_to(records.ROOT).as_posix() for path in files}


def test_the_files_of_a_run():
    """The engine, the method with what it builds on, the benchmark; not other methods and benchmarks."""
    found = names("derpp")
    engine = {"mammoth/runner.py", "models/utils/continual_model.py", "datasets/utils/continual_dataset.py", "backbone/MNISTMLP.py"}
    engine |= {"utils/buffer.py", "utils/randomness.py"}
    expected = {"models/derpp.py", "models/der.py", "models/utils/replay_model.py", "datasets/seq_digits.py", *engine}
    assert expected <= found
    assert not {"models/pvbf.py", "models/er.py", "datasets/seq_cifar10.py", "mammoth/sweep.py", "mammoth/report/tables.py"} & found
