"""docs/your_own_loop.md: the loops as printed run, and do what the page says."""

import runpy

import torch
from pages import blocks


def run(tmp_path, *texts):
    """Run blocks of the page one after another; return their variables."""
    path = tmp_path / "loop.py"
    path.write_text("\n".join(texts), encoding="utf-8")
    return runpy.run_path(str(path))


def test_the_two_parts_with_any_module(tmp_path):
    """The first loop, a dozen lines: C lies in its range and varies, the slow head has met all classes and is not the head."""
    found = run(tmp_path, *blocks("your_own_loop.md")[:2])
    correlation = found["correlation"].correlation
    assert float(correlation.min()) >= 0.5
    assert float(correlation.max()) == 2.0
    assert correlation.unique().numel() > 1000
    assert found["slow_head"].occurrences.min() > 0
    with torch.no_grad():
        assert not torch.equal(found["head"](found["body"](found["images"])).argmax(1), found["predicted"])


def test_with_a_memory_it_remembers_all_tasks(tmp_path):
    """The second loop on the digits: the slow head tells all ten classes apart, where the first task's alone would give 10 %."""
    found = run(tmp_path, *blocks("your_own_loop.md"))
    right = found["predicted"] == found["labels"]
    assert float(right.float().mean()) > 0.7
    assert all(float(right[found["labels"] // 2 == task].float().mean()) > 0.4 for task in range(5))
