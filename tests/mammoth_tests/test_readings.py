"""Readings of D-CWR compared on one and the same network: the default's is the run's own, the others by hand."""

import pytest
import torch

from mammoth import readings
from mammoth.readings import OWN_HEAD, Notes, Reading, compare, long_term_heads, sensory
from mammoth.report import readings as table

WORDS = ("--model", "pvbf", "--n_iters", "12", "--stop_after", "3", "--seed", "5", "--non_verbose", "1", "--threads", "1")


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """A short run of PVBF on the digits, written down."""
    return readings.note([*WORDS, "--device", "cpu", "--base_path", str(tmp_path_factory.mktemp("noted"))])


def test_the_default_gives_the_runs_own_accuracies_and_others_do_not(notes):
    """Every reading has a matrix; that of the default is the record's, and a run without D-CWR has the own head's."""
    found = compare(notes)
    assert found["the default: mean over the step's images"] == notes.record["class_il"]
    assert set(found) == {OWN_HEAD, *readings.READINGS, *readings.LAST_STEPS}
    assert [len(stages) for stages in found[OWN_HEAD]] == [1, 2, 3]
    assert sum(matrix != found[OWN_HEAD] for matrix in found.values()) >= 8


def test_the_own_head_is_that_of_a_run_without_dcwr(notes, go):
    """The same seed, `--dcwr 0`: the same network, so the same accuracies."""
    words = [word for word in WORDS if word not in ("--non_verbose", "--threads", "1")]
    assert go(*words, "--dcwr", "0")["class_il"] == compare(notes)[OWN_HEAD]


def test_notes_that_were_changed_are_refused(notes):
    """The record's accuracies no longer follow from them."""
    changed = notes._replace(heads=torch.zeros_like(notes.heads))
    with pytest.raises(ValueError, match="do not give the run's own accuracies"):
        compare(changed)


def test_the_means_of_equation_10_by_hand():
    """Three classes, two of them in the step, one of these twice."""
    rows = torch.tensor([[1.0, 2.0], [5.0, 4.0], [9.0, 0.0]])
    step, seen = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([2.0, 1.0, 4.0])
    expected = {"classes": [3.0, 3.0], "images": [7 / 3, 8 / 3], "seen": [5.0, 2.0], "scalar": [3.0, 3.0], "none": [0.0, 0.0]}
    for mean, value in expected.items():
        torch.testing.assert_close(sensory(rows, step, seen, mean), rows - torch.tensor(value))


def test_two_tasks_by_hand():
    """One step a task, p = 1: M^c and M^l of the first are the sensory memory; a class met again moves by eqs. 11 to 13."""
    heads = torch.tensor([[[1.0, 0.0], [3.0, 0.0]], [[2.0, 0.0], [6.0, 4.0]]])
    counts = torch.tensor([[1, 1], [1, 1]])
    noted = Notes(heads, counts, [1, 2], torch.zeros(2, 0, 1), torch.zeros(0), [[0, 1], [1, 2]], {"args": {"seed": 0}})
    first, second = long_term_heads(noted, Reading(p=1.0))
    assert first.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert second.tolist() == [[-1.25, -0.5], [1.25, 0.5]]  # eta 1 twice: M^c halfway to M^s = (-2, -2), (2, 2), M^l halfway to M^c
    weights = long_term_heads(noted, Reading(p=1.0, bias=False))[1]
    assert weights[:, 0].tolist() == [-1.25, 1.25]
    assert weights[:, 1].tolist() == [0.0, 4.0]
    assert long_term_heads(noted, Reading(p=0.0))[1].abs().sum() == 0


def test_files_and_the_table(notes, tmp_path, capsys):
    """Written, read, compared, shown; what is no file of notes is refused in one line."""
    torch.save(notes._asdict(), tmp_path / "a.pt")
    words = [{"5": "6"}.get(word, word) for word in WORDS]
    other = readings.note([*words, "--device", "cpu", "--base_path", str(tmp_path)])
    torch.save(other._asdict(), tmp_path / "other.pt")
    assert readings.main(["compare", str(tmp_path / "a.pt"), str(tmp_path / "other.pt"), "--output", str(tmp_path / "r.json")]) == 0
    text = table.markdown(tmp_path / "r.json")
    assert text.count("\n") == len(compare(notes)) + 3
    assert "| – | – |" in text.splitlines()[2]
    assert "seeds 5, 6" in text
    torch.save({"heads": torch.zeros(1)}, tmp_path / "b.pt")
    assert readings.main(["compare", str(tmp_path / "b.pt"), "--output", str(tmp_path / "r.json")]) == 2
    assert "holds no notes" in capsys.readouterr().err
    for name, what in (("a.pt", "of one seed"), ("lr.pt", "different --lr")):
        unlike = {**notes.record, "args": {**notes.record["args"], "lr": 7.0}}
        torch.save(notes._replace(record=unlike)._asdict(), tmp_path / "lr.pt")
        assert readings.main(["compare", str(tmp_path / "a.pt"), str(tmp_path / name), "--output", str(tmp_path / "r.json")]) == 2
        assert what in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--dcwr 0", "--dcwr_apply task", "--dcwr_apply step"])
def test_notes_are_of_training_that_does_not_see_it(words, tmp_path, capsys):
    """Refused before anything is trained."""
    assert readings.main(["note", "--output", str(tmp_path / "a.pt"), *words.split()]) == 2
    assert "leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--dcwr_bias 0", "--dcwr_mean classes", "--pvbf_p 0.5"])
def test_a_run_made_with_another_reading_is_the_same_network(words, notes, tmp_path):
    """Its record has that reading's accuracies, which `compare` checks, and every reading made of its notes is the default's."""
    other = readings.note([*WORDS, *words.split(), "--device", "cpu", "--base_path", str(tmp_path)])
    assert other.record["class_il"] != notes.record["class_il"]
    assert compare(other) == compare(notes)
