"""Convolutions in random programs (random_programs.py)."""

from __future__ import annotations

from typing import Any

from random_steps import Drawn
from torch.nn import functional as F

PATCHES, CHANNELS = (1, 2, 4), (1, 3, 4, 8, 16)


class Convolutions(Drawn):
    def patched(self) -> None:
        """Patches of an image, or its points: as an image or as tokens."""
        size, channels = self.random.choice(PATCHES), self.random.choice(CHANNELS)
        batch, grid, width = self.random.randint(1, 3), self.random.randint(1, 6), self.size()
        side = size * grid + (self.random.randint(0, size - 1) if self.chance(0.3) else 0)
        as_tokens, has_bias = self.chance(0.7), self.chance(0.6)

        def step(x: Any, w: Any, *bias: Any) -> Any:
            y = F.conv2d(x, w, bias[0][0] if bias else None, stride=size)
            return y.flatten(2).transpose(1, 2) if as_tokens else y

        image = self.input(batch, channels, side, side)
        weight = self.input(width, channels, size, size)
        shape = (batch, grid * grid, width) if as_tokens else (batch, width, grid, grid)
        self.make(step, shape, image, weight, *((self.input(1, width),) if has_bias else ()))

    def pointed(self) -> None:
        """Points of what is an image."""
        x = self.any(lambda tensor: len(tensor.shape) == 4 and tensor.dtype == self.dtype)
        if x is None:
            return
        batch, channels, *sides = x.shape
        width, stride = self.size(), 2 if self.chance(0.2) else 1
        self.make(lambda x, w: F.conv2d(x, w, stride=stride),
                  (batch, width, *((side - 1) // stride + 1 for side in sides)), x,
                  self.input(width, channels, 1, 1))

    def along(self) -> None:
        """Windows along the rows of several matrices, of all channels or of groups of them."""
        x = self.any(lambda tensor: len(tensor.shape) == 3 and tensor.dtype == self.dtype)
        if x is None:
            return
        batch, time, channels = x.shape
        groups = self.random.choice([g for g in (1, 1, 1, 2, 4) if channels % g == 0])
        width = groups * self.random.choice((4, 8, 16))
        kernel, stride = self.random.randint(1, 5), self.random.choice((1, 1, 2, 3))
        padding, has_bias = self.random.randint(0, 2), self.chance(0.6)
        places = (time + 2 * padding - kernel) // stride + 1
        if time + 2 * padding < kernel:
            return

        def step(x: Any, w: Any, *bias: Any) -> Any:
            y = F.conv1d(x.transpose(1, 2), w, bias[0][0] if bias else None, stride, padding, 1,
                         groups)  # fmt: skip
            return y.transpose(1, 2)

        self.make(step, (batch, places, width), x, self.input(width, channels // groups, kernel),
                  *((self.input(1, width),) if has_bias else ()))
