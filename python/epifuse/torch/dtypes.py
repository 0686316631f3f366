"""The dtypes that the language has, by both names."""

import torch

# What the language computes with and stores; other dtypes stay with PyTorch.
NAMES: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.int8: "i8",
    torch.bool: "bool",
}
# Of tensors that number rows: nothing is computed of them.
INTEGERS: dict[torch.dtype, str] = {torch.int32: "i32", torch.int64: "i64"}
ALL = {**NAMES, **INTEGERS}
BY_NAME = {name: dtype for dtype, name in ALL.items()}
