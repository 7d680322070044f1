"""What the documents say: tables are up to date, commands parse, lists of dependencies agree."""

import re
import shlex
from pathlib import Path

import pytest

from datasets import get_config_names, get_dataset_names, read_config
from mammoth import settings, sweep
from mammoth.experiments import load_experiment
from mammoth.report import __main__ as report
from mammoth.report import documents

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_FILES = ("extend.md", "own_images.md")  # their commands need files of the reader's; tests of their own run them


def commands() -> list[str]:
    """Return every `python main.py ...` line of the documents' code blocks, without comments."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS if path.name not in WITH_FILES)
    lines = re.findall(r"^python main\.py .*$", text, re.MULTILINE)
    return sorted({line.split(" #")[0].strip() for line in lines})


def test_tables_in_documents_are_up_to_date():
    """A table in a document equals what its rows give now."""
    assert documents.refresh(check=True) == []


def test_a_stale_table_is_noticed():
    """A digit changed by hand does not pass."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = documents.BLOCK.search(text)
    assert match is not None
    tampered = text.replace(match[0], f"{match[1]}typed by hand\n{match[4]}")
    assert documents.refreshed(tampered) == documents.refreshed(text) != tampered


@pytest.mark.parametrize("command", commands())
def test_commands_in_documents_parse(command):
    """Every command shown resolves to a run (or to help)."""
    words = shlex.split(command)[2:]
    if "--list" not in words:
        settings.resolve(words)


def test_the_table_of_benchmarks_has_every_benchmark_and_config():
    """One line a benchmark, whose last column names exactly its configs, with the protocol and, offline, the epochs."""
    lines = re.findall(r"^\| `(\w.+?)` \|.*\|(.+?)\|$", (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name: sorted(re.findall(r"`(.+?)`", configs)) for name, configs in lines}
    shipped = {path.name for path in (ROOT / "datasets" / "configs").iterdir() if path.is_dir()}
    assert shipped <= set(get_dataset_names())
    assert listed == {name: sorted(get_config_names(name)) for name in shipped}
    for name, configs in lines:
        for config, said in re.findall(r"`(.+?)`(?: \((.+?)\))?", configs):
            flags = read_config(name, config)[1]
            kind = "online" if "online" in (config, said) else "offline"
            assert (name, config, flags["protocol"]) == (name, config, kind)
            assert flags["n_epochs"] == 1 if kind == "online" else f"{flags['n_epochs']} epoch" in said


def test_requirements_and_pyproject_agree():
    """The dependencies stand in two files, with the same bounds."""
    listed = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    block = re.search(r"dependencies = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    assert listed == re.findall(r'"([^"]+)"', block[1])


def test_equations_cited_in_pvbf_exist():
    """The paper numbers its method's equations 1 to 13 and its measures 14 and 15; nothing else may be cited."""
    source = (ROOT / "models" / "pvbf.py").read_text(encoding="utf-8")
    cited = {int(number) for part in re.findall(r"[Ee]qs?\. ([\d, and-]+)", source) for number in re.findall(r"\d+", part)}
    assert cited <= set(range(1, 14))
    assert {1, 3, 4, 5, 6, 7, 9, 10, 13} <= cited


def test_the_sweep_of_the_documentation_runs(tmp_path, capsys):
    """docs/sweeps.md: the file as printed, run for one seed, then its table and its figure."""
    text = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert block is not None
    path = tmp_path / "my_sweep.yaml"
    path.write_text(f"results: {tmp_path}/rows.csv\n{block[1]}".replace("common: {", "common: {debug_mode: 1, "), encoding="utf-8")
    flags = ("--flags", f"--base_path {tmp_path} --device cpu", "--jobs", "1")
    assert sweep.main(["run", str(path), "--seeds", "0:1", *flags]) == 0
    assert report.main(["tables", str(path)]) == 0
    assert "PVBF, lr 0.1" in capsys.readouterr().out
    assert report.main(["figures", str(path), "--output", str(tmp_path / "curves.png")]) == 0
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_the_final_runs_of_the_documentation_are_on_the_test_images(tmp_path):
    """docs/sweeps.md: the second file as printed resolves; no images are held out, and each method has its own rate."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "final.yaml"
    path.write_text(blocks[1], encoding="utf-8")
    runs = sweep.plan(load_experiment(path))
    assert len(runs) == 60
    assert {run.args.validation for run in runs} == {0.0}
    assert {(run.args.model, run.args.lr) for run in runs} == {("er", 0.03), ("pvbf", 0.1)}


def test_figures_in_documents_are_up_to_date():
    """The committed figures show what the committed rows give now."""
    assert report.main(["figures", "--check"]) == 0
