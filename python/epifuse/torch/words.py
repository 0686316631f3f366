"""Names that `.epi` text may contain (docs/epi.md, Names)."""

from __future__ import annotations

import re

from epifuse import _native

_MAX_LENGTH = 150


def sanitize(text: str) -> str:
    """An identifier of the language made from any text."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", text[:_MAX_LENGTH])
    if not word or word[0].isdigit():
        word = "_" + word
    return word + "_" if word in _native.reserved_words() else word


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
