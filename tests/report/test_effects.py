"""What D-CWR's readings reach and change, on rows made by hand."""

import pytest
from made_rows import row

from mammoth.experiments import load_experiment
from mammoth.report import effects
from mammoth.report.claims import PLAIN, Evidence
from mammoth.report.effects import PAIRED, READINGS, SETTINGS
from utils.yaml_files import ROOT

PREDICT, TASK = READINGS[:2]
SHORT = SETTINGS[0]


def runs(*cells: tuple[str, str, list[float]]) -> Evidence:
    """Return rows of the controls: (row, column, final ACC by seed), task 1 having fallen by ten points."""
    made = [
        row(name, seed, [[value + 10], [value, value]], column)
        for name, column, values in cells
        for seed, value in enumerate(values)
    ]  # fmt: skip
    return Evidence({"controls": made})


def test_changes_are_paired_by_seed():
    """Seed noise that both share cancels; a seed that one of them lacks counts for the level alone."""
    found = runs((PLAIN, SHORT.column, [30.0, 40.0]), (TASK.row, SHORT.column, [31.0, 42.0, 80.0]))
    changed = effects.change(found, TASK, SHORT, "ACC")
    assert changed is not None
    assert changed.mean == pytest.approx(1.5)
    assert changed.n == 2
    reached = effects.level(found, TASK, SHORT, "ACC")
    assert reached is not None
    assert reached.mean == pytest.approx(51.0)
    assert effects.change(found, PREDICT, SHORT, "ACC") is None


def test_the_papers_changes():
    """Tabs. 1 and 2: D-CWR raises ACC by 3.3, 3.7 and 4.4 points on CIFAR-10 and lowers it by 4.1 on CIFAR-100."""
    assert [effects.papers_change(setting, "ACC") for setting in PAIRED] == pytest.approx([3.3, 3.7, 4.4, -4.1])
    assert [effects.papers_level(setting, "FR") for setting in SETTINGS] == [24.0, 18.1, 10.6, 11.4, 41.8]


def test_the_distance_is_a_root_mean_square_over_all_settings():
    """Off by 3 and -4 in two of five settings: sqrt(25 / 5); none where a setting is not run, and then a dash in the table."""
    papers = [effects.papers_level(setting, "ACC") for setting in SETTINGS]
    off = [3.0, -4.0, 0.0, 0.0, 0.0]
    rows = [TASK.row if setting.ace else TASK.row_without_ace for setting in SETTINGS]
    cells = [(name, s.column, [paper + by]) for name, s, paper, by in zip(rows, SETTINGS, papers, off, strict=True)]
    found = [effects.level(runs(*cells), TASK, setting, "ACC") for setting in SETTINGS]
    assert effects.distance(found, papers) == pytest.approx(5**0.5)
    assert effects.distance([None, *found[1:]], papers) is None
    lines = effects.markdown(runs(*cells)).splitlines()
    assert next(line for line in lines if line.startswith("| `task` |")).split(" | ")[-2] == "2.2"
    assert next(line for line in lines if line.startswith("| `predict` |")).endswith("| – | – |")


def test_every_row_named_here_is_one_of_the_controls():
    """A label that is changed in the experiment alone would empty its line."""
    asked = {(cell.row, cell.column) for cell in load_experiment(ROOT / "experiments" / "controls.yaml").cells}
    main = SETTINGS[2]
    for reading in (effects.Reading(PLAIN, PLAIN), *READINGS):
        assert (reading.row, main.column) in asked
        assert not reading.row_without_ace or (reading.row_without_ace, SETTINGS[-1].column) in asked
