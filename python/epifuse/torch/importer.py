"""Translates what surrounds the matrix products of an FX graph into one `.epi` graph.

Codes of what is refused: `op_not_known`, `dtype`, `shape`, `scalar_operand` (a number that is not
known, or no float32), `layout` (elements move in memory, or a sparse tensor), `device`, `option`
(an argument that the language cannot express), `scaled_mm`, `int_mm`, `grouped_mm`, `sparse_mm`,
`sums_of_groups` (a grouped product that sums over groups within rows), `rows_of_no_group` (a mask
of whole rows of a grouped product), `compared_in_backward` and `too_large`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from torch import fx

from . import compared
from .batches import products_of_batches
from .aten import ELEMENTWISE, GROUPED, OF_OPERANDS, PRODUCTS, foreign
from .emitter import Args, Emitter, Scope, bind, tensor_of
from .layout import RESHAPES, strides_to_declare
from .memory import is_fused_by_inductor, is_needed_in_memory
from .narrow_weights import NarrowWeights
from .products import sum_of_rows, sums_of_groups
from .repeated import REPEATS
from .row_sums import summed_leaf
from .rows import taken
from .sizes import Size
from .values import Operand, Refusal, Value, graph_text, reachable, symbols
from .views import VIEWS, is_getitem, is_split, part, source

_MAX_VALUES = 90_000  # of 100,000 that a text may hold


@dataclass(frozen=True)
class Refused:
    """An FX node that reads a computed value, or is a product, and stays with PyTorch."""

    node: fx.Node
    code: str
    why: str


class View(NamedTuple):
    """Of the value of that name."""

    source: str
    op: str  # "reshape" or, of a matrix, "transpose"
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Imported:
    """A graph in the language, and what its names mean in the FX graph."""

    text: str | None  # None when no product can be imported
    names: dict[str, fx.Node] = field(default_factory=dict)  # of inputs, results and views
    whole: list[list[str]] = field(default_factory=list)  # values of one FX node
    after: dict[str, list[str]] = field(default_factory=dict)  # input -> values it is computed from
    refused: list[Refused] = field(default_factory=list)
    likely_sizes: dict[str, int] = field(default_factory=dict)  # of symbols of the text
    inputs: tuple[str, ...] = ()
    stored: dict[str, fx.Node] = field(default_factory=dict)  # values that a node is a reshape of
    shapes: dict[str, tuple[Size, ...]] = field(default_factory=dict)  # of `stored`
    # Conversions of operands that are parts of one node's work: of what, and to which dtype.
    casts: dict[str, tuple[str, str]] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)  # likewise, views

    def nodes_of_values(self) -> dict[str, fx.Node]:
        """The node of each name, also of those of parts of its work."""
        found = dict(self.names)
        for parts in self.whole:
            last = next(name for name in parts if name in self.names)
            found.update((name, self.names[last]) for name in parts)
        return found


def import_graph(graph: fx.Graph, narrow: dict[fx.Node, NarrowWeights] | None = None) -> Imported:
    """The products of an FX graph, and all around them that the language can say. `narrow`: those
    that are to multiply weights of 8 bits as they are stored."""
    importer = _Importer(graph, narrow or {})
    importer.read()
    return importer.result()


class _Importer:
    def __init__(self, graph: fx.Graph, narrow: dict[fx.Node, NarrowWeights]) -> None:
        self.scope = Scope(narrow=narrow)
        self.nodes = _live(graph)
        for node in self.nodes:
            self.scope.names[node] = self.scope.words.take(node.name)
            if _are_rows_in_memory(node):
                self.scope.stored_rows.add(node)
        self.scope.batches = products_of_batches(self.nodes, ELEMENTWISE)
        self.values: list[Value] = []  # in order of computation
        self.groups: list[list[Value]] = []  # of one FX node each
        self.base: dict[fx.Node, fx.Node] = {}  # of computed nodes and views: the computed node
        self.refused: list[Refused] = []
        self.outputs: dict[fx.Node, None] = {}
        self.producers: dict[fx.Node, bool] = {}  # looked at; whether they are in the text

    def read(self) -> None:
        """Imports node after node."""
        for node in self.nodes:
            if not self._import(node):
                for operand in node.all_input_nodes:
                    if operand in self.base:
                        self.outputs[self.base[operand]] = None
        for node in self.nodes:
            self._import_sum(node)

    def _import_sum(self, node: fx.Node) -> None:
        """A sum of rows that kernels may read anyway, of what needs no product. One that the text
        reads is an input of it."""
        is_there = node in self.base or node in self.scope.leaves
        leaf = None if is_there else summed_leaf(node, self.scope.leaves)
        if leaf is None:
            return
        with contextlib.suppress(Refusal):
            self._compute(node, sum_of_rows(leaf))
            self.outputs[node] = None

    # --- one node ---------------------------------------------------------------------------------

    def _import(self, node: fx.Node) -> bool:
        """Whether the node has become values or views of the text."""
        derived = any(operand in self.base for operand in node.all_input_nodes)
        target = str(node.target)
        is_product = target in PRODUCTS
        grouped = [n for n in node.all_input_nodes if n in self.base and n in self.scope.grouped]
        has_rows = target in GROUPED and not sums_of_groups(node)
        if has_rows and (ends := bind(node)["offs"]) is not None:
            self.scope.grouped[node] = ends
        elif grouped and not is_product:
            self.scope.grouped[node] = self.scope.grouped[grouped[0]]
        if node.op != "call_function" or not (derived or is_product or foreign(node)):
            return False
        if is_split(node) and source(node) in self.base:
            self.base[node] = self.base[source(node)]
            return True
        try:
            if len(self.values) > _MAX_VALUES:
                raise Refusal("too_large", "The graph has more values than one text can hold.")
            if compared.is_left(node):
                raise Refusal(compared.CODE, compared.WHY)
            row = part if is_getitem(node) else VIEWS.get(target)
            if row is not None and source(node) in self.base:
                self._view(node, row)
            elif is_product or target in ELEMENTWISE:
                if not is_product:
                    self._import_producers(node)
                self._compute(node, PRODUCTS.get(target) or ELEMENTWISE[target])
            else:
                code, why = foreign(node) or ("op_not_known", _not_known(node))
                raise Refusal(code, why)
        except Refusal as refusal:
            if tensor_of(node) is not None or not _is_size(node):
                self.refused.append(Refused(node, refusal.code, refusal.why))
            return False
        return True

    def _view(self, node: fx.Node, row: Callable[[Emitter, Args], Value]) -> None:
        emit = Emitter(node, self.scope)
        self._keep(node, emit, emit.finish(row(emit, bind(node))))
        self.base[node] = self.base[source(node)]

    def _compute(self, node: fx.Node, row: Callable[[Emitter, Args], Operand]) -> None:
        emit = Emitter(node, self.scope)
        value = emit.finish(row(emit, bind(node)))
        if value in emit.created:
            self.groups.append(self._keep(node, emit, value))
            self.base[node] = node
        else:
            same = next(n for n in node.all_input_nodes if self.scope.computed.get(n) is value)
            self._keep(node, emit, value)
            self.base[node] = self.base[same]

    # --- work on operands -------------------------------------------------------------------------

    def _import_producers(self, reader: fx.Node) -> None:
        """Elementwise work that needs no product, and that nothing else makes Inductor store, comes
        into the text with what reads it. Operands first, without recursion: graphs are deep."""
        waiting = [(operand, False) for operand in reader.all_input_nodes]
        while waiting:
            node, has_operands = waiting.pop()
            if has_operands:
                self.producers[node] = self._produce(node)
            elif node not in self.producers and self._may_produce(node):
                self.producers[node] = False
                waiting.append((node, True))
                waiting += [(operand, False) for operand in node.all_input_nodes]

    def _may_produce(self, node: fx.Node) -> bool:
        if node in self.base or node in self.scope.leaves or node in self.scope.computed:
            return False
        if tensor_of(node) is None or len(self.values) > _MAX_VALUES // 2:
            return False
        is_work = str(node.target) in OF_OPERANDS and is_fused_by_inductor(node)
        is_work = is_work or node.meta.get(REPEATS, False)
        is_view = str(node.target) in VIEWS and node.op == "call_function"
        is_free = (is_work or is_view) and not compared.is_computed_once(node)
        return is_free and not is_needed_in_memory(node)

    def _produce(self, node: fx.Node) -> bool:
        target = str(node.target)
        row = VIEWS.get(target)
        if row is not None and not self.producers.get(source(node), False):
            return False  # of memory: an input like any
        known = len(self.scope.leaves)
        emit = Emitter(node, self.scope)
        try:
            value = self._reshaped_before_cast(node, emit)
            value = value or emit.finish((row or ELEMENTWISE[target])(emit, bind(node)))
        except Refusal:
            for leaf in list(self.scope.leaves)[known:]:
                del self.scope.leaves[leaf]
            return False
        kept = self._keep(node, emit, value)
        if row is None and kept:
            self.groups.append(kept)
        return True

    def _reshaped_before_cast(self, node: fx.Node, emit: Emitter) -> Value | None:
        """Of a reshape that alone reads a cast of memory: the cast of a reshape, which kernels read
        as any vector. None of anything else."""
        if str(node.target) not in RESHAPES or len(source(node).users) != 1:
            return None
        cast = self.scope.computed[source(node)]
        if cast.op != "cast" or not all(isinstance(size, int) for size in emit.shape):
            return None
        (of, *others) = cast.operands
        if others or not isinstance(of, Value) or of.op:
            return None
        return emit.finish(emit.cast(emit.view("reshape", of, emit.shape), cast.dtype))

    def _keep(self, node: fx.Node, emit: Emitter, value: Value) -> list[Value]:
        """Gives the last value of a node the node's name."""
        kept = [each for each in emit.created if each is not value]
        if value in emit.created:
            value = replace(value, name=self.scope.names[node])
            kept.append(value)
        self.scope.computed[node] = value
        self.values += kept
        return kept

    # --- all together -----------------------------------------------------------------------------

    def result(self) -> Imported:
        """The text of what the outputs need."""
        outputs = [self.scope.computed[node] for node in self.nodes if node in self.outputs]
        if not outputs:
            return Imported(None, refused=self.refused)
        needed = reachable(outputs)
        leaves = {node: value for node, value in self.scope.leaves.items() if value in needed}
        inputs = {leaves[node]: strides_to_declare(node.meta["val"])
                  for node in self.nodes if node in leaves}  # fmt: skip
        names = {value.name: node for node, value in leaves.items()}
        for node, value in self.scope.computed.items():
            if value in needed and value.name == self.scope.names[node]:
                names[value.name] = node
        groups = [[value.name for value in group if value in needed] for group in self.groups]
        used, stored = symbols(needed), self._stored(needed, names)
        return Imported(
            graph_text(
                inputs,
                [value for value in self.values if value in needed],
                outputs,
                self.scope.words,
            ),
            names,
            [group for group in groups if len(group) > 1],
            self._after(leaves, needed),
            self.refused,
            {name: size for name, size in self.scope.sizes.likely.items() if name in used},
            tuple(value.name for value in inputs),
            {value.name: node for value, node in stored.items()},
            {value.name: value.shape for value in stored},
            {value.name: (source.name, value.dtype)
             for value, source in _within_nodes("cast", needed, names)},
            {value.name: View(source.name, value.op, value.shape)
             for op in ("reshape", "transpose")
             for value, source in _within_nodes(op, needed, names) if _is_known_view(value)},
        )

    def _stored(self, needed: set[Value], names: Container[str]) -> dict[Value, fx.Node]:
        """What an op's result is a reshape of, and what stands for no node before such a view."""
        stored = {}
        for node, value in self.scope.computed.items():
            if value not in needed or value.op != "reshape":
                continue
            (inner,) = (each for each in value.operands if isinstance(each, Value))
            if self.base.get(node) is node or inner.name not in names:
                stored[inner] = node
        return stored

    def _after(self, leaves: dict[fx.Node, Value], needed: set[Value]) -> dict[str, list[str]]:
        """For each input the nearest computed values that it depends on."""
        computed = [node for node, base in self.base.items()
                    if base is node and self.scope.computed[node] in needed]  # fmt: skip
        bit = {node: 1 << place for place, node in enumerate(computed)}
        nearest: dict[fx.Node, int] = {}  # sets as bits: joining them costs little
        after: dict[str, list[str]] = {}
        for node in self.nodes:
            if node in self.base:
                nearest[node] = bit.get(self.base[node], 0)
                continue
            bits = 0
            for operand in node.all_input_nodes:
                bits |= nearest[operand]
            nearest[node] = bits
            if bits and node in leaves:
                after[leaves[node].name] = [self.scope.names[computed[i]] for i in _places(bits)]
        return after


def _places(bits: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _live(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that the graph's outputs and effects depend on, in order."""
    live: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node in live or node.op != "placeholder" and node.is_impure():
            live.add(node)
            live.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in live]


def _is_known_view(value: Value) -> bool:
    is_known = all(isinstance(size, int) for size in value.shape)
    return is_known and (value.op != "transpose" or len(value.shape) == 2)


def _within_nodes(op: str, values: set[Value],
                  names: Container[str]) -> Iterator[tuple[Value, Value]]:
    """What the op makes of a node's value, but no node has; and that value."""
    for value in values:
        if value.op == op and value.name not in names:
            (source,) = value.operands
            if isinstance(source, Value) and source.name in names:
                yield value, source


def _are_rows_in_memory(node: fx.Node) -> bool:
    """Whether rows that are looked up are stored for others than grouped products of them."""

    def takes_rows(user: fx.Node) -> bool:
        is_product = str(user.target) in GROUPED and not sums_of_groups(user)
        return is_product and user.args[0] is node

    return taken(node) is not None and is_needed_in_memory(node, beside=takes_rows)


def _is_size(node: fx.Node) -> bool:
    """Whether a node gives a number of the host's, such as a size."""
    return "val" in node.meta and not isinstance(node.meta["val"], (tuple, list))


def _not_known(node: fx.Node) -> str:
    return f"{node.target} is no op that a kernel of epifuse computes."
