"""Bundled data: shapes, known values, fresh arrays, frames; and the folder of larger sets."""

import sys
import zipfile
from importlib import resources

import numpy as np
import pytest

from mercer import datasets

# loader, shape of data, feature names, target name, first row, first target, mean of the target
CASES = {
    "concrete": (
        datasets.load_concrete,
        (1030, 8),
        ["cement", "slag", "fly_ash", "water", "superplasticizer", "coarse_aggregate", "fine_aggregate", "age"],
        "strength",
        [540.0, 0.0, 0.0, 162.0, 2.5, 1040.0, 676.0, 28.0],
        79.99,
        35.81796116504854,
    ),
    "energy": (
        datasets.load_energy,
        (768, 8),
        [
            "relative_compactness",
            "surface_area",
            "wall_area",
            "roof_area",
            "overall_height",
            "orientation",
            "glazing_area",
            "glazing_area_distribution",
        ],
        "heating_load",
        [0.98, 514.5, 294.0, 110.25, 7.0, 2.0, 0.0, 0.0],
        15.55,
        22.30720052083333,
    ),
    "co2": (datasets.load_co2, (2225, 1), ["year"], "co2", [1958 + 87 / 365.25], 316.1, 340.1422471910112),
}
LOADERS = [*(case[0] for case in CASES.values()), datasets.load_promoters]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_numbers_are_those_of_the_source(case):
    load, shape, feature_names, target_name, first_row, first_target, mean = case
    bunch = load()
    assert bunch.data.shape == shape
    assert bunch.data.dtype == bunch.target.dtype == np.float64
    assert bunch.target.shape == shape[:1]
    assert bunch.feature_names == feature_names
    assert bunch.target_name == target_name
    np.testing.assert_allclose(bunch.data[0], first_row, rtol=1e-14)
    assert bunch.target[0] == first_target
    np.testing.assert_allclose(bunch.target.mean(), mean, rtol=1e-12)
    assert np.isfinite(bunch.data).all()
    assert np.isfinite(bunch.target).all()


def test_energy_is_a_regular_design():
    X, _ = datasets.load_energy(return_X_y=True)
    assert [len(np.unique(column)) for column in X.T] == [12, 12, 7, 4, 2, 4, 4, 6]
    assert len(np.unique(X, axis=0)) == len(X)


def test_co2_is_ordered_in_time():
    X, _ = datasets.load_co2(return_X_y=True)
    assert (np.diff(X[:, 0]) > 0).all()
    assert 2001 < X[-1, 0] < 2002


def test_promoters():
    bunch = datasets.load_promoters()
    assert bunch.data.shape == bunch.target.shape == (106,)
    assert {len(sequence) for sequence in bunch.data} == {57}
    assert set("".join(bunch.data)) == set("ACGT")
    assert all(isinstance(sequence, str) for sequence in bunch.data)
    assert np.bincount(bunch.target).tolist() == [53, 53]
    assert bunch.target_names == ["other", "promoter"]


@pytest.mark.parametrize("load", LOADERS)
def test_arrays_are_fresh_at_each_call(load):
    first = load()
    kept = first.data.copy(), first.target.copy()
    first.data[:] = "" if first.data.dtype.kind == "U" else -1.0
    first.target[:] = -1
    second = load()
    assert first.data.flags.writeable
    assert (second.data == kept[0]).all()
    assert (second.target == kept[1]).all()


@pytest.mark.parametrize("load", LOADERS)
def test_pair_and_bunch_agree(load):
    bunch = load()
    X, y = load(return_X_y=True)
    assert (bunch.data == X).all()
    assert (bunch.target == y).all()
    assert bunch.frame is None


@pytest.mark.parametrize("load", LOADERS)
def test_frame_holds_the_same_values(load):
    pd = pytest.importorskip("pandas")
    plain, framed = load(), load(as_frame=True)
    assert list(framed.data.columns) == plain.feature_names
    assert framed.target.name == plain.target_name
    assert list(framed.frame.columns) == [*plain.feature_names, plain.target_name]
    assert (framed.data.to_numpy().reshape(plain.data.shape) == plain.data).all()
    assert (framed.target.to_numpy() == plain.target).all()
    X, y = load(return_X_y=True, as_frame=True)
    pd.testing.assert_frame_equal(X, framed.data)
    pd.testing.assert_series_equal(y, framed.target)


def test_frame_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        datasets.load_co2(as_frame=True)


@pytest.mark.parametrize("load", LOADERS)
def test_description_says_what_it_is_and_where_the_licence_is(load):
    text = load().DESCR
    assert len(text.splitlines()[0]) > 20
    assert "ATTRIBUTION.md" in text
    assert "return_X_y" not in text


def test_every_file_is_attributed_and_free_of_pickles():
    folder = resources.files("mercer.datasets") / "data"
    attribution = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    files = [file for file in folder.iterdir() if file.name.endswith(".npz")]
    assert len(files) == len(LOADERS)
    for file in files:
        assert f"## {file.name}" in attribution
        with file.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            for member in archive.namelist():
                with archive.open(member) as array:
                    assert not np.lib.format.read_array(array, allow_pickle=False).dtype.hasobject


def test_all_is_what_can_be_imported():
    assert sorted(datasets.__all__) == datasets.__all__
    assert all(callable(getattr(datasets, name)) for name in datasets.__all__)


def test_data_home_is_the_folder_of_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    assert datasets.data_home() == tmp_path


@pytest.mark.parametrize("value", [None, "", "no such folder"])
def test_data_home_names_the_variable(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    if value is None:
        monkeypatch.delenv("MERCER_DATA", raising=False)
    else:
        monkeypatch.setenv("MERCER_DATA", value)
    with pytest.raises(FileNotFoundError, match="MERCER_DATA"):
        datasets.data_home()
