"""Freeze the running statistics of batch norm for a while. Here for upstream's methods, which import it under this name."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def bn_track_stats(module: nn.Module, condition: bool = True) -> Iterator[None]:
    """Within this block no batch-norm layer of `module` updates its running mean and variance, unless `condition` holds."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    before = [layer.track_running_stats for layer in layers]
    try:
        for layer in layers:
            layer.track_running_stats = condition and layer.track_running_stats
        yield
    finally:
        for layer, tracked in zip(layers, before, strict=True):
            layer.track_running_stats = tracked
