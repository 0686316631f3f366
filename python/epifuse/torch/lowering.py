"""How Inductor writes a call of the op: to the kernel itself, where the code is Python's.

A call through torch.ops costs more than all else that a small kernel needs on the host. Sizes and
strides are known when the code is written, so that only addresses are left to be asked for.
"""

from collections.abc import Sequence
from typing import Any

from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.utils import _pytree

from epifuse.torch import op

_IMPORT = "from epifuse.torch.launch import launcher as epifuse_launcher"


class FusedKernel(ir.FallbackKernel):
    """A call of the op in Inductor's IR; its results are new, dense, and lie in `outputs`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.label = V.graph.current_node.name

    def codegen(self, wrapper: Any) -> None:
        """Writes the call: by the op where code is not Python's, and for views as other dtypes."""
        in_python = not V.graph.cpp_wrapper and not getattr(V.graph, "fx_wrapper", False)
        if not in_python or not all(map(_has_own_dtype, self.inputs)):
            return super().codegen(wrapper)
        name, device = self.get_name(), self.get_device()
        layouts = [output.layout for output in self.outputs]
        fresh = [_allocation(wrapper, layout) for layout in layouts]
        stream = "0"
        if device.type == "cuda":
            stream = wrapper.write_get_raw_stream(device.index, V.graph.name)
        arguments = [stream]
        for tensor in self.inputs:
            arguments.append(_address(wrapper, tensor))
            arguments += _numbers(wrapper, tensor.get_size(), tensor.get_stride())
        for index, layout in enumerate(layouts):
            arguments.append(f"{name}[{index}].data_ptr()")
            arguments += _numbers(wrapper, layout.size, layout.stride)
        self.codegen_comment(wrapper)
        wrapper.writeline(f"{name} = ({', '.join(fresh)},)")
        wrapper.writeline(f"{self._launcher(wrapper)}({', '.join(arguments)})")

    def _launcher(self, wrapper: Any) -> str:
        """The name of the function that queues this kernel, defined once for all its calls."""
        (_, graph, options), _ = self.unflatten_args(self.inputs, self.constant_args)
        source = f"epifuse_launcher({graph!r}, {options!r})"
        if source not in wrapper.src_to_kernel:
            name = f"{self.label}_{wrapper.next_kernel_suffix()}"
            wrapper.add_import_once(_IMPORT)
            wrapper.define_kernel(name, source, gpu=False)
            wrapper.src_to_kernel[source] = name
        return wrapper.src_to_kernel[source]


def _buffer(tensor: Any) -> Any:
    """What the data of a view belongs to, or the tensor itself."""
    return tensor.data if isinstance(tensor, ir.ReinterpretView) else tensor


def _has_own_dtype(tensor: Any) -> bool:
    return _buffer(tensor).get_dtype() == tensor.get_dtype()


def _address(wrapper: Any, tensor: Any) -> str:
    reference = f"{_buffer(tensor).codegen_reference()}.data_ptr()"
    if not isinstance(tensor, ir.ReinterpretView) or tensor.layout.offset == 0:
        return reference
    bytes_before = tensor.layout.offset * tensor.get_dtype().itemsize
    return f"{reference} + {wrapper.codegen_python_sizevar(bytes_before)}"


def _numbers(wrapper: Any, sizes: Sequence[Any], strides: Sequence[Any]) -> list[str]:
    return [wrapper.codegen_python_sizevar(number) for number in (*sizes, *strides)]


def _allocation(wrapper: Any, layout: Any) -> str:
    line = wrapper.make_allocation("_", layout.device, layout.dtype, layout.size, layout.stride)
    return line.removeprefix("_ = ")


def lower(inputs: list[Any], graph: str, options: str) -> list[Any]:
    """What Inductor makes of a call: tensors of its IR for each result."""
    results = FusedKernel.create(op.load(), inputs, graph, options)
    for result in results:
        V.graph.unaligned_buffers.discard(result.get_name())
        result.skip_size_stride_alignment_checks = True
    return _pytree.tree_map(ir.TensorBox.create, results)
