"""The lazy Gram matrix of rows that came as torch tensors: the same verbs, and tensors on the same device come back."""

import math

import numpy as np

from mercer import validate
from mercer.gram.lazy import Gram
from mercer.gram.operators import Diagonal, Operator

__all__ = ["TensorGram", "TensorOperator"]


class TensorGram(Gram):
    """K(X, Y) whose verbs return tensors. Where the engine works on their device, nothing goes to the host and back."""

    def __init__(self, kernel, engine, x, y, memory=None, device=None):
        super().__init__(kernel, engine, x, y, memory)
        self.device = device

    def _of(self, x, y, kernel=None):
        return TensorGram(kernel or self.kernel, self.engine, x, y, self.memory, self.device)

    def _plain(self):
        return Gram(self.kernel, self.engine, self.x, self.y, self.memory)

    def _made(self, verb, *arguments, **options):
        """Result of an engine's verb, as tensors."""
        if getattr(self.engine, "device", None) == self.device:
            return self._tensors(self.engine.on_device(verb, self.x, self.y, *arguments, **options))
        arguments = (validate.array_of(a) for a in arguments)
        return self._tensors(getattr(self.engine, verb)(self.x, self.y, *arguments, **options))

    def _tensors(self, found):
        import torch

        if isinstance(found, tuple):
            return tuple(map(self._tensors, found))
        if isinstance(found, dict):
            return {name: self._tensors(value) for name, value in found.items()}
        return torch.as_tensor(found, device=self.device)

    def dense(self):
        self._require_dense()
        return self._made("block")

    def diag(self):
        return self._tensors(self._plain().diag())

    def __matmul__(self, V):
        if isinstance(V, Operator):
            return NotImplemented
        V = self._right_hand_sides(V)
        found = self._made("matmul", V.reshape(len(V), math.prod(V.shape[1:])))
        return found.reshape(len(found), *V.shape[1:])

    def _right_hand_sides(self, V):
        """What can be multiplied with, on the device of the rows."""
        import torch

        V = torch.as_tensor(V)
        validate.tensor_device(X=torch.empty(0, device=self.device), V=V)
        if V.requires_grad:
            raise ValueError("V requires a gradient, which does not pass through mercer; pass V.detach()")
        if V.ndim == 0 or V.shape[0] != self.shape[1]:
            raise ValueError(f"cannot multiply {self.shape[0]} x {self.shape[1]} with shape {tuple(V.shape)}")
        return V

    def centred(self, like=None):
        return TensorOperator(self, self._plain().centred(_without_tensors(like)))

    def __add__(self, other):
        if not isinstance(other, Diagonal):
            return NotImplemented
        return TensorOperator(self, self._plain() + Diagonal(validate.array_of(other.values, "the diagonal")))

    def reduce(self, op, **options):
        self._require_columns()
        return self._made("reduce", op, **options)

    def trace(self):
        return self._plain().trace()

    def pullback(self, W=None):
        return self._tensors(self._plain().pullback(_weights(W)))

    def pullback_diag(self, v):
        return self._tensors(self._plain().pullback_diag(validate.array_of(v, "v")))

    def pullback_inputs(self, W=None):
        return self._tensors(self._plain().pullback_inputs(_weights(W)))


class TensorOperator(Operator):
    """What is made from a Gram of tensors, a sum with a diagonal or a centred one: its products and parts are tensors, too."""

    def __init__(self, base: TensorGram, made: Operator):
        self.base, self.made = base, made

    @property
    def shape(self):
        return self.made.shape

    @property
    def dtype(self):
        return self.made.dtype

    def __matmul__(self, V):
        V = self.base._right_hand_sides(V)
        return self.base._tensors(self.made @ validate.array_of(V, "V"))

    def dense(self):
        return self.base._tensors(self.made.dense())

    def diag(self):
        return self.base._tensors(self.made.diag())

    def rows(self, index):
        return self.base._tensors(self.made.rows(index))

    def trace(self):
        return self.made.trace()


def _without_tensors(gram):
    return gram._plain() if isinstance(gram, TensorGram) else gram


def _weights(W):
    if isinstance(W, tuple):
        return tuple(np.asarray(validate.array_of(part, "W")) for part in W)
    return validate.array_of(W, "W")
