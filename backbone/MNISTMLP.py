"""The multi-layer perceptron of the MNIST benchmarks: two hidden layers of 100 (Lopez-Paz and Ranzato 2017)."""

import torch
from torch import Tensor, nn

from backbone import MammothBackbone, register_backbone, xavier


class BaseMNISTMLP(MammothBackbone):
    """Two hidden layers with ReLU and a linear classifier; Xavier initialisation.

    Args:
        input_size: values per image.
        output_size: number of classes.
        hidden_size: units in each hidden layer.
    """

    def __init__(self, input_size: int, output_size: int, hidden_size: int = 100) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size
        self.hidden = nn.Sequential(nn.Linear(input_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU())
        self.classifier = nn.Linear(hidden_size, output_size)
        self.apply(xavier)

    def features(self, x: Tensor) -> Tensor:
        return self.hidden(torch.flatten(x, 1))


@register_backbone("mnistmlp")
def mnistmlp(num_classes: int, input_height: int = 28, input_channels: int = 1, mlp_hidden_size: int = 100) -> BaseMNISTMLP:
    """Two hidden layers of 100 units, for small grey images."""
    return BaseMNISTMLP(input_height * input_height * input_channels, num_classes, mlp_hidden_size)
