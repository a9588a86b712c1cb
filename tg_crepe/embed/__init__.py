"""Pretrained embeddings: from files of images and texts to features. One file per library."""

from tg_crepe.embed.encoder import Encoder, ImageEncoder
from tg_crepe.embed.file import Embedding, read_embedding
from tg_crepe.embed.registry import DEFAULT_MODELS, ENCODERS, get_encoder
from tg_crepe.embed.run import Embedded, embed, embed_to_file
from tg_crepe.embed.source import Source, open_source

__all__ = [
    "DEFAULT_MODELS",
    "ENCODERS",
    "Embedded",
    "Embedding",
    "Encoder",
    "ImageEncoder",
    "Source",
    "embed",
    "embed_to_file",
    "get_encoder",
    "open_source",
    "read_embedding",
]
