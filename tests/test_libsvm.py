"""LIBSVM's text files: machines go out and come back, scikit-learn's numbers are read, and whatever else comes is refused."""

import os
import tempfile
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score

import mercer
from mercer import SVC, SVR, KernelRidge, NuSVC, NuSVR, OneClassSVM, from_libsvm, load, save, to_libsvm
from mercer.errors import ModelFileError, NumericalWarning
from mercer.kernels import RBF, Linear, Matern, Polynomial

KERNELS = {"linear": {}, "poly": {"degree": 2, "gamma": 0.5, "coef0": 1.0}, "rbf": {"gamma": 0.3},
           "sigmoid": {"gamma": 0.05, "coef0": 0.1}}  # fmt: skip
OTHER_NAMES = {"poly": "polynomial"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "machine.model"


def data(classes=2, n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 2)
    X[np.abs(X) < 0.3] = 0.0
    return X, np.array([7, -2, 3, 0])[rng.integers(0, classes, n)]


# ------------------------------------------------------------------------------------------------ there and back
def machine(cls, word, X, y):
    model = cls(kernel=word, **KERNELS[word], **({"nu": 0.3} if "nu" in cls().get_params() else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sigmoid kernels
        return model.fit(X, y)


@pytest.mark.parametrize("word", KERNELS)
@pytest.mark.parametrize("cls", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_machines_come_back(cls, word, path):
    X, y = data(classes=3)
    model = machine(cls, word, X, y)
    to_libsvm(model, path)
    again = from_libsvm(path, n_features=4)
    assert type(again) is cls
    np.testing.assert_array_equal(again.predict(X), model.predict(X)) if cls is not SVR and cls is not NuSVR else None
    values = again._sums(X) + again.intercept_
    np.testing.assert_allclose(values, model._sums(X) + model.intercept_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(again.dual_coef_, model.dual_coef_, rtol=1e-15)
    np.testing.assert_array_equal(again.n_support_, model.n_support_)
    np.testing.assert_array_equal(again.support_vectors_, model.support_vectors_)


def test_a_file_reads_as_libsvms(path):
    model = SVC(kernel=RBF(1.0), C=1.0).fit([[0.0, 2.0], [4.0, 0.0]], [1, 2])
    to_libsvm(model, path)
    lines = path.read_text().splitlines()
    a = abs(float(model.dual_coef_[0, 0]))
    assert lines[:9] == ["svm_type c_svc", "kernel_type rbf", "gamma 0.5", "nr_class 2", "total_sv 2",
                         lines[5], "label 1 2", "nr_sv 1 1", "SV"]  # fmt: skip
    assert abs(float(lines[5].split()[1])) < 1e-12
    assert [line.strip() for line in lines[9:]] == [
        f"{a:.17g} 2:2",
        f"{-a:.17g} 1:4",
    ]  # positive speaks for the first label


# ------------------------------------------------------------------------------------------------ scikit-learn as the oracle
def text_of(model, labels=None, extra=()):
    """LIBSVM's text of a fitted machine of scikit-learn, which holds LIBSVM's own numbers."""
    kinds = {"SVC": "c_svc", "NuSVC": "nu_svc", "SVR": "epsilon_svr", "NuSVR": "nu_svr", "OneClassSVM": "one_class"}
    classes = getattr(model, "classes_", None)
    two = classes is not None and len(classes) == 2
    coefficients = -model.dual_coef_ if two else model.dual_coef_
    rho = model.intercept_ if two else -model.intercept_
    lines = [f"svm_type {kinds[type(model).__name__]}", f"kernel_type {OTHER_NAMES.get(model.kernel, model.kernel)}"]
    lines += [f"{k} {v!r}" for k, v in KERNELS.get(model.kernel, {}).items()]
    lines += [f"nr_class {2 if classes is None else len(classes)}", f"total_sv {len(model.support_)}"]
    lines += ["rho " + " ".join(repr(float(r)) for r in rho)]
    if classes is not None:
        lines += [f"label {' '.join(map(str, classes if labels is None else labels))}"]
    lines += list(extra)
    if classes is not None:
        lines += [f"nr_sv {' '.join(map(str, model.n_support_))}"]
    lines += ["SV"]
    for i, c in zip(range(len(model.support_)), coefficients.T, strict=True):
        row = [f"0:{model.support_[i] + 1}"] if model.kernel == "precomputed" else [
            f"{j + 1}:{v!r}" for j, v in enumerate(np.ravel(model.support_vectors_[i]).tolist()) if v]  # fmt: skip
        lines.append(" ".join([*(repr(float(v)) for v in c), *row]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("word", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("cls", ["SVC", "NuSVC"])
def test_classifiers_decide_as_libsvm(cls, classes, word, path):
    X, y = data(classes)
    theirs = getattr(sklearn.svm, cls)(kernel=word, **KERNELS[word], **({"nu": 0.3} if cls == "NuSVC" else {})).fit(
        X, y
    )
    path.write_text(text_of(theirs))
    ours = from_libsvm(path, n_features=4)
    T = data(classes, seed=1)[0]
    np.testing.assert_allclose(ours.decision_function(T), theirs.decision_function(T), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(T), theirs.predict(T))
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)


@pytest.mark.parametrize("word", KERNELS)
@pytest.mark.parametrize("cls", ["SVR", "NuSVR", "OneClassSVM"])
def test_other_machines_say_what_libsvm_says(cls, word, path):
    X, y = data()
    theirs = getattr(sklearn.svm, cls)(kernel=word, **KERNELS[word]).fit(X, y)
    path.write_text(text_of(theirs))
    ours = from_libsvm(path, n_features=4)
    T = data(seed=1)[0]
    np.testing.assert_allclose(ours.predict(T), theirs.predict(T), rtol=1e-9, atol=1e-9)
    if cls == "OneClassSVM":
        np.testing.assert_allclose(ours.decision_function(T), theirs.decision_function(T), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.offset_, theirs.offset_)


def test_labels_in_any_order(path):
    """svm-train names classes in the order of the file: here the first class is called 1 and the second -1."""
    X, y = data()
    theirs = sklearn.svm.SVC(kernel="rbf", gamma=0.3).fit(X, y)
    path.write_text(text_of(theirs, labels=[1, -1]))
    ours = from_libsvm(path, n_features=4)
    assert ours.classes_.tolist() == [-1, 1]
    np.testing.assert_allclose(ours.decision_function(X), -theirs.decision_function(X), atol=1e-12)
    truth = np.where(y == theirs.classes_[0], 1, -1)
    np.testing.assert_array_equal(ours.predict(X) == 1, theirs.predict(X) == theirs.classes_[0])
    assert roc_auc_score(truth, ours.decision_function(X)) > 0.7  # not turned round
    assert ours.n_support_.tolist() == theirs.n_support_[::-1].tolist()
    first, second = np.split(theirs.support_vectors_, [theirs.n_support_[0]])
    np.testing.assert_array_equal(ours.support_vectors_, np.concatenate([second, first]))  # by class, as everywhere


def test_equal_votes_go_to_the_first_label_of_the_file(path):
    X, y = data(classes=3, n=60, seed=3)
    theirs = sklearn.svm.SVC(kernel="linear").fit(X, y)
    names = [5, 9, 1]  # not in order
    path.write_text(text_of(theirs, labels=names))
    ours = from_libsvm(path, n_features=4)
    assert ours.classes_.tolist() == names
    T = np.random.default_rng(5).standard_normal((500, 4))
    np.testing.assert_array_equal(ours.predict(T), np.array(names)[np.searchsorted(theirs.classes_, theirs.predict(T))])


def test_precomputed_kernels(path):
    X, y = data()
    K = RBF()(X)
    theirs = sklearn.svm.SVC(kernel="precomputed").fit(K, y)
    path.write_text(text_of(theirs))
    ours = from_libsvm(path, n_features=50)
    np.testing.assert_allclose(ours.decision_function(K), theirs.decision_function(K), atol=1e-12)
    mine = SVC(kernel="precomputed").fit(K, y)
    to_libsvm(mine, path, force=True)
    np.testing.assert_allclose(
        from_libsvm(path, n_features=50).decision_function(K), mine.decision_function(K), atol=1e-12
    )


# ------------------------------------------------------------------------------------------------ what a machine needs
def test_sparse_rows_stay_sparse(path):
    X = sp.random_array((40, 300), density=0.02, rng=np.random.default_rng(0), format="csr")
    y = np.where(np.arange(40) % 2, 1, -1)
    model = SVC(kernel="linear").fit(X, y)
    to_libsvm(model, path)
    again = from_libsvm(path, n_features=300)
    assert sp.issparse(again.support_vectors_)
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-12)
    assert from_libsvm(path).n_features_in_ <= 300


def test_machines_that_came_are_machines(tmp_path, path):
    X, y = load_iris(return_X_y=True)
    to_libsvm(SVC(gamma=0.5).fit(X, y), path)
    model = from_libsvm(path)
    save(model, tmp_path / "again.mercer")
    np.testing.assert_array_equal(load(tmp_path / "again.mercer").predict(X), model.predict(X))
    assert mercer.info(tmp_path / "again.mercer")["training_rows"] == len(model.support_)
    assert model.score(X, y) > 0.95
    assert "RBF" in repr(model)
    model.fit(X, y)  # a fit begins afresh
    assert model.solver_used_ == "smo"


def test_a_compressed_machine_of_two_classes(path):
    X, y = data()
    small = mercer.compress(SVC(kernel=RBF()).fit(X, y), 5)
    to_libsvm(small, path)
    np.testing.assert_allclose(
        from_libsvm(path, n_features=4).decision_function(X), small.decision_function(X), atol=1e-9
    )


def test_a_machine_without_vectors(path):
    X, y = data()
    model = SVR(epsilon=100.0).fit(X, y)
    to_libsvm(model, path)
    np.testing.assert_allclose(from_libsvm(path, n_features=4).predict(X), model.predict(X))


def test_probabilities_are_not_kept_and_that_is_said(path):
    X, y = data()
    theirs = sklearn.svm.SVC(kernel="rbf", gamma=0.3).fit(X, y)
    path.write_text(text_of(theirs, extra=["probA -1.5", "probB 0.25"]))
    with pytest.warns(NumericalWarning, match="probabilities"):
        ours = from_libsvm(path, n_features=4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-12)
    with pytest.warns(FutureWarning, match="deprecated"):
        model = SVC(probability=True, random_state=0).fit(X, y)
    with pytest.warns(NumericalWarning, match="the file has none"):
        to_libsvm(model, path, force=True)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (SVC(kernel=Matern(1.5)), "Matern.*none of LIBSVM's kernels"),
        (SVC(kernel=RBF([1.0, 2.0, 3.0, 4.0])), "one lengthscale"),
        (SVC(kernel=2 * Linear()), "none of LIBSVM's kernels"),
        (SVC(kernel=Polynomial(1.5, 1.0, 9.0)), "whole degree"),
        (SVC(kernel="rbf", multi_class="ovr"), 'multi_class="ovr"'),
    ],
    ids=str,
)
def test_machines_without_a_place_are_refused(model, said, path):
    X, y = data(classes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.abs(X), y)
    with pytest.raises(ValueError, match=said):
        to_libsvm(model, path)
    assert not path.exists()


def test_what_cannot_be_written_is_said(path):
    X, y = data()
    with pytest.raises(TypeError, match="got KernelRidge"):
        to_libsvm(KernelRidge().fit(X, y), path)
    with pytest.raises(Exception, match="not fitted"):
        to_libsvm(SVC(), path)
    with pytest.raises(ValueError, match="whole numbers only"):
        to_libsvm(SVC().fit(X, np.where(y > 0, "yes", "no")), path)
    with pytest.raises(ValueError, match="whole numbers only"):
        to_libsvm(SVC().fit(X, y > 0), path)
    small = mercer.compress(SVC(kernel=RBF()).fit(*data(classes=3)), 5)
    with pytest.raises(ValueError, match="compressed"):
        to_libsvm(small, path)
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="force=True"):
        to_libsvm(SVC().fit(X, y), path)
    assert path.read_text() == "mine"


# ------------------------------------------------------------------------------------------------ hostile files
GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 3
rho 0.25
label 1 -1
nr_sv 1 2
SV
1 1:0.5 3:-2
-0.5 2:1e-3
-0.5 1:1
"""
BAD = {
    "empty": ("", "SV is missing"),
    "no SV": (GOOD.split("SV\n")[0], "SV is missing"),
    "cut short": (GOOD[:-9], "total_sv is 3, but there are 2"),
    "total_sv too small": (GOOD.replace("total_sv 3", "total_sv 2"), "nr_sv does not add up"),
    "total_sv lies": (GOOD.replace("total_sv 3", "total_sv 4").replace("nr_sv 1 2", "nr_sv 1 3"), "but there are 3"),
    "one more": (GOOD + "1 1:1\n", "more vectors than total_sv"),
    "total_sv huge": (GOOD.replace("total_sv 3", f"total_sv {2**31}"), "whole number up to"),
    "total_sv negative": (GOOD.replace("total_sv 3", "total_sv -3").replace("nr_sv 1 2", "nr_sv -1 -2"), "total_sv is -3"),
    "nr_sv negative": (GOOD.replace("nr_sv 1 2", "nr_sv 4 -1"), "nr_sv does not add up"),
    "nr_class huge": (GOOD.replace("nr_class 2", "nr_class 2000000"), "rho has 1 values"),
    "nr_class 1": (GOOD.replace("nr_class 2", "nr_class 1"), "nr_class 1"),
    "nr_class 0": (GOOD.replace("nr_class 2", "nr_class 0"), "nr_class 0"),
    "label twice": (GOOD.replace("label 1 -1", "label 1 1"), "labels are there twice"),
    "label a word": (GOOD.replace("label 1 -1", "label a b"), "expected a whole number"),
    "index 2^31": (GOOD.replace("3:-2", f"{2**31}:-2"), "whole number up to"),
    "index 2^63": (GOOD.replace("3:-2", f"{2**63}:-2"), "whole number up to"),
    "index of 5000 digits": (GOOD.replace("3:-2", "9" * 5000 + ":-2"), "whole number up to"),
    "index negative": (GOOD.replace("3:-2", "-3:-2"), "columns from 1 on"),
    "index 0": (GOOD.replace("1:0.5", "0:0.5"), "columns from 1 on"),
    "index falls": (GOOD.replace("3:-2", "1:-2"), "increasing"),
    "index empty": (GOOD.replace("3:-2", ":-2"), "whole number"),
    "no colon": (GOOD.replace("3:-2", "3"), "column:value"),
    "value nan": (GOOD.replace("3:-2", "3:nan"), "finite"),
    "value 1e999": (GOOD.replace("3:-2", "3:1e999"), "finite"),
    "value empty": (GOOD.replace("3:-2", "3:"), "finite"),
    "value with _": (GOOD.replace("3:-2", "3:1_0"), "finite"),
    "value hex": (GOOD.replace("3:-2", "3:0x10"), "finite"),
    "coefficient inf": (GOOD.replace("-0.5 2", "inf 2"), "finite"),
    "no coefficient": (GOOD.replace("-0.5 2:1e-3", ""), "expected 1 coefficients"),
    "rho nan": (GOOD.replace("rho 0.25", "rho nan"), "finite"),
    "gamma negative": (GOOD.replace("gamma 0.5", "gamma -0.5"), "at least 0"),
    "gamma missing": (GOOD.replace("gamma 0.5\n", ""), "line gamma is missing"),
    "gamma twice": (GOOD.replace("gamma 0.5\n", "gamma 0.5\ngamma 0.6\n"), "each once"),
    "NUL": (GOOD.replace("3:-2", "3:-2\0"), "finite"),
    "not ASCII": (GOOD.replace("3:-2", "３:-2"), "no plain text"),
    "unknown word": (GOOD.replace("gamma 0.5", "import os"), "expected one of"),
    "unknown kernel": (GOOD.replace("rbf", "matern"), "kernel_type is 'matern'"),
    "unknown type": (GOOD.replace("c_svc", "os.system"), "svm_type is 'os.system'"),
    "a pickle": ("cos\nsystem\n(S'true'\ntR.", "expected one of"),
    "precomputed rows": (GOOD.replace("rbf", "precomputed"), "numbers of their rows"),
    "precomputed 0:0": (
        GOOD.replace("rbf", "precomputed").split("SV\n")[0] + "SV\n1 0:0\n1 0:1\n1 0:2\n", "numbers of their rows"),
    "values whose squares overflow": (GOOD.replace("3:-2", "3:1e300"), "do not fit together"),
    "regression of 3": (GOOD.replace("c_svc", "nu_svr").replace("nr_class 2", "nr_class 3"), "no machine of the type"),
}  # fmt: skip


def test_the_good_file_is_read(path):
    path.write_text(GOOD)
    model = from_libsvm(path)
    T = np.array([[0.0, 1.0, 0.5]])
    x = np.array([[0.5, 0, -2], [0, 1e-3, 0], [1, 0, 0]])
    k = np.exp(-0.5 * ((T - x) ** 2).sum(axis=1))
    assert model.decision_function(T)[0] == pytest.approx(k @ [1, -0.5, -0.5] - 0.25, abs=1e-14)  # positive is 1


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name, path):
    text, said = BAD[name]
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelFileError, match=said) as error:
        from_libsvm(path)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 1000


def test_other_bytes_and_other_things(tmp_path, path):
    for encoding in ("utf-16", "utf-32"):
        path.write_text(GOOD, encoding=encoding)
        with pytest.raises(ModelFileError, match="no plain text"):
            from_libsvm(path)
    for thing in (tmp_path, "/dev/null", "/dev/zero"):
        with pytest.raises(ModelFileError, match="ordinary file"):
            from_libsvm(thing)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="ordinary file"):
        from_libsvm(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        from_libsvm(tmp_path / "none")
    with open(path, "wb") as file:
        file.truncate(10 * 2**30)  # takes no room on the disk
    with pytest.raises(ModelFileError, match=r'memory="11GB"'):
        from_libsvm(path)
    with pytest.raises(ModelFileError, match="more than"):
        from_libsvm(path, memory="20GB")
    path.unlink()


def test_columns_and_sizes_have_limits(path):
    path.write_text(GOOD)
    for wrong in (0, -1, 2.5, "4"):
        with pytest.raises(ValueError, match=r"n_features=.* must be a positive whole number"):
            from_libsvm(path, n_features=wrong)
    with pytest.raises(ModelFileError, match="n_features=2, but a support vector has the column 3"):
        from_libsvm(path, n_features=2)
    path.write_text(GOOD.replace("3:-2", f"{2**31 - 1}:-2"))
    wide = from_libsvm(path)  # stays sparse
    assert wide.n_features_in_ == 2**31 - 1
    with pytest.raises(ModelFileError, match="at most 50 bytes"):
        from_libsvm(path, memory=50)
    many = 300  # a machine for each pair would fill the memory
    head = (
        GOOD.split("label")[0]
        .replace("nr_class 2", f"nr_class {many}")
        .replace("rho 0.25", "rho" + " 1" * (many * 299 // 2))
    )
    head = (
        head.replace("total_sv 3", "total_sv 300")
        + "label "
        + " ".join(map(str, range(many)))
        + "\nnr_sv"
        + " 1" * many
    )
    path.write_text(head + "\nSV\n" + ("1 " * 299 + "1:1\n") * many)
    with pytest.raises(ModelFileError, match="the machine would take"):
        from_libsvm(path, memory="2MB")


def outcome(text):
    """What becomes of any text: a machine that answers, or one kind of error."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = from_libsvm(file.name, memory="1MB")
                if model.n_features_in_ < 1000:
                    model.predict(np.ones((2, model.n_features_in_)) if model.n_features_in_ else np.ones((2, 1)))
        except ModelFileError:
            return "refused"
        except ValueError as error:  # no columns at all, or answers beyond the range of numbers
            assert "feature" in str(error) or "NaN" in str(error) or "overflow" in str(error) or "infinit" in str(error)  # noqa: PT017
    return "read"


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused(data):
    assert outcome(data) == "refused"


WORDS = GOOD.split() + [
    "nan",
    "-1",
    "2147483648",
    "0",
    "1e308",
    "1:1",
    "\n",
    "\n",
    "SV",
    "precomputed",
    "polynomial",
    "degree",
]


@given(st.integers(0, 40), st.sampled_from(WORDS), st.sampled_from(["replace", "insert", "delete"]))
@settings(max_examples=150, deadline=None)
@example(8, "1", "replace")
def test_changed_words_are_read_or_refused(place, word, how):
    tokens = GOOD.replace("\n", " \n ").split(" ")
    place %= len(tokens)
    tokens[place : place + (how != "insert")] = [] if how == "delete" else [word]
    assert outcome(" ".join(tokens).encode()) in ("read", "refused")


def test_reading_takes_linear_time(path):
    """Twice the columns, twice the steps: counted, for seconds depend on the machine."""
    import sys

    def steps(n):
        path.write_text(GOOD.replace("3:-2", " ".join(f"{j}:1" for j in range(3, n))))
        count = 0

        def count_lines(frame, event, arg):
            nonlocal count
            count += 1
            return count_lines

        sys.settrace(count_lines)
        try:
            from_libsvm(path)
        finally:
            sys.settrace(None)
        return count

    assert steps(4000) < 2.2 * steps(2000)
