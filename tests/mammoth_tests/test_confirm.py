"""Rows of older code: which still hold, by short runs, and what is noted of that."""

import subprocess

import pytest

from mammoth import confirm, confirmed, results, sweep
from mammoth.confirmed import Pair
from utils.yaml_files import ROOT


def pair(old, new, command="main.py"):
    return Pair(old, new, "er", "seq-digits", "abc", "2.14", command)


def test_digests_are_the_same_along_a_chain():
    """a-b and b-c: a is c, in both directions; d stands alone, and a digest is itself without any pair."""
    pairs = [pair("a", "b"), pair("c", "b"), pair("d", "e")]
    assert confirmed.same_numbers("a", "c", pairs)
    assert confirmed.same_numbers("c", "a", pairs)
    assert not confirmed.same_numbers("a", "d", pairs)
    assert confirmed.same_numbers("x", "x", [])


def test_pairs_survive_the_way_through_a_file(tmp_path):
    """Added twice, there once, beside what was there; a foreign table is named."""
    path = tmp_path / "confirmed.csv"
    assert confirmed.read_pairs(path) == []
    confirmed.add_pairs([pair("b", "c", 'main.py --notes "x, y"')], path)
    confirmed.add_pairs([pair("a", "b"), pair("b", "c", 'main.py --notes "x, y"')], path)
    assert confirmed.read_pairs(path) == [pair("a", "b"), pair("b", "c", 'main.py --notes "x, y"')]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"confirmed\.csv is corrupt"):
        confirmed.read_pairs(path)


def test_the_committed_pairs_are_of_shipped_methods():
    """The file in experiments/ can be read, and each line says by which command it was shown."""
    for line in confirmed.read_pairs():
        assert line.command.startswith("python main.py ")
        assert line.old != line.new


RECORD = {"class_il": [[1.0]], "task_il": [[1.0]], "confusion": [[[1]]], "diagnostics": [{}], "data": {"fingerprint": "f"}}


@pytest.mark.parametrize("key", ["class_il", "task_il", "confusion", "diagnostics", "variation"])
def test_any_number_that_differs_is_named(key):
    """Equal records differ in nothing; each part by itself is seen."""
    assert confirm.differences(RECORD, RECORD) == []
    assert confirm.differences(RECORD, {**RECORD, key: [[2.0]]}) == [key]
    assert confirm.differences(RECORD, {**RECORD, "data": {"fingerprint": "g"}}) == ["data"]


@pytest.fixture
def aged(tmp_path, monkeypatch):
    """Return an experiment's file with two committed rows on the digits, of older code by HEAD; pairs go to a temporary file."""
    path, rows = tmp_path / "alone.yaml", tmp_path / "rows.csv"
    common = f"{{dataset: seq-digits, debug_mode: 1, device: cpu, base_path: {tmp_path}}}"
    cells = "columns:\n  - {label: A}\n  - {label: B, lr: 0.05}\nrows:\n  - {label: ER, model: er}\n"
    path.write_text(f"seeds: 1\nresults: {rows}\ncommon: {common}\n{cells}", encoding="utf-8")
    assert sweep.main(["run", str(path), "--jobs", "1"]) == 0
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    old = [{**row, "source_digest": "older", "commit": head[:12], "dirty": "False"} for row in results.read_rows(rows)]
    results.write_rows(rows, old)
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(confirmed, "PATH", tmp_path / "experiments" / "confirmed.csv")
    return path


def states(path):
    """How the runs of a file's rows stand where there are no records."""
    experiment = sweep.load_experiment(path)
    return [row["stale"] for row in sweep.own_rows(experiment, results.read_together(experiment.results))]


def test_a_cell_that_differs_takes_its_code_along(aged, monkeypatch, capsys):
    """One of two cells of one digest differs: nothing is noted, both rows stay stale, and the status says so."""
    monkeypatch.setattr(confirm, "compare", lambda commit, digests, argv, today: ("older", ["class_il"] if "0.05" in argv else []))
    assert confirm.main([str(aged)]) == 1
    out = capsys.readouterr().out
    assert "ER A seed 0" in out
    assert "no: class_il" in out
    assert "0 hold, 2 do not" in out
    assert states(aged) == [True, True]


def test_cells_that_agree_are_noted(aged, monkeypatch, capsys):
    """Both agree: the rows count as today's from then on, and there is nothing left to compare."""
    monkeypatch.setattr(confirm, "compare", lambda commit, digests, argv, today: ("older", []))
    assert states(aged) == [True, True]
    assert confirm.main([str(aged)]) == 0
    assert "2 hold, 0 do not" in capsys.readouterr().out
    assert states(aged) == [False, False]
    assert confirm.main([str(aged)]) == 0
    assert "0 rows of older code" in capsys.readouterr().out


def test_what_differs_is_not_reached_by_a_chain(aged, monkeypatch, capsys):
    """Row A's digest differs today; that of B agrees, but was once confirmed to be A's: neither counts as today's."""
    rows = results.read_rows(aged.parent / "rows.csv")
    results.write_rows(aged.parent / "rows.csv", [{**row, "source_digest": f"older {row['column']}"} for row in rows])
    confirmed.add_pairs([pair("older A", "older B")])
    monkeypatch.setattr(
        confirm,
        "compare",
        lambda commit, digests, argv, today: ("older B", []) if "0.05" in argv else ("older A", ["class_il"]),
    )
    assert confirm.main([str(aged)]) == 1
    assert "0 hold, 2 do not" in capsys.readouterr().out
    assert states(aged) == [True, True]


def test_a_row_left_out_leaves_all_of_its_code_stale(aged, monkeypatch, capsys):
    """Cells that agree say nothing of one with other flags that was not looked at; told with its name."""
    monkeypatch.setattr(confirm, "compare", lambda commit, digests, argv, today: ("older", []))
    assert confirm.main([str(aged), "--columns", "A"]) == 1
    assert "not compared, and of the same code: ER B seed 0" in capsys.readouterr().out
    assert states(aged) == [True, True]
    other = aged.with_name("other.yaml")
    other.write_text("rows:\n  - {label: ER, model: er}\n", encoding="utf-8")  # no committed rows: nothing to look at
    assert confirm.main([str(aged), str(other)]) == 0
    assert states(aged) == [False, False]


def test_another_commit_that_gives_the_rows_numbers(aged, monkeypatch, capsys):
    """--against: run in place of the rows' own; all rows whose code is confirmed to be the same hold, each cell compared once."""
    rows = results.read_rows(aged.parent / "rows.csv")
    results.write_rows(aged.parent / "rows.csv", [{**row, "source_digest": f"older {row['column']}"} for row in rows])
    confirmed.add_pairs([pair("older A", "later"), pair("older B", "later")])
    asked = []

    def compared(commit, digests, argv, today):
        asked.append((commit, "later" in digests))
        return "later", []

    monkeypatch.setattr(confirm, "compare", compared)
    assert confirm.main([str(aged), "--against", "abc"]) == 0
    assert asked == [("abc", True)] * 2
    assert {(pair.old, pair.commit) for pair in confirmed.read_pairs() if pair.new not in ("later", "older A")} == {
        ("later", "abc")
    }
    assert "2 hold, 0 do not" in capsys.readouterr().out
    assert states(aged) == [False, False]


def test_a_row_of_the_same_numbers_left_out_leaves_all_stale(aged, monkeypatch, capsys):
    """What was not compared has another digest, which a pair joins to the one compared: its flags were not looked at."""
    rows = results.read_rows(aged.parent / "rows.csv")
    results.write_rows(aged.parent / "rows.csv", [{**row, "source_digest": f"older {row['column']}"} for row in rows])
    confirmed.add_pairs([pair("older A", "older B")])
    monkeypatch.setattr(confirm, "compare", lambda commit, digests, argv, today: ("older A", []))
    assert confirm.main([str(aged), "--columns", "A"]) == 1
    assert "not compared, and of the same code: ER B seed 0" in capsys.readouterr().out
    assert states(aged) == [True, True]


@pytest.mark.long
def test_the_same_commit_gives_the_same_numbers(aged, capsys):
    """For real: HEAD checked out elsewhere and the tree here, run for a few steps each; only rows of HEAD's own code hold."""
    assert confirm.main([str(aged)]) == 1
    assert "nor confirmed to be the same" in capsys.readouterr().out
    head = sweep.digest_for(sweep.plan(sweep.load_experiment(aged))[0].args)
    (run, *_) = sweep.plan(sweep.load_experiment(aged))
    commit = results.read_rows(aged.parent / "rows.csv")[0]["commit"]
    assert confirm.compare(commit, {head}, [*run.argv], head) == (head, [])
    assert confirm.compare(commit, {head}, [*run.argv], "another") == (head, ["today's code, which was edited meanwhile"])
    confirmed.add_pairs([pair("older", head)])  # what the rows are of gives the numbers of HEAD's code
    assert confirm.main([str(aged), "--against", commit]) == 0


@pytest.mark.long
def test_an_unknown_commit_is_named(aged, capsys):
    """A row from a history that is not here."""
    rows = results.read_rows(aged.parent / "rows.csv")
    results.write_rows(aged.parent / "rows.csv", [{**row, "commit": "0123456789ab"} for row in rows])
    assert confirm.main([str(aged)]) == 1
    assert "commit 0123456789ab cannot be checked out" in capsys.readouterr().out


def test_ctrl_c_notes_nothing(aged, monkeypatch, capsys):
    """A line, status 130, and the rows as they were."""

    def interrupted(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(confirm, "compare", interrupted)
    assert confirm.main([str(aged)]) == 130
    assert capsys.readouterr().err == "interrupted: nothing was noted\n"
    assert states(aged) == [True, True]


def test_an_experiment_without_committed_rows(tmp_path, capsys):
    """Status 2 and what to do."""
    path = tmp_path / "alone.yaml"
    path.write_text("rows:\n  - {label: ER, model: er}\n", encoding="utf-8")
    assert confirm.main([str(path)]) == 2
    assert "run it again" in capsys.readouterr().err
