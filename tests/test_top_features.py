"""Weights of features: what they say is what the machine computes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer import SVC, KernelLogistic, KernelNeighborsClassifier, KernelPCA, KernelRidge, top_features
from mercer.kernels import RBF, BlendedSpectrum, GappedKmer, Linear, Mismatch, Spectrum, TfIdf

RNG = np.random.default_rng(0)
DNA = ["".join(RNG.choice(list("acgt"), 12)) for _ in range(40)]
TARGET = np.array([x.count("ac") - x.count("gt") for x in DNA], float)
ALL = 10**6


def answer(found, features):
    """The inner product of listed weights and a row's features."""
    weights = dict(found)
    return sum(weights.get(f, 0.0) * v for f, v in features.items())


@pytest.mark.parametrize(
    "kernel",
    [Spectrum(2), BlendedSpectrum(3, 0.5), GappedKmer(2, 1), Mismatch(2, 1, "acgt"), TfIdf(analyzer="char")],
    ids=str,
)
def test_weights_give_the_predictions_back(kernel):
    model = KernelRidge(0.1, kernel=kernel).fit(DNA, TARGET)
    (found,) = top_features(model, ALL)
    predicted = [answer(found, model.kernel_.counts(x)) + np.ravel(model.intercept_)[0] for x in DNA[:5]]
    np.testing.assert_allclose(predicted, model.predict(DNA[:5]), rtol=1e-9, atol=1e-12)


def test_the_largest_come_first():
    model = KernelRidge(0.1, kernel=Spectrum(2)).fit(DNA, TARGET)
    (found,) = top_features(model, 5)
    assert [f for f, _ in found[:2]] in (["ac", "gt"], ["gt", "ac"])
    sizes = np.abs([w for _, w in found])
    assert len(found) == 5
    assert (np.diff(sizes) <= 0).all()
    assert dict(found)["ac"] > 0 > dict(found)["gt"]
    assert top_features(model, 5)[0] == top_features(model, 20)[0][:5]


def test_features_without_weight_are_left_out():
    model = SVC(kernel=Spectrum(1)).fit(["ab", "cb"], [0, 1])  # b has the weight a - a
    assert sorted(f for f, _ in top_features(model, 10)[0]) == ["a", "c"]


def test_normalised_features():
    model = SVC(C=10, kernel=Spectrum(2).normalise()).fit(DNA, TARGET > 0)
    (found,) = top_features(model, ALL)
    rows = [Spectrum(2).counts(x) for x in DNA[:5]]
    values = [answer(found, r) / np.sqrt(sum(v * v for v in r.values())) + model.intercept_[0] for r in rows]
    np.testing.assert_allclose(values, model.decision_function(DNA[:5]), rtol=1e-9)
    assert top_features(model).outputs == ("True",)


def test_sums_scales_and_columns_of_a_table():
    table = pd.DataFrame({"dna": DNA, "age": RNG.standard_normal(40), "size": RNG.standard_normal(40)})
    kernel = 2.0 * Spectrum(1).on("dna") + 0.5 * Spectrum(2).on("dna") + Linear().on("age", "size") + 3.0
    model = KernelRidge(0.1, kernel=kernel).fit(table, TARGET)
    (found,) = top_features(model, ALL)
    named = {getattr(f, "feature", f): w for f, w in found}
    x = table.iloc[0]
    value = sum(named.get(f, 0.0) * v * 2**0.5 for f, v in Spectrum(1).counts(x["dna"]).items())
    value += sum(named.get(f, 0.0) * v * 0.5**0.5 for f, v in Spectrum(2).counts(x["dna"]).items())
    value += named["age"] * x["age"] + named["size"] * x["size"] + named["constant"] * 3**0.5
    np.testing.assert_allclose(value + np.ravel(model.intercept_)[0], model.predict(table[:1])[0], rtol=1e-9)
    assert "dna: ac" in str(top_features(model))


def test_many_classes():
    kinds = np.array(["ac", "gt", "tt"])[RNG.integers(0, 3, 40)]
    X = [x + 3 * k for x, k in zip(DNA, kinds, strict=True)]
    pairs = top_features(SVC(kernel=Spectrum(2)).fit(X, kinds), 3)
    assert pairs.outputs == ("ac against gt", "ac against tt", "gt against tt")
    assert dict(pairs["ac against gt"])["ac"] > 0
    rest = top_features(SVC(kernel=Spectrum(2), multi_class="ovr").fit(X, kinds), 3)
    assert rest.outputs == ("ac", "gt", "tt")
    assert dict(rest["tt"])["tt"] > 0
    logistic = top_features(KernelLogistic(0.1, kernel=Spectrum(2)).fit(X, kinds), 3)
    assert logistic.outputs == rest.outputs
    assert dict(logistic["gt"])["gt"] > 0


def test_components():
    found = top_features(KernelPCA(2, kernel=Spectrum(2)).fit(DNA), ALL)
    assert found.outputs == ("component 1", "component 2")
    C = Spectrum(2).features(DNA).toarray()
    _, _, V = np.linalg.svd(C - C.mean(axis=0), full_matrices=False)
    weights = np.array([w for _, w in found[0]])
    np.testing.assert_allclose(weights / np.linalg.norm(weights), V[0][np.argsort(-np.abs(V[0]))] * np.sign(
        weights[0] * V[0][np.argmax(np.abs(V[0]))]), atol=1e-9)  # fmt: skip


def test_searches_and_pipelines_are_opened():
    search = GridSearchCV(SVC(kernel=Spectrum(1)), {"kernel__k": [1, 2]}, cv=2).fit(DNA, TARGET > 0)
    assert len(top_features(search, 3)[0]) == 3
    pipeline = make_pipeline(FunctionTransformer(), SVC(kernel=Spectrum(2))).fit(np.array(DNA, object), TARGET > 0)
    assert len(top_features(pipeline, 3)[0]) == 3


def test_it_prints_a_table():
    model = SVC(kernel=Spectrum(2)).fit(["acac", "acca", "gtgt", "tgtg"], ["x", "x", "y", "y"])
    lines = str(top_features(model, 3)).splitlines()
    assert lines[0] == "y:"
    assert len(lines) == 4
    assert all(len(line.split()) == 2 for line in lines[1:])
    assert top_features(model, 3)[0] == top_features(model, 3)["y"]
    with pytest.raises(KeyError, match="no output is named 'x'; there are y"):
        top_features(model)["x"]


def test_what_has_no_named_features_is_refused():
    X = RNG.standard_normal((20, 2))
    with pytest.raises(TypeError, match=r"RBF\(\) is not linear in features"):
        top_features(SVC(kernel=RBF()).fit(X, X[:, 0] > 0))
    with pytest.raises(TypeError, match="is not linear in features"):
        top_features(SVC(kernel=Spectrum(2) * Spectrum(1)).fit(DNA, TARGET > 0))
    with pytest.raises(TypeError, match="needs a fitted machine"):
        top_features(KernelNeighborsClassifier(kernel=Spectrum(2)).fit(DNA, TARGET > 0))
    with pytest.raises(ValueError, match="precomputed"):
        top_features(SVC(kernel="precomputed").fit(X @ X.T, X[:, 0] > 0))
    with pytest.raises(ValueError, match="n=0"):
        top_features(SVC(kernel=Spectrum(2)).fit(DNA, TARGET > 0), 0)
