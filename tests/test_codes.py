"""Features by 64-bit code: labels, ranks and count matrices against dictionaries and NumPy's sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import close
from mercer.kernels import PyramidMatch, WeisfeilerLehman, WLOptimalAssignment, codes
from mercer.kernels.codes import code_matrix, code_of, mixed, ranks

ENTRIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from([0.5, 1.0, -2.0])), max_size=30)


def dense(entries, width=7):
    out = np.zeros((4, width))
    for row, code, value in entries:
        out[row, code] += value
    return out


def parts(entries):
    row, code, value = zip(*entries, strict=True) if entries else ((), (), ())
    return np.array(row, np.int64), np.array(code, np.uint64), np.array(value)


@given(ENTRIES, ENTRIES)
def test_count_matrix_against_a_dense_one(train, test):
    matrix, norms, book = code_matrix(4, *parts(train))
    expected = dense(train)
    known = book.codes.astype(int)
    assert sorted(known) == sorted({code for _, code, _ in train})
    assert matrix.shape == (4, max(len(known), 1))
    assert matrix.has_canonical_format
    assert (np.diff(matrix.indices)[np.diff(np.repeat(np.arange(4), np.diff(matrix.indptr))) == 0] > 0).all()
    close(matrix.toarray()[:, : len(known)], expected[:, known], 0.0)
    close(norms, (expected**2).sum(axis=1), 1e-15)
    assert [train[place][1] for place in book.entries] == known.tolist()  # an entry in which each code occurs
    other, norms, same = code_matrix(4, *parts(test), vocabulary=book)
    assert same is book
    close(other.toarray()[:, : len(known)], dense(test)[:, known], 0.0)
    close(norms, (dense(test) ** 2).sum(axis=1), 1e-15)  # of unknown codes too


def test_unknown_codes_have_no_place():
    book = code_matrix(1, [0, 0, 0], [30, 10, 20], np.ones(3))[2]
    assert book.places(np.array([10, 15, 20, 30, 40], np.uint64)).tolist() == [1, -1, 2, 0, -1]
    assert book.names([1, 0]) == ["#000000000000000a", "#000000000000001e"]
    empty = code_matrix(2, [], [], [])
    assert empty[0].shape == (2, 1)
    assert empty[2].places(np.array([1], np.uint64)).tolist() == [-1]


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(2), WLOptimalAssignment(1)], ids=str)
def test_long_passes_are_cut(monkeypatch, kernel):
    graphs = [([(0, 1), (1, 2), (0, 2), (2, 3)], "CCON"), ([(0, 1), (1, 2)], "CON"), ([], "")]
    expected = kernel(graphs)
    monkeypatch.setattr(codes, "_PIECE", 2)
    close(kernel(graphs), expected, 0.0)
    bags = [[[0.2], [3.5]], [[0.7], [2.1], [2.2]]]
    monkeypatch.undo()
    expected = PyramidMatch(1.0)(bags)
    monkeypatch.setattr(codes, "_PIECE", 1)
    close(PyramidMatch(1.0)(bags), expected, 0.0)


@given(st.lists(st.integers(0, 3), max_size=20))
def test_ranks_count_equal_entries(keys):
    expected = [keys[: i + 1].count(k) for i, k in enumerate(keys)]
    assert ranks(np.array(keys, int)).tolist() == expected


def test_codes_are_the_same_everywhere():
    """Models are stored and read elsewhere: a code may not depend on the process or the version."""
    assert int(mixed([0])[0]) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 with the seed 0
    assert code_of("C") == code_of(np.str_("C")) == 0xB97A9D9313B68F7B
    assert code_of(7) == code_of(7.0) == code_of(np.uint8(7)) == int(mixed([7])[0])
    assert len({code_of(v) for v in (7, "7", b"7", (7,), None, 7.5, 2**70, -(2**63) - 1, ("7",), float("inf"))}) == 10
    with pytest.raises(ValueError, match="a label is NaN"):
        code_of(float("nan"))
    with pytest.raises(TypeError, match=r"a label must be a number.* got \[1\]"):
        code_of([1])
