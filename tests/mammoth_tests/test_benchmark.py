"""The benchmark: its arithmetic, its file, its page; the sections themselves run for real, quickly."""

import json

import pytest

from mammoth import benchmark
from mammoth.report import performance


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
