"""ResNets for small images (He et al. 2016): a 3x3 stem without max pooling, four stages of basic blocks.

`reduced-resnet18` is the online benchmarks' network (20 filters; Lopez-Paz and Ranzato 2017): its final pooling has a fixed
4x4 window, so images larger than 32x32 give longer features (84x84: 640).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from backbone import MammothBackbone, register_backbone


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution with padding 1 and no bias."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut (1x1 convolution where stride or width changes)."""

    def __init__(self, in_planes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv3x3(in_planes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(MammothBackbone):
    """Stem, four stages, average pooling, linear classifier.

    Args:
        blocks: number of basic blocks in each of the four stages.
        num_classes: outputs of the classifier.
        num_filters: channels of the first stage; doubled at each later one.
        input_height: height and width of the images.
        input_channels: 1 for grey, 3 for colour.
        pool: window of the final average pooling; None pools the whole map.

    Raises:
        ValueError: the images are too small for the pooling window.
    """

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        num_classes: int,
        num_filters: int,
        input_height: int = 32,
        input_channels: int = 3,
        pool: int | None = None,
    ) -> None:
        super().__init__()
        final_map = -(-input_height // 8)
        self.pool = pool or final_map
        pooled = final_map // self.pool
        if pooled < 1:
            raise ValueError(
                f"images of {input_height} x {input_height} are too small for this ResNet: its last map is "
                f"{final_map} x {final_map} and its pooling window {pool} x {pool}; use --backbone mnistmlp or larger images"
            )
        self.conv1 = conv3x3(input_channels, num_filters)
        self.bn1 = nn.BatchNorm2d(num_filters)
        widths = [num_filters * 2**stage for stage in range(4)]
        self.layer1 = _stage(num_filters, widths[0], blocks[0], stride=1)
        self.layer2 = _stage(widths[0], widths[1], blocks[1], stride=2)
        self.layer3 = _stage(widths[1], widths[2], blocks[2], stride=2)
        self.layer4 = _stage(widths[2], widths[3], blocks[3], stride=2)
        self.feature_dim = widths[3] * pooled * pooled
        self.classifier = nn.Linear(self.feature_dim, num_classes)

    def maps(self, x: Tensor) -> list[Tensor]:
        """Return the stem's output and each stage's, (batch, channels, height, width) each."""
        outputs = [F.relu(self.bn1(self.conv1(x)))]
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            outputs.append(stage(outputs[-1]))
        return outputs

    def features(self, x: Tensor) -> Tensor:
        return self._flat(self.maps(x)[-1])

    def _flat(self, final_map: Tensor) -> Tensor:
        return torch.flatten(F.avg_pool2d(final_map, self.pool), 1)

    def forward(self, x: Tensor, returnt: str = "out") -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, list[Tensor]]:
        """As `MammothBackbone.forward`; `full` returns (logits, the stem's and stages' outputs)."""
        if returnt != "full":
            return super().forward(x, returnt)
        maps = self.maps(x)
        return self.classifier(self._flat(maps[-1])), maps


def _stage(in_planes: int, planes: int, blocks: int, stride: int) -> nn.Sequential:
    first = BasicBlock(in_planes, planes, stride)
    return nn.Sequential(first, *(BasicBlock(planes, planes) for _ in range(blocks - 1)))


@register_backbone("resnet18")
def resnet18(num_classes: int, num_filters: int = 64, input_height: int = 32, input_channels: int = 3) -> ResNet:
    """ResNet-18 with 64 filters: 11,173,962 parameters for 10 classes."""
    return ResNet((2, 2, 2, 2), num_classes, num_filters, input_height, input_channels)


@register_backbone("resnet34")
def resnet34(num_classes: int, num_filters: int = 64, input_height: int = 32, input_channels: int = 3) -> ResNet:
    """ResNet-34 with 64 filters."""
    return ResNet((3, 4, 6, 3), num_classes, num_filters, input_height, input_channels)


@register_backbone("reduced-resnet18")
def reduced_resnet18(num_classes: int, input_height: int = 32, input_channels: int = 3) -> ResNet:
    """ResNet-18 with 20 filters, the online benchmarks' network: 1,094,750 parameters for 32x32 images and 10 classes."""
    return ResNet((2, 2, 2, 2), num_classes, 20, input_height, input_channels, pool=4)
