"""Names that `.epi` text may contain (docs/epi.md, Names)."""

from __future__ import annotations

import re

_MAX_LENGTH = 150

RESERVED = frozenset(
    """graph return strides scalar constant input inf nan f32 bf16 f16 e4m3 e5m2 bool
    matmul add sub mul div min max pow neg abs sqrt rsqrt square exp log tanh erf sigmoid silu
    gelu_erf gelu_tanh relu leaky_relu softplus hardswish clamp lt le gt ge eq ne select cast
    row_sum row_max col_sum col_max concat interleave transpose reshape slice broadcast""".split()
)


def sanitize(text: str) -> str:
    """An identifier of the language made from any text."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", text[:_MAX_LENGTH])
    if not word or word[0].isdigit():
        word = "_" + word
    return word + "_" if word in RESERVED else word


class Words:
    """Hands out identifiers, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """A new identifier like `wanted`."""
        word = base = sanitize(wanted)
        number = 2
        while word in self._taken:
            word = f"{base}_{number}"
            number += 1
        self._taken.add(word)
        return word
