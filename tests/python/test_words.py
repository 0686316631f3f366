"""Names that `.epi` text takes: none of its words, whatever they were before."""

import pathlib
import re

import pytest

from epifuse import _native
from epifuse.torch.words import Words, sanitize

ROOT = pathlib.Path(__file__).resolve().parents[2]


def documented_ops():
    """The ops that docs/epi.md has a row of."""
    return set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/epi.md").read_text(), re.MULTILINE))


def graph_of(name, size):
    """A graph whose name, value, size and output have these names."""
    return (f"graph {name}(x: f32[{size}]) {{\n  {name}: f32[{size}] = neg x\n"
            f"  return {name}\n}}\n")


def test_ops_and_dtypes_are_reserved():
    words = _native.reserved_words()
    assert {"take_rows", "repeat_rows", "put_rows", "grouped_matmul"} <= documented_ops()
    assert documented_ops() | set(_native.DTYPES) | {"graph", "return", "strides"} <= words


@pytest.mark.parametrize("word", sorted(_native.reserved_words() | documented_ops()))
def test_a_reserved_word_is_sanitized_into_a_name(word):
    with pytest.raises(_native.BadInputError):
        _native.describe(graph_of(word, "M"))
    for name in (sanitize(word), Words().take(word)):
        assert _native.describe(graph_of(name, "M"))["name"] == name
        assert _native.describe(graph_of("g", name))["inputs"][0]["shape"] == [name]
