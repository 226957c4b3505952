"""Any model of timm, without its classifier, by the preprocessing that timm says for its weights."""

from __future__ import annotations

import timm

from codedfl_lab.encoders.export import Exported
from codedfl_lab.encoders.torch_export import exported_pictures


def export(name: str, pretrained: bool = True) -> Exported:
    """name: as timm lists it. pretrained: False draws weights, for tests."""
    model = timm.create_model(name, pretrained=pretrained, num_classes=0)
    said = timm.data.resolve_model_data_config(model)
    side = int(said["input_size"][-1])
    return exported_pictures(
        f"timm-{name}",
        model,
        side,
        source=f"timm {name}",
        licence=str((model.pretrained_cfg or {}).get("license") or ""),
        resize=max(side, int(side / said["crop_pct"])),
        resample=str(said["interpolation"]),
        mean=tuple(map(float, said["mean"])),
        deviation=tuple(map(float, said["std"])),
    )
