"""What D-CWR's readings reach and change, on rows made by hand."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from made_rows import row

from mammoth.experiments import load_experiment
from mammoth.report import effects
from mammoth.report.claims import PLAIN, Evidence, more
from mammoth.report.drawing import PALETTE, render
from mammoth.report.effects import BY_IMAGES, PAIRED, READINGS, SETTINGS
from mammoth.report.figures import drawings
from utils.yaml_files import ROOT

PREDICT, TASK = (next(reading for reading in READINGS if reading.name == name) for name in ("`predict`", "`task`"))
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


def test_pairs_come_in_the_order_of_seeds():
    """Whatever a set's order is in this process: a sum's last digit, and with it a figure's digest, depends on it."""
    many = [float(seed) for seed in range(40)]
    found = more("controls", TASK.row, PLAIN, SHORT.column).values(
        runs((PLAIN, SHORT.column, many), (TASK.row, SHORT.column, many))
    )
    assert [seed for seed, _ in found] == list(range(40))


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


def test_the_figure_has_the_papers_changes_and_ours():
    """Beside the paper's at each size: ours where there are pairs, with intervals; zero is inside, a wide interval runs out."""
    found = effects.drawing(runs((PLAIN, SHORT.column, [30.0, 40.0]), (TASK.row, SHORT.column, [31.0, 42.0])))
    assert [panel.title for panel in found.panels] == [setting.title for setting in PAIRED]
    assert [len(panel.points) for panel in found.panels] == [2, 1, 1, 1]
    paper, task = found.panels[0].points
    assert paper.at == pytest.approx((3.3, -2.6))
    assert (task.label, task.n, task.at) == ("task", 2, (1.5, 0.0))
    assert task.half_widths[0] == pytest.approx(12.706 * 0.5, abs=1e-3)  # of 1 and 2
    assert found.legend == ((BY_IMAGES.index(TASK), "task (n = 2)"), (len(PALETTE) - 1, "the paper (n = 15)"))
    low, high = found.x_limits
    down, up = 1.5 - task.half_widths[0], 4.4 + 8.5 / 4  # the interval's end; a quarter of the spread beyond the last point
    assert (low, high) == pytest.approx((down - 8.5 / 20, up + 8.5 / 20))
    words = " ".join("".join(element.itertext()) for element in ET.fromstring(render(found, "svg")).iter())
    assert all(word in words for word in ("MS 20", "CIFAR-100", "task (n = 2)", "change of ACC (points)"))


def test_the_figure_is_the_controls_alone():
    """Neither another experiment nor the controls at a scale have the paper's numbers beside them."""
    controls = load_experiment(ROOT / "experiments" / "controls.yaml")
    assert [each.name for each in drawings(controls, [])] == ["dcwr-changes"]
    for other in (load_experiment(ROOT / "experiments" / "controls.yaml", "tiny"), replace(controls, paper="table_short")):
        assert drawings(other, []) == []


def test_every_row_named_here_is_one_of_the_controls():
    """A label that is changed in the experiment alone would empty its line."""
    asked = {(cell.row, cell.column) for cell in load_experiment(ROOT / "experiments" / "controls.yaml").cells}
    main = SETTINGS[2]
    for reading in (effects.Reading(PLAIN, PLAIN), *READINGS):
        assert (reading.row, main.column) in asked
        assert not reading.row_without_ace or (reading.row_without_ace, SETTINGS[-1].column) in asked
