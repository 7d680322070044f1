"""What upstream Mammoth's own tests found here (`python -m mammoth.upstream_tests`), as a table in Markdown."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

from utils.yaml_files import ROOT

FOUND = ROOT / "docs" / "upstream_tests.json"
ABSENT = {  # why a test does not apply here: patterns in its name
    "deletes the data and downloads them again": ("with_download",),
    "a data set that is not here (224 pixels, or for pretrained networks)": (
        "224", "imagenet-r", "tinyimg-r", "cub200", "chestx", "cropdisease", "eurosat", "seq-isic", "mit67", "resisc45", "test_lws",
        "test_main_import_base", "test_register_backbone_big", "test_code_optimization_slca", "test_checkpoint_save_and_load",
        "dynamic_params.py::test_register_dataset",
    ),
    "a general-continual data set that is not here": ("mnist-360",),
    "a method on CLIP or a vision transformer": (
        "test_(cgil|codaprompt|dualprompt|l2p|slca|zscl|starprompt|static_multimodals|second_order|tak|tak_fisher_loader).py",
    ),
    "a method that is not here and whose file does not run here": (
        "test_(casper|cscct|ccic|cnll|spr|twf|pnn|lider).py", r"\[xder\]", "test_configs_",
        "test_model_config.py::test_(default|best_rehearsal)",
    ),
    "calls torch.cuda.synchronize(): only on a machine with a GPU": ("test_lucir.py",),
    "torch.compile, on a GPU": (r"test_code_optim_erace\[3\]",),
}  # fmt: skip
DELIBERATE = {  # a pattern in an applicable test's name: why it fails on purpose
    r"test_args_with_choices": "asks for a network `efficientnet`",
}


def reason_absent(name: str) -> str | None:
    """Return why a test, given as `file::test[case]`, does not apply here; None if it does."""
    return next((reason for reason, patterns in ABSENT.items() if any(re.search(pattern, name) for pattern in patterns)), None)


def outcome(junit: Path) -> tuple[str, str]:
    """Return how the one test of a JUnit file ended (passed, failed, skipped) and the first line of what it said."""
    case = ElementTree.parse(junit).getroot().find(".//testcase")
    if case is None:
        return "failed", "not collected"
    for tag in ("failure", "error", "skipped"):
        found = case.find(tag)
        if found is not None:
            lines = (found.get("message") or "").strip().splitlines()
            return "skipped" if tag == "skipped" else "failed", lines[0] if lines else tag
    return "passed", ""


def markdown(found: dict[str, Any] | None = None) -> str:
    """Return what was found (default: the file's): the count, why each other applicable test failed, and what does not apply."""
    if found is None:
        if not FOUND.is_file():
            return "Not run."
        found = json.loads(FOUND.read_text(encoding="utf-8"))
    tests: dict[str, list[str]] = found["tests"]
    applicable = {name: ended for name, ended in tests.items() if reason_absent(name) is None}
    passed = sum(how == "passed" for how, _ in applicable.values())
    lines = [
        f"{passed} of {len(applicable)} applicable tests passed, of {len(tests)} in all ({found['date']}; upstream "
        f"{found['upstream'][:7]}, here {found['commit']}; at most {found['limit_s']:,} s a test).",
        "",
        "| applicable, not passed | why |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {_why(name, said or how)} |" for name, (how, said) in applicable.items() if how != "passed"]
    counts = Counter(reason_absent(name) for name in tests)
    lines += ["", "| not applicable | tests |", "|---|---|"]
    lines += [f"| {reason} | {counts[reason]} |" for reason in ABSENT if counts[reason]]
    return "\n".join(lines)


def _why(name: str, said: str) -> str:
    """Return why an applicable test did not pass: the reason known, else what it said."""
    known = next((reason for pattern, reason in DELIBERATE.items() if re.search(pattern, name)), None)
    return known or said.replace("|", "/")[:160]
