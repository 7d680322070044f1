"""How parameters varied over a task (PVBF, section 3.1 and Figs. 2, 3, 7, A.8-A.11), for any method: `--record_variation 1`.

After each task the record gets, for each standardisation (RR, ZS, RS), the number of parameters in each bin of relative change and
the mean relative change of each layer, a layer being a module with parameters of its own.
"""

from typing import Any

import torch
from torch import Tensor, nn

from models.pvbf import STANDARDIZATIONS, flat_parameters, parameter_variation

POWERS = [2.0**power for power in range(-6, 8)]
EDGES = {
    "rr": [0.0, *POWERS],
    "zs": [-1.0, -0.5, 0.0, 0.5, 1.0, *POWERS[7:]],
    "rs": [-1.0, -0.5, 0.0, 0.5, 1.0, *POWERS[7:]],
}


def layer_sizes(net: nn.Module) -> dict[str, int]:
    """Return each layer's name and its number of trainable parameters, in the order of the flat vector."""
    sizes = {}
    for name, module in net.named_modules():
        count = sum(parameter.numel() for parameter in module.parameters(recurse=False) if parameter.requires_grad)
        if count:
            sizes[name or type(module).__name__] = count
    return sizes


def histogram(values: Tensor, edges: list[float]) -> list[int]:
    """Count the values below the first edge, between neighbours (left edge included), and from the last edge on."""
    places = torch.bucketize(values, torch.tensor(edges, dtype=values.dtype), right=True)
    return torch.bincount(places, minlength=len(edges) + 1).tolist()


def describe(delta: Tensor, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the figures' data for one task.

    Args:
        delta: (parameters,) absolute changes; sizes: the layers' names and lengths.
    """
    described: dict[str, Any] = {}
    for name, standardize in STANDARDIZATIONS.items():
        relative = standardize(delta)
        layers = [float(piece.mean()) for piece in relative.split(list(sizes.values()))]
        described[name] = {
            "counts": histogram(relative, EDGES[name]),
            "layer_means": [round(mean, 6) for mean in layers],
            "largest": round(float(relative.max()), 4),
        }
    described["shares"] = {
        "below the mean": float((delta < delta.mean()).double().mean()),
        "within one standard deviation": float(((delta - delta.mean()).abs() <= delta.std(correction=0)).double().mean()),
        "RS above 2": float((STANDARDIZATIONS["rs"](delta) > 2).double().mean()),
    }
    return described


class VariationRecorder:
    """Watches a network from task to task.

    Args:
        net: the network, as it is before the first task.
    """

    def __init__(self, net: nn.Module) -> None:
        self.sizes = layer_sizes(net)
        self.previous = flat_parameters(net).cpu()
        self.tasks: list[dict[str, Any]] = []

    def end_task(self, net: nn.Module) -> None:
        """Measure the change since the last call."""
        now = flat_parameters(net).cpu()
        self.tasks.append(describe(parameter_variation(self.previous, now).double(), self.sizes))
        self.previous = now

    def state_dict(self) -> dict[str, Any]:
        """Return what was measured, and the network at the last task's end."""
        return {"previous": self.previous, "tasks": self.tasks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self.previous, self.tasks = state["previous"], list(state["tasks"])

    def content(self) -> dict[str, Any]:
        """Return what goes into the record: layers, bins, and an entry a task."""
        return {"layers": list(self.sizes), "sizes": list(self.sizes.values()), "edges": EDGES, "tasks": self.tasks}
