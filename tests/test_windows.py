"""Windows as densities (M14): constants, moments, distributions and draws against quadrature and scikit-learn."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.neighbors import KernelDensity as PeerDensity

from mercer.solvers.windows import SHAPES, log_sphere, shape_of

EVERY = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def quad(f, reach, p=0):
    """The integral of r^p f(r^2) over r > 0."""
    top = reach if math.isfinite(reach) else 60.0
    return integrate.quad(
        lambda r: r**p * float(f(np.float64(r * r))), 0.0, top, epsabs=1e-13, epsrel=1e-13, limit=400
    )[0]


@EVERY
@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_radial_windows_integrate_to_one(shape, d):
    total = math.exp(log_sphere(d) + shape.log_constant(d)) * quad(shape.value, shape.reach, d - 1)
    assert abs(total - 1.0) < 1e-10
    spread = math.exp(log_sphere(d) + shape.log_constant(d)) * quad(shape.value, shape.reach, d + 1) / d
    assert abs(shape.variance(d) - spread) < 1e-10 * max(1.0, spread)
    rough = math.exp(log_sphere(d) + 2 * shape.log_constant(d)) * quad(
        lambda s: shape.value(s) ** 2, shape.reach, d - 1
    )
    assert abs(shape.roughness(d) - rough) < 1e-10


@EVERY
def test_product_windows_are_products_of_one_dimension(shape):
    c = math.exp(shape.log_constant(1))
    assert abs(2 * c * quad(shape.value, shape.reach) - 1.0) < 1e-10
    assert abs(shape.log_constant(3, "product") - 3 * math.log(c)) < 1e-13
    assert shape.variance(3, "product") == shape.variance(1)
    assert abs(shape.roughness(3, "product") - shape.roughness(1) ** 3) < 1e-14


def test_the_catalogue_constants():
    constants = {"tricube": 70 / 81, "boxcar": 0.5, "epanechnikov": 0.75, "biweight": 15 / 16, "triangular": 1.0,
                 "cosine": math.pi / 4, "gaussian": 1 / math.sqrt(2 * math.pi), "exponential": 0.5}  # fmt: skip
    for name, c in constants.items():
        assert abs(math.exp(shape_of(name).log_constant(1)) - c) < 1e-14, name


@EVERY
@pytest.mark.parametrize("d", [1, 3])
def test_densities_equal_those_of_scikit_learn(shape, d):
    names = {"boxcar": "tophat", "triangular": "linear", "biweight": None, "tricube": None}
    if (name := names.get(shape.name, shape.name)) is None:
        pytest.skip("scikit-learn has no such window")
    u = np.random.default_rng(0).standard_normal((50, d)) * 0.5
    expected = PeerDensity(kernel=name, bandwidth=1.0).fit(np.zeros((1, d))).score_samples(u)
    with np.errstate(divide="ignore"):
        found = np.log(shape.value((u**2).sum(axis=1))) + shape.log_constant(d)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@EVERY
def test_kernels_are_the_windows(shape):
    u = np.linspace(0.0, 1.5, 31)[:, None] * np.array([[1.0, -0.4]])
    np.testing.assert_allclose(shape.kernel()(u, np.zeros((1, 2)))[:, 0], shape.value((u**2).sum(axis=1)), atol=1e-14)
    product = shape.kernel(form="product")(u, np.zeros((1, 2)))[:, 0]
    np.testing.assert_allclose(product, shape.value(u**2).prod(axis=1), atol=1e-14)


@EVERY
def test_distribution_and_draws(shape):
    u = np.linspace(-1.3, 1.3, 14)
    c = math.exp(shape.log_constant(1))
    for x, p in zip(u, shape.cdf(u), strict=True):
        mass = integrate.quad(lambda r: c * float(shape.value(np.float64(r * r))), 0.0, abs(x), epsabs=1e-13)[0]
        assert abs(p - (0.5 + math.copysign(mass, x))) < 1e-9
    drawn = shape.draw(np.random.default_rng(1), 20_000, 1)[:, 0]
    assert stats.kstest(drawn, shape.cdf).pvalue > 1e-3


@EVERY
@pytest.mark.parametrize("form", ["radial", "product"])
def test_draws_have_the_moments(shape, form):
    drawn = shape.draw(np.random.default_rng(2), 100_000, 3, form)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.02 * math.sqrt(shape.variance(3, form)))
    np.testing.assert_allclose(drawn.var(axis=0), shape.variance(3, form), rtol=0.04)


def test_names():
    assert shape_of("tophat") is SHAPES["boxcar"]
    assert shape_of("linear") is SHAPES["triangular"]
    for wrong in ("rbf", None, 3):
        with pytest.raises(ValueError, match=r"no window; there are 'gaussian'"):
            shape_of(wrong)
