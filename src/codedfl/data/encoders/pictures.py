"""Pictures as an encoder's inputs: resized, cropped at the centre and scaled as its recipe says, by Pillow."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_at_least
from codedfl.data.encoders.encoder import DamagedItem, Encoder, register_encoder
from codedfl.errors import InvalidInput

RESAMPLE = ("bicubic", "bilinear", "lanczos", "nearest")


@register_encoder
@dataclass(frozen=True)
class PictureEncoder(Encoder):
    """Pictures become (pixel / 255 - mean) / deviation of three colours x side x side.

    side: of the square that the model takes.
    resize: pixels of the picture's shorter side before the centre is cropped; at least ``side``.
    resample: Pillow's filter: bicubic, bilinear, lanczos or nearest.
    mean, deviation: of red, green and blue.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.data.encoders import PictureEncoder
    >>> encoder = PictureEncoder("0a" * 32, 8, 0.0, 6.0, 0.5, side=4, resize=4)
    >>> encoder.prepared(np.zeros((2, 2), dtype=np.uint8)).shape
    (3, 4, 4)
    """

    side: int = 224
    resize: int = 224
    resample: str = "bicubic"
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)

    kind: ClassVar[str] = "pictures"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, side=self.side)
        check_at_least(self.side, resize=self.resize)
        if self.resample not in RESAMPLE:
            raise InvalidInput(f"resample must be {' or '.join(RESAMPLE)}, got {self.resample!r}")
        if len(self.mean) != 3 or len(self.deviation) != 3 or min(self.deviation) <= 0:
            raise InvalidInput("mean and deviation must be three numbers each, deviations above 0")

    def prepared(self, item: Any) -> NDArray[np.float32]:
        """One picture: a file, or an array of height x width (x 3) bytes."""
        pixels = np.asarray(_opened(item, self.resize, self.resample, self.side), dtype=np.float32)
        mean, deviation = (np.array(one, dtype=np.float32) for one in (self.mean, self.deviation))
        scaled = (pixels / np.float32(255) - mean) / deviation
        return np.ascontiguousarray(scaled.transpose(2, 0, 1))

    def batch(self, inputs: list[Any]) -> list[NDArray[Any]]:
        return [np.stack(inputs)]


def _opened(item: Any, resize: int, resample: str, side: int) -> Any:
    """The picture in three colours, resized and cropped. What is wrong with it is no crash."""
    try:
        from PIL import Image  # an extra
    except ImportError:
        raise InvalidInput("pillow must be installed for pictures: pip install 'codedfl[pictures]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.fromarray(item) if isinstance(item, np.ndarray) else Image.open(_stream(item))
            picture = picture.convert("RGB")
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them to
        raise DamagedItem(f"{type(error).__name__}: {error}"[:200].replace(str(item), "it")) from None
    return _cropped(picture, resize, Image.Resampling[resample.upper()], side)


def _stream(item: Any) -> io.BytesIO:
    return io.BytesIO(Path(item).read_bytes())


def _cropped(picture: Any, resize: int, resample: Any, side: int) -> Any:
    width, height = picture.size
    ratio = resize / min(width, height)
    size = max(resize, round(width * ratio)), max(resize, round(height * ratio))
    if size != picture.size:
        picture = picture.resize(size, resample)
    left, top = (size[0] - side) // 2, (size[1] - side) // 2
    return picture.crop((left, top, left + side, top + side))
