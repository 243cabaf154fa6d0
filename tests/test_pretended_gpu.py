"""On a GPU that is not there: nothing is left behind on the host, and no more of its memory is taken than is said.

The tests of tests/test_gpu.py run on it, but for those of arithmetic and speed: tiles by torch, on the host in truth.
"""

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

if not find_spec("torch"):
    pytest.skip("needs torch", allow_module_level=True)

import torch

import test_gpu
import test_tensors
from cases import close
from estimator_cases import ESTIMATOR_CASES
from mercer import (
    SVC,
    Engine,
    GaussianProcessRegressor,
    KernelCCA,
    KernelPCA,
    KernelRidge,
    OneClassSVM,
    load,
    mmd_test,
    save,
)
from mercer import kernels as mk
from mercer.engines import CudaEngine
from mercer.errors import EngineWarning, MemoryBudgetError, ModelFileError
from mercer.gram import gram
from mercer.linalg import tensors
from mercer.persist.values import restored
from mercer.solvers import batch_smo
from pretend import Memory, import_interpreter, interpret, pretend_gpu

if find_spec("triton"):
    import_interpreter()

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a real GPU: tests/test_gpu.py uses it")

SHARED = (
    "test_every_kernel", "test_reductions", "test_many_columns", "test_widths", "test_tensors_stay_where_they_are",
    "test_the_process_may_be_set_to_tf32", "test_factors", "test_ridge",
    "test_rows_on_the_gpu_are_fitted_there", "test_rows_are_sent_while_the_card_works",
    "test_landmarks_that_share_a_matrix", "test_densities", "test_densities_of_few_digits", "test_neighbours",
    "test_support_vector_machines",
)  # fmt: skip
OF_TENSORS = ("test_what_is_made_of_grams_of_tensors", "test_diagnostics_take_tensors")
globals().update({name: getattr(test_gpu, name) for name in SHARED})
globals().update({name: getattr(test_tensors, name) for name in OF_TENSORS})


@pytest.fixture
def device():
    return "cuda"


BOTH = 2 * mk.RBF(3.0) + mk.Matern(1.5, 3.0) * mk.Linear()


@pytest.fixture(autouse=True)
def gpu(request, monkeypatch):
    """torch with a GPU. A test that asks for `interpreted` has generated kernels there, too."""
    with pretend_gpu(monkeypatch, interpret if "interpreted" in request.fixturenames else None):
        yield torch


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    tl = pytest.importorskip("triton.language", reason="needs Triton")
    if "Interpreted" not in type(tl.max).__name__:
        pytest.skip("Triton was imported for a GPU before")


def rows(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


# ---------------------------------------------------------------------------------------------- it refuses what a GPU refuses
def test_tensors_of_two_devices_do_not_meet():
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    for meet in (
        lambda: here + there, lambda: there @ here, lambda: torch.cat([here, there]), lambda: torch.where(there > 0, there, here),
        lambda: here[there.long()], lambda: there.add_(here), lambda: there.index_put_((here.long(),), here),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="same device"):
            meet()
    for array in (there.numpy, lambda: np.asarray(there), lambda: np.sqrt(there)):
        with pytest.raises(TypeError, match="to numpy"):
            array()
    there[:2] = here[:2]  # copies may
    assert (there * here[0] + there[here[:1].long()]).cpu().tolist() == [2.0, 2.0, 2.0]
    assert there.device == here.to("cuda").device == here.to(there).device == torch.zeros_like(there).device
    assert not there.cpu().is_cuda


def test_kernels_do_not_read_the_host(interpreted, monkeypatch):
    from mercer.engines import _triton_run

    monkeypatch.setattr(_triton_run, "_constants", lambda place, values: torch.tensor([0.0]))
    with pytest.warns(EngineWarning, match="cannot be accessed from Triton"):
        gram(mk.RBF(), rows(5), engine="cuda") @ np.ones(5)


def test_memory_is_counted_while_it_is_used(monkeypatch):
    with pretend_gpu(monkeypatch, memory=Memory(1000)) as memory:
        one = torch.zeros(100, device="cuda")
        part, square = one[:50], one.reshape(10, 10).T
        assert (memory.now, torch.cuda.mem_get_info()) == (400, (600, 1000))
        del one, square
        assert memory.now == 400  # the part holds all of it
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(200, device="cuda")
        del part
        assert (memory.now, memory.most) == (0, 400)


# ---------------------------------------------------------------------------------------------- generated kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_generated_kernels_find_all_they_read(interpreted, dtype):
    """Products, tiles, reductions and slopes: rows, constants, tables and right-hand sides lie on the GPU."""
    X, Y, V = rows(40).astype(dtype), rows(70, seed=1).astype(dtype), rows(70, 3, 2).astype(dtype)
    kernel = BOTH + mk.Matern(0.7) * mk.Laplacian(2.0, metric="l1") + mk.White(0.3)
    for other in (None, Y):
        K, R = (gram(kernel, X, other, engine=e) for e in ("cuda", "reference"))
        dense, some = R.dense().astype(float), V[: K.shape[1]]
        tolerance = 1e-5 if dtype == "float32" else 1e-10
        assert K.engine.fusible(K.x, [K.x.lowered.expression])
        close(K.dense(), dense, tolerance)
        close(K @ some, dense @ some, tolerance)
        close(K @ np.repeat(some, 4, axis=1), dense @ np.repeat(some, 4, axis=1), tolerance)
        close(K.engine.cross(K.x, K.y, np.ones((40, 1))), dense.sum(0)[None], tolerance)
        for op, expected in (("sum", dense.sum(1)), ("max", dense.max(1)), ("logsumexp", np.log(np.exp(dense).sum(1)))):
            close(K.reduce(op), expected, tolerance)
        close(K.reduce("argmin")[0], dense.min(1), tolerance)
        W = np.ones((40, 1)), some[:, :1]
        for name, value in R.pullback(W).items():
            close(K.pullback(W)[name], value, 50 * tolerance, name)


@pytest.mark.parametrize("options", [{"solver": "exact"}, {"n_landmarks": 20, "tol": 1e-9}], ids=str)
def test_ridge_by_generated_kernels(interpreted, options):
    X = rows(90)
    here, there = (
        KernelRidge(kernel=mk.RBF(1.5) + mk.Matern(1.5, 2.0), alpha=1.0, random_state=0, engine=e, **options).fit(
            X, X[:, 0]
        )
        for e in ("cpu", "cuda")
    )
    close(there.predict(X), here.predict(X), 1e-6)


def test_machines_by_the_solvers_kernel(interpreted, monkeypatch):
    monkeypatch.setattr(batch_smo, "_BLOCK", 16)
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:90].astype(np.float32), y[:90]
    here, there = (SVC(C=5.0, kernel=mk.RBF(20.0), tol=1e-4, engine=e).fit(X, y) for e in ("cpu", "cuda"))
    close(there.decision_function(X), here.decision_function(X), 1e-3)


def test_a_gram_of_zeros_reaches_the_solvers_kernel(interpreted):
    """Its smallest curvature is a number that Triton knows."""
    SVC(kernel="linear", engine="cuda").fit(np.zeros((4, 2)), [0, 1, 0, 1])


# ---------------------------------------------------------------------------------------------- estimators
def fits():
    """Every estimator by turns asked for the GPU, and given rows that lie there; the other of the two is slow."""
    suited = [c for c in ESTIMATOR_CASES if "engine" in c.estimator.get_params() and not c.precomputed]
    for number, case in enumerate(suited):
        for turn, how in enumerate(("asked", "rows")):
            slow = () if turn == number % 2 else pytest.mark.slow
            yield pytest.param(case, how, marks=slow, id=f"{case}-{how}")


@pytest.mark.filterwarnings("ignore")  # both say the same, which other tests see
@pytest.mark.parametrize(("case", "how"), list(fits()))
def test_estimators_answer_as_on_the_host(case, how):
    (X, y), T, model = case.data(), rows(11, 3, 5), case.precise()
    here = case.answer(clone(model).fit(X, y), T)
    if how == "asked":
        there = case.answer(clone(model).set_params(engine="cuda").fit(X, y), T)
    else:
        there = case.answer(clone(model).fit(torch.tensor(X, device="cuda"), y), torch.tensor(T, device="cuda"))
    assert type(there) is np.ndarray
    close(np.nan_to_num(there), np.nan_to_num(here), 1e-6)  # a density may be 0, and its logarithm -inf


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(solver="exact"),
        KernelRidge(n_landmarks=50),
        SVC(),
        GaussianProcessRegressor(optimizer=None),
        KernelPCA(2),
    ],
    ids=str,
)
def test_estimators_work_where_their_rows_lie(model, monkeypatch):
    X, y = rows(300), (rows(300)[:, 0] > 0).astype(float)
    there = torch.tensor(X, device="cuda")
    with pretend_gpu(monkeypatch) as memory:
        model = clone(model).set_params(kernel=mk.RBF(2.0))
        model.fit(X, y)
        assert memory.most == 0
        model.fit(there, y)
        assert memory.most > 20 * X.nbytes  # tiles, not the rows alone
        if hasattr(model, "explain"):
            assert "on cuda:0" in clone(model).explain(there)
        before = memory.now
        model.set_params(engine="cpu").fit(there, y)  # what is asked for counts
        assert memory.now <= before
        if hasattr(model, "explain"):
            assert "on cuda:0" not in model.explain(there)
        model.set_params(engine=None).fit(X, y)
        assert "cuda" not in repr(vars(model))


@pytest.mark.parametrize("model", [KernelRidge(), KernelRidge(n_landmarks=10, random_state=0), SVC()], ids=str)
def test_targets_and_weights_may_lie_there(model):
    X, w = rows(60), np.random.default_rng(1).random(60)
    y = (X[:, 0] > 0).astype(int) if isinstance(model, SVC) else X[:, 0]
    model = clone(model).set_params(kernel=mk.RBF(2.0))
    here = clone(model).fit(X, y, sample_weight=w)
    X_there, y_there, w_there = (torch.tensor(part, device="cuda") for part in (X, y, w))
    there = model.fit(X_there, y_there, sample_weight=w_there)
    assert there.score(X_there, y_there, w_there) == pytest.approx(here.score(X, y, w), rel=1e-9)
    close(there.predict(X_there), here.predict(X), 1e-6)


def test_second_views_and_samples_may_lie_there():
    X, Y, Z = rows(40), rows(40, 2, 1), rows(30, 3, 2)
    X_there, Y_there, Z_there = (torch.tensor(part, device="cuda") for part in (X, Y, Z))
    pairs = (KernelCCA(1).fit(*views) for views in ((X_there, Y_there), (X, Y)))
    assert next(pairs).correlations_ == pytest.approx(next(pairs).correlations_, rel=1e-6)
    there, here = (mmd_test(*samples, random_state=0) for samples in ((X_there, Z_there), (X, Z)))
    assert (there.p_value, there.statistic) == (here.p_value, pytest.approx(here.statistic, rel=1e-9))


def test_models_of_rows_on_a_gpu_go_elsewhere(tmp_path, monkeypatch):
    """Copies know the GPU, files and clones do not; where it is gone the CPU goes on."""
    X, y = rows(60), rows(60)[:, 0]
    with pretend_gpu(monkeypatch) as memory:
        model = KernelRidge(kernel=mk.RBF(2.0)).fit(torch.tensor(X, device="cuda"), y)
        answer = model.predict(X)
        save(model, tmp_path / "model.mercer")
        copied, loaded = pickle.loads(pickle.dumps(model)), load(tmp_path / "model.mercer")
        memory.most = 0
        close(loaded.predict(X), answer, 1e-12)
        with pytest.raises(ModelFileError, match="_device"):
            restored(KernelRidge, {**vars(loaded), "_device": "cuda:7"})
        clone(model).fit(X, y)
        assert memory.most == 0
        close(copied.predict(X), answer, 1e-12)
        assert memory.most > 0


# ---------------------------------------------------------------------------------------------- memory
@pytest.fixture
def small_blocks(monkeypatch):
    """What is held besides matrices is small against them, as with many rows."""
    monkeypatch.setattr(tensors, "BLOCK", 32)
    monkeypatch.setattr(CudaEngine, "tile_shape", (64, 256))
    monkeypatch.setattr(batch_smo, "_BLOCK", 64)


@pytest.mark.parametrize(
    ("model", "dtype", "numbers"),
    [
        (KernelRidge(kernel=mk.RBF(2.0), alpha=0.1, solver="exact"), "float64", 1000**2),
        (KernelRidge(kernel=mk.RBF(2.0), alpha=0.1, solver="exact"), "float32", 1000**2),
        (KernelRidge(kernel=mk.RBF(2.0), alpha=10.0, solver="cg"), "float64", 400**2),
        (GaussianProcessRegressor(kernel=mk.RBF([2.0] * 3), alpha=0.1, max_iter=1), "float64", 1000**2),
        (SVC(kernel=mk.RBF(2.0)), "float64", 1000**2),
        (SVC(kernel=mk.RBF(2.0)), "float32", 1000**2),
        (OneClassSVM(kernel=mk.RBF(2.0)), "float64", 300**2),
        (KernelPCA(3, kernel=mk.RBF(2.0)), "float64", 300**2),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.kernel}" if hasattr(value, "kernel") else str(value),
)
@pytest.mark.filterwarnings("ignore:the search of the kernel's parameters ended early")
@pytest.mark.usefixtures("small_blocks")
def test_matrices_on_the_gpu_are_as_many_as_the_guide_says(model, dtype, numbers, monkeypatch):
    """docs/gpu.md, "Solvers"."""
    X = rows(1000).astype(dtype)
    y = (X[:, 0] > 0).astype(int) if isinstance(model, SVC) else X[:, 0]
    with pretend_gpu(monkeypatch) as memory:
        model.set_params(engine="cuda").fit(X, y)
        assert 0 < memory.most < 1.25 * numbers * np.dtype(dtype).itemsize


def test_blocks_are_halved_until_they_fit(monkeypatch):
    """F32. A tile of 4096 x 500 numbers takes 16 MB, and some steps several of them."""
    X, Y = rows(5000, 4), rows(500, 4, 1)
    dense = gram(BOTH, X, Y, engine="reference").dense()
    for limit in (200e6, 50e6, 20e6):
        with pretend_gpu(monkeypatch, memory=Memory(limit)) as memory:
            K = gram(BOTH, X, Y, engine="cuda")
            close(K @ np.ones(500), dense.sum(1), 1e-11)
            close(K.dense(), dense, 1e-11)
            close(K.reduce("max"), dense.max(1), 1e-11)
            close(K.engine.cross(K.x, K.y, np.ones((5000, 1))), dense.sum(0)[None], 1e-11)
            W = np.ones((5000, 1)), np.ones((500, 1))
            close(K.pullback_inputs(W), gram(BOTH, X, Y).pullback_inputs(W), 1e-9)
            del K
            assert memory.now < 1e6  # nothing is left of what did not fit


def test_too_little_memory_is_said(monkeypatch):
    X, Y = rows(5000, 4), rows(500, 4, 1)
    with pretend_gpu(monkeypatch, memory=Memory(1.5e6)):
        with pytest.raises(MemoryBudgetError, match=r"cuda:0 has no memory for \d+ rows of the Gram"):
            gram(BOTH, X, Y, engine="cuda") @ np.ones(500)
        K = gram(BOTH, X, Y, engine=Engine("cuda", on_oom="cpu"))
        with pytest.warns(EngineWarning, match="The CPU goes on"):
            close(K @ np.ones(500), gram(BOTH, X, Y) @ np.ones(500), 1e-11)


def test_plans_know_the_memory_of_the_gpu(monkeypatch):
    X, y = rows(2000), rows(2000)[:, 0]
    refused = pytest.raises(MemoryBudgetError, match=r"the memory budget on cuda:0 is 7\.6 MB")
    with pretend_gpu(monkeypatch, memory=Memory(8e6)), refused:
        KernelRidge(kernel=mk.RBF(2.0), solver="exact", engine="cuda").fit(X, y)
    with pretend_gpu(monkeypatch, memory=Memory(1.5 * 8 * 2000**2)):
        plan = GaussianProcessRegressor(kernel=mk.RBF(2.0), engine="cuda").explain(X)
        assert "exact: an n x n matrix fits the memory budget" in plan
        assert "on cuda:0" in plan


@pytest.mark.parametrize(("memory", "limit"), [(None, 4e6), ("2MB", 2**30)], ids=str)
@pytest.mark.usefixtures("small_blocks")
def test_machines_hold_no_more_of_the_gram_than_they_may(memory, limit, monkeypatch):
    """Rows of it are made where the whole has no room, on the GPU or in what it was given."""
    X, y = rows(1000), rows(1000)[:, 0] > 0
    here = SVC(kernel=mk.RBF(2.0), tol=1e-5).fit(X, y)
    with pretend_gpu(monkeypatch, memory=Memory(limit)) as held:
        there = SVC(kernel=mk.RBF(2.0), tol=1e-5, engine="cuda", memory=memory).fit(X, y)
        assert held.most < 2e6
        close(there.decision_function(X), here.decision_function(X), 1e-3)


def test_gradients_go_on_without_memory(monkeypatch):
    X, W = rows(3000), rows(3000, 2, 1)
    with pretend_gpu(monkeypatch, memory=Memory(3e6)):
        K = gram(BOTH, X, X[:500], engine=Engine("cuda", on_oom="cpu"))
        expected = gram(BOTH, X, X[:500])
        with pytest.warns(EngineWarning, match="The CPU goes on"):
            found = K.pullback((W, W[:500]))
        for name, value in expected.pullback((W, W[:500])).items():
            close(found[name], value, 1e-9, name)
        close(K.pullback_inputs((W, W[:500])), expected.pullback_inputs((W, W[:500])), 1e-9)
        whole = rows(3000, 500, 2)  # weights of all pairs that lie on the GPU, as those of an evidence do
        there = torch.tensor(whole[:, :100], device="cuda")
        part = K[:, :100]
        close(
            part.engine.pullback_inputs(part.x, part.y, there), expected[:, :100].pullback_inputs(whole[:, :100]), 1e-9
        )
