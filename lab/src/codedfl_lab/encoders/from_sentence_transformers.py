"""Any model of sentence-transformers, with its pooling and its normalisation in the ONNX file."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from codedfl.data.encoders import TextEncoder
from codedfl_lab.encoders.export import Exported, hash_of
from codedfl_lab.encoders.torch_export import onnx_of

_LIMIT, _STEP = 1.0, 0.0078125  # most models end in vectors of length 1


class _Whole(nn.Module):
    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, pieces: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Embeddings of texts."""
        found: torch.Tensor = self.model({"input_ids": pieces, "attention_mask": there})["sentence_embedding"]
        return found


def export(name: str) -> Exported:
    """name: of the model, or a folder that has it."""
    model = SentenceTransformer(name, device="cpu", model_kwargs={"attn_implementation": "eager"})
    pieces, there = torch.ones(2, 8, dtype=torch.int64), torch.ones(2, 8, dtype=torch.int64)
    there[1, 5:] = 0  # an unbroken mask might be left out of the graph
    free = {0: "rows", 1: "pieces"}
    content = onnx_of(_Whole(model), [pieces, there], ["pieces", "there"], [free, free])
    words = model.tokenizer.backend_tokenizer.to_str().encode()
    encoder = TextEncoder(
        hash_of(content),
        int(model.get_embedding_dimension()),
        -_LIMIT,
        _LIMIT,
        _STEP,
        source=f"sentence-transformers {name}",
        tokenizer=hash_of(words),
        most_pieces=int(model.max_seq_length or 256),
    )
    return Exported(name.rsplit("/", 1)[-1], encoder, {"onnx": content, "json": words})
