"""What a report consists of: products, kernels, and what was left out."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Product:
    """A matrix product of an FX graph, and the line of the program that it comes from."""

    node: str  # of the FX graph
    module: str  # path of the nn.Module that computes it: "layers.0.mlp.up_proj"; "" outside of any
    file: str  # of the innermost frame that is not PyTorch's; "" where none is known
    line: int
    sizes: str  # of its result, then the length of its sums: "128x768x3072"
    dtype: str  # "bfloat16"
    device: str  # "cpu", "cuda"
    backward: bool  # whether it is of the backward graph


@dataclass(frozen=True)
class Kernel:
    """A product and the work around it, as one kernel."""

    name: str  # "matmul_bias_gelu_erf"
    epilogue: str  # its ops, in order: "bias+gelu_erf"
    nodes: tuple[str, ...]  # of the FX graph, that it took in
    outputs: tuple[str, ...]  # FX nodes whose values it stores
    graph: str  # its `.epi` text
    products: tuple[Product, ...] = ()  # of `nodes`: two where halves of a gate are two
    how: str = ""  # on GPUs by which way it runs, and why, where that was measured while compiling


@dataclass(frozen=True)
class LeftOut:
    """An FX node that no kernel took in: a stable code, and one sentence."""

    node: str
    code: str
    why: str
    product: Product | None = None  # where the node is a matrix product


@dataclass
class OnHopper:
    """What a Hopper GPU would make of graphs for the CPU."""

    kernels: int = 0
    products_left: dict[str, int] = field(default_factory=dict)  # code -> how many
