"""Any classifier of torchvision, without its last layer, by the preprocessing of its default weights."""

from __future__ import annotations

import torchvision
from torch import nn

from codedfl_lab.encoders.export import Exported
from codedfl_lab.encoders.torch_export import exported_pictures


def export(name: str, pretrained: bool = True) -> Exported:
    """name: as torchvision lists it. pretrained: False draws weights, for tests."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    model = torchvision.models.get_model(name, weights=weights if pretrained else None)
    _without_last(model)
    how = weights.transforms()
    return exported_pictures(
        f"torchvision-{name}",
        model,
        int(how.crop_size[0]),
        source=f"torchvision {name} {weights.name}",
        resize=int(how.resize_size[0]),
        resample=str(how.interpolation.value),
        mean=tuple(map(float, how.mean)),
        deviation=tuple(map(float, how.std)),
    )


def _without_last(model: nn.Module) -> None:
    """The last linear layer of the model becomes the identity, wherever it is."""
    last = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)][-1]
    model.set_submodule(last, nn.Identity())
