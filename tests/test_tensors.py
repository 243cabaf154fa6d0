"""torch: tensors in, tensors out; options; what happens without a GPU, without memory, without torch."""

import dataclasses
import gc
import logging
import pickle
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp

from cases import close
from mercer import Engine, KernelRidge
from mercer import kernels as mk
from mercer.diagnostics import alignment, check_kernel, repair, spectrum
from mercer.engines import CudaEngine, get_engine
from mercer.errors import EngineWarning, MemoryBudgetError, NanError
from mercer.gram import Diagonal, gram

if not find_spec("torch"):
    pytest.skip("needs torch", allow_module_level=True)

import torch

from mercer.engines import _tensor_tiles, tensors

K = 2 * mk.RBF(0.7) + mk.Linear()
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(tensors, "_said", set())


def rows(n, d=3, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


# ---------------------------------------------------------------------------------------------- tensors
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("engine", [None, "torch", "cpu", Engine("torch", precision="float64")], ids=str)
def test_tensors_in_tensors_out(engine, dtype):
    """Every verb, whoever computes; the numbers are those of arrays."""
    X, Y = rows(20, dtype=dtype), rows(9, dtype=dtype, seed=1)
    T, A = K.gram(torch.tensor(X), torch.tensor(Y), engine=engine), K.gram(X, Y, engine="reference")
    V = rows(9, 2, dtype, 2)
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    found = {
        "dense": (T.dense(), A.dense()), "matmul": (T @ torch.tensor(V), A.dense() @ V),
        "one": (T @ torch.tensor(V[:, 0]), A.dense() @ V[:, 0]),
        "rows": (T.rows([3, 1]), A.dense()[[3, 1]]), "block": (T.block([3], [1, 2]), A.dense()[[3]][:, [1, 2]]),
        "turned": (T.T.dense(), A.dense().T), "sliced": (T[2:5].dense(), A.dense()[2:5]),
        "sum": (T.reduce("sum"), A.dense().sum(1)),
        "within": (T.reduce("within", radius=1.0)[0], A.reduce("within", radius=1.0)[0]),
        "least": (T.reduce("argmin")[1], A.dense().argmin(1)), "top": (T.reduce("topk", k=2)[0], -np.sort(-A.dense(), 1)[:, :2]),
        "diagonal": (K.diag(torch.tensor(X)), K.diag(X)), "mixed diagonal": (T.diag(), np.diag(A.dense()[:9])),
        "distance": (K.distance(torch.tensor(X), torch.tensor(Y)), K.distance(X, Y)), "called": (K(torch.tensor(X)), K(X)),
        "slope": (T.pullback((torch.tensor(V[:, :1]).new_ones(20, 1), torch.tensor(V[:, :1])))["rbf__lengthscale"],
                  A.pullback((np.ones((20, 1)), V[:, :1]))["rbf__lengthscale"]),
        "inputs": (T.pullback_inputs(torch.ones(20, 9)), A.pullback_inputs(np.ones((20, 9)))),
    }  # fmt: skip
    for name, (tensor, array) in found.items():
        assert isinstance(tensor, torch.Tensor), name
        close(tensor, array, max(tolerance, 1e-3 if name in ("slope", "inputs") and dtype == "float32" else 0.0), name)
    assert str(T.dense().dtype) == str((T @ torch.tensor(V)).dtype) == f"torch.{dtype}"
    assert T.trace() == pytest.approx(np.trace(A.dense()[:9]), rel=1e-5)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_no_rows_and_no_columns(engine):
    G = gram(K, rows(9), rows(5, seed=1), engine=engine)
    for op, options in (("sum", {}), ("max", {}), ("logsumexp", {}), ("argmin", {}), ("topk", {"k": 2})):
        found = G[:0].reduce(op, **options)
        assert all(len(part) == 0 for part in (found if isinstance(found, tuple) else (found,))), op
    assert [len(part) for part in G[:0].reduce("within", radius=1.0)] == [1, 0, 0]
    with pytest.raises(ValueError, match="the Gram has no columns"):
        G[:, :0].reduce("max")


def test_slopes_of_the_diagonal():
    X, v = rows(9), np.arange(9.0)
    k = mk.Polynomial(2, 0.5, 1.0).centre() + K
    found, exact = k.gram(torch.tensor(X)).pullback_diag(torch.tensor(v)), k.gram(X).pullback_diag(v)
    for name, value in exact.items():
        assert isinstance(found[name], torch.Tensor)
        close(found[name], value, 1e-11, name)


def test_products_of_tensors_keep_the_wider_precision():
    T = K.gram(torch.tensor(rows(5, dtype="float32")))
    assert (T @ torch.ones(5, dtype=torch.float64)).dtype == torch.float64
    assert (T @ torch.ones(5, dtype=torch.int64)).dtype == torch.float32
    assert (T @ np.ones((5, 2, 2), "float32")).shape == (5, 2, 2)


@pytest.fixture
def device():
    return "cpu"


@pytest.mark.parametrize(
    "make",
    [
        lambda K, L, v: K.centred(),
        lambda K, L, v: L.centred(K),
        lambda K, L, v: K + Diagonal(0.5),
        lambda K, L, v: K + Diagonal(v),
    ],
)
def test_what_is_made_of_grams_of_tensors(make, device):
    """Centred, or with a diagonal: tensors in, tensors out."""
    X, Y, v, V = rows(20), rows(7, seed=1), rows(20)[:, 0], rows(20, 2, seed=2)
    here = make(gram(K, X), gram(K, Y, X), v)
    T, S, t, U = (torch.tensor(part, device=device) for part in (X, Y, v, V))
    there = make(gram(K, T), gram(K, S, T), t)
    assert (there.shape, there.dtype) == (here.shape, here.dtype)
    for verb in (
        lambda A, W: A @ W, lambda A, W: A @ W[:, 0], lambda A, W: A.dense(), lambda A, W: A.diag(), lambda A, W: A.rows([3, 5]),
    ):  # fmt: skip
        found = verb(there, U)
        assert found.device.type == device
        close(found.cpu(), verb(here, V), 1e-12)
    assert there.trace() == pytest.approx(here.trace(), rel=1e-12)
    with pytest.raises(ValueError, match="requires a gradient"):
        there @ torch.ones(20, device=device).requires_grad_()


def test_diagnostics_take_tensors(device):
    X = rows(20)
    there, here = (gram(K, part) for part in (torch.tensor(X, device=device), X))
    close(spectrum(there), spectrum(here), 1e-12)
    close(repair(there.dense()).matrix, repair(here).matrix, 1e-12)
    y = torch.tensor(X[:, 0], device=device)
    assert alignment(there, y) == pytest.approx(alignment(here, X[:, 0]), rel=1e-9)
    assert check_kernel(K, torch.tensor(X, device=device)).ok
    assert check_kernel(there.dense()).ok


def test_views_that_are_not_contiguous():
    X = torch.tensor(rows(8, 6))
    for part in (X.T[:3].T, X[::2], X[:, ::2]):
        close(mk.RBF()(part), mk.RBF()(part.numpy().copy()), 1e-13)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (torch.ones(3, 2, requires_grad=True), ValueError, r"X requires a gradient.*X.detach\(\)"),
        (torch.ones(3, 2, dtype=torch.float16), ValueError, r"torch.float16.*X.float\(\)"),
        (torch.ones(3, 2, dtype=torch.bfloat16), ValueError, "torch.bfloat16"),
        (torch.ones(3, 2).to_sparse(), TypeError, "sparse tensor"),
        (torch.tensor([[1.0, float("nan")]]), ValueError, "NaN"),
        (torch.ones(0, 2), ValueError, "0 sample"),
        (torch.ones(3), ValueError, "1D array"),
    ],
)
def test_tensors_that_cannot_be_used(X, kind, message):
    with pytest.raises(kind, match=message):
        mk.RBF()(X)


def test_right_hand_sides_that_cannot_be_used():
    T = mk.RBF().gram(torch.tensor(rows(5)))
    for V, message in (
        (torch.ones(4), "cannot multiply 5 x 5"),
        (torch.ones(5, requires_grad=True), "V requires a gradient"),
    ):
        with pytest.raises(ValueError, match=message):
            T @ V
    with pytest.raises(ValueError, match="X on cpu and V on meta do not"):
        T @ torch.ones(5, device="meta")
    with pytest.raises(ValueError, match="X on cpu and Y on meta do not"):
        mk.RBF().gram(torch.ones(3, 2), torch.ones(3, 2, device="meta"))


def test_integers_are_numbers():
    close(mk.RBF()(torch.tensor([[1, 2], [3, 4]])), mk.RBF()(np.array([[1, 2], [3, 4]])), 1e-15)


def test_estimators_take_tensors():
    X, y = rows(30), rows(30)[:, 0]
    model, same = (KernelRidge(kernel=K).fit(*pair) for pair in ((X, y), (torch.tensor(X), torch.tensor(y))))
    assert np.array_equal(model.predict(X), same.predict(torch.tensor(X)))
    on_torch = KernelRidge(kernel=K, engine="torch").fit(X, y)
    close(pickle.loads(pickle.dumps(on_torch)).predict(X), model.predict(X), 1e-9)


# ---------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Engine("torch", precision="half"), "precision='half' is not known; there are 'accurate', 'fast', 'float64'"),
        (Engine("torch", on_oom="halve"), "on_oom='halve'"),
        (Engine("torch", deterministic="yes"), "deterministic='yes'"),
        (
            Engine("cpu", precision="fast"),
            "precision='fast' means nothing to the engine 'cpu'; its options are: threads",
        ),
        (Engine("reference", deterministic=True), "deterministic=True means nothing"),
        (Engine("torch", threads=2), "threads=2 means nothing to the engine 'torch'; its options are: precision"),
        ("cuda:x", "engine='cuda:x' is not known"),
        ("cpu:1", "engine='cpu:1' is not known"),
    ],
)
def test_options_that_mean_nothing_are_refused(engine, message):
    with pytest.raises(ValueError, match=message):
        get_engine(engine)


def test_engines_print_as_typed():
    assert repr(Engine("cuda", threads=2, on_oom="cpu")) == "Engine('cuda', threads=2, on_oom='cpu')"
    assert repr(Engine("cpu")) == "Engine('cpu')"


def test_engines_can_be_pickled():
    engine = get_engine(Engine("torch", precision="fast", on_oom="cpu"))
    again = pickle.loads(pickle.dumps(engine))
    assert vars(again) == vars(engine)


def test_precision_of_the_computation():
    X = rows(40, dtype="float32")
    exact = gram(mk.RBF(0.5), X.astype(float), engine="reference").dense()
    errors = {}
    for precision in ("accurate", "float64"):
        found = gram(mk.RBF(0.5), X, engine=Engine("torch", precision=precision)).dense()
        assert found.dtype == np.float32
        errors[precision] = np.abs(found - exact).max()
    assert errors["float64"] < errors["accurate"] / 2 < 1e-5  # what is left: centred rows and results are float32
    double = gram(mk.RBF(0.5), X.astype(float), engine=Engine("torch", precision="fast")).dense()
    assert double.dtype == np.float64
    assert 4e-8 < np.abs(double - exact).max() < 1e-5  # TF32 itself is a matter of the GPU


# ---------------------------------------------------------------------------------------------- sides on a device
def test_a_side_is_sent_once_and_goes_with_the_gram(monkeypatch):
    sent = []
    send = _tensor_tiles.Place.send
    monkeypatch.setattr(
        _tensor_tiles.Place, "send", lambda place, a, dtype=None: sent.append(np.size(a)) or send(place, a, dtype)
    )
    X = rows(2000)
    G = gram(mk.RBF(), X, engine="torch")
    G @ np.ones((2000, 1))
    assert sent.count(6000) == 1  # rows of both sides, once
    G @ np.ones((2000, 1))
    G[5:800].dense()
    assert sent.count(6000) == 1
    gc.collect()
    before = len(_tensor_tiles._held)
    del G
    gc.collect()
    assert len(_tensor_tiles._held) == before - 1


def test_a_side_that_is_too_large_is_sent_in_parts(monkeypatch):
    monkeypatch.setattr(_tensor_tiles.Place, "holds", lambda place, n: False)
    X, Y = rows(1100), rows(70, seed=1)
    G = gram(K, X, Y, engine="torch")
    close(G[::3] @ np.ones(70), gram(K, X, Y, engine="reference").dense()[::3].sum(1), 1e-12)
    known = _tensor_tiles._held[id(G.x)]
    assert not any(len(found) == 1100 for found in known.values() if isinstance(found, torch.Tensor))


def test_slices_of_slices_find_their_rows():
    X = rows(50)
    G, dense = gram(K, X, engine="torch"), gram(K, X, engine="reference").dense()
    close(G[10:40][[5, 2, 2]][1:].dense(), dense[10:40][[5, 2, 2]][1:], 1e-12)
    single = (
        G[10:40].x.astype(np.float32).take([3, 1])
    )  # a side of its own: the rows have new places, but keep their numbers
    assert np.array_equal(single.places, [3, 1])
    assert np.array_equal(single.index, [13, 11])


def test_a_tile_of_the_host_is_named_once(caplog):
    X = ["abc", "bca", "cc"]
    with caplog.at_level(logging.INFO, "mercer.engines"):
        for _ in range(2):
            close(gram(mk.Spectrum(2), X, engine="torch") @ np.ones(3), mk.Spectrum(2)(X).sum(1), 1e-13)
    assert len([r for r in caplog.records if "tiles by torch" in r.message]) == 1


def test_sparse_rows_stay_on_the_host():
    X = sp.csr_array(np.where(rows(12, 40) > 1.0, 1.0, 0.0))
    close(gram(mk.RBF() + mk.Linear(), X, engine="torch").dense(), gram(mk.RBF() + mk.Linear(), X).dense(), 1e-12)


def test_overflow_is_named():
    with pytest.raises(NanError, match="Polynomial"):
        gram(mk.Polynomial(3), np.full((3, 2), 1e120), engine="torch") @ np.ones(3)
    with pytest.raises(NanError, match="W holds"):
        gram(mk.RBF(), rows(3), engine="torch").pullback((np.full((3, 1), np.inf), np.ones((3, 1))))


def test_a_row_is_at_no_distance_from_itself():
    X = rows(60, 5, "float32") + np.float32(0.3)
    assert np.array_equal(np.diag(gram(mk.RBF(2.0), X, engine="torch").dense()), np.ones(60, np.float32))


def test_ties_in_order():
    X = np.repeat(np.eye(3), 4, axis=0)
    G, dense = gram(mk.Linear(), X, engine="torch"), X @ X.T
    assert np.array_equal(G.reduce("topk", k=6)[1], np.argsort(-dense, axis=1, kind="stable")[:, :6])
    assert np.array_equal(G.reduce("topk", k=6, largest=False)[1], np.argsort(dense, axis=1, kind="stable")[:, :6])
    assert np.array_equal(G.reduce("argmin")[1], dense.argmin(1))
    with pytest.raises(ValueError, match="k must be a whole number"):
        G.reduce("topk", k=0)


# ---------------------------------------------------------------------------------------------- what can go wrong
@pytest.fixture
def little_memory(monkeypatch):
    """Tiles of more than so many rows do not fit."""
    tile, limit, seen = _tensor_tiles.tile, {"rows": 300}, []

    def small(place, outputs, x, y):
        seen.append(len(x))
        if len(x) > limit["rows"] and place.device.type == "cpu" and limit["rows"] is not None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GB")
        return tile(place, outputs, x, y)

    monkeypatch.setattr(_tensor_tiles, "tile", small)
    return limit, seen


def test_memory_that_is_short_halves_the_blocks(little_memory):
    X, Y = rows(1000), rows(30, seed=1)
    G, dense = gram(K, X, Y, engine="torch"), gram(K, X, Y, engine="reference").dense()
    close(G @ np.ones(30), dense.sum(1), 1e-12)
    close(G.dense(), dense, 1e-12)
    close(G.reduce("max"), dense.max(1), 1e-12)
    assert np.array_equal(G.reduce("argmin")[1], dense.argmin(1))
    close(G.engine.cross(G.x, G.y, np.ones((1000, 1))), dense.sum(0)[None], 1e-12)
    assert set(little_memory[1]) == {512, 256, 488, 244}


def test_memory_that_is_too_short_is_an_error(little_memory):
    little_memory[0]["rows"] = 10
    with pytest.raises(MemoryBudgetError, match=r"cpu has no memory for 25\d rows.*Tried to allocate|on_oom"):
        gram(K, rows(1000), rows(30), engine="torch") @ np.ones(30)


def test_without_memory_the_cpu_goes_on(monkeypatch):
    X = rows(20)
    G = gram(K, X, engine=Engine("torch", on_oom="cpu"))

    def full(*arguments):
        raise MemoryBudgetError("the device is full.")

    monkeypatch.setattr(G.engine, "_matmul", full)
    with pytest.warns(EngineWarning, match="the device is full. The CPU goes on"):
        found = G @ X
    close(found, gram(K, X).dense() @ X, 1e-12)
    close(G @ X, found, 0)  # and is not told again


@no_gpu
def test_without_a_gpu_torch_uses_the_cpu():
    with pytest.warns(EngineWarning, match="engine='cuda': torch sees no GPU") as said:
        engine = get_engine("cuda")
        get_engine("cuda")
    assert len(said) == 1
    assert isinstance(engine, CudaEngine)
    assert engine.device.type == "cpu"
    close(gram(K, rows(9), engine=engine).dense(), gram(K, rows(9)).dense(), 1e-12)


def test_a_gpu_that_does_not_work(monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("CUDA error: no kernel image is available\nand more")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "zeros", broken)
    with pytest.warns(EngineWarning, match=r"the GPU does not work \(CUDA error: no kernel image is available\)"):
        assert get_engine("cuda").device.type == "cpu"
    with pytest.raises(ValueError, match="engine='cuda:3', but there are 1 GPUs"):
        get_engine("cuda:3")


def test_a_kernel_that_does_not_compile(monkeypatch):
    """One warning, then tiles by torch; other kernels are still tried."""
    from mercer.engines import _triton_run

    def broken(*arguments):
        raise _triton_run.FusionError("CompilationError: at 3:5")

    monkeypatch.setattr(tensors, "_broken", {})
    monkeypatch.setattr(_triton_run, "why_not", lambda place, x, outputs: None)
    monkeypatch.setattr(_triton_run, "fused", broken)
    X = rows(9)
    G = gram(K, X, engine="torch")
    with pytest.warns(EngineWarning, match=r"Triton failed \(CompilationError: at 3:5\); torch makes tiles") as said:
        close(G @ X, gram(K, X).dense() @ X, 1e-12)
        close(G.reduce("sum"), gram(K, X).dense().sum(1), 1e-12)
        close(G.dense(), gram(K, X).dense(), 1e-12)
    assert len(said) == 1
    assert not G.engine.fusible(G.x, [G.x.lowered.expression])
    assert G.engine.fusible(G.x, [gram(mk.Cosine(), X).x.lowered.expression])


def test_without_triton_there_are_tiles(monkeypatch):
    """As it would be on a GPU: one warning for all kernels and verbs."""
    from mercer.engines import _triton_run

    monkeypatch.setattr(_triton_run, "_installed", lambda: False)
    G = gram(K, rows(9), engine="torch")
    place = G.engine.place(G.x.dtype)
    monkeypatch.setattr(G.engine, "place", lambda dtype: dataclasses.replace(place, device=torch.device("cuda", 0)))
    with pytest.warns(EngineWarning, match="Triton is not installed; torch makes tiles instead") as said:
        assert not G.engine.fusible(G.x, [G.x.lowered.expression])
        assert not G.engine.fusible(G.x, [gram(mk.RBF(), rows(9)).x.lowered.expression])
    assert len(said) == 1


def test_no_torch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for word in ("torch", "cuda"):
        with pytest.raises(ImportError, match="needs torch; pip install 'mercer"):
            get_engine(word)


def test_torch_is_imported_only_when_asked_for():
    program = (
        "import sys, numpy as np; from mercer import KernelRidge; from mercer.kernels import RBF; X = np.ones((4, 2));"
        "KernelRidge(kernel=RBF()).fit(X, X[:, 0]).predict(X); RBF().gram(X, engine='reference') @ X;"
        "sys.exit(' '.join({'torch', 'triton'} & set(sys.modules)) or None)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)


def test_repetition_is_exact():
    X = rows(700, dtype="float32")
    G = gram(K, X, engine=Engine("torch", deterministic=True))
    assert np.array_equal(G @ X, G @ X)
    assert np.array_equal(G.dense(), G.dense().T)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (7, 3), (8, 2), (64, 1), (101, 5), (1000, 9), (1000, 400)])
def test_the_best_of_each_row_are_found_in_runs(m, k, largest):
    """Ties go to the smaller column, within runs, between them, and in what is left over."""
    from mercer.engines._tensor_sums import _best

    rng = np.random.default_rng(m)
    for tile in (rng.standard_normal((40, m)), rng.integers(0, 4, (40, m)).astype(float), np.zeros((3, m))):
        order = np.argsort(-tile if largest else tile, axis=1, kind="stable")[:, :k]
        values, columns = _best(torch.tensor(np.hstack([tile, tile]))[:, :m], k, largest)
        np.testing.assert_array_equal(columns, order)
        np.testing.assert_array_equal(values, np.take_along_axis(tile, order, 1))
