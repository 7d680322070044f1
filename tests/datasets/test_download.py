"""Downloads that several runs need at once."""

import multiprocessing
import time
from pathlib import Path

import pytest

from datasets.utils.download import fetch


def downloaded(root: Path, log: Path) -> None:
    """Fetch two files slowly, noting that it was done."""

    def slowly(folder):
        with log.open("a") as file:
            file.write("fetched\n")
        (folder / "sub").mkdir()
        for name in ("a", "b"):
            with (folder / "sub" / name).open("w") as file:
                file.write("first half, ")
                file.flush()
                time.sleep(0.3)
                file.write("second half")

    fetch(root, (root / "sub" / "b").is_file, slowly)


def test_of_many_runs_one_downloads_and_none_sees_a_part(tmp_path):
    """Four processes at once: one fetch; whenever a file is there, it is whole."""
    root, log = tmp_path / "data", tmp_path / "log"
    context = multiprocessing.get_context("fork")
    runs = [context.Process(target=downloaded, args=(root, log)) for _ in range(4)]
    for run in runs:
        run.start()
    seen = []
    while any(run.is_alive() for run in runs):
        seen += [path.read_text() for path in (root / "sub").glob("*")]
        time.sleep(0.01)
    assert [run.exitcode for run in runs] == [0] * 4
    assert set(seen) <= {"first half, second half"}
    assert log.read_text() == "fetched\n"
    assert sorted(path.name for path in (root / "sub").iterdir()) == ["a", "b"]
    assert not (root / ".download").exists()


def test_what_a_killed_download_left_is_removed(tmp_path):
    """The next one begins with an empty folder."""
    (tmp_path / ".download" / "sub").mkdir(parents=True)
    (tmp_path / ".download" / "sub" / "part").touch()
    fetch(tmp_path, lambda: False, lambda folder: (folder / "whole").touch())
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["whole"]


def test_a_download_that_fails_leaves_nothing(tmp_path):
    """Nor does it keep others from trying."""

    def failing(folder):
        (folder / "part").touch()
        raise RuntimeError("no network")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no network"):
            fetch(tmp_path / "data", lambda: False, failing)
    assert [path.name for path in (tmp_path / "data").iterdir() if path.name != ".download.lock"] == []
