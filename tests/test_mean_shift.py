"""Mean shift (M25): modes of known densities, scikit-learn's flat kernel, densities that never fall, weights as repetition."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize
from sklearn.cluster import MeanShift as PeerMeanShift
from sklearn.datasets import make_blobs

from mercer import MeanShift
from mercer.errors import ConvergenceWarning
from mercer.estimators.mean_shift import SHADOWS, _Shift
from mercer.solvers.bandwidths import root_of, select_bandwidth
from mercer.solvers.windows import shape_of

EVERY = pytest.mark.parametrize("kernel", SHADOWS)


def blobs(n=150, d=2, seed=0, centres=((0.0, 0.0), (7.0, 1.0), (2.0, 8.0))):
    return make_blobs(n, d, centers=np.array(centres)[:, :d], cluster_std=1.0, random_state=seed)


def density(X, w, h, kernel, q):
    """The Parzen density at one place, directly."""
    shape = shape_of(kernel)
    s = (((q - X) / h) ** 2).sum(axis=1)
    return w @ shape.value(s) * np.exp(shape.log_constant(X.shape[1])) / np.prod(np.broadcast_to(h, X.shape[1]))


def test_modes_of_a_known_mixture():
    """Few rows with large windows: the modes are those that an optimiser finds from many starts."""
    X, w = np.array([[0.0], [4.0], [4.6], [9.0]]), np.array([0.1, 0.2, 0.3, 0.4])
    model = MeanShift(1.0).fit(X, sample_weight=w)
    found = set()
    for start in np.linspace(-1, 10, 23):
        out = optimize.minimize(lambda q: -density(X, w, 1.0, "gaussian", q), [start], method="Nelder-Mead",
                                options={"xatol": 1e-10, "fatol": 1e-16})  # fmt: skip
        found.add(round(float(out.x[0]), 6))
    expected = sorted(found, key=lambda m: -density(X, w, 1.0, "gaussian", np.array([m])))
    np.testing.assert_allclose(model.cluster_centers_[:, 0], expected, atol=1e-5)
    exact = [density(X, w, 1.0, "gaussian", m) for m in model.cluster_centers_]
    np.testing.assert_allclose(model.mode_densities_, exact, rtol=1e-12)
    assert (np.diff(model.mode_densities_) < 0).all()
    assert model.labels_.tolist() == [2, 0, 0, 1]


@EVERY
@pytest.mark.parametrize("bandwidth", [1.3, [1.0, 1.6], [[1.5, 0.4], [0.4, 1.0]]], ids=["number", "columns", "matrix"])
def test_modes_are_stationary_and_the_density_never_falls(kernel, bandwidth):
    X, _ = blobs()
    w = np.random.default_rng(0).random(len(X))
    shift = _Shift(X, w / w.sum(), root_of(bandwidth, 2), kernel)
    Q = shift.inside(X + np.random.default_rng(1).normal(size=X.shape))
    height = shift.log_density(Q)
    for _ in range(25):
        Q = shift.step(Q)
        new = shift.log_density(Q)
        assert (new >= height - 1e-12).all()
        height = new
    model = MeanShift(bandwidth, kernel=kernel).fit(X, sample_weight=w)
    top = shift.log_density(shift.inside(model.cluster_centers_))
    np.testing.assert_allclose(model.mode_densities_, np.exp(top), rtol=1e-9)
    for direction in np.vstack([np.eye(2), -np.eye(2)]):  # no step to a side goes up
        assert (shift.log_density(shift.inside(model.cluster_centers_) + 1e-3 * direction) <= top + 1e-12).all()


@EVERY
def test_steps_are_gradients(kernel):
    """The step is the gradient of the density over the density of the shadow, up to a constant."""
    X, _ = blobs(40)
    w = np.full(40, 1 / 40)
    shift = _Shift(X, w, root_of(2.5, 2), kernel)
    q = X[:12] + 0.3
    step = shift.step(shift.inside(q)) - shift.inside(q)
    for i in range(12):
        slope = optimize.approx_fprime(q[i], lambda x: density(X, w, 2.5, kernel, x), 1e-7)
        assert step[i] @ slope == pytest.approx(np.linalg.norm(step[i]) * np.linalg.norm(slope), rel=1e-5)


def test_epanechnikov_is_the_flat_kernel_of_scikit_learn():
    for seed in range(2):
        X, _ = blobs(90, seed=seed)
        for settings in ({}, {"bin_seeding": True}, {"seeds": X[::10]}):
            model = MeanShift(3.5, kernel="epanechnikov", assign="nearest", **settings).fit(X)
            peer = PeerMeanShift(bandwidth=3.5, **settings).fit(X)
            order = [int(np.argmin(((model.cluster_centers_ - c) ** 2).sum(axis=1))) for c in peer.cluster_centers_]
            assert sorted(order) == list(range(3)) == list(range(len(model.cluster_centers_)))
            np.testing.assert_allclose(model.cluster_centers_[order], peer.cluster_centers_, atol=1e-12)
            np.testing.assert_array_equal(np.array(order)[peer.labels_], model.labels_)
            np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_weights_are_repetition():
    X, _ = blobs(60)
    times = np.random.default_rng(0).integers(0, 4, 60)
    long = np.repeat(np.arange(60), times)
    shuffled = np.random.default_rng(1).permutation(long)
    for settings in ({}, {"kernel": "biweight"}, {"bandwidth": 1.5, "bin_seeding": True, "min_bin_freq": 3}):
        weighted = MeanShift(**settings).fit(X, sample_weight=times)
        repeated = MeanShift(**settings).fit(X[shuffled])
        np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-7)
        np.testing.assert_allclose(weighted.mode_densities_, repeated.mode_densities_, rtol=1e-12)
        np.testing.assert_array_equal(weighted.labels_[shuffled], repeated.labels_)
        np.testing.assert_allclose(np.ravel(weighted.bandwidth_), np.ravel(repeated.bandwidth_), rtol=1e-12)


def test_cells_are_counted_by_weight():
    X = np.array([[0.0], [50.0], [50.2]])
    counts = {"bandwidth": 1.0, "bin_seeding": True, "min_bin_freq": 3}
    assert MeanShift(**counts).fit(X, sample_weight=[3.0, 1.0, 1.0]).cluster_centers_.tolist() == [[0.0]]
    assert MeanShift(**counts).fit(np.repeat(X, [3, 1, 1], axis=0)).cluster_centers_.tolist() == [[0.0]]


@EVERY
def test_the_default_bandwidth_is_the_rule(kernel):
    X, _ = blobs()
    model = MeanShift(kernel=kernel).fit(X)
    expected = select_bandwidth("normal-scott", X, shape=shape_of(kernel)).value
    np.testing.assert_allclose(model.bandwidth_, expected, rtol=1e-12)
    np.testing.assert_allclose(MeanShift("normal-scott", kernel=kernel).fit(X).bandwidth_, expected, rtol=1e-12)
    constant = MeanShift(kernel=kernel).fit(np.column_stack([X, np.full(len(X), 4.0)]))
    assert constant.bandwidth_[2] == 1.0
    np.testing.assert_allclose(constant.cluster_centers_[:, 2], 4.0)


def test_units_and_rotations_do_not_matter():
    X, _ = blobs()
    A = np.array([[2.0, 1.0], [0.5, 3.0]])
    model = MeanShift(1.2).fit(X)
    other = MeanShift(1.44 * A @ A.T).fit(X @ A.T + 1e6)
    np.testing.assert_allclose(other.cluster_centers_, model.cluster_centers_ @ A.T + 1e6, rtol=1e-11)
    np.testing.assert_allclose(other.mode_densities_, model.mode_densities_ / np.linalg.det(A), rtol=1e-7)
    np.testing.assert_array_equal(other.labels_, model.labels_)


def test_rows_belong_to_the_hill_they_climb():
    """A long ridge beside a small hill: rows at the end of the ridge are nearer to the hill's top."""
    ridge = np.column_stack([10 * np.linspace(0, 1, 100) ** 1.5, np.zeros(100)])
    hill = np.array([10.0, 4.0]) + 0.2 * np.random.default_rng(0).standard_normal((20, 2))
    X, y = np.vstack([ridge, hill]), np.repeat([0, 1], [100, 20])
    climbed = MeanShift(1.2).fit(X)
    nearest = MeanShift(1.2, assign="nearest").fit(X)
    np.testing.assert_array_equal(climbed.labels_, y)
    assert nearest.labels_[99] == 1
    far = [[60.0, -20.0]]  # no weight can be seen from there; the end of the ridge is the nearest row
    assert (climbed.predict(far)[0], nearest.predict(far)[0]) == (0, 1)
    np.testing.assert_array_equal(nearest.labels_, nearest.predict(X))
    assert (climbed.solver_used_, nearest.solver_used_) == ("ascend", "nearest")
    np.testing.assert_array_equal(climbed.predict(X), climbed.labels_)
    seeded = MeanShift(1.2, seeds=X[::7], assign="ascend").fit(X)
    np.testing.assert_array_equal(seeded.labels_, climbed.labels_)


def test_merging_and_saddles():
    X = np.array(
        [[-1.4], [1.4]]
    )  # two modes with windows of bandwidth 1, and a row whose climb begins beside the saddle
    model = MeanShift(1.0, merge=0.1).fit(np.vstack([X, [[1e-7]]]), sample_weight=[1.0, 1.0, 1e-9])
    top = optimize.brentq(lambda x: x - 1.4 * np.tanh(1.4 * x), 0.5, 2.0)
    np.testing.assert_allclose(np.sort(model.cluster_centers_[:, 0]), [-top, top], atol=1e-7)
    assert len(MeanShift(1.0, merge=3.0).fit(X).cluster_centers_) == 1
    assert len(MeanShift(1.0).fit(X).cluster_centers_) == 2
    assert len(MeanShift(1e-3).fit(blobs(50)[0]).cluster_centers_) == 50  # each row its own mode


def test_far_queries_and_rows_without_a_cluster():
    X, _ = blobs()
    far = np.array([[1e3, 0.0], [1e200, 1e200], [-1e8, 3.0]])
    for kernel in SHADOWS:
        every = MeanShift(2.0, kernel=kernel).fit(X)
        some = MeanShift(2.0, kernel=kernel, cluster_all=False).fit(X)
        assert (every.predict(far) >= 0).all()
        assert (some.predict(far) == -1).all()
        distance = np.sqrt(((X[:, None] - some.cluster_centers_) ** 2).sum(-1)).min(axis=1)
        np.testing.assert_array_equal(some.labels_ == -1, distance > 2.0)
        np.testing.assert_array_equal(some.labels_[distance <= 2.0], every.labels_[distance <= 2.0])
    gaussian = MeanShift(2.0).fit(X)
    nearest = np.argmin(((X - far[0]) ** 2).sum(axis=1))
    assert gaussian.predict(far[:1])[0] == gaussian.labels_[nearest]


def test_sparse_and_single_rows_are_rows():
    X, _ = blobs()
    X = np.round(np.where(X > 1, X, 0.0), 2)
    single = MeanShift(2.0).fit(X.astype(np.float32))
    assert single.cluster_centers_.dtype == np.float32
    dense = MeanShift(2.0).fit(X)
    np.testing.assert_array_equal(MeanShift(2.0).fit(sp.csr_array(X)).cluster_centers_, dense.cluster_centers_)
    np.testing.assert_allclose(single.cluster_centers_, dense.cluster_centers_, rtol=1e-5, atol=1e-5)


def test_what_is_refused():
    X, _ = blobs(30)
    for kernel in ("boxcar", "tricube", "exponential", 3):
        with pytest.raises(ValueError, match="kernel"):
            MeanShift(kernel=kernel).fit(X)
    for bad in (0.0, -1.0, [1.0, 2.0, 3.0], [1.0, -1.0], np.eye(3), [[1.0, 2.0], [2.0, 1.0]], "wide", np.nan):
        with pytest.raises(ValueError, match="bandwidth"):
            MeanShift(bad).fit(X)
    with pytest.raises(ValueError, match="seeds have 3 columns, the rows 2"):
        MeanShift(1.0, seeds=np.zeros((1, 3))).fit(X)
    with pytest.raises(ValueError, match="seeds contains NaN"):
        MeanShift(1.0, seeds=[[np.nan, 0.0]]).fit(X)
    with pytest.raises(ValueError, match="within a bandwidth of any of the seeds"):
        MeanShift(1.0, kernel="epanechnikov", seeds=[[99.0, 99.0]]).fit(X)
    with pytest.raises(ValueError, match=r"min_bin_freq=31 rows, the fullest"):
        MeanShift(1.0, bin_seeding=True, min_bin_freq=31).fit(X)
    with pytest.warns(ConvergenceWarning, match="raise it or tol=1e-05"):
        MeanShift(1.0, max_iter=2, tol=1e-5).fit(X)
    with pytest.raises(ValueError, match="rescale"):
        MeanShift(1e-150).fit(X)
