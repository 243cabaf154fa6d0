"""Kernels with one lie each: what the checks of the kernel contract must reject."""

import itertools

import numpy as np

from cases import Case, squares
from mercer import expr
from mercer.kernels import RBF, Blockwise, Isotropic, Kernel, Linear, PairKernel, Validity, frozen
from mercer.kernels.parameters import Positive


@frozen
class FalseDiagonal(Linear):
    """Says of the diagonal what its pairs do not say."""

    def trace(self, t):
        return t.external(_FalseDiagonalPairs())


@frozen
class _FalseDiagonalPairs(PairKernel):
    def block(self, xs, ys):
        return xs @ ys.T

    def block_diag(self, xs):
        return np.ones(len(xs))


@frozen
class FalseCertificate(Linear):
    def profile(self, s):
        return -s

    @property
    def validity(self):
        return Validity("psd", "a lie")


@frozen
class FalsePickle(Linear):
    def __reduce__(self):
        return Linear, ()


@frozen
class FalseClone(Linear):
    def __sklearn_clone__(self):
        return RBF()


@frozen
class FalseName(Linear):
    def __repr__(self):
        return "RBF()"


@frozen
class NeverEqual(Linear):
    __hash__ = Kernel.__hash__

    def __eq__(self, other):
        return self is other


@frozen
class DeafReplace(RBF):
    def _with(self, **changes):
        return self


class Mutable(Linear):
    def __setattr__(self, name, value):
        self.__dict__[name] = value


@frozen
class FrozenGradient(Isotropic):
    """Traces its parameter as a number, so that its gradient is lost."""

    lengthscale: Positive = 1.0

    def trace(self, t):
        return expr.exp(-t.squared_distance() / float(self.lengthscale))


@frozen
class DeniedGradient(Linear):
    """Denies a gradient without saying which leaf has none."""

    @property
    def children(self):
        return (Linear(),)

    @property
    def differentiable_inputs(self):
        return False


@frozen
class FalseFeatures(Linear):
    def phi(self, rows):
        return 2 * rows


@frozen
class FalseFacts(Linear):
    stationary = isotropic = normalised = True


@frozen
class FalseIsotropy(RBF):
    isotropic = True

    def trace(self, t):
        return t.columns("absdiff")


_answers = itertools.count(1)


@frozen
class Wavering(RBF):
    """Resolves to another kernel at every call."""

    def _resolved(self, rows, weight):
        return self._with(lengthscale=float(next(_answers)))


def asymmetric(X, Y):
    return X @ Y.T + X[:, :1]


def counting_rows(X, Y):
    return X @ Y.T + len(X)


def counting_columns(X, Y):
    return X @ Y.T + len(Y)


def reading_precision(X, Y):
    return X @ Y.T + X.dtype.itemsize


def writing(X, Y):
    K = X @ Y.T
    X *= 2
    return K


def reading_layout(X, Y):
    return np.outer(X.strides[0] + X[:, 0], Y.strides[0] + Y[:, 0])


def false_vjp(X, G):
    return 3 * X * G


ASYMMETRIC = Case(Blockwise(asymmetric))
COUNTING_ROWS = Case(Blockwise(counting_rows))
COUNTING_COLUMNS = Case(Blockwise(counting_columns))
READING_PRECISION = Case(Blockwise(reading_precision))
WRITING = Case(Blockwise(writing))
READING_LAYOUT = Case(Blockwise(reading_layout))
FALSE_VJP = Case(RBF().warp(squares, false_vjp))
