"""Encoders from where people have them: exported once, to an ONNX file by its hash, for devices that never load torch.

A source is one file in this folder and one entry in `SOURCES`. Nothing is fetched here: weights come from packages that
are installed, or from the caches of timm, torchvision and sentence-transformers.
"""

from codedfl_lab.encoders.export import SOURCES, export_encoder

__all__ = ["SOURCES", "export_encoder"]
