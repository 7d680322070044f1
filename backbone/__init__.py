"""Networks by name. `get_backbone(args)` makes a fresh one at each call."""

import importlib
import inspect
import pkgutil
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Builder = Callable[..., "MammothBackbone"]
REGISTERED_BACKBONES: dict[str, Builder] = {}
FROM_DATA_SET = ("num_classes", "input_height", "input_channels")


class MammothBackbone(nn.Module):
    """A feature extractor with a replaceable linear `classifier`; Mammoth's interface.

    A subclass defines `features(x) -> (batch, features)` and sets `self.classifier`, an `nn.Linear`.
    """

    classifier: Any

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.parameters()).device

    def features(self, x: Tensor) -> Tensor:
        """Map images (batch, channels, height, width) to flat features (batch, features)."""
        raise NotImplementedError(f"{type(self).__name__} defines no features(x)")

    def forward(self, x: Tensor, returnt: str = "out") -> Any:
        """Run the network.

        Args:
            x: images, (batch, channels, height, width).
            returnt: `out` for the logits (batch, classes), `features`, or `both` for (logits, features).

        Raises:
            ValueError: any other `returnt`.
        """
        features = self.features(x)
        if returnt == "features":
            return features
        if returnt == "out":
            return self.classifier(features)
        if returnt in ("both", "full"):
            return self.classifier(features), features
        raise ValueError(f"returnt={returnt!r}; allowed: out, features, both, full")

    def get_params(self) -> Tensor:
        """Return all parameters as one flat vector (differentiable)."""
        return torch.cat([parameter.reshape(-1) for parameter in self.parameters()])

    def set_params(self, vector: Tensor) -> None:
        """Overwrite all parameters from one flat vector."""
        _scatter(vector, [parameter.data for parameter in self.parameters()])

    def get_grads(self) -> Tensor:
        """Return all gradients as one flat vector; zeros where a parameter has none."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters()]
        return torch.cat([grad.reshape(-1) for grad in grads])

    def set_grads(self, vector: Tensor) -> None:
        """Overwrite all gradients from one flat vector."""
        for parameter in self.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        _scatter(vector, [parameter.grad for parameter in self.parameters() if parameter.grad is not None])


def _scatter(vector: Tensor, targets: list[Tensor]) -> None:
    pieces = vector.split([target.numel() for target in targets])
    for target, piece in zip(targets, pieces, strict=True):
        target.copy_(piece.view(target.shape))


def xavier(module: nn.Module) -> None:
    """Xavier-uniform weights and zero bias for a linear layer (Glorot and Bengio 2010); use with `net.apply`."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def num_flat_features(x: Tensor) -> int:
    """Return the number of values per image in a batch."""
    return x[0].numel()


def register_backbone(name: str) -> Callable[[Builder], Builder]:
    """Decorate a function or class that builds a backbone; its keyword arguments become command-line flags.

    Raises:
        ValueError: the name is taken.
    """

    def register(builder: Builder) -> Builder:
        key = name.replace("_", "-").lower()
        if key in REGISTERED_BACKBONES:
            raise ValueError(f"two backbones are named {key!r}")
        REGISTERED_BACKBONES[key] = builder
        return builder

    return register


def get_backbone_names() -> list[str]:
    """Return the names that `--backbone` accepts."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(REGISTERED_BACKBONES)


def get_backbone_class(name: str) -> Builder:
    """Return the builder of that name.

    Raises:
        ValueError: no such backbone; says which there are.
    """
    key = name.replace("_", "-").lower()
    names = get_backbone_names()
    if key not in REGISTERED_BACKBONES:
        raise ValueError(f"unknown backbone {name!r}; there are: {', '.join(names)}")
    return REGISTERED_BACKBONES[key]


def backbone_flags(name: str) -> dict[str, inspect.Parameter]:
    """Return the builder's own keyword arguments (those that the data set does not settle)."""
    parameters = inspect.signature(get_backbone_class(name)).parameters
    return {key: parameter for key, parameter in parameters.items() if key not in FROM_DATA_SET}


def get_backbone(args: Namespace) -> MammothBackbone:
    """Build the network that `args.backbone` names, with fresh weights."""
    builder = get_backbone_class(args.backbone)
    wanted = inspect.signature(builder).parameters
    return builder(**{key: getattr(args, key) for key in wanted if getattr(args, key, None) is not None})
