"""Files of data as tables: what is read is what was written, and bytes that nobody meant are refused with the place."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mercer.cli.tables import INDEX, read_sheet, read_sheets, written
from mercer.cli.words import listed, nearest, shown
from mercer.errors import TableError


def put(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ------------------------------------------------------------------------------------------------ csv
def test_csv_has_numbers_texts_and_missing_values(tmp_path):
    text = '\ufeffage,"home, town",n\n1.5,Ulm,7\nNA,"a ""b""",?\n-2e3,,.\n'
    for name, delimiter in (("a.csv", ","), ("b.csv", ";")):
        changed = text if delimiter == "," else '\ufeffage;"home, town";n\n1.5;Ulm;7\nNA;"a ""b""";?\n-2e3;;.\n'
        sheet = read_sheet(put(tmp_path, name, changed))
        np.testing.assert_array_equal(sheet.columns["age"], [1.5, np.nan, -2000.0])
        assert sheet.columns["home, town"].tolist() == ["Ulm", 'a "b"', None]
        np.testing.assert_array_equal(sheet.columns["n"], [7, np.nan, np.nan])
        assert len(sheet) == 3


def test_tsv_keeps_quotes_and_needs_no_header(tmp_path):
    content = 'spam\tsay "hi\nham\tit\'s "quoted"\n'
    for path in (put(tmp_path, "a.tsv", content), put(tmp_path, "a.tsv.gz", gzip.compress(content.encode()))):
        sheet = read_sheet(path, header=False)
        assert sheet.columns["0"].tolist() == ["spam", "ham"]
        assert sheet.columns["1"].tolist() == ['say "hi', 'it\'s "quoted"']


def test_words_for_missing_values_can_be_added(tmp_path):
    path = put(tmp_path, "a.csv", "x\n1\n-99\nUnknown\n")
    assert read_sheet(path).mixed == {"x": (2, 1, 4, "Unknown")}
    np.testing.assert_array_equal(read_sheet(path, missing=["unknown", "-99"]).columns["x"], [1, np.nan, np.nan])


TEXTS = st.text("ab\"\u00e9,;'\u65e5 ", min_size=1).map(lambda t: f"w {t}".strip())


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), TEXTS), min_size=1, max_size=8))
def test_csv_of_the_standard_library_comes_back(rows):
    import csv
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("x", "t"), *rows])
        sheet = read_sheet(path)
    np.testing.assert_array_equal(sheet.columns["x"], [x for x, _ in rows])
    assert sheet.columns["t"].tolist() == [t for _, t in rows]


@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_are_a_table_or_refused(data):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.csv", "a.tsv", "a.csv.gz", "a.libsvm", "a.npz"):
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                sheet = read_sheet(path)
            except TableError:
                continue
            assert all(len(column) == len(sheet) for column in sheet.columns.values())


BAD_TEXT = {
    "ragged row": ("a,b\n1,2\n3\n", "line 3 has 1 fields, the first line has 2"),
    "long row": ("a,b\n1,2,3\n", "line 2 has 3 fields"),
    "two names": ("a,a\n1,2\n", 'two columns are named "a"'),
    "no name": ("a,\n1,2\n", "column 2 has no name"),
    "only a header": ("a,b\n", "no rows; was the first row"),
    "empty": ("", "empty"),
    "blank": ("\n\n", "no rows"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "Latin-1": ("a,b\n1,2\n3,\xe9\n".encode("latin-1"), "line 3 is not UTF-8"),
    "NUL": (b"a,b\n1,\x002\n", "line 2 holds a NUL byte"),
    "infinite": ("a,b\n1,2\n1e999,4\n", 'line 3, column "a": 1e999 is no finite number'),
    "minus infinity": ("a\n1\n-inf\n", "line 3, column"),
    "quotes": ('a,b\n1,"2\n', "mend the quotes"),
}


@pytest.mark.parametrize("what", BAD_TEXT)
def test_bad_csv_is_refused_with_its_place(what, tmp_path):
    content, said = BAD_TEXT[what]
    with pytest.raises(TableError) as caught:
        read_sheet(put(tmp_path, "bad.csv", content))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_are_those_that_tables_mean(tmp_path):
    sheet = read_sheet(put(tmp_path, "a.csv", "a,b,c\n1_000,١,nan\n2,3,4\n"))  # what float() would take
    assert sheet.columns["a"].tolist() == ["1_000", "2"]
    assert sheet.columns["b"].tolist() == ["١", "3"]
    np.testing.assert_array_equal(sheet.columns["c"], [np.nan, 4])
    assert [written(v) for v in (1.0, -0.5, 2.0**60, float("nan"))] == ["1", "-0.5", repr(2.0**60), None]


def test_files_are_refused_by_name_and_kind(tmp_path):
    put(tmp_path, "Data.CSV", "a\n1\n")
    for path, said in (
        (tmp_path / "data.xlsx", "should end in one of .csv"), (tmp_path / "none.csv", "no such file"),
        (tmp_path / "data.csv", "did you mean Data.CSV"), (tmp_path / "a.npz.gz", "should end in"), (tmp_path, "should end in"),
    ):  # fmt: skip
        with pytest.raises(TableError, match=said):
            read_sheet(path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="folder, pipe or device"):
        read_sheet(tmp_path / "folder.csv")
    with pytest.raises(TableError, match="gzip file is damaged"):
        read_sheet(put(tmp_path, "a.csv.gz", gzip.compress(b"a\n1\n" * 100)[:-9]))


# ------------------------------------------------------------------------------------------------ libsvm
@given(arrays(float, (4, 5), elements=st.sampled_from([0.0, 0.0, 1.0, -2.5, 1e-300])))
def test_libsvm_agrees_with_scikit_learn(X):
    import tempfile
    from pathlib import Path

    from sklearn.datasets import dump_svmlight_file

    y = np.array([1.0, -1.0, 1.0, 2.0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.libsvm"
        dump_svmlight_file(X, y, str(path), zero_based=False)
        sheet = read_sheet(path)
    found = sheet.matrix.toarray()
    np.testing.assert_allclose(found, X[:, : found.shape[1]], rtol=1e-15)
    assert not X[:, found.shape[1] :].any()
    np.testing.assert_array_equal(sheet.columns["y"], y)


def test_libsvm_indices_may_begin_at_zero_and_lines_may_hold_comments(tmp_path):
    sheet = read_sheet(put(tmp_path, "a.svm", "# a comment\n1 0:2 3:4 # more\n\n-1\n"))
    np.testing.assert_array_equal(sheet.matrix.toarray(), [[2, 0, 0, 4], [0, 0, 0, 0]])


@pytest.mark.parametrize("line", [
    f"1 {2**31}:1", f"1 {2**63}:1", f"1 {INDEX + 1}:1", "1 -1:1", "1 1.5:1", "1 a:1", "1 1:nan", "1 1:1e999", "1 1:", "1 1",
    "nan 1:1", "x 1:1", "1 2:1 1:1", "1 2:1 2:1", "1 qid:3 1:1", "1,2 1:1", "1 ١:1", "1 1:1_0", "1 " + "9" * 5000 + ":1",
])  # fmt: skip
def test_bad_libsvm_is_refused_with_its_line(line, tmp_path):
    with pytest.raises(TableError, match="line 2: ") as caught:
        read_sheet(put(tmp_path, "a.libsvm", f"1 1:1\n{line}\n"))
    assert len(str(caught.value)) < 600


# ------------------------------------------------------------------------------------------------ parquet
def test_parquet_comes_back(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"n": [1, None, 3], "t": ["a", None, "c"], "b": [True, False, True],
                      "d": pa.array(["u", "v", "u"]).dictionary_encode()})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    sheet = read_sheet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(sheet.columns["n"], [1, np.nan, 3])
    np.testing.assert_array_equal(sheet.columns["b"], [1, 0, 1])
    assert sheet.columns["t"].tolist() == ["a", None, "c"]
    assert sheet.columns["d"].tolist() == ["u", "v", "u"]
    pq.write_table(pa.table({"x": [[1, 2], [3]]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match='column "x" holds list'):
        read_sheet(tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": [1.0, float("inf")]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match='row 2, column "x": inf'):
        read_sheet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match="no parquet file"):
        read_sheet(put(tmp_path, "c.parquet", b"PAR1" * 9))


# ------------------------------------------------------------------------------------------------ npz
def test_npz_with_names_classes_and_a_test_part(tmp_path):
    X = np.arange(12, dtype=np.uint8).reshape(6, 2)
    path = tmp_path / "a.npz"
    np.savez(
        path,
        X_train=X[:4],
        y_train=[0, 1, 1, 0],
        X_test=X[4:],
        y_test=[1, 0],
        classes=["no", "yes"],
        features=["u", "v"],
    )
    train, test = read_sheets(path)
    np.testing.assert_array_equal(train.columns["v"], [1.0, 3, 5, 7])
    assert train.columns["y"].tolist() == ["no", "yes", "yes", "no"]
    assert test.columns["y"].tolist() == ["yes", "no"]
    np.savez(path, data=X, target=[0, 1, 2, 3, 4, 5.5])  # as scikit-learn calls them
    np.testing.assert_array_equal(read_sheet(path).columns["y"], [0, 1, 2, 3, 4, 5.5])
    np.savez(path, X=X)
    with pytest.raises(TableError, match="expected an array y of targets"):
        read_sheets(path)
    assert list(read_sheets(path, targets=False)[0].columns) == ["x0", "x1"]


@pytest.mark.parametrize("suffix", ["", "_train"])
def test_npz_of_a_sparse_matrix(suffix, tmp_path):
    X = sp.random_array((7, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
    parts = {
        "data": X.data,
        "indices": X.indices.astype(np.uint8),
        "indptr": X.indptr,
        "shape": X.shape,
        "y": np.arange(7),
    }
    np.savez(tmp_path / "a.npz", **{name + suffix: part for name, part in parts.items()})
    sheet = read_sheet(tmp_path / "a.npz")
    np.testing.assert_array_equal(sheet.matrix.toarray(), X.toarray())
    np.testing.assert_array_equal(sheet.columns["y"], np.arange(7))


def test_bad_npz_is_refused(tmp_path):
    X, y = np.zeros((3, 2)), np.arange(3.0)
    sparse = {"data": np.ones(1), "indices": np.array([9]), "indptr": np.array([0, 1, 1, 1]), "shape": [3, 2], "y": y}
    cases = [
        ({"X": X, "y": np.array([{}, 1, 2], dtype=object)}, "could run code"),
        ({"X": X, "y": y[:2]}, "3 rows and 2 targets"),
        ({"X": X[None], "y": y}, "expected X, one row"),
        ({"X": X, "y": X}, "has the shape"),
        ({"X": np.full((3, 2), np.inf), "y": y}, 'row 1, column "x0": inf'),
        ({"X": X[:0], "y": y[:0]}, "no rows"),
        (sparse, "do not fit together"),
        ({**sparse, "indices": np.array([0]), "data": np.array([np.nan])}, "no finite numbers"),
        ({**sparse, "shape": [3, INDEX + 1]}, "at most"),
        ({"indptr": np.array([0, 0]), "y": y[:1]}, "needs data, indices"),
    ]
    for content, said in cases:
        np.savez(tmp_path / "a.npz", **content)
        with pytest.raises(TableError, match=said):
            read_sheet(tmp_path / "a.npz")


def test_npz_that_claims_more_than_it_has(tmp_path):
    for shape, said in (((10**12,), "and has less"), ((-1,), "no npz file of plain arrays")):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", header.getvalue() + b"\0" * 64)
        with pytest.raises(TableError, match=said):
            read_sheet(tmp_path / "a.npz")


# ------------------------------------------------------------------------------------------------ words
@given(st.text(max_size=300))
def test_shown_text_is_one_plain_line_that_ends(text):
    out = shown(text)
    assert len(out.splitlines()) <= 1
    assert out.encode("utf-8").decode("utf-8") == out  # no lone surrogates
    assert not set(out) & set("\x1b\x07\r\n\t\u202e\u2066\u200b\x9b")
    assert len(out) <= 10 * 200


def test_words():
    assert shown("a\nb\x1b[31m\u202e") == "a\\nb\\x1b[31m\\u202e"
    assert shown("é日本") == "é日本"
    assert len(shown("x" * 10**6)) == 200
    assert listed("abcdefghij") == "a, b, c, d, e, f, g, h, ... (10 in all)"
    assert nearest("pric", ["price", "rooms"]) == '; did you mean "price"?'
    assert nearest("zzz", ["price"]) == ""
    assert json.loads(json.dumps(shown("\ud800"))) == "\\ud800"
