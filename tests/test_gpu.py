"""On a GPU: generated kernels and tiles agree with `reference`, results stay where the data are. Skipped where there is none."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cases import TOLERANCE, close, kernel_cases
from mercer import SVC, Engine, GaussianProcessRegressor, KernelDensity, KernelNeighborsClassifier, KernelRidge
from mercer import kernels as mk
from mercer.errors import ConvergenceWarning
from mercer.gram import gram
from mercer.linalg import safe_cholesky

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
LIMIT = {"float32": 1e-5, "float64": 1e-10}
MIXED = 2 * mk.RBF(3.0) + mk.Matern(1.5, 3.0) * mk.Linear()


@pytest.fixture(autouse=True)
def gpu():
    """torch, if it sees a GPU."""
    if not find_spec("torch"):
        pytest.skip("needs torch")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return torch


def limit(case, dtype, operation=None):
    least = TOLERANCE[operation][dtype] if operation else 0.0
    return max(LIMIT[dtype], least, TOLERANCE["angle"][dtype] if case.angle else 0.0)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("case", kernel_cases(), ids=str)
def test_every_kernel(case, dtype):
    for cross in (True, False):
        K, R = case.gram("cuda", dtype, cross), case.gram("reference", dtype, cross)
        dense, V = R.dense().astype(float), np.random.default_rng(2).standard_normal((K.shape[1], 3)).astype(dtype)
        close(K.dense(), dense, limit(case, dtype))
        close(K @ V, dense @ V, limit(case, dtype))
        close(K @ V[:, 0], dense @ V[:, 0], limit(case, dtype))
        W = np.ones((K.shape[0], 1)), V[:, :1].astype(float)
        for name, value in R.pullback(W).items():
            close(K.pullback(W)[name], value, limit(case, dtype, "gradient"), name)


@pytest.mark.parametrize("dtype", LIMIT)
def test_reductions(dtype):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 7)).astype(dtype), rng.standard_normal((5000, 7)).astype(dtype)
    K, dense = gram(MIXED, X, Y, engine="cuda"), gram(MIXED, X, Y, engine="reference").dense().astype(float)
    close(K.reduce("sum"), dense.sum(1), LIMIT[dtype])
    close(K.reduce("max"), dense.max(1), LIMIT[dtype])
    close(K.reduce("logsumexp"), np.log(np.exp(dense - dense.max()).sum(1)) + dense.max(), LIMIT[dtype])
    close(K.reduce("argmin")[0], dense.min(1), LIMIT[dtype])
    close(K.reduce("topk", k=5)[0], -np.sort(-dense, axis=1)[:, :5], LIMIT[dtype])
    close(K.engine.cross(K.x, K.y, np.ones((300, 2))), np.ones((2, 300)) @ dense, LIMIT[dtype])


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("m", [4096, 5003])
def test_many_columns(m, dtype):
    """Whole tiles have a loop of their own."""
    rng = np.random.default_rng(0)
    X, Y, V = (rng.standard_normal(shape).astype(dtype) for shape in ((300, 7), (m, 7), (m, 20)))
    for kernel in (MIXED, mk.RBF(3.0), mk.RBF(3.0) + mk.RBF(2.0)):
        K, dense = gram(kernel, X, Y, engine="cuda"), gram(kernel, X, Y, engine="reference").dense().astype(float)
        for columns in (slice(0, 1), slice(0, 3), slice(0, 8), slice(0, 20)):
            close(K @ V[:, columns], dense @ V[:, columns], LIMIT[dtype])
        rough = gram(kernel, X, Y, engine=Engine("cuda", precision="fast"))
        close(rough @ V[:, :3], dense @ V[:, :3], 5e-3)


@pytest.mark.parametrize("d", [28, 90])
def test_speed_keeps_the_transpose(d):
    """Conjugate gradients on K^T K break down where products with K and with its transpose are rounded in other ways."""
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((n, d)).astype(np.float32) for n in (200, 4500))
    K = gram(mk.RBF(float(d) ** 0.5), X, Y, engine=Engine("cuda", precision="fast"))
    there, back = (side @ np.eye(n, 8, dtype=np.float32) for side, n in ((K, 4500), (K.T, 200)))
    close(there[:8], back[:8].T, 2e-6)
    close(there[:8], K.dense()[:8, :8], 2e-6)


@pytest.mark.parametrize("d", [1, 17, 65, 90, 784, 2000])
def test_widths(d):
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((n, d)).astype(np.float32) for n in (129, 257))
    k, v = mk.RBF(float(d) ** 0.5) + mk.Laplacian(float(d) ** 0.5), rng.random(257, dtype=np.float32)  # nothing cancels
    exact = gram(k, X.astype(float), Y.astype(float), engine="reference").dense() @ v
    for precision, tolerance in (("accurate", 1e-6), ("fast", 5e-3), ("float64", 1e-6)):
        close(gram(k, X, Y, engine=Engine("cuda", precision=precision)) @ v, exact, tolerance, precision)


def test_tensors_stay_where_they_are(gpu):
    X = gpu.randn(50, 3, device="cuda")
    K = MIXED.gram(X)
    found = K @ X
    assert found.device == X.device
    assert K.dense().device == K.diag().device == K.reduce("argmin")[1].device == X.device
    close(found.cpu(), MIXED(X.cpu().numpy()) @ X.cpu().numpy(), 1e-5)
    with pytest.raises(ValueError, match="one device"):
        MIXED.gram(X, X.cpu())


def test_the_process_may_be_set_to_tf32(gpu):
    before = gpu.get_float32_matmul_precision()
    gpu.set_float32_matmul_precision("medium")
    try:
        X = np.random.default_rng(0).standard_normal((200, 50)).astype(np.float32)
        found = gram(mk.Linear() / 50, X, engine="cuda")
        close(found.dense(), X.astype(float) @ X.T / 50, 1e-6)
        W = np.random.default_rng(1).standard_normal((200, 200))
        close(found.pullback_inputs(W), gram(mk.Linear() / 50, X, engine="reference").pullback_inputs(W), 1e-5)
        assert gpu.get_float32_matmul_precision() == "medium"
    finally:
        gpu.set_float32_matmul_precision(before)


def test_repetition_is_exact():
    X = np.random.default_rng(0).standard_normal((100_000, 10)).astype(np.float32)
    K = gram(mk.RBF(3.0), X, X[:2000] + np.float32(1), engine=Engine("cuda", deterministic=True))
    assert np.array_equal(K @ X[:2000], K @ X[:2000])


# ---------------------------------------------------------------------------------------------- solvers
def data(n=3000, d=5):
    X = np.random.default_rng(0).standard_normal((n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2


def test_factors(gpu):
    X, y = data()
    K = gram(mk.RBF(1.5), X, engine="cuda")
    here, there = safe_cholesky(K.dense(), shift=0.1), safe_cholesky(K.matrix(), shift=0.1, overwrite=True)
    close(there.solve(y), here.solve(y), 1e-9)
    close(there.diag_inverse(), here.diag_inverse(), 1e-9)
    assert there.logdet() == pytest.approx(here.logdet(), rel=1e-11)
    assert there.array.device.type == "cuda"
    close(there.inverse(overwrite=True).cpu(), here.inverse(), 1e-9)


@pytest.mark.parametrize("options", [{"solver": "exact"}, {"solver": "cg"}, {"n_landmarks": 200}], ids=str)
def test_ridge(options):
    X, y = data()
    model = KernelRidge(kernel=mk.RBF(1.5), alpha=0.1, random_state=0, **options)
    here, there = (model.set_params(engine=e).fit(X, y).predict(X) for e in ("cpu", "cuda"))
    close(there, here, 1e-5)


def test_rows_on_the_gpu_are_fitted_there(gpu):
    X, y = data(500)
    there = (gpu.tensor(part, device="cuda") for part in (X, y))
    asked = KernelRidge(kernel=mk.RBF(1.5), alpha=0.1, engine="cuda").fit(X, y)
    model = KernelRidge(kernel=mk.RBF(1.5), alpha=0.1).fit(*there)
    close(model.predict(gpu.tensor(X, device="cuda")), asked.predict(X), 1e-12)
    centred, plain = (gram(mk.RBF(1.5), part).centred() for part in (gpu.tensor(X, device="cuda"), X))
    close((centred @ gpu.tensor(X, device="cuda")).cpu(), plain @ X, 1e-9)


@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_sent_while_the_card_works(kept, monkeypatch):
    """More rows than it holds: their blocks come by another stream, and their memory is used again."""
    from mercer.approx import sweeps

    monkeypatch.setattr(sweeps, "_AT_ONCE", 4000)
    monkeypatch.setattr(sweeps, "_KEPT", 4 if kept else 2**60)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 5)).astype(np.float32)
    y = np.sin(X[:, 0])
    here, there = (KernelRidge(kernel=mk.RBF(1.5) + mk.Matern(1.5, 2.0), alpha=3.0, n_landmarks=300, engine=e, random_state=0,
                               tol=1e-5).fit(X, y).predict(X[:500]) for e in ("cpu", "cuda"))  # fmt: skip
    close(there, here, 2e-4)


def test_landmarks_that_share_a_matrix(monkeypatch):
    monkeypatch.setattr("mercer.approx.centres.MOST_SAMPLED", 100)
    X, y = data()
    fits = (KernelRidge(kernel=mk.RBF(1.5), alpha=3.0, n_landmarks=300, engine=e, random_state=0, tol=1e-10).fit(X, y)
            for e in ("cpu", "cuda"))  # fmt: skip
    here, there = fits
    close(there.predict(X), here.predict(X), 1e-5)


_NEAR_AND_FAR = np.array([[0.0, 0.5, 1.0], [1.0, -2.0, 0.3], [200.0, 0.0, 0.0]])


@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "tricube"])
def test_densities(kernel):
    X, T = np.random.default_rng(0).standard_normal((3000, 3)), _NEAR_AND_FAR
    asked, plain = (KernelDensity(0.5, kernel=kernel, engine=e).fit(X) for e in ("cuda", None))
    assert "tiles: all pairs at once on cuda" in asked.explain()
    np.testing.assert_allclose(asked.score_samples(T), plain.score_samples(T), rtol=1e-9)


def test_densities_of_few_digits():
    """TF32 keeps 10 bits of each entry: a squared distance is off by 2^-9 of the squared norms, in units of the bandwidth."""
    X, T = np.random.default_rng(0).standard_normal((3000, 3)), _NEAR_AND_FAR
    fast = KernelDensity(2.0, engine=Engine("cuda", precision="fast")).fit(X)
    np.testing.assert_allclose(fast.score_samples(T), KernelDensity(2.0).fit(X).score_samples(T), rtol=0, atol=5e-3)


def test_neighbours():
    X, T = (np.random.default_rng(i).standard_normal((5000, 3)).astype(np.float32) for i in range(2))
    asked, plain = (KernelNeighborsClassifier(7, engine=e).fit(X, X[:, 0] > 0) for e in ("cuda", None))
    assert (asked.solver_used_, plain.solver_used_) == ("brute", "tree")
    for a, b in zip(asked.kneighbors(T), plain.kneighbors(T), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evidence():
    X, y = data(2000)
    with pytest.warns(ConvergenceWarning, match="ended early"):
        here, there = (
            GaussianProcessRegressor(kernel=mk.RBF([1.0] * 5), alpha=0.1, engine=e, max_iter=5).fit(X, y)
            for e in ("cpu", "cuda")
        )
    assert there.log_marginal_likelihood_value_ == pytest.approx(here.log_marginal_likelihood_value_, rel=1e-6)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_support_vector_machines(multi_class):
    X, y = load_digits(return_X_y=True)
    options = {"C": 5.0, "kernel": mk.RBF(20.0), "tol": 1e-4, "multi_class": multi_class}
    here, there = (SVC(engine=e, **options).fit(X.astype(np.float32), y) for e in ("cpu", "cuda"))
    close(there.decision_function(X), here.decision_function(X), 1e-3)
    assert there.violation_.max() <= 1.5e-4


def test_little_memory(gpu):
    """F32: blocks of rows are halved, and then there is an error or the CPU."""
    X = np.random.default_rng(0).standard_normal((60_000, 50)).astype(np.float32)
    K = gram(mk.RBF(7.0), X, engine="cuda")
    exact = K @ X[:, :1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.engines._triton_run.why_not", lambda *arguments: "tiles in this test")
        W = np.ones((len(X), 1)), X[:2000, :1]
        G = gram(mk.RBF(7.0), X, X[:2000] + np.float32(1), engine="cuda")
        slope = G.pullback(W)["lengthscale"]
        gpu.cuda.empty_cache()
        gpu.cuda.set_per_process_memory_fraction(0.004)
        try:
            close(K @ X[:, :1], exact, 1e-4)
            close(G.pullback(W)["lengthscale"], slope, 1e-4)
        finally:
            gpu.cuda.set_per_process_memory_fraction(1.0)
