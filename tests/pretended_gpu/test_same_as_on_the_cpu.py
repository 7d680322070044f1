"""Every method, and every part that touches tensors, on a made-up device: nothing is left on the CPU, and the numbers are the same.

The gate has no GPU: this is what can be known of one without it.
"""

import itertools
import json
import subprocess
import sys

import pytest
from torch.utils import backend_registration

import models
from tests.datasets.made_files import write_image
from utils.yaml_files import ROOT

AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this torch has no devices written in Python; 2.14 has")

STEPS = "--n_iters 6"
SHORT = {"gdumb": "--fitting_epochs 2", "hal": "--hal_anchor_steps 2"}
COLOURS = "--dataset made-colours --backbone reduced-resnet18 --batch_size 2 --n_epochs 1 --buffer_size 6"
METHODS = [f"--model {name} {STEPS} {SHORT.get(name, '')}" for name in sorted(models.get_model_names())]
VARIANTS = [
    f"--model pvbf {STEPS} --dcwr_apply task --record_variation 1",
    f"--model pvbf {STEPS} --dcwr_apply step --dcwr_bias 0 --standardization rs",
    f"--model pvbf {STEPS} --dcwr_mean classes --ec mean --standardization_scope layer",
    f"--model pvbf {STEPS} --ace 0",
    f"--model er {STEPS} --replay_forward joint --validation 0.2 --eval_future 1 --enable_other_metrics 1",
    f"--model er {STEPS} --noise_rate 0.3 --permute_classes 1 --lr_scheduler cosine --optimizer adam",
    f"--model er {STEPS} --label_perc_by_class 0.5",
    "--model er --fitting_mode early_stopping --validation 0.2 --n_epochs 2",
    "--model gdumb --n_iters 2 --fitting_epochs 2 --cutmix_alpha 1.0",
    f"--model pvbf {COLOURS}",
    f"--model icarl {COLOURS}",
    "--model pvbf --dataset made-domains --backbone mnistmlp --batch_size 2 --n_epochs 1 --buffer_size 6",
]
MIXED = """
import torch
from models import register_model
from models.er import Er


@register_model("THIS")
class Mixed(Er):
    NAME = "THIS"
    COMPATIBILITY = ["class-il"]

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        FAULT
        return super().observe(inputs, labels, not_aug_inputs, epoch)
"""
FAULTS = {
    "product": (
        "inputs = inputs * torch.ones(inputs.shape[1:])",
        "aten.mul.Tensor: tensors on two devices: (10, 1, 8, 8) on pretended:0, (1, 8, 8) on cpu",
    ),
    "put": (
        "labels[torch.tensor([0, 1])] = torch.tensor([0, 1])",
        "aten.index_put_.default: tensors on two devices: (10,) on pretended:0, (2,) on cpu, (2,) on cpu",
    ),
    "draw": (
        "labels = labels[torch.randperm(10, generator=torch.Generator(), device=labels.device)]",
        "a generator on cpu cannot fill a tensor on pretended:0",
    ),
}  # a line of `observe`, and what is said of it


def faults(lines):
    """Return what is wrong with each command line, by a process of its own: a device cannot be taken back."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.pretended_gpu.runs"],
        input="\n".join(lines), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [each["line"].split() for each in found] == [line.split() for line in lines], done.stderr[-2000:]
    return [f"{each['line']}: {each['fault']}" for each in found if each["fault"]]


@pytest.mark.parametrize("lines", [METHODS[::2], METHODS[1::2], VARIANTS], ids=["methods", "other methods", "variants"])
def test_the_same_numbers_as_on_the_cpu(lines):
    """Trained, evaluated, stored and gone on with there: accuracies, confusions and diagnostics are the CPU's to the last digit."""
    assert faults(lines) == []


def test_own_images(tmp_path):
    """Files become batches on the device."""
    for place, number in itertools.product(range(4), range(6)):
        write_image(tmp_path / f"class{place}" / f"{number}.png", 60 * place + 10 * number, (32, 32))
    assert faults([f"--model pvbf --dataset seq-folder --data_path {tmp_path}"]) == []


def test_a_method_that_leaves_a_tensor_on_the_cpu_is_caught(tmp_path):
    """Used with one on the device, put into one there; and a generator of the CPU's that is to fill one there."""
    for name, (fault, _) in FAULTS.items():
        (tmp_path / f"{name}.py").write_text(MIXED.replace("THIS", name).replace("FAULT", fault), encoding="utf-8")
    found = faults([f"--model {name} --models_path {tmp_path} --buffer_size 10 {STEPS}" for name in FAULTS])
    for each, (_, expected) in zip(found, FAULTS.values(), strict=True):
        assert expected in each
