"""What a method keeps in plain attributes: tensors, arrays, numbers, text, and containers of these.

Methods written for Mammoth often keep a snapshot of the weights, or a copy of the network, in an attribute that no `state_dict()`
holds or that is not there yet when the method is built. Checkpoints carry these too.
"""

import collections
import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MODULES_OWN = frozenset(vars(nn.Module()))
NOT_CARRIED = (torch.Generator, torch.optim.Optimizer, collections.deque, list, tuple, dict, set, np.ndarray)


class NotPlainError(Exception):
    """A value that holds something else than tensors, arrays, numbers and text."""


def packed(value: Any) -> list[Any]:
    """Return a value as nested lists that `torch.load(weights_only=True)` admits: its kind, then its content.

    Raises:
        NotPlainError: there is something in it that cannot be carried.
    """
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        return ["device" if value.device.type != "cpu" else "cpu", value.detach().clone().cpu()]
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return ["array", torch.from_numpy(value.copy())]
    if value is None or type(value) in (bool, int, float, str):
        return ["value", value]
    if type(value) in (list, tuple, set):
        entries = sorted(value, key=repr) if type(value) is set else value  # whose order differs from process to process
        return [type(value).__name__, [packed(entry) for entry in entries]]
    if type(value) is dict:
        return ["dict", [[packed(name), packed(entry)] for name, entry in value.items()]]
    raise NotPlainError(type(value).__name__)


def unpacked(pair: list[Any], device: torch.device) -> Any:
    """Return the value that `packed` took apart; what was on a GPU goes to `device`."""
    kind, content = pair
    if kind == "dict":
        return {unpacked(name, device): unpacked(entry, device) for name, entry in content}
    if kind in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[kind](unpacked(entry, device) for entry in content)
    if kind == "array":
        return content.numpy()
    return content.to(device) if kind == "device" else content


def own_attributes(model: nn.Module) -> dict[str, Any]:
    """Return a method's attributes without those that every module has."""
    return {name: value for name, value in vars(model).items() if name not in MODULES_OWN and name != "opt"}


def plain_attributes(model: nn.Module) -> tuple[dict[str, list[Any]], list[str]]:
    """Return a method's plain attributes, packed, and the names of those that cannot be carried."""
    found, left = {}, []
    for name, value in own_attributes(model).items():
        try:
            found[name] = packed(value)
        except NotPlainError:
            if isinstance(value, NOT_CARRIED):
                left.append(name)
    return found, left


def child_modes(model: nn.Module) -> dict[str, list[bool]]:
    """Return, for each module that a method holds, whether it is in training mode and whether anything in it is trained."""
    return {
        name: [child.training, any(parameter.requires_grad for parameter in child.parameters())]
        for name, child in model.named_children()
    }


def put_back(model: Any, content: dict[str, Any]) -> None:
    """Put a checkpoint's weights and plain attributes into a method that has just been built, or has trained.

    Args:
        content: `model`, the method's `state_dict()`; `attributes` and `modes`, if there are any.

    Raises:
        ValueError: the checkpoint has a module that the method lacks and that is no copy of one that it has, or an attribute
            that is not as `packed` writes it.
        RuntimeError: weights do not fit (torch's words).
    """
    weights, own = content["model"], model.state_dict()
    later = {name.partition(".")[0] for name in weights if name not in own}
    for name in sorted(later - {child for child, _ in model.named_children()}):
        _make_room(model, name, {key: value for key, value in weights.items() if key.partition(".")[0] == name}, content)
    model.load_state_dict(weights)
    for name, pair in (content.get("attributes") or {}).items():
        of_class = getattr(type(model), name, None)
        if not (name.startswith("__") or callable(of_class) or isinstance(of_class, property)):
            try:
                setattr(model, name, unpacked(pair, model.device))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"the checkpoint's attribute {name!r} of {model.NAME} cannot be read: {error}") from error


def _make_room(model: Any, name: str, weights: dict[str, Tensor], content: dict[str, Any]) -> None:
    """Give a method the buffer or module that it made after it was built, the latter as a copy of one that it has."""
    vars(model).pop(name, None)
    if name in weights:
        model.register_buffer(name, weights[name].clone().to(model.device))
        return
    keys = {key.removeprefix(f"{name}.") for key in weights}
    twin = next((child for child in model.children() if set(child.state_dict()) == keys), None)
    if twin is None:
        raise ValueError(
            f"the checkpoint holds {name!r} of {model.NAME}, which the method makes later and which is no copy of its network; "
            f"make it in __init__, so that it can be restored"
        )
    training, trained = (content.get("modes") or {}).get(name, (False, False))
    setattr(model, name, copy.deepcopy(twin).train(training).requires_grad_(trained))
