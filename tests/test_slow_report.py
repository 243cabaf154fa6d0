"""Reports of real data: twenty thousand rows on landmarks, and messages as text."""

import gzip

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from mercer import SVC, KernelRidge
from mercer.kernels import RBF, TfIdf
from mercer.report import report_html, study_of
from mercer.report.rows import COEFFICIENT, influence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def split(n):
    order = np.random.default_rng(0).permutation(n)
    return order[: 4 * n // 5], order[4 * n // 5 :]


def test_many_rows_on_landmarks(data_home):
    data = np.load(data_home / "california_housing.npz", allow_pickle=False)
    X, y = StandardScaler().fit_transform(data["X"]), data["y"].astype(float)
    train, test = split(len(y))
    model = KernelRidge(1.0, kernel=RBF(3.0), fit_intercept=True, n_landmarks=500, random_state=0).fit(
        X[train], y[train]
    )
    study = study_of(model, X[train], y[train], X[test], y[test], title="Houses")
    assert study.scores["rmse"][2] < study.baselines["linear ridge"]["rmse"][1]
    text = report_html(study)
    assert f"500 landmarks stand for all {len(train)} rows; they leave" in text
    assert f"200 of {len(train)} training rows, sorted by target" in text
    assert len(text) < 300_000
    assert set(influence(study).index) <= set(model.landmarks_)


def test_messages(data_home):
    with gzip.open(data_home / "sms_spam.tsv.gz", "rt", encoding="utf-8") as file:
        y, X = np.array([line.rstrip("\n").split("\t", 1) for line in file if "\t" in line], dtype=object).T
    train, test = split(len(y))
    train = train[:1500]
    study = study_of(SVC(kernel=TfIdf(), C=10.0).fit(X[train], y[train]), X[train], y[train], X[test], y[test])
    assert study.scores["accuracy"][1] > study.baselines["largest class"]["accuracy"][2]
    assert study.columns[0]["kind"] == "text"
    found = influence(study)
    assert found.how == COEFFICIENT
    text = report_html(study)
    assert len(text) < 300_000
    assert str(found.index[0]) in text
