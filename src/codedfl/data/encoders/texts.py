"""Texts as an encoder's inputs: pieces by a tokenizer's file, padded, with a mask of what is no padding."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_at_least
from codedfl.data.encoders.encoder import DamagedItem, Encoder, beside_or_named, register_encoder
from codedfl.data.onnx_session import ENCODERS_VARIABLE
from codedfl.errors import InvalidInput


@register_encoder
@dataclass(frozen=True)
class TextEncoder(Encoder):
    """Texts become two matrices of whole numbers: the pieces, and 1 where there is one.

    tokenizer: SHA-256 of the tokenizer's file (that of the package ``tokenizers``), kept as ``TOKENIZER.json`` where
        the model is.
    most_pieces: what is longer is cut off.

    Examples
    --------
    >>> from codedfl.data.encoders import TextEncoder
    >>> TextEncoder("0a" * 32, 8, -1.0, 1.0, 0.5, tokenizer="0b" * 32).most_pieces
    256
    """

    tokenizer: str = ""
    most_pieces: int = 256

    kind: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, most_pieces=self.most_pieces)
        if not re.fullmatch("[0-9a-f]{64}", self.tokenizer):
            raise InvalidInput(f"tokenizer must be a SHA-256 of 64 hexadecimal digits, got {self.tokenizer!r:.80}")

    def prepared(self, item: Any) -> list[int]:
        """The pieces of one text, without marks of its beginning and end that the tokenizer does not add itself."""
        if not isinstance(item, str) or not item.strip():
            raise DamagedItem("it has no text")
        pieces = [int(one) for one in self._tokenizer.encode(item).ids]
        if not pieces:
            raise DamagedItem("it has no text that the tokenizer knows")
        return pieces

    def batch(self, inputs: list[Any]) -> list[NDArray[Any]]:
        longest = max(map(len, inputs))
        pieces = np.zeros((len(inputs), longest), dtype=np.int64)
        there = np.zeros_like(pieces)
        for row, one in enumerate(inputs):
            pieces[row, : len(one)] = one
            there[row, : len(one)] = 1
        return [pieces, there]

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer  # an extra
        except ImportError:
            raise InvalidInput("tokenizers must be installed for texts: pip install 'codedfl[texts]'") from None
        path = beside_or_named(f"{self.tokenizer}.json", self.__dict__.get("_folder"), ENCODERS_VARIABLE)
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != self.tokenizer:
            raise InvalidInput(f"the tokenizer must have the SHA-256 {self.tokenizer}, got {found}")
        made = Tokenizer.from_str(content.decode())
        made.no_padding()
        made.enable_truncation(self.most_pieces)
        return made
