"""Rows in blocks: the same rows on every pass however they are cut, and clear words where they are not."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import streams
from mercer.errors import StreamError


def data(n=50, d=3):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def together(blocks):
    Xs, ys, ws = zip(*blocks, strict=True)
    dense = [x.toarray() if sp.issparse(x) else x for x in Xs]
    return np.concatenate(dense), np.concatenate(ys), np.concatenate(ws)


def cut_batches(X, y, w, cuts):
    edges = [0, *cuts, len(y)]
    return lambda: ((X[a:b], y[a:b], w[a:b]) for a, b in pairwise(edges))


@pytest.mark.parametrize("cuts", [[], [1], [7, 7, 20], [10, 20, 30, 40], list(range(1, 50))])
@pytest.mark.parametrize("size", [1, 7, 10, 50, 64])
def test_blocks_do_not_depend_on_how_batches_are_cut(cuts, size):
    X, y, w = data()
    stream = streams.from_batches(cut_batches(X, y, w, cuts))
    for _ in range(2):
        blocks = list(stream.blocks(size))
        assert [len(b.y) for b in blocks] == [size] * (50 // size) + [50 % size] * (50 % size > 0)
        for got, expected in zip(together(blocks), (X, y[:, None], w), strict=True):
            assert np.array_equal(got, expected)


def test_sparse_rows_and_no_weights():
    X, y, _ = data()
    X = sp.csr_array(np.where(X > 0, X, 0.0))
    blocks = list(streams.from_batches(lambda: ((X[a : a + 13], y[a : a + 13]) for a in range(0, 50, 13))).blocks(20))
    assert all(sp.issparse(b.X) for b in blocks)
    got = together(blocks)
    assert np.array_equal(got[0], X.toarray())
    assert np.array_equal(got[2], np.ones(50))


def test_a_file_of_numbers_is_mapped(tmp_path):
    X, y, w = data()
    for name, a in (("X", X.astype(np.float32)), ("y", y), ("w", w)):
        np.save(tmp_path / f"{name}.npy", a)
    stream = streams.from_npy(tmp_path / "X.npy", str(tmp_path / "y.npy"), tmp_path / "w.npy")
    got = together(stream.blocks(17))
    assert got[0].dtype == np.float32
    assert np.array_equal(got[0], X.astype(np.float32))
    assert np.array_equal(got[1][:, 0], y)
    assert np.array_equal(got[2], w)
    (tmp_path / "bad.npy").write_bytes(b"no numbers here")
    with pytest.raises(ValueError, match=r"X='.*bad.npy' is not a .npy file"):
        streams.from_npy(tmp_path / "bad.npy", tmp_path / "y.npy")


def parquet(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, row_group_size=16)


def test_parquet_by_row_groups(tmp_path):
    X, y, w = data()
    names = {"a": X[:, 0], "b": X[:, 1], "target": y, "mass": w}
    parquet(tmp_path / "1.parquet", **{k: v[:30] for k, v in names.items()})
    parquet(tmp_path / "2.parquet", **{k: v[30:] for k, v in names.items()})
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    got = together(streams.from_parquet(paths, "target", weight="mass").blocks(11))
    assert np.array_equal(got[0], X[:, :2])
    assert np.array_equal(got[1][:, 0], y)
    assert np.array_equal(got[2], w)
    got = together(streams.from_parquet(str(paths[0]), ["target", "a"], columns=["b"]).blocks(11))
    assert np.array_equal(got[0], X[:30, 1:2])
    assert np.array_equal(got[1], np.column_stack([y, X[:, 0]])[:30])


def test_parquet_files_that_do_not_fit_together(tmp_path):
    X, y, _ = data()
    parquet(tmp_path / "1.parquet", a=X[:, 0], target=y)
    parquet(tmp_path / "2.parquet", b=X[:, 0], target=y)
    parquet(tmp_path / "3.parquet", a=X[:, 0].astype(np.float32), target=y)
    parquet(tmp_path / "4.parquet", a=["x"] * 50, target=y)
    parquet(tmp_path / "5.parquet", a=[None, *X[1:, 0]], target=y)
    for other, message in (("2", r"2.parquet has the columns \['b', 'target'\]; expected \['a', 'target'\]"),
                           ("3", "dtype float32; those before had 1, 1 and float64"),
                           ("4", "rows 50 and on"), ("5", "column 'a' has 1 missing values")):  # fmt: skip
        with pytest.raises(StreamError, match=message):
            list(streams.from_parquet([tmp_path / "1.parquet", tmp_path / f"{other}.parquet"], "target").blocks(20))
    with pytest.raises(StreamError, match="has the columns"):
        list(streams.from_parquet(tmp_path / "1.parquet", "nothing").blocks(20))


def test_rows_that_change_between_passes_are_noticed():
    X, y, _ = data()
    turn = iter(range(10))

    def shuffled():
        order = np.random.default_rng(next(turn)).permutation(50)
        yield X[order], y[order]

    stream = streams.from_batches(shuffled)
    list(stream.blocks(20))
    with pytest.raises(StreamError, match="gave other rows than before, from row 0 on"):
        list(stream.blocks(20))
    sizes = iter([50, 30])
    shrinking = streams.from_batches(lambda: iter([(lambda n: (X[:n], y[:n]))(next(sizes))]))
    list(shrinking.blocks(10))
    with pytest.raises(StreamError, match="gave 5 blocks before and 3 now"):
        list(shrinking.blocks(10))
    sizes = iter([30, 50])
    growing = streams.from_batches(lambda: iter([(lambda n: (X[:n], y[:n]))(next(sizes))]))
    list(growing.blocks(10))
    with pytest.raises(StreamError, match="other rows than before, from row 30 on"):
        list(growing.blocks(10))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "has no rows"),
        ([(np.ones((3, 2)), np.ones(2))], "X has 3 rows, y has 2"),
        ([(np.ones((3, 2)), np.ones(3), np.ones(2))], "the weights have shape"),
        ([(np.full((3, 2), np.nan), np.ones(3))], "rows 0 and on"),
        ([(np.ones((3, 2)), [1.0, np.inf, 0.0])], "y must be finite"),
        ([(np.ones((3, 2)), np.ones(3), -np.ones(3))], "weights finite and not negative"),
        ([(np.ones((3, 2)), np.ones(3)), (np.ones((3, 1)), np.ones(3))], "rows 3 and on .* have 1 columns"),
        ([np.ones((3, 2))], "a batch must be"),
    ],
)
def test_bad_batches(batches, message):
    with pytest.raises(StreamError, match=message):
        list(streams.from_batches(lambda: iter(batches)).blocks(4))


def test_bad_beginnings():
    X, y, w = data()
    with pytest.raises(TypeError, match="must be a function that starts the batches"):
        streams.from_batches(iter([(X, y)]))
    with pytest.raises(ValueError, match="X has 50 rows, but y has 49"):
        streams.from_arrays(X, y[1:])
    with pytest.raises(ValueError, match="sample_weight has shape"):
        streams.from_arrays(X, y, w[1:])


def test_a_sample_is_uniform_and_does_not_depend_on_the_cuts(monkeypatch):
    X, y, w = data()
    looks = []
    for size in (7, 50, 64):
        monkeypatch.setattr(streams, "LOOK", size)
        looks.append(streams.look(streams.from_arrays(X, y, w), 10, np.random.default_rng(3)))
    for seen in looks:
        assert seen.n == 50
        assert np.array_equal(seen.index, looks[0].index)
        assert np.array_equal(seen.sample.X, X[seen.index])
        assert np.array_equal(seen.sample.y[:, 0], y[seen.index])
        assert np.array_equal(seen.sample.w, w[seen.index])
    assert len(np.unique(looks[0].index)) == 10
    counts = np.zeros(50)
    for seed in range(1000):
        counts[streams.look(streams.from_arrays(X, y), 10, np.random.default_rng(seed)).index] += 1
    assert abs(counts - 200).max() < 5 * np.sqrt(200 * 0.8)
    everything = streams.look(streams.from_arrays(X, y), 80, np.random.default_rng(0))
    assert np.array_equal(everything.index, np.arange(50))


def test_a_sample_has_the_smallest_of_the_numbers_drawn(monkeypatch):
    monkeypatch.setattr(streams, "LOOK", 7)
    X, y, w = np.arange(300.0).reshape(100, 3), np.arange(100.0), np.arange(1.0, 101.0)
    for size in (1, 3, 20, 60, 99, 100, 200):
        seen = streams.look(streams.from_arrays(X, y, w), size, np.random.default_rng(5))
        smallest = np.sort(np.argsort(np.random.default_rng(5).random(100))[:size])
        assert seen.n == 100
        assert np.array_equal(seen.index, smallest)
        assert np.array_equal(seen.sample.X, X[smallest])
        assert np.array_equal(seen.sample.y[:, 0], y[smallest])
        assert np.array_equal(seen.sample.w, w[smallest])


def test_a_sample_of_batches_that_share_their_memory(monkeypatch):
    monkeypatch.setattr(streams, "LOOK", 5)
    X, y = np.arange(60.0).reshape(20, 3), np.arange(20.0)
    held = np.empty((5, 3)), np.empty(5)

    def batches():
        for i in range(0, 20, 5):
            held[0][:], held[1][:] = X[i : i + 5], y[i : i + 5]
            yield held

    for size in (3, 12, 20):
        seen = streams.look(streams.from_batches(batches), size, np.random.default_rng(0))
        assert np.array_equal(seen.sample.X, X[seen.index])
        assert np.array_equal(seen.sample.y[:, 0], y[seen.index])
