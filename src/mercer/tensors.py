"""The little that every layer needs of torch, which is imported by whoever has a tensor already."""

import sys
from contextlib import contextmanager

__all__ = ["exact_products", "free_memory", "is_tensor"]


def is_tensor(value) -> bool:
    """Whether it is a tensor; torch is not imported to find out.

    >>> is_tensor([1.0])
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@contextmanager
def exact_products(device, wanted="highest"):
    """torch's products of float32 on a GPU in this precision (torch's word for it), whatever the process is set to."""
    import torch

    before = torch.get_float32_matmul_precision()
    if device.type != "cuda" or before == wanted:
        yield
        return
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def free_memory(device) -> int:
    """Bytes of a GPU that torch can give out: what the driver has, and what torch keeps while nobody uses it."""
    import torch

    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept
