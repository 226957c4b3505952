"""Frozen encoders: from pictures and texts to a table of embeddings that a study sums.

An encoder is an ONNX file, known by its hash, and the recipe by which pictures or texts become its inputs; both are in
one digest, which a study names (`Encoder`). ``encode`` runs it block by block, with a cache. Nothing here trains, and
nothing here fetches.
"""

from codedfl.data.encoders.encode import Damaged, Encoded, encode
from codedfl.data.encoders.encoder import Encoder, load_encoder, register_encoder
from codedfl.data.encoders.pictures import PictureEncoder
from codedfl.data.encoders.sources import Items, pictures_of, texts_of
from codedfl.data.encoders.texts import TextEncoder

__all__ = [
    "Damaged",
    "Encoded",
    "Encoder",
    "Items",
    "PictureEncoder",
    "TextEncoder",
    "encode",
    "load_encoder",
    "pictures_of",
    "register_encoder",
    "texts_of",
]
