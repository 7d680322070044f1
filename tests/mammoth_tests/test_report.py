"""From rows to a table and a figure, with intervals computed by hand."""

import math
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from mammoth import results, sweep
from mammoth.experiments import Cell, Experiment, load_experiment
from mammoth.report import published
from mammoth.report.__main__ import main
from mammoth.report.figures import accuracy_curves, curve
from mammoth.report.stats import t_interval
from mammoth.report.tables import FORMATS, build, format_interval
from mammoth.sweep import digest_for, plan
from utils.yaml_files import ROOT

COLUMNS = {"table_short": "MS=500", "acc_curves": "CIFAR-10 MS=500", "variation": "CIFAR-10"}
FIELDS = dict.fromkeys(results.FIELDS, "")


def row(label, seed, class_il, column="-", **more):
    """A row by hand: everything but the matrices is the same."""
    fixed = {
        "dataset": "seq-digits", "data": "original", "commit": "abc123", "dirty": False, "source_digest": "d1", "python": "3.11",
        "torch": "2.9", "device": "cpu: test", "wall_s": 36.0, "task_il": class_il, "newest_share": [1.5], "diagnostics": [],
    }  # fmt: skip
    return {
        **FIELDS,
        **fixed,
        "row": label,
        "column": column,
        "seed": seed,
        "class_il": class_il,
        "run_id": f"{label}{seed}",
        **more,
    }


def table_of(*rows, columns=("-",)):
    """The experiment of these labels."""
    cells = tuple(Cell(label, column, ()) for label in rows for column in columns)
    return Experiment("table", "A title", (0,), None, tuple(rows), tuple(columns), cells)


def text_of(experiment, rows, setting="class_il", form="text"):
    """The experiment's table in a format."""
    return FORMATS[form](build(experiment, rows, setting))


# ACC 60, 62, 64 and FR 40, 36, 32: means 62 and 36, sample deviations 2 and 4; half-width 4.303 s / sqrt(3)
THREE = [row("ER", seed, [[90.0], [50.0 + 4 * seed, 70.0]]) for seed in range(3)]


# -- intervals -------------------------------------------------------------------------------------------------------------


def test_the_interval_of_three_values_by_hand():
    """60, 62, 64: mean 62, half-width 4.303 x 2 / sqrt(3) = 4.968."""
    found = t_interval([60.0, 62.0, 64.0])
    assert (found.mean, found.n) == (62.0, 3)
    assert found.half_width == pytest.approx(4.303 * 2 / math.sqrt(3), abs=1e-3)


@pytest.mark.parametrize(("n", "quantile"), [(2, 12.706), (5, 2.776), (15, 2.145)])
def test_the_quantiles_are_students(n, quantile):
    """The half-width of n values of known deviation, against the table of Student's t."""
    values = [float(k % 2) for k in range(n)]
    mean = sum(values) / n
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    assert t_interval(values).half_width == pytest.approx(quantile * deviation / math.sqrt(n), rel=1e-3)


def test_one_value_has_no_interval():
    """None and never nan; no value at all is an error."""
    assert t_interval([50.0]) == (50.0, None, 1)
    assert format_interval(t_interval([50.0])) == "50.00 (1)"
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])


# -- tables ----------------------------------------------------------------------------------------------------------------


HAND_MADE = [*THREE, row("PVBF", 0, [[80.0], [75.0, 65.5]]), row("Joint", 0, [[90.0, 95.0]])]


def test_the_table_of_hand_made_rows():
    """Title, ACC and FR as mean, half-width and n; a single run without interval; a dash where there is nothing."""
    text = text_of(table_of("ER", "PVBF", "Joint", "IID"), HAND_MADE)
    assert text.splitlines()[:8] == [
        "A title, Class-IL",
        "",
        "Method  ACC               FR",
        "------  ----------------  ----------------",
        "ER      62.00 ± 4.97 (3)  36.00 ± 9.94 (3)",
        "PVBF    70.25 (1)         5.00 (1)",
        "Joint   92.50 (1)         –",
        "IID     –                 –",
    ]
    assert "nan" not in text.lower()


def test_the_table_in_markdown_marks_the_best():
    """Highest ACC and lowest FR bold, the second underlined; single runs take no part."""
    thrice = [row("PVBF", seed, [[80.0], [75.0, 65.5]]) for seed in range(3)]
    lines = text_of(table_of("ER", "PVBF", "Joint"), [*THREE, *thrice, HAND_MADE[-1]], form="md").splitlines()
    cells = [[cell.strip().split("<br>")[0] for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    assert cells == [
        ["Method", "ACC", "FR"],
        ["ER", "<u>62.00 ± 4.97 (3)</u>", "<u>36.00 ± 9.94 (3)</u>"],
        ["PVBF", "**70.25 ± 0.00 (3)**", "**5.00 ± 0.00 (3)**"],
        ["Joint", "92.50 (1)", "–"],
    ]


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_no_format_ever_says_nan(form):
    """A single run, a run of one stage, a row that was not run: numbers, dashes or nothing."""
    text = text_of(table_of("ER", "PVBF", "Joint", "IID"), HAND_MADE, form=form)
    assert "nan" not in text.lower()
    assert "None" not in text
    for number in ("62.00", "4.9", "36.00", "9.9", "70.25", "92.50"):
        assert number in text


def test_latex_escapes_what_would_be_a_command():
    """Every character with a meaning in LaTeX, in a label and in a title."""
    odd = r"M^l_1 & 5 % of {$x$} #2 ~ \a <b>"
    text = text_of(table_of(odd), [row(odd, 0, [[1.0]])], form="tex")
    expected = r"M\textasciicircum{}l\_1 \& 5 \% of \{\$x\$\} \#2 \textasciitilde{} \textbackslash{}a \textless{}b\textgreater{}"
    assert expected in text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex here (Debian: texlive-latex-recommended)")
def test_latex_compiles(tmp_path):
    """All published tables, and one with odd labels, in a document of their own."""
    odd = r"M^l_1 & 5 % of {$x$} #2 ~ \a <b>"
    tables = [build(item.experiment, item.rows, setting) for item in published.all_published() for setting in item.settings]
    body = "\n".join(FORMATS["tex"](table) for table in (*tables, build(table_of(odd), [row(odd, 0, [[1.0]])])))
    head = r"\documentclass{article}\usepackage{booktabs}\usepackage[T1]{fontenc}\begin{document}"
    (tmp_path / "tables.tex").write_text(f"{head}\n{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, errors="replace")
    assert done.returncode == 0, done.stdout[-500:]


def test_columns_stand_side_by_side():
    """Two columns: ACC and FR under each label, from that column's rows only."""
    rows = [row("ER", 0, [[90.0], [50.0, 70.0]], "MS=20"), row("ER", 0, [[90.0], [80.0, 90.0]], "MS=100")]
    lines = text_of(table_of("ER", columns=("MS=20", "MS=100")), rows).splitlines()
    assert lines[2].split() == ["Method", "MS=20", "ACC", "MS=20", "FR", "MS=100", "ACC", "MS=100", "FR"]
    assert lines[4].split() == ["ER", "60.00", "(1)", "40.00", "(1)", "85.00", "(1)", "10.00", "(1)"]


def test_task_il_is_from_the_other_matrix():
    """The setting chooses the matrix."""
    rows = [row("ER", 0, [[90.0], [50.0, 70.0]], task_il=[[99.0], [97.0, 98.0]])]
    assert "97.50 (1)" in text_of(table_of("ER"), rows, "task_il")
    assert "60.00 (1)" in text_of(table_of("ER"), rows, "class_il")


def test_the_footer_says_where_the_numbers_come_from():
    """n, interval, versions, commit with its changes, device, hours, data."""
    rows = [*THREE, row("ER", 3, [[1.0], [1.0, 1.0]], commit="def456", dirty=True, data="recompressed")]
    footer = text_of(table_of("ER"), rows).splitlines()[-1]
    for words in ("95 % t-interval", "4 runs", "torch 2.9", "Python 3.11", "abc123", "def456 + changes", "cpu: test", "0.04 hours"):
        assert words in footer
    assert "seq-digits original" in footer
    assert "seq-digits recompressed" in footer


# -- CSV -------------------------------------------------------------------------------------------------------------------


def test_rows_survive_the_way_through_a_file(tmp_path):
    """Written and read again: the matrices are the same numbers, the rest the same words, in the order of row, column, seed."""
    path = tmp_path / "new" / "folder" / "table.csv"
    rows = [
        row("SGD, lr 0.1", 10, [[1 / 3]]),
        row('ER "x"', 2, [[2.0]], "b"),
        row('ER "x"', 1, [[2.0]], "b"),
        row('ER "x"', 9, [[0.0]], "a"),
    ]
    results.write_rows(path, rows)
    found = results.read_rows(path)
    assert [(entry["row"], entry["column"], entry["seed"]) for entry in found] == [
        ('ER "x"', "a", "9"), ('ER "x"', "b", "1"), ('ER "x"', "b", "2"), ("SGD, lr 0.1", "-", "10"),
    ]  # fmt: skip
    assert found[3]["class_il"] == [[1 / 3]]
    results.write_rows(tmp_path / "again.csv", found)
    assert (tmp_path / "again.csv").read_text() == path.read_text()


def test_a_table_from_the_file_is_the_table_from_the_rows(tmp_path):
    """Nothing is lost that the table needs."""
    results.write_rows(tmp_path / "table.csv", THREE)
    assert text_of(table_of("ER"), results.read_rows(tmp_path / "table.csv")) == text_of(table_of("ER"), THREE)


def test_new_rows_replace_old_ones_of_the_same_cell_and_seed():
    """One row a cell and seed, whether the seed came from a file or a record."""
    old = [row("ER", "0", [[1.0]]), row("ER", "1", [[1.0]])]
    merged = results.merge(old, [row("ER", 0, [[2.0]]), row("ER", 2, [[2.0]])])
    assert sorted((str(entry["seed"]), entry["class_il"]) for entry in merged) == [("0", [[2.0]]), ("1", [[1.0]]), ("2", [[2.0]])]


def test_an_absent_file_has_no_rows(tmp_path):
    """No runs yet is no error."""
    assert results.read_rows(tmp_path / "none.csv") == []


@pytest.mark.parametrize("kind", ["no column", "cut off", "empty", "bytes"])
def test_a_wrong_file_is_named(kind, tmp_path):
    """Another table, a matrix cut off, nothing, or no text: the file is named."""
    path = tmp_path / "table.csv"
    results.write_rows(path, THREE)
    head = path.read_text().splitlines()[0]
    if kind == "no column":
        path.write_text(path.read_text().replace("class_il", "clas_il"))
    elif kind == "cut off":
        path.write_text(head + "\nER,-,0,id,[[90.0],[5")
    else:
        path.write_bytes(b"" if kind == "empty" else b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=str(path)):
        results.read_rows(path)


# -- figures ---------------------------------------------------------------------------------------------------------------


def test_the_curve_is_the_mean_over_tasks_so_far():
    """After stage 1 all runs have 90; after stage 2 they have 60, 62, 64."""
    first, second = curve(THREE, "ER", "-")
    assert (first.mean, first.half_width, first.n) == (90.0, 0.0, 3)
    assert (second.mean, second.n) == (62.0, 3)


def test_the_figure_is_written(tmp_path):
    """A PNG of some size, in a folder that is made for it; one panel a column is wider than one."""
    columns = ("MS=20", "MS=100")
    rows = [row("ER", seed, [[90.0], [50.0 + seed, 70.0]], column) for seed in range(3) for column in columns]
    one = accuracy_curves(table_of("ER"), THREE, tmp_path / "new" / "one.png")
    two = accuracy_curves(table_of("ER", "not run", columns=columns), rows, tmp_path / "two.png")
    for path in (one, two):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000
    width = [int.from_bytes(path.read_bytes()[16:20], "big") for path in (one, two)]
    assert width[1] > 1.2 * width[0]


# -- python -m mammoth.report --------------------------------------------------------------------------------------------------


@pytest.fixture
def experiment(tmp_path):
    """An experiment's file whose rows lie beside it."""
    content = {"title": "A title", "results": str(tmp_path / "rows.csv"), "rows": [{"label": "ER", "model": "er"}]}
    (tmp_path / "table.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "table.yaml"


def test_tables_and_figures_from_the_command_line(experiment, tmp_path, capsys):
    """`tables` prints the table; `figures` writes beside the rows, or where --output says, and prints the path."""
    results.write_rows(tmp_path / "rows.csv", THREE)
    assert main(["tables", str(experiment)]) == 2  # rows of runs that are not the file's own
    seeds = tuple(int(row["seed"]) for row in THREE)
    ids = {run.seed: run.args.run_id for run in plan(load_experiment(experiment), seeds)}
    results.write_rows(tmp_path / "rows.csv", [{**row, "run_id": ids[int(row["seed"])]} for row in THREE])
    assert main(["tables", str(experiment)]) == 0
    assert "ER      62.00 ± 4.97 (3)" in capsys.readouterr().out
    assert main(["figures", str(experiment)]) == 0
    assert main(["figures", str(experiment), "--output", str(tmp_path / "own.png")]) == 0
    out = capsys.readouterr().out
    for name in ("rows.png", "own.png"):
        assert str(tmp_path / name) in out
        assert (tmp_path / name).stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tables", "nowhere.yaml"], "nowhere.yaml"),
        (["tables", "{path}"], "mammoth.sweep run {path}"),
        (["tabels", "{path}"], "tabels"),
        (["tables", "{path}", "--setting", "domain"], "domain"),
        ([], "what"),
    ],
)
def test_wrong_input_ends_with_two(words, says, experiment, capsys):
    """Status 2, at most two lines, and what to do; without runs, the command that makes them."""
    assert main([word.format(path=experiment) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert says.format(path=experiment) in err
    assert len(err.splitlines()) <= 2


# -- rows of older code, rows of other sweeps, scales ------------------------------------------------------------------------------


def write_own_rows(path, file, stale_seeds=(), seeds=(0, 1, 2)):
    """Write rows of the file's own runs; those of some seeds are of other code than today's."""
    runs = plan(load_experiment(path), seeds)
    digests = {run.seed: "older" if run.seed in stale_seeds else digest_for(run.args) for run in runs}
    rows = [{**THREE[run.seed], "row": run.cell.row, "run_id": run.args.run_id, "source_digest": digests[run.seed]} for run in runs]
    results.write_rows(file, rows)


def test_rows_of_older_code_are_not_mixed_in_unasked(experiment, tmp_path, capsys):
    """Refused with what to do; kept or dropped when asked, and a table of both says so; all of older code is no mixture."""
    write_own_rows(experiment, tmp_path / "rows.csv", stale_seeds=(2,))
    assert main(["tables", str(experiment)]) == 2
    err = capsys.readouterr().err
    assert "1 of 3 rows are of older code (ER - seed 2)" in err
    assert "--stale keep" in err
    assert len(err.splitlines()) == 2
    assert main(["tables", str(experiment), "--stale", "keep"]) == 0
    out = capsys.readouterr().out
    assert "62.00 ± 4.97 (3)" in out
    assert "mixed: 1 of these runs" in out
    assert main(["tables", str(experiment), "--stale", "drop"]) == 0
    assert "61.00 ± 12.71 (2)" in capsys.readouterr().out
    write_own_rows(experiment, tmp_path / "rows.csv", stale_seeds=(0, 1, 2))
    assert main(["tables", str(experiment)]) == 0
    assert "mixed" not in capsys.readouterr().out
    assert published.read(experiment, "drop").rows == []


def test_a_cell_has_no_mean_of_two_kinds_of_images(experiment, tmp_path, capsys):
    """Refused under every policy, with the cell and what to do."""
    write_own_rows(experiment, tmp_path / "rows.csv")
    first, *others = results.read_rows(tmp_path / "rows.csv")
    others = [{**row, "data": "altered"} for row in others]
    results.write_rows(tmp_path / "rows.csv", [{**first, "data": "recompressed"}, *others])
    assert main(["tables", str(experiment), "--stale", "keep"]) == 2
    assert "ER - has rows on altered and on recompressed images" in capsys.readouterr().err


def test_rows_on_other_images_make_way_for_those_on_the_originals(experiment, tmp_path, capsys):
    """Whoever has the originals begins a table anew, seed by seed: no cell mixes, the table says how many rows it leaves out."""
    write_own_rows(experiment, tmp_path / "rows.csv")
    first, *others = results.read_rows(tmp_path / "rows.csv")
    results.write_rows(tmp_path / "rows.csv", [first, *({**row, "data": "recompressed"} for row in others)])
    assert main(["tables", str(experiment)]) == 0
    out = capsys.readouterr().out
    assert "60.00 (1)" in out
    assert "2 runs on other images are left out" in out
    assert [row["seed"] for row in published.read(experiment).rows] == ["0"]


def test_a_row_on_the_originals_that_is_dropped_pushes_no_other_out(experiment, tmp_path):
    """`--stale drop` looks at the code first: today's rows on other images stay."""
    write_own_rows(experiment, tmp_path / "rows.csv", stale_seeds=(0,))
    first, *others = results.read_rows(tmp_path / "rows.csv")
    results.write_rows(tmp_path / "rows.csv", [first, *({**row, "data": "recompressed"} for row in others)])
    assert [row["seed"] for row in published.read(experiment, "drop").rows] == ["1", "2"]
    assert [row["seed"] for row in published.read(experiment, "keep").rows] == ["0"]


def test_rows_of_another_benchmark_stay_beside_originals():
    """What is left out is left out benchmark by benchmark."""
    rows = [
        {"dataset": "a", "data": "original"},
        {"dataset": "a", "data": "sample"},
        {"dataset": "b", "data": "recompressed"},
        {"dataset": "c", "data": "original (held-out)"},
        {"dataset": "d", "data": "own"},
    ]
    assert [(row["dataset"], row["data"]) for row in published.on_originals(rows)] == [
        ("a", "original"),
        ("b", "recompressed"),
        ("c", "original (held-out)"),
        ("d", "own"),
    ]


def test_a_long_matrix_is_read_again(tmp_path):
    """Two hundred tasks: more characters than csv's own limit for a field."""
    long = {**THREE[0], "class_il": [[round(100 / (task + 3), 4) for task in range(stage + 1)] for stage in range(200)]}
    results.write_rows(tmp_path / "rows.csv", [long])
    assert results.read_rows(tmp_path / "rows.csv")[0]["class_il"] == long["class_il"]


@pytest.mark.parametrize(
    "times", [("2026-10-01T00:00:00+0000", "2026-11-01T00:00:00+0000"), ("2026-10-01T20:00:00+0000", "2026-10-01T14:00:00-0700")]
)
def test_of_two_rows_the_later_run_stays(times, tmp_path):
    """Whatever is collected last, in whichever time zone: a record of last month does not replace this month's row."""
    earlier, later = ({**THREE[0], "started": start} for start in times)
    assert results.merge([later], [earlier]) == [later]
    assert results.merge([earlier], [later]) == [later]
    for name, row in (("a", later), ("b", earlier)):
        results.write_rows(tmp_path / f"{name}.csv", [row])
    assert [row["started"] for row in results.read_together(tmp_path / "a.csv")] == [later["started"]]


def test_a_cell_that_was_changed_and_changed_back_has_its_row_again():
    """Another run of the cell started later: what is collected now is what the file asks for."""
    first = {**THREE[0], "started": "2026-10-01T00:00:00+0000"}
    other = {**first, "run_id": "another", "started": "2026-11-01T00:00:00+0000"}
    assert results.merge([other], [first]) == [first]


def test_an_experiment_shows_the_runs_of_another(experiment, tmp_path):
    """A run in a file beside: the row gets the labels of the experiment that asks; of two rows of one run the later counts."""
    write_own_rows(experiment, tmp_path / "rows.csv")
    other = tmp_path / "other.yaml"
    other.write_text(
        f"results: {tmp_path}/other.csv\nshow: [curves]\ncolumns:\n  - {{label: A}}\nrows:\n  - {{label: Replay, model: er}}\n"
    )
    found = published.read(other)
    assert [(entry["row"], entry["column"], entry["stale"]) for entry in found.rows] == [("Replay", "A", False)] * 3
    assert found.settings == ()
    again = [
        {**entry, "class_il": [[1.0]], "started": "2999-01-01T00:00:00+0000"} for entry in results.read_rows(tmp_path / "rows.csv")
    ]
    results.write_rows(tmp_path / "other.csv", again[:1])
    assert next(entry["class_il"] for entry in published.read(experiment).rows) == [[1.0]]


def test_a_row_of_a_cell_that_is_not_asked_for_says_nothing():
    """Where a row does not fill a column there is a dash, not `not run`."""
    asked = Experiment("t", "T", (0,), None, ("ER", "SGD"), ("a", "b"), (Cell("ER", "a", ()), Cell("SGD", "b", ())))
    verdicts = {
        (label, head[0]): entry.verdict for label, line in build(asked, []).lines for head, entry in zip("aabb", line, strict=True)
    }
    assert verdicts == {("ER", "a"): "not run (0/1)", ("ER", "b"): "", ("SGD", "a"): "", ("SGD", "b"): "not run (0/1)"}


@pytest.mark.long  # CI goes this way with all experiments, scripts/reproduce.sh --scale tiny
def test_a_scale_sends_small_runs_the_whole_way(tmp_path, capsys):
    """Three published experiments at a scale: runs, tables, figures, page; nothing of the paper beside them."""
    scale = (ROOT / "experiments" / "scales" / "tiny.yaml").read_text(encoding="utf-8")
    (tmp_path / "small.yaml").write_text(scale.replace("{results_path:", f"{{n_iters: 6, base_path: {tmp_path}, results_path:"))
    words = ("--scale", str(tmp_path / "small.yaml"))
    for name, only in (("table_short", "er-ace,er"), ("variation", "er"), ("acc_curves", "er-ace,er")):
        path = str(ROOT / "experiments" / f"{name}.yaml")
        assert sweep.main(["run", path, *words, "--only", only, "--columns", COLUMNS[name], "--jobs", "1"]) == 0
    assert "4 runs, 4 skipped" in capsys.readouterr().out  # the curves are those of the table's runs
    for what in ("tables", "figures", "page"):
        assert main([what, *words]) == 0
    out = capsys.readouterr().out
    assert "[tiny" in out
    assert "paper 46.2" not in out
    made = {path.name for path in (tmp_path / "results" / "tiny").iterdir()}
    assert {"table_short.csv", "acc_curves-curves.png", "variation-1-er-cifar-10-rr-histogram.png", "report.html"} <= made
    assert "no number here is the paper" in (tmp_path / "results" / "tiny" / "report.html").read_text(encoding="utf-8")


def test_as_a_process(tmp_path):
    """`python -m mammoth.report tables nowhere.yaml`: status 2, no traceback."""
    command = [sys.executable, "-m", "mammoth.report", "tables", "nowhere.yaml"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "nowhere.yaml" in done.stderr


def test_without_an_experiment_all_published_tables_are_printed(capsys):
    """`tables` alone prints every table whose rows are committed; `claims` prints the claims."""
    assert main(["tables", "--format", "csv", "--stale", "keep"]) == 0
    printed = capsys.readouterr().out
    assert "ER-ACE,MS=500,class_il,ACC" in printed
    assert "ER-ACE,MS=5120,task_il,FR" in printed
    assert main(["claims", "--stale", "keep"]) == 0
    assert "lowest FR" in capsys.readouterr().out


def test_the_page_and_the_figures_of_what_is_published(tmp_path, capsys, monkeypatch):
    """One HTML file; figures are written, then current."""
    monkeypatch.setattr("mammoth.report.__main__.FIGURES", tmp_path / "figures")
    assert main(["page", "--output", str(tmp_path / "page.html"), "--stale", "keep"]) == 0
    assert "<table" in (tmp_path / "page.html").read_text(encoding="utf-8")
    first = main(["figures", "--check"])
    assert main(["figures"]) == 0
    said = capsys.readouterr().out
    assert first == (1 if "stale" in said else 0)
    assert main(["figures", "--check"]) == 0
    assert capsys.readouterr().out == f"all figures in {tmp_path / 'figures'} are current\n"
