"""Figures: their data by hand, their files, their SVG; and the file of recorded variations."""

import itertools
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from made_rows import experiment, row, three_seeds, variation

from mammoth import results
from mammoth.report import drawing
from mammoth.report.drawing import DARK_PALETTE, PALETTE, is_current, panel_svgs, render, swatch, write
from mammoth.report.figures import accuracy_curves, curves, histograms, layer_means, shown_tasks, variation_drawings

HOSTILE = "_<b>$x_1$ & \"q\" 'r' $"


def texts(svg):
    """All text in an SVG, or in the one that a drawing becomes."""
    svg = svg if isinstance(svg, str) else render(svg, "svg")
    return " ".join("".join(element.itertext()) for element in ET.fromstring(svg).iter() if element.tag.endswith("text"))


# -- curves ----------------------------------------------------------------------------------------------------------------


def test_curves_by_hand():
    """90, 90, 90 and then 60, 62, 64: means 90 and 62; half-widths 0 and 4.303 x 2 / sqrt(3)."""
    (panel,) = curves(experiment("ER", "not run"), three_seeds("ER")).panels
    (line,) = panel.lines
    assert (line.label, line.place, line.n, line.values) == ("ER", 0, 3, (90.0, 62.0))
    assert line.half_widths == pytest.approx((0.0, 4.303 * 2 / 3**0.5), abs=1e-3)


def test_a_panel_a_column_and_a_place_a_row():
    """A row keeps its colour where others are missing; a reference of one stage is a level; the axis covers all panels."""
    rows = [*three_seeds("ER", "MS=20"), *three_seeds("PVBF", "MS=100", 5), row("IID", 0, [[30.0, 40.0]], "MS=20")]
    found = curves(experiment("IID", "ER", "PVBF", columns=("MS=20", "MS=100"), references=("IID",)), rows)
    assert [panel.title for panel in found.panels] == ["MS=20", "MS=100"]
    assert [(line.label, line.place, line.level) for panel in found.panels for line in panel.lines] == [
        ("IID", 0, True),
        ("ER", 1, False),
        ("PVBF", 2, False),
    ]
    assert found.legend == ((0, "IID (n = 1)"), (1, "ER (n = 3)"), (2, "PVBF (n = 3)"))
    assert found.y_limits == (30, 99)


def test_the_legend_says_how_many_seeds_over_all_panels():
    """Three seeds in one column and one in the other."""
    rows = [*three_seeds("ER", "a"), *three_seeds("ER", "b")[:1]]
    assert curves(experiment("ER", columns=("a", "b")), rows).legend == ((0, "ER (n = 1–3)"),)


def test_a_figure_is_a_png_and_a_pdf(tmp_path):
    """Both are written, by whichever of the names; another format comes in addition; the same figure gives the same bytes."""
    made = accuracy_curves(experiment("ER"), three_seeds("ER"), tmp_path / "new" / "a.png")
    assert made == tmp_path / "new" / "a.png"
    assert made.read_bytes().startswith(b"\x89PNG")
    assert made.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert len(made.read_bytes()) > 10_000
    again = accuracy_curves(experiment("ER"), three_seeds("ER"), tmp_path / "b.svg")
    assert {path.name for path in tmp_path.glob("b.*")} == {"b.svg", "b.png", "b.pdf"}
    assert again.with_suffix(".png").read_bytes() == made.read_bytes()
    assert again.with_suffix(".pdf").read_bytes() == made.with_suffix(".pdf").read_bytes()
    words = texts(again.read_text(encoding="utf-8"))
    assert all(word in words for word in ("A title", "ER (n = 3)", "tasks learnt", "accuracy on the tasks so far (%)"))


def test_stale_figures_are_told_from_current_ones(tmp_path):
    """A digest of what is shown is in the files: another number or a missing file is stale."""
    path = tmp_path / "a.png"
    one, other = (curves(experiment("ER"), three_seeds("ER", shift=shift)) for shift in (0, 0.5))
    assert not is_current(one, path)
    write(one, path)
    assert is_current(one, path)
    assert not is_current(other, path)
    path.with_suffix(".pdf").unlink()
    assert not is_current(one, path)


def test_hostile_labels_are_drawn_as_they_are():
    """No formula, no markup, no label left out."""
    found = curves(experiment(HOSTILE, columns=(HOSTILE,), title=HOSTILE), three_seeds(HOSTILE, HOSTILE))
    assert texts(found).count(HOSTILE) == 3


def test_many_rows_and_columns_are_drawn():
    """More rows than colours, more columns than go side by side, one of them empty, twenty tasks."""
    labels = [f"m{k}" for k in range(11)]
    long = [[50.0] * (k + 1) for k in range(20)]
    rows = [row(label, 0, long, column) for label in labels for column in "abcd"]
    found = curves(experiment(*labels, columns=tuple("abcde")), rows)
    assert found.panels[0].ticks == ((1, "1"), (5, "5"), (10, "10"), (15, "15"), (20, "20"))
    assert "not run" in texts(found)
    looks = [drawing._look(place) for place in range(11)]
    assert len({(look["color"], look["marker"]) for look in looks}) == 11


# -- parameter variation ---------------------------------------------------------------------------------------------------


def test_histograms_by_hand():
    """Bins: below 1/64, ...; empty ones at both ends are left out, 1 is where the mean stands."""
    found = histograms("f", [variation("ER", seed) for seed in range(2)])
    assert [panel.title for panel in found.panels] == [f"Task {task}: 70.0 % below the mean" for task in (1, 2, 3, 4)]
    panel = found.panels[0]
    assert panel.bars.heights == (100, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    assert dict(panel.ticks)[11.0 + 1] == "64"  # the last bar begins at 64
    assert panel.rule == (6.0, "mean")
    assert dict(panel.ticks)[6.0] == "1"
    assert found.log


def test_every_scale_has_its_centre():
    """ZS and RS: bins from -1 on by halves, then powers of two; the centre is at 0; folded on the page."""
    for scale, centre in (("zs", "mean"), ("rs", "median")):
        found = histograms("f", [variation("ER")], scale)
        panel = found.panels[0]
        assert panel.rule[1] == centre
        assert dict(panel.ticks)[panel.rule[0]] == "0"
        assert found.folded


def test_layer_means_by_hand():
    """Task k: k, 2k, 3k; over seeds of scale 1 and 3 twice that; the output layer is marked."""
    found = layer_means("f", [variation("PVBF", 0), variation("PVBF", 1, scale=3.0)], tasks=[2])
    (panel,) = found.panels
    assert panel.bars.heights == (4, 8, 12)
    assert panel.bars.marked == (2,)
    assert [label for _, label in panel.ticks] == ["1", "2", "3"]
    assert found.x_label == "layer, layer0 (1) to layer2 (3)"
    assert found.y_limits[1] >= 12


def test_deep_networks_have_few_ticks():
    """41 layers: 1, 10, 20, 30 and the last."""
    panel = layer_means("f", [variation("ER", layers=41)]).panels[0]
    assert [label for _, label in panel.ticks] == ["1", "10", "20", "30", "41"]


def test_all_variation_figures_are_drawn():
    """Six a row and column, with names of their own even for labels that look alike."""
    found = variation_drawings("variation", [variation("A+", 0, 2), variation("A+", 1, 2), variation("A*", 0)])
    assert len({each.name for each in found}) == len(found) == 12
    assert found[0].title.startswith("A+ (n = 2)")
    for each in (found[0], found[1]):
        words = texts(each)
        assert "Task 2" in words
        assert each.x_label in words


def test_the_papers_tasks_are_shown():
    """Tasks 1-4 of five, 1, 6, 11, 16 of twenty."""
    assert [shown_tasks(count) for count in (2, 5, 20)] == [[1, 2], [1, 2, 3, 4], [1, 6, 11, 16]]


@pytest.mark.parametrize(
    ("entries", "scale", "tasks", "message"),
    [
        ([], "rr", (), "record_variation"),
        ([variation("ER")], "qq", (), "rr, zs, rs"),
        ([variation("ER")], "rr", (6,), "tasks 1 to 5"),
        ([variation("ER"), variation("ER", 1, layers=4)], "rr", (), "different networks"),
    ],
)
def test_what_cannot_be_drawn_is_said(entries, scale, tasks, message):
    """A clear error instead of an empty figure."""
    for draw in (histograms, layer_means):
        with pytest.raises(ValueError, match=message):
            draw("f", entries, scale, tasks)


# -- SVG and style ---------------------------------------------------------------------------------------------------------


def test_panels_are_svg_for_a_page():
    """One element a panel: no address of any kind, ids that differ, colours from the page, the expected text."""
    found = histograms("f", [variation("ER")])
    svgs = panel_svgs(found, "p")
    ids = [element.get("id") for svg in svgs for element in ET.fromstring(svg).iter() if element.get("id")]
    assert len(svgs) == 4
    assert len(ids) == len(set(ids))
    for task, svg in enumerate(svgs, 1):
        assert svg.startswith("<svg")
        assert "http" not in svg
        assert "var(--c0)" in svg
        assert "currentColor" in svg
        assert f"Task {task}: 70.0 % below the mean" in texts(svg)


def test_swatches_show_each_place_its_own_way():
    """The page's legend: as many different pictures as places."""
    pictures = [swatch(place) for place in range(12)]
    assert len(set(pictures)) == 12
    assert all(ET.fromstring(picture).tag == "svg" for picture in pictures)


CVD = {  # Machado et al. 2009, severity 1
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    """A hexadecimal sRGB colour in linear light."""
    values = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of a linear colour."""
    x, y, z = np.cbrt(np.maximum(XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", CVD)
@pytest.mark.parametrize("palette", [PALETTE, DARK_PALETTE], ids=["light", "dark"])
def test_colours_stay_apart_for_everyone(palette, kind):
    """Any two curves' colours differ by at least 18 in CIELAB under each kind of colour blindness."""
    seen = [lab(np.array(CVD[kind]) @ linear(colour)) for colour in palette]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 18


@pytest.mark.parametrize(("palette", "ground"), [(PALETTE, "#ffffff"), (DARK_PALETTE, "#14171b")], ids=["light", "dark"])
def test_colours_stand_out_from_the_paper(palette, ground):
    """WCAG's contrast for graphics, 3:1 (2.95: to the rounding)."""
    for colour in palette:
        low, high = sorted(float(XYZ[1] @ linear(each)) + 0.05 for each in (colour, ground))
        assert high / low > 2.95, colour


# -- the file of recorded variations ---------------------------------------------------------------------------------------


def test_variations_survive_the_file(tmp_path):
    """Written in the order of row, column and seed, one line each, and read back the same; an absent file has none."""
    path = results.variation_path(tmp_path / "new" / "name.csv")
    entries = [variation("ER", 10), variation("ER", 9), variation("AR1", 0)]
    assert path.name == "name.variation.json"
    assert results.read_variation(path) == []
    results.write_variation(path, entries)
    assert [(entry["row"], entry["seed"]) for entry in results.read_variation(path)] == [("AR1", 0), ("ER", 9), ("ER", 10)]
    assert results.read_variation(path)[1] == json.loads(json.dumps(entries[1]))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 5
    results.write_variation(path, [])
    assert results.read_variation(path) == []


def test_a_new_variation_replaces_the_old_one():
    """As for rows: by row, column and seed."""
    merged = results.merge([variation("ER"), variation("ER", 1)], [variation("ER", scale=2.0)])
    assert len(merged) == 2
    assert merged[0]["variation"]["tasks"][0]["rr"]["layer_means"][0] == 2.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "corrupt"),
        ("{}", "holds a dict"),
        ('["x"]', "entry 1 has no 'row'"),
        ('[{"row": 1, "column": 1, "seed": 0, "run_id": 1}]', "no 'variation'"),
        ('[{"row": 1, "column": 1, "seed": 0, "run_id": 1, "variation": []}]', "no 'layers'"),
    ],
)
def test_a_corrupt_file_of_variations_is_named(tmp_path, content, message):
    """The error names the file and what is wrong."""
    path = tmp_path / "name.variation.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        results.read_variation(path)
    assert str(path) in str(caught.value)


def test_what_a_run_records_becomes_figures(go, tmp_path):
    """From `--record_variation 1` to the figures; a run without it has none."""
    record = go("--model", "er", "--dataset", "seq-digits", "--record_variation", "1", "--stop_after", "2")
    entry = results.variation_of(record, "ER", "-")
    assert entry["seed"] == 0
    found = variation_drawings("mine", [entry])
    assert [len(each.panels) for each in found] == [2] * 6
    assert sum(found[0].panels[0].bars.heights) == sum(entry["variation"]["sizes"])
    assert results.variation_of({"variation": None}, "ER", "-") is None
