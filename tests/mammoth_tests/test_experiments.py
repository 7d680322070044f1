"""An experiment's YAML file: rows x columns x grid x seeds, and what a file that is wrong gets."""

import re
from pathlib import Path

import pytest
import yaml

from mammoth.experiments import load_experiment, parse_seeds
from mammoth.sweep import plan
from utils.yaml_files import ROOT

EXPERIMENTS = sorted((ROOT / "experiments").glob("*.yaml"))


@pytest.fixture
def load(tmp_path):
    """Return a function from a file's content to the experiment."""

    def loaded(content):
        path = tmp_path / "table.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return load_experiment(path)

    return loaded


ROWS = [{"label": "ER", "model": "er"}, {"label": "SGD", "model": "sgd"}]


def words(cell) -> dict[str, str]:
    return dict(zip(cell.argv[::2], cell.argv[1::2], strict=True))


@pytest.mark.parametrize("flag", ["models_path", "datasets_path"])
def test_folders_of_methods_are_of_all_rows_or_none(load, flag):
    """A folder that one row adds would hold for the others too, and give them its numbers."""
    with pytest.raises(ValueError, match=f"--{flag} must be that of all rows"):
        load({"rows": [{**ROWS[0], flag: "theirs"}, ROWS[1]]})
    assert len(load({"common": {flag: "theirs"}, "rows": ROWS}).cells) == 2


# -- what a file means -----------------------------------------------------------------------------------------------------


def test_every_row_meets_every_column(load):
    """Two rows by two columns: four cells, in the order of the file, each a command line without label and seed."""
    columns = [{"label": "small", "lr": 0.1}, {"label": "large", "lr": 0.2}]
    found = load({"title": "T", "seeds": 2, "common": {"dataset": "seq-digits"}, "columns": columns, "rows": ROWS})
    assert (found.name, found.title, found.seeds, found.results) == ("table", "T", (0, 1), None)
    assert (found.rows, found.columns) == (("ER", "SGD"), ("small", "large"))
    assert [(cell.row, cell.column) for cell in found.cells] == [
        ("ER", "small"),
        ("ER", "large"),
        ("SGD", "small"),
        ("SGD", "large"),
    ]
    assert words(found.cells[1]) == {"--dataset": "seq-digits", "--lr": "0.2", "--model": "er"}


def test_later_keys_win(load):
    """Common, column, row, grid: the later has it."""
    content = {
        "common": {"lr": 1, "seed_of": 1, "a": 0, "b": 0, "c": 0},
        "columns": [{"label": "X", "a": 1, "b": 1, "c": 1}],
        "rows": [{"label": "R", "b": 2, "c": 2}],
        "grid": {"c": [3]},
    }
    (cell,) = load(content).cells
    assert words(cell) == {"--lr": "1", "--seed_of": "1", "--a": "1", "--b": "2", "--c": "3"}


def test_a_row_may_fill_some_columns_only(load):
    """`columns: [A]` in a row leaves the others empty."""
    content = {"columns": [{"label": "A"}, {"label": "B"}], "rows": [ROWS[0], {**ROWS[1], "columns": ["B"]}]}
    assert [(cell.row, cell.column) for cell in load(content).cells] == [("ER", "A"), ("ER", "B"), ("SGD", "B")]


def test_a_grid_makes_each_row_once_for_each_combination(load):
    """Two rates by two batch sizes: four rows a method, labelled with their values."""
    found = load({"rows": ROWS, "grid": {"lr": [0.1, 0.03], "batch_size": [5, 10]}})
    assert len(found.rows) == 8
    assert found.rows[1] == "ER, lr 0.1, batch_size 10"
    assert words(found.cells[1]) == {"--model": "er", "--lr": "0.1", "--batch_size": "10"}


def test_one_column_without_a_name_by_default(load):
    """No columns: one, called `-`, that adds nothing."""
    found = load({"rows": ROWS})
    assert found.columns == ("-",)
    assert found.cells[0].argv == ("--model", "er")


def test_a_list_is_what_the_flag_would_be(load):
    """`lr_milestones: [35, 45]` becomes `--lr_milestones 35,45`, as in the other YAML files."""
    found = load({"rows": [{"label": "SGD", "model": "sgd", "lr_milestones": [35, 45]}]})
    assert words(found.cells[0])["--lr_milestones"] == "35,45"


def test_where_the_rows_go(load):
    """`results:` names the CSV file."""
    assert load({"rows": ROWS, "results": "experiments/results/x.csv"}).results == Path("experiments/results/x.csv")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [(3, (0, 1, 2)), ("3", (0, 1, 2)), ("0:3", (0, 1, 2)), ("5:7", (5, 6)), ("1,5", (1, 5)), ([4, 2], (4, 2)), ("7:8", (7,))],
)
def test_the_ways_to_write_seeds(text, seeds):
    """A count, a range, a list."""
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(("text", "seeds"), [("10:15", range(10, 15)), ("1:5", range(1, 5)), ("0:3", range(3)), ("7", range(7))])
def test_a_file_says_seeds_as_the_command_line_does(load, text, seeds):
    """YAML's numbers of base 60 (10:15 is 615 to many parsers) are none here."""
    assert load(f"seeds: {text}\nrows:\n  - {{label: ER, model: er}}\n").seeds == tuple(seeds)


@pytest.mark.parametrize("text", ["many", "0:", "1:2:3", "1,x", "", 1.5, ["a"], None, [None], "0", 0, "-3", "3:1", []])
def test_seeds_that_are_none(text):
    """Anything else is refused with the three ways to write them; so is what names no seed at all."""
    with pytest.raises(ValueError, match="seeds"):
        parse_seeds(text)


# -- files that are wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"rows": ROWS, "colums": []}, "'colums'.*columns"),
        ({"rows": [{"model": "er"}]}, "rows.*label"),
        ({"rows": [ROWS[0], ROWS[0]]}, "rows.*'ER'"),
        ({"rows": ROWS, "columns": [{"lr": 1}]}, "columns.*label"),
        ({"rows": ROWS, "columns": [{"label": "A"}, {"label": "A"}]}, "columns.*'A'"),
        ({"columns": [{"label": "A"}], "rows": [{**ROWS[0], "columns": ["B"]}]}, "'ER'.*'B'"),
        ({"rows": []}, "rows"),
        ({"title": "T"}, "rows"),
        ({"rows": ["er"]}, "rows.*label"),
        ({"rows": 3}, "rows"),
        ({"rows": {"label": "ER"}}, "rows"),
        ({"rows": ROWS, "columns": 3}, "columns"),
        ({"rows": ROWS, "common": ["er"]}, "common"),
        ({"rows": ROWS, "common": 3}, "common"),
        ({"rows": ROWS, "grid": {"lr": 0.1}}, "grid.*lr"),
        ({"rows": ROWS, "grid": ["lr"]}, "grid"),
        ({"rows": ROWS, "grid": {"lr": []}}, "grid.*lr"),
        ({"rows": ROWS, "seeds": "many"}, "seeds.*many"),
        ("rows: [", "table.yaml"),
        ("- er", "table.yaml"),
        ("", "rows"),
    ],
)
def test_a_wrong_file_names_file_and_key(content, key, load, tmp_path):
    """One line that says which file and which key."""
    with pytest.raises(ValueError, match=str(tmp_path / "table.yaml")) as error:
        load(content)
    assert error.match(key)


def test_an_absent_file_lists_those_there(tmp_path):
    """A misspelt path: the files beside it are named."""
    (tmp_path / "table_short.yaml").write_text("")
    with pytest.raises(ValueError, match=r"table_shrt\.yaml.*table_short\.yaml"):
        load_experiment(tmp_path / "table_shrt.yaml")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"label": "X", "model": "err"}, "er"),
        ({"label": "X"}, "--model"),
        ({"label": "X", "model": "er", "bufer_size": 1}, "buffer_size"),
        ({"label": "X", "model": "er", "lr": -1}, "lr"),
        ({"label": "X", "model": "er", "seed": 3}, "seed"),
    ],
)
def test_a_wrong_command_line_names_the_row(row, says, load):
    """A plan resolves every command line: what is wrong is named with its row before anything runs."""
    with pytest.raises(ValueError, match=rf"table, row 'X'.*{says}"):
        plan(load({"rows": [*ROWS, row]}))


# -- scales ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scaled(tmp_path):
    """Return a function from an experiment's content and a scale's to the experiment at that scale."""

    def loaded(content, scale):
        (tmp_path / "table.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        (tmp_path / "small.yaml").write_text(scale if isinstance(scale, str) else yaml.safe_dump(scale))
        return load_experiment(tmp_path / "table.yaml", str(tmp_path / "small.yaml"))

    return loaded


def test_a_scale_replaces_values_and_adds_flags(scaled):
    """Each value by itself, even where two change places; flags of the scale win; rows go elsewhere, the paper's stay out."""
    content = {"title": "T", "seeds": 15, "results": "rows.csv", "note": "n.", "common": {"dataset": "big", "lr": 1}, "rows": ROWS}
    scale = {
        "title": "small {title}", "seeds": 2, "note": "m.", "common": {"lr": 2},
        "replace": {"dataset": {"big": "small", "small": "big"}, "buffer_size": {5: 1}},
    }  # fmt: skip
    found = scaled(content, scale)
    assert (found.title, found.seeds, found.results, found.paper, found.note) == ("small T", (0, 1), None, "", "m. n.")
    assert words(found.cells[0]) == {"--dataset": "small", "--lr": "2", "--model": "er"}


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        ({"sedes": 2}, "did you mean seeds"),
        ({"seeds": -1}, "seeds -1"),
        ({"replace": {"dataset": "small"}}, "replace"),
        ({"common": ["lr"]}, "common"),
    ],
)
def test_a_wrong_scale_is_named(scale, says, scaled):
    """Unknown key, bad seeds, a replacement that is no mapping."""
    with pytest.raises(ValueError, match=says):
        scaled({"rows": ROWS}, scale)


def test_an_unknown_scale_names_those_there_are(load, tmp_path):
    """`--scale tny`."""
    load({"rows": ROWS})
    with pytest.raises(ValueError, match="there are: tiny"):
        load_experiment(tmp_path / "table.yaml", "tny")


@pytest.mark.parametrize(("key", "value"), [("show", "table"), ("show", ["tabel"]), ("order", "first")])
def test_a_wrong_way_of_showing_is_named(key, value, load):
    """`show` is a list of what there is, `order` a number."""
    with pytest.raises(ValueError, match=f"{key}: "):
        load({"rows": ROWS, key: value})


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_resolves_at_the_tiny_scale(path):
    """All on the bundled digits, two seeds."""
    runs = plan(load_experiment(path, "tiny"))
    assert {run.args.dataset for run in runs} == {"seq-digits"}
    assert {run.seed for run in runs} == {0, 1}


def test_every_experiment_of_the_paper_has_its_script():
    """`bash scripts/<name>.sh` runs experiments/<name>.yaml, and scripts/reproduce.sh runs all whose rows are committed."""
    names = {path.stem for path in EXPERIMENTS if load_experiment(path).results}
    for name in names:
        assert f'experiment.sh" {name} ' in (ROOT / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    (listed,) = re.findall(r"for name in (.*); do", (ROOT / "scripts" / "reproduce.sh").read_text(encoding="utf-8"))
    assert set(listed.split()) == names


# -- the files that are shipped --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_resolves(path):
    """Every file in experiments/ is read, and each of its command lines resolves, with a run of its own for each cell and seed."""
    experiment = load_experiment(path)
    runs = plan(experiment)
    assert len(runs) == len(experiment.cells) * len(experiment.seeds)
    assert len({run.args.run_id for run in runs}) == len({(run.argv[:-2], run.seed) for run in runs})


def test_the_quickstart_is_what_the_readme_promises():
    """PVBF, ER-ACE and ER on the bundled digits, three seeds each."""
    runs = plan(load_experiment(ROOT / "experiments" / "quickstart.yaml"))
    assert {run.args.dataset for run in runs} == {"seq-digits"}
    assert sorted((run.args.model, run.seed) for run in runs) == [(m, s) for m in ("er", "er-ace", "pvbf") for s in range(3)]
