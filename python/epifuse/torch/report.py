"""What became of a graph: the kernels made, and what was left out and why."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from epifuse.torch.entries import Kernel, LeftOut, OnHopper
from epifuse.torch.summary import summary


@dataclass
class Report:
    """Of one or more FX graphs, in the order in which they were compiled.

    `str()` is a summary for people: it folds what repeats. `to_dict()` and `json()` have all of it.
    """

    kernels: list[Kernel] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    on_hopper: OnHopper | None = None  # only of `explain`, on CPUs

    @property
    def products_left(self) -> list[LeftOut]:
        """The matrix products that no kernel took in."""
        return [each for each in self.left_out if each.product is not None]

    def reasons(self) -> dict[str, int]:
        """How many products were left out for each code."""
        return dict(Counter(each.code for each in self.products_left))

    def extend(self, other: "Report") -> None:
        """Adds what became of another graph."""
        self.kernels += other.kernels
        self.left_out += other.left_out
        if other.on_hopper is not None:
            so_far = self.on_hopper or OnHopper()
            left = Counter(so_far.products_left) + Counter(other.on_hopper.products_left)
            self.on_hopper = OnHopper(so_far.kernels + other.on_hopper.kernels, dict(left))

    def to_dict(self) -> dict[str, Any]:
        """All of it, as dictionaries and lists."""
        return asdict(self)

    def json(self) -> str:
        """All of it as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        return summary(self.kernels, self.left_out, self.on_hopper)
