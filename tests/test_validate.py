"""The door for rows of numbers: what is sound passes as it is, without scikit-learn's checks, and all else gets their answers."""

import numpy as np
import pytest
from sklearn.utils import check_array

from mercer import validate
from mercer.gram import plan

SOUND = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sound_rows_pass_unlooked_at(monkeypatch, dtype):
    X = SOUND.astype(dtype)
    monkeypatch.setattr(validate, "check_array", None)
    for rows in (X, X[:, ::2], np.asfortranarray(X), X[:1]):
        assert validate.vectors(rows) is rows


@pytest.mark.parametrize(
    "X",
    [
        SOUND.astype(">f4"),
        SOUND.astype(int),
        SOUND.astype(np.float16),
        SOUND.astype(object),
        np.full((2, 2), 3e38, np.float32),  # finite, and its sum is not
        SOUND.view(np.memmap),
        SOUND.tolist(),
    ],
)
def test_other_rows_become_what_scikit_learn_makes_of_them(X):
    found = validate.vectors(X)
    np.testing.assert_array_equal(found, check_array(X, dtype=[np.float64, np.float32]))
    assert found.dtype.isnative
    assert found.dtype in validate.FLOATS


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.array([[1.0, np.nan]]), "Input X contains NaN"),
        (np.array([[1.0, np.inf]]), "Input X contains infinity"),
        (np.array([[1.0, -np.inf]], np.float32), "Input X contains infinity"),
        (np.empty((0, 3)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        (np.arange(3.0), "Expected 2D array, got 1D"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (SOUND.astype(complex), "Complex data not supported"),
    ],
)
def test_unsound_rows_are_refused(X, says):
    with pytest.raises(ValueError, match=says):
        validate.vectors(X)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrices_are_refused_as_scikit_learn_does():
    with pytest.raises(TypeError, match=r"np\.matrix is not supported"):
        validate.vectors(np.matrix(SOUND))


def test_gaps():
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(validate.vectors(X, gaps=True), X)


@pytest.mark.parametrize(("limit", "used"), [("memory.max", "memory.current"),
                         ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")])  # fmt: skip
def test_a_limit_on_a_group_of_processes_is_read(monkeypatch, limit, used):
    files = {"/proc/meminfo": "MemTotal: 99 kB\nMemAvailable:      77 kB\n",
             f"/sys/fs/cgroup/{limit}": "50000\n", f"/sys/fs/cgroup/{used}": "20000\n"}  # fmt: skip

    def told(path):
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    monkeypatch.setattr(plan, "_told", told)
    assert plan.available_memory() == 30000
    files[f"/sys/fs/cgroup/{limit}"] = "max\n" if limit == "memory.max" else str(2**63 - 4096)
    assert plan.available_memory() == 77 * 1024


def test_what_the_system_says(tmp_path):
    path = tmp_path / "said"
    path.write_text("a few words\n")
    assert plan._told(path) == "a few words\n"
    assert plan._machine_memory() > 2**20
