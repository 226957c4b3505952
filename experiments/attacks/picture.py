"""One picture: the digits of a device as they are, and as each scheme's server gets them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float64]

GREY = "#595959"
AWAY, SAFE = "#B2182B", "#0072B2"  # told apart with every kind of colour blindness
_LABEL_WIDTH = 2.9  # inches to the left of the digits
_DIGIT = 0.56
_COLOURS = 64


@dataclass(frozen=True, eq=False)
class Strip:
    """A row of the picture; an image None is one that the server got nothing of."""

    label: str
    images: Sequence[Floats | None]
    colour: str = GREY
    note: str = ""


def draw(strips: Sequence[Strip], side: int, title: str) -> Figure:
    count = len(strips[0].images)
    width, height = _LABEL_WIDTH + count * _DIGIT + 0.1, 0.62 + len(strips) * (_DIGIT + 0.1)
    figure = Figure(figsize=(width, height), facecolor="white")
    figure.text(0.12 / width, 1 - 0.2 / height, title, fontsize=11, fontweight="bold", va="center")
    for row, strip in enumerate(strips):
        bottom = 1 - (0.44 + (row + 1) * (_DIGIT + 0.1)) / height
        middle = bottom + _DIGIT / 2 / height
        lift = 0.09 / height if strip.note else 0
        figure.text(0.12 / width, middle + lift, strip.label, fontsize=9.5, color=strip.colour, va="center")
        if strip.note:
            figure.text(0.12 / width, middle - lift, strip.note, fontsize=8, color=GREY, va="center")
        for place, image in enumerate(strip.images):
            left = (_LABEL_WIDTH + place * _DIGIT) / width
            axes = figure.add_axes((left, bottom, (_DIGIT - 0.05) / width, (_DIGIT - 0.05) / height))
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color("#BBBBBB")
            if image is not None:
                axes.imshow(np.clip(image, 0, 1).reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
    return figure


def save(figure: Figure, path: Path) -> None:
    """As a PNG of few colours: what is mostly grey noise would take three times the room in full colour."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=130)
    # Maximum coverage keeps the few coloured letters among all the grey.
    few = Image.open(drawn).convert("RGB").quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE)
    few.save(path, optimize=True)
