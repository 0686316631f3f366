"""The pass inside Inductor's post-grad pipeline, and the backend that installs it for one model."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from epifuse import _native, settings
from epifuse.torch import compared, op, process
from epifuse.torch.call import keep_report, store_what_kernels_read
from epifuse.torch.group_masks import without_masks_nobody_reads
from epifuse.torch.masks import without_masks_set_nowhere
from epifuse.torch.overlapped import LaunchPass
from epifuse.torch.permutations import without_sums_into_permuted_rows
from epifuse.torch.report import Report
from epifuse.torch.rewrite import fuse
from epifuse.torch.row_scales import scale_rows_before_products
from epifuse.torch.saturation import without_bounds_of_casts
from epifuse.torch.short_keys import sort_by_short_keys
from epifuse.torch.short_sums import add_short_sums
from epifuse.torch.split_products import multiply_in_two_parts
from epifuse.torch.tables import store_tables
from epifuse.torch.unharmed import unharmed
from epifuse.torch.upcast_products import multiply_before_upcasts

OPTIONS = {"numerics": "fast", "tf32": None, "only_faster": True, "tune": None}
_WORDS = {"numerics": ("fast", "exact", "approx"),
          "tf32": (None, True, False), "only_faster": (True, False),
          "tune": (None, "off", "compile", "first-use", "full")}  # fmt: skip
_PREFIX = "epifuse."
# Places of passes.
_JOINT, _POST_GRAD = "joint_custom_post_pass", "post_grad_custom_pre_pass"
_POST_FUSION = "_post_fusion_custom_pass"


def own_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options with their defaults. Raises BadInputError naming what there is."""
    unknown = set(given) - set(OPTIONS)
    if unknown:
        known, came = ", ".join(sorted(OPTIONS)), ", ".join(sorted(unknown))
        raise _native.BadInputError(f"expected options among {known}, got {came}")
    options = {**OPTIONS, **given}
    for key in _WORDS:
        _check_word(key, key, options[key])
    return options


def _check_word(name: str, key: str, value: Any) -> None:
    if value not in _WORDS[key]:
        *first, last = (str(word) for word in _WORDS[key] if word is not None)
        raise _native.BadInputError(
            f"{name}: expected {', '.join(first)} or {last}, got {value!r}")


def _identity(before: Any) -> Any:
    """What caches know a user's pass by; None: nothing is known of it."""
    identify = getattr(before, "uuid", None)
    return identify() if identify is not None else None


class MasksPass(CustomGraphPass):
    """Takes masks that are set nowhere, and sums into rows that are permuted, out of a joint graph,
    so that no backward pass has them. Scales of rows move before products, products before
    conversions to float32, and large ones in float32 become two of bf16 where that is what is kept,
    unless each rounding is to be kept (`exact`)."""

    def __init__(self, before: Callable[[torch.fx.Graph], None] | None,
                 exact: bool = False) -> None:
        self.before = before
        self.exact = exact

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        without_masks_set_nowhere(graph)
        without_masks_nobody_reads(graph)
        without_sums_into_permuted_rows(graph)
        if not self.exact:
            scale_rows_before_products(graph)
            unharmed(graph, lambda: self._multiply_in_16_bits(graph), "float32 stays in products")
        compared.mark(graph)

    def _multiply_in_16_bits(self, graph: torch.fx.Graph) -> Report:
        multiply_before_upcasts(graph)
        multiply_in_two_parts(graph)
        return Report()

    def uuid(self) -> Any:
        """As that of the pass behind it, which has the hash of all sources."""
        before = None if self.before is None else _identity(self.before)
        if self.before is not None and before is None:
            return None
        return ["epifuse.masks", self.exact, before]


class FusionPass(CustomGraphPass):
    """Fuses a post-grad graph, after the pass that the user may have put in the same place."""

    def __init__(self, options: dict[str, Any], before: Callable[[torch.fx.Graph], None] | None,
                 report: Report | None = None, asks_hopper: bool = False) -> None:
        self.options = own_options(options)
        self.before = before
        self.report = report
        self.asks_hopper = asks_hopper

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        options = self.core_options()
        report = unharmed(graph, lambda: self._fuse(graph, options))
        if report.kernels:
            store_what_kernels_read()
        if self.report is not None:
            self.report.extend(report)
        if not self.asks_hopper:
            self._tell(graph, report)

    def _fuse(self, graph: torch.fx.Graph, options: dict[str, Any]) -> Report:
        report = fuse(graph, options, self.options["only_faster"], self.asks_hopper)
        without_bounds_of_casts(graph)
        add_short_sums(graph)
        store_tables(graph, is_replayed=_is_replayed())
        sort_by_short_keys(graph)
        return report

    def _tell(self, graph: torch.fx.Graph, report: Report) -> None:
        """Logs and counts it: now, and by the code that Inductor caches where that is loaded."""
        if not report.kernels and not report.products_left:
            return
        told = str(report), report.reasons()
        process.compiled(*told, not _writes_cpp() and keep_report(graph, told))

    def core_options(self) -> dict[str, Any]:
        """What the C++ core is asked for; tf32 is what torch allows, if not said otherwise.

        Kernels are measured while a model compiles, if neither an option nor EPIFUSE_TUNE says
        otherwise. Raises BadInputError for another word in EPIFUSE_TUNE.
        """
        tf32 = self.options["tf32"]
        if tf32 is None:
            tf32 = torch.get_float32_matmul_precision() != "highest"
        tune = self.options["tune"]
        if tune is None:
            _check_word("EPIFUSE_TUNE", "tune", settings.tune())
            tune = settings.tune() or "compile"
        return {"numerics": self.options["numerics"], "tf32": bool(tf32), "tune": tune}

    def uuid(self) -> Any:
        """What Inductor's cache keys of compiled graphs have of this pass."""
        before = None
        if self.before is not None:
            before = _identity(self.before)
            if before is None:
                return None  # nothing is known of the user's pass: no caching
        sources = sorted(pathlib.Path(__file__).parent.glob("*.py"))
        sources.append(_native.library_path(_native.LIBRARY))
        return [get_hash_for_files(tuple(str(path) for path in sources)),
                sorted(self.core_options().items()), self.options["only_faster"], before]


def _writes_cpp() -> bool:
    from torch._inductor import config

    return config.cpp_wrapper or getattr(config, "fx_wrapper", False)


def _is_replayed() -> bool:
    """By CUDA graphs."""
    from torch._inductor import config

    return bool(config.triton.cudagraphs)


def users_pass(installed: Any) -> Any:
    """What is installed without ours."""
    own = isinstance(installed, (FusionPass, MasksPass, LaunchPass))
    return installed.before if own else installed


def with_masks_pass(patches: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Changes of Inductor's config, and our pass over joint graphs after what is there."""
    from torch._inductor import config

    before = patches.get(_JOINT, getattr(config, _JOINT))
    exact = own_options(options)["numerics"] == "exact"
    return {**patches, _JOINT: MasksPass(users_pass(before), exact)}


def _with_passes(patches: dict[str, Any], options: dict[str, Any],
                 report: Report | None = None) -> dict[str, Any]:
    """Changes of Inductor's config, and all of our passes."""
    from torch._inductor import config

    before = patches.get(_POST_GRAD, getattr(config, _POST_GRAD))
    out = {**with_masks_pass(patches, options),
           _POST_GRAD: FusionPass(options, users_pass(before), report)}  # fmt: skip
    if hasattr(config, _POST_FUSION):
        before = users_pass(patches.get(_POST_FUSION, getattr(config, _POST_FUSION)))
        out[_POST_FUSION] = LaunchPass(before, None if before is None else _identity(before))
    return out


def enable(**options: Any) -> None:
    """Fuses in everything that Inductor compiles from now on, until `disable`.

    Options: numerics ("fast", "exact", "approx": docs/numerics.md), tf32 (whether GPUs may
    multiply float32 matrices as TF32; None: as torch.get_float32_matmul_precision says),
    only_faster (whether what Inductor runs faster is left to it: on CPUs by measurements that come
    with this package, on GPUs by those made while compiling: True) and tune (when GPU kernels are
    measured: "off", "compile", "first-use" or "full"; None: as EPIFUSE_TUNE says, else
    "compile"). A pass that the user installed in the same place stays and runs first.
    """
    from torch._inductor import config

    op.load()
    for place, installed in _with_passes({}, options).items():
        setattr(config, place, installed)


def disable() -> None:
    """Takes the pass out again; does nothing when it is not there."""
    from torch._inductor import config

    for place in (_JOINT, _POST_GRAD, _POST_FUSION):
        if hasattr(config, place):
            setattr(config, place, users_pass(getattr(config, place)))


@contextlib.contextmanager
def enabled(**options: Any) -> Iterator[None]:
    """Fuses in what Inductor compiles inside of the `with`."""
    from torch._inductor import config

    op.load()
    with config.patch(_with_passes({}, options)):
        yield


def own_of(options: dict[str, Any] | None) -> dict[str, Any]:
    """Of torch.compile's options those of epifuse, without their prefix."""
    return {key.removeprefix(_PREFIX): value for key, value in (options or {}).items()
            if key.startswith(_PREFIX)}  # fmt: skip


def patches_of(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """What mode and the other options change in Inductor's config."""
    import torch._inductor

    patches: dict[str, Any] = {}
    if mode is not None and mode != "default":
        patches.update(torch._inductor.list_mode_options(mode))
    for key, value in (options or {}).items():
        if not key.startswith(_PREFIX):
            patches[key.replace("-", "_")] = value
    return patches


def _tries_all(mode: str | None) -> bool:
    return mode is not None and mode.startswith("max-autotune")


def backend(graph: torch.fx.GraphModule, inputs: list[Any], *, mode: str | None = None,
            options: dict[str, Any] | None = None, report: Report | None = None,
            **rest: Any) -> Any:
    """torch.compile(model, backend="epifuse"): Inductor, with what pays fused into our kernels.

    `mode` and `options` are those of torch.compile; options that begin with "epifuse." are ours:
    "epifuse.numerics", "epifuse.tf32", "epifuse.only_faster" and "epifuse.tune", as in `enable`.
    The modes "max-autotune.." measure all candidates ("full"), if nothing else is said.
    """
    from torch._inductor.compile_fx import compile_fx

    op.load()
    own = own_of(options)
    if own.get("tune") is None and settings.tune() is None and _tries_all(mode):
        own["tune"] = "full"
    patches = patches_of(mode, options)
    return compile_fx(graph, inputs, config_patches=_with_passes(patches, own, report), **rest)
