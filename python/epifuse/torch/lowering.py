"""How Inductor writes a call of the op: to the kernel itself, where the code is Python's.

A call through torch.ops costs more than all else that a small kernel needs on the host. Sizes and
strides are known when the code is written, so that only addresses are left to be asked for.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V

from epifuse.torch import op
from epifuse.torch.layout import known

_IMPORT = "from epifuse.torch.launch import launcher as epifuse_launcher"
_IMPORT_LOADED = "from epifuse.torch.process import loaded as epifuse_loaded"


def lower(inputs: list[Any], graph: str, options: str) -> list[Any]:
    """What Inductor makes of a call: tensors of its IR for each result, which is new and dense."""
    tensors = [_realized(tensor) for tensor in inputs]
    results = V.graph.current_node.meta["val"]
    if not _is_called_by_address(tensors):
        outputs = ir.FallbackKernel.create(op.load(), inputs, graph, options)
    elif len(results) == 1:
        outputs = [KernelOfOne(ir.FallbackKernel.tensor_to_layout(results[0]), tensors,
                               (graph, options))]  # fmt: skip
    else:
        outputs = KernelOfSeveral.create(op.load(), inputs, graph, options)
        for output in outputs:
            output.skip_size_stride_alignment_checks = True
    for output in outputs:
        V.graph.unaligned_buffers.discard(output.get_name())
    return [ir.TensorBox.create(output) for output in outputs]


def lower_in_place(inputs: list[Any], graph: str, options: str, place: int) -> list[Any]:
    """The same for a kernel whose only result lies in the input at `place`."""
    tensors = [_realized(tensor) for tensor in inputs]
    if _is_called_by_address(tensors):
        KernelInPlace(tensors, place, (graph, options))
        return [inputs[place]]
    (result,) = lower(inputs, graph, options)
    return [lowerings[torch.ops.aten.copy_.default](inputs[place], result)]


def _is_called_by_address(tensors: list[Any]) -> bool:
    in_python = not V.graph.cpp_wrapper and not getattr(V.graph, "fx_wrapper", False)
    return in_python and all(map(_has_own_dtype, tensors))


class KernelOfOne(ir.ExternKernelOut):
    """A kernel with one result, for which Inductor finds memory, or uses some again."""

    def __init__(self, layout: Any, inputs: list[Any], constants: tuple[str, str]) -> None:
        super().__init__(layout, inputs, constants, op_overload=op.load(),
                         python_kernel_name="torch.ops.epifuse.fused.default")
        self.label = V.graph.current_node.name
        self.report = V.graph.current_node.meta.get("epifuse_report")

    def codegen(self, wrapper: Any) -> None:
        """Writes the call."""
        self.codegen_comment(wrapper)
        _write_call(wrapper, self, self.constant_args, [(self.get_name(), self.layout)])


class KernelOfSeveral(ir.FallbackKernel):
    """A kernel with several results, `outputs`, in a tuple."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.label = V.graph.current_node.name
        self.report = V.graph.current_node.meta.get("epifuse_report")

    def codegen(self, wrapper: Any) -> None:
        """Writes where the results lie, and the call."""
        self.codegen_comment(wrapper)
        name, layouts = self.get_name(), [output.layout for output in self.outputs]
        fresh = [_allocation(wrapper, layout) for layout in layouts]
        wrapper.writeline(f"{name} = ({', '.join(fresh)})")
        (_, *texts), _ = self.unflatten_args(self.inputs, self.constant_args)
        _write_call(wrapper, self, texts,
                    [(f"{name}[{index}]", layout) for index, layout in enumerate(layouts)])


class KernelInPlace(ir.ExternKernel):
    """A kernel that writes over one of its inputs, and has no other result."""

    def __init__(self, inputs: list[Any], place: int, constants: tuple[str, str]) -> None:
        written = inputs[place]
        layout = ir.NoneLayout(device=written.get_device())
        super().__init__(None, layout, self.unwrap_storage(inputs), constants,
                         op_overload=op.load())
        self.place = place
        self.label = V.graph.current_node.name
        self.report = V.graph.current_node.meta.get("epifuse_report")
        V.graph.mark_buffer_mutated(written.get_name())
        self.name = V.graph.register_buffer(self)
        V.graph.register_operation(self)

    def should_allocate(self) -> bool:
        """Its result has memory."""
        return False

    def get_mutation_names(self) -> list[str]:
        """What others have to have read before it, or read behind it."""
        return [self.inputs[self.place].get_name()]

    def codegen(self, wrapper: Any) -> None:
        """Writes the call."""
        self.codegen_comment(wrapper)
        written = self.inputs[self.place]
        _write_call(wrapper, self, self.constant_args,
                    [(_buffer(written).codegen_reference(), written.get_layout())])


class ReportOfNone(ir.ExternKernel):
    """The report of a graph that has no kernel: it runs nothing."""

    def __init__(self, report: tuple[str, dict[str, int]], device: torch.device) -> None:
        super().__init__(None, ir.NoneLayout(device=device), [])
        self.report = report

    def has_side_effects(self) -> bool:
        """It is not dropped, though nobody reads it."""
        return True

    def should_allocate(self) -> bool:
        """It has no result."""
        return False

    def codegen(self, wrapper: Any) -> None:
        """Writes the report."""
        _write_report(wrapper, self.report)


def lower_report(report: tuple[str, dict[str, int]], device: torch.device) -> None:
    """Adds a report to the code of the graph that is being lowered."""
    operation = ReportOfNone(report, device)
    operation.name = V.graph.register_buffer(operation)
    V.graph.register_operation(operation)


def _realized(tensor: Any) -> Any:
    """The tensor in memory, as it lies there from now on."""
    if isinstance(tensor.data, ir.BaseView) and not isinstance(tensor.data, ir.ReinterpretView):
        _lay_as_in_eager(tensor.data)
    realized = ir.ExternKernel.realize_input(tensor)
    if ir.is_storage_and_layout(realized):
        ir.as_storage_and_layout(realized, freeze=True)
    return realized


def _lay_as_in_eager(view: Any) -> None:
    """Gives what is viewed its strides of eager PyTorch, where Inductor may still choose: it would
    lay it in row-major order, and have to copy what is no view of that."""
    view.realize()
    viewed = view.unwrap_view()
    if not ir.is_storage_and_layout(viewed):
        return
    _, layout = ir.as_storage_and_layout(viewed, freeze=False)
    if not isinstance(layout, ir.FlexibleLayout):
        return
    node = V.graph.get_buffer(viewed.get_name()).get_origin_node()
    value = node.meta.get("val") if node is not None else None
    if not isinstance(value, torch.Tensor) or value.ndim != len(viewed.get_size()):
        return
    strides = known(value.stride())
    if strides is not None and 0 not in strides:
        viewed.freeze_layout_with_stride_order(ir.get_stride_order(strides))


def _buffer(tensor: Any) -> Any:
    """What the data of a view belongs to, or the tensor itself."""
    return tensor.data if isinstance(tensor, ir.ReinterpretView) else tensor


def _has_own_dtype(tensor: Any) -> bool:
    return _buffer(tensor).get_dtype() == tensor.get_dtype()


def _launcher(wrapper: Any, label: str, graph: str, options: str) -> str:
    """The name of the function that queues this kernel, defined once for all its calls."""
    name = re.sub(r"_\d+$", "", label)  # FX numbers the nodes of a name
    source = f"epifuse_launcher({name!r}, {graph!r}, {options!r})"
    if source not in wrapper.src_to_kernel:
        name = f"{name}_{wrapper.next_kernel_suffix()}"
        wrapper.add_import_once(_IMPORT)
        wrapper.define_kernel(name, source, gpu=False)
        wrapper.src_to_kernel[source] = name
    return wrapper.src_to_kernel[source]


def _write_report(wrapper: Any, report: tuple[str, dict[str, int]] | None) -> None:
    """One line that tells the report of the graph when its code is loaded."""
    source = f"epifuse_loaded{report!r}"
    if report is not None and source not in wrapper.src_to_kernel:
        name = f"epifuse_report_{wrapper.next_kernel_suffix()}"
        wrapper.add_import_once(_IMPORT_LOADED)
        wrapper.define_kernel(name, source, gpu=False)
        wrapper.src_to_kernel[source] = name


def _write_call(wrapper: Any, kernel: Any, texts: Sequence[str],
                results: list[tuple[str, Any]]) -> None:
    """`texts`: the graph and the options. `results`: expressions of tensors, and their layouts."""
    _write_report(wrapper, kernel.report)
    launcher = _launcher(wrapper, kernel.label, *texts)
    device = kernel.get_device()
    stream = "0"
    if device.type == "cuda":
        stream = wrapper.write_get_raw_stream(device.index, V.graph.name)
    arguments = [stream]
    for tensor in kernel.inputs:
        arguments.append(_address(wrapper, tensor))
        arguments += _numbers(wrapper, tensor.get_size(), tensor.get_stride())
    for result, layout in results:
        arguments.append(f"{result}.data_ptr()")
        arguments += _numbers(wrapper, layout.size, layout.stride)
    wrapper.writeline(f"{launcher}({', '.join(arguments)})")


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
