"""The benchmark: its arithmetic, its file, its page; the sections themselves run for real, quickly."""

import json
from dataclasses import asdict

import pytest

from mammoth import benchmark
from mammoth.report import performance
from utils.yaml_files import ROOT


def test_a_ratio_is_the_median_of_the_repeats():
    """Repeat by repeat: 2, 3 and 10 times the floor, whatever else slowed the machine down."""
    assert benchmark.ratio([2.0, 30.0, 40.0], [1.0, 10.0, 4.0]) == 3.0


def test_actions_are_timed_in_turn_and_warmed_up():
    """Two actions, three repeats of two calls: a, b, a, b, ...; the first round does not count."""
    calls = []
    found = benchmark.in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, times=2)
    assert "".join(calls) == "aabb" * 4
    assert [len(times) for times in found.values()] == [3, 3]


def test_the_quick_sections_run_and_their_file_makes_the_page(tmp_path, capsys):
    """`--only batches,memory`: lines with ratios; the JSON is compared with itself without a change, and rendered."""
    path = tmp_path / "benchmark.json"
    benchmark.main(["--quick", "--only", "scale", "--output", str(path)])
    content = json.loads(path.read_text())
    names = [line["name"] for line in content["lines"]]
    assert "task 200 of 200" in names
    assert "1,000 classes" in names
    text = performance.markdown(path)
    assert "| task 200 of 200 |" in text
    assert "x task 2" in text
    assert content["commit"] in text
    line = benchmark.Line(**content["lines"][1])
    assert "(+0.0 %)" in benchmark.show(line, benchmark.known(path))
    capsys.readouterr()


def test_a_goal_is_met_or_not_or_not_measured(tmp_path):
    """A ratio against its own other, a value alone, the least and the most; and steps a second in proportion to the machine."""
    lines = [
        benchmark.Line("step", "matrix multiply, one thread", 77.0, "GFLOP/s"),
        benchmark.Line("step", "pvbf", 100.0, "ms", 1.02, "er_ace"),
        benchmark.Line("step", "pvbf", 100.0, "ms", 1.9, "floor"),
        benchmark.Line("step", "er", 100.0, "ms", 1.06, "floor"),
        benchmark.Line("start", "a run of one step, digits", 4.5, "s", 9.0, "import torch"),
        benchmark.Line("sweep", "2 job(s) of one thread", 13.5, "steps/s", 1.95, "one job"),
    ]
    path = tmp_path / "benchmark.json"
    content = {**benchmark.environment(), "repeats": 5, "quick": True, "lines": [asdict(line) for line in lines]}
    path.write_text(json.dumps(content))
    text = performance.goals(path)
    assert "| a step of PVBF | at most 1.03 x er_ace | 1.02 | met |" in text
    assert "| a step of ER | at most 1.05 x floor | 1.06 | **not met** |" in text
    assert "| at most 5 | 4.5 | met |" in text
    assert "| two runs of one thread | at least 1.9 x one job | 1.95 | met |" in text
    assert "| at least 14 | 13.5 | **not met** |" in text
    assert text.count("not measured") == 5


def test_every_goal_has_its_line_in_the_committed_benchmark():
    """No line of the page's table says that nothing was measured."""
    assert "not measured" not in performance.goals(ROOT / "docs" / "benchmark.json")


@pytest.mark.parametrize("words", [["--only", "stp"], ["--compare", "nowhere.json"], ["--quik"]])
def test_wrong_words_end_with_two(words, capsys):
    """Status 2 and one line that names what is wrong."""
    assert benchmark.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words[-1] in error


def test_a_file_that_is_no_benchmarks_is_named(tmp_path):
    """The page says what to run."""
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no benchmark's file.*--output"):
        performance.markdown(tmp_path / "x.json")
