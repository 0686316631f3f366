"""A report as text for people: what repeats from layer to layer is one line."""

import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from epifuse.torch.entries import Kernel, LeftOut, OnHopper, Product

_NUMBER = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$| )")  # a whole part of a path: "layers.3.mlp"
# Not a part of "aten.mm.default", and no word of the sentence's own: "by an index", "a view".
_WORD = re.compile(r"(?<!\ba )(?<!\ban )(?<!\bthe )(?<![\w.])\w+\b(?!\.\w)")
_MOST_SENTENCES = 3  # for one code


def counted(count: int, what: str) -> str:
    """A number of things: "1 call", "2 calls"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _host(devices: Iterable[str]) -> str:
    """Who runs a product that is left out."""
    return "cuBLAS" if set(devices) == {"cuda"} else "PyTorch"


def _reasons(counts: dict[str, int]) -> str:
    words = [(code.replace("_", " "), count) for code, count in counts.items()]
    if len(words) == 1:
        return words[0][0]
    return ", ".join(f"{count} {code}" for code, count in words)


def _headline(num_kernels: int, left: Sequence[LeftOut]) -> str:
    if not num_kernels and not left:
        return "0 kernels; no matrix product was seen."
    kernels = counted(num_kernels, "kernel")
    if not left:
        return f"{kernels}; no product is left out."
    host = _host(each.product.device for each in left if each.product is not None)
    why = _reasons(Counter(each.code for each in left))
    return f"{kernels}; {counted(len(left), 'product')} left to {host}: {why}."


def _hopper(on: OnHopper) -> str:
    left = sum(on.products_left.values())
    rest = f", with {counted(left, 'product')} left to cuBLAS: {_reasons(on.products_left)}"
    return (f"This is the plan for the CPU. On a Hopper GPU it would be "
            f"{counted(on.kernels, 'kernel')}{rest if left else ''}.")  # fmt: skip


# --- lines that fold ------------------------------------------------------------------------------


def _ranges(numbers: Iterable[int]) -> str:
    """1, 2, 3, 7 -> "1 to 3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def _label(products: Sequence[Product], nodes: Sequence[str]) -> str:
    """Paths of modules, the common part once; the name of a node where no module is known."""
    if not products:
        return nodes[0] if nodes else "?"
    paths = list(dict.fromkeys(product.module or product.node for product in products))
    parents = {path.rpartition(".")[0] for path in paths}
    if len(paths) > 1 and len(parents) == 1:
        paths[1:] = [path.rpartition(".")[2] for path in paths[1:]]
    return " + ".join(paths) + (" (backward)" if products[0].backward else "")


def _details(products: Sequence[Product]) -> list[str]:
    """Sizes and dtype, and the line of the program."""
    if not products:
        return []
    found = [f"{products[0].sizes} {products[0].dtype}".strip()]
    if products[0].file:
        found.append(f"{pathlib.Path(products[0].file).name}:{products[0].line}")
    return found


def _pattern(label: str, has_module: bool) -> str:
    """What labels that fold share."""
    return _NUMBER.sub("#", label) if has_module else re.sub(r"_\d+(?=$| )", "", label)


def _folded(rows: Iterable[tuple[str, bool, str]]) -> list[str]:
    """One line for labels that differ in the numbers of layers. A row: a label, whether it is of a
    module, and what is said of it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label, has_module, said in rows:
        groups.setdefault((_pattern(label, has_module), said), []).append(label)
    lines = []
    for (pattern, said), labels in groups.items():
        label, times = labels[0], f", {len(labels)} times" if len(labels) > 1 else ""
        if "#" in pattern:
            places = zip(*[map(int, _NUMBER.findall(each)) for each in labels])
            texts = iter([_ranges(numbers) for numbers in places])
            label = re.sub("#", lambda _: _bracketed(next(texts)), pattern)
        lines.append(f"{label}: {said}{times}" if said else f"{label}{times}")
    return lines


def _bracketed(ranges: str) -> str:
    return ranges if ranges.isdigit() else f"[{ranges}]"


def _row(products: Sequence[Product], nodes: Sequence[str], name: str) -> tuple[str, bool, str]:
    has_module = bool(products and products[0].module)
    said = ", ".join(filter(None, [name, *_details(products)]))
    return _label(products, nodes), has_module, said


def _kernel_row(kernel: Kernel) -> tuple[str, bool, str]:
    return _row(kernel.products, kernel.nodes, kernel.name)


# --- what is left out -----------------------------------------------------------------------------


def _sentence(each: LeftOut) -> str:
    """Its sentence without its own name, so that sentences of many nodes are equal."""
    own = "this product" if each.product is not None else "this"
    text = _WORD.sub(lambda word: own if word[0] == each.node else word[0], each.why)
    return text[:1].upper() + text[1:] if text.startswith(own) else text


def _by_sentence(left_out: Iterable[LeftOut], names: set[str]
                 ) -> dict[str, list[list[LeftOut]]]:  # fmt: skip
    """By code, and by sentence but for the names of nodes, in the order in which they came."""
    groups: dict[str, dict[str, list[LeftOut]]] = {}
    for each in left_out:
        form = _WORD.sub(lambda word: "#" if word[0] in names else word[0], _sentence(each))
        groups.setdefault(each.code, {}).setdefault(form, []).append(each)
    return {code: list(forms.values()) for code, forms in groups.items()}


def _product_lines(left_out: Sequence[LeftOut], names: set[str]) -> list[str]:
    lines = []
    for code, groups in _by_sentence(left_out, names).items():
        for group in groups:
            lines.append(f"  {counted(len(group), 'product')}, {code}: {_sentence(group[0])}")
            rows = [_row([each.product], [each.node], "") for each in group if each.product]
            lines += [f"    {line}" for line in _folded(rows)]
    return lines


def _other_lines(left_out: Sequence[LeftOut], names: set[str]) -> list[str]:
    lines = []
    for code, groups in _by_sentence(left_out, names).items():
        for group in groups[:_MOST_SENTENCES]:
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            lines.append(f"  {counted(len(group), 'node')}, {code}: {_sentence(group[0])} "
                         f"({group[0].node}{more})")
        rest = sum(len(group) for group in groups[_MOST_SENTENCES:])
        if rest:
            lines.append(f"  {counted(rest, 'more node')}, {code}")
    return lines


def summary(kernels: Sequence[Kernel], left_out: Sequence[LeftOut],
            on_hopper: OnHopper | None) -> str:
    """The headline, a line for each product of a kernel, and reasons with counts."""
    products = [each for each in left_out if each.product is not None]
    others = [each for each in left_out if each.product is None]
    names = {node for kernel in kernels for node in kernel.nodes}
    names.update(each.node for each in left_out)
    lines = [_headline(len(kernels), products)]
    if on_hopper is not None:
        lines.append(_hopper(on_hopper))
    if kernels:
        lines += ["Kernels:", *(f"  {row}" for row in _folded(map(_kernel_row, kernels)))]
    if products:
        lines += ["Products left out:", *_product_lines(products, names)]
    if others:
        lines += ["Other work left to Inductor:", *_other_lines(others, names)]
    return "\n".join(lines)
