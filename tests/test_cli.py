"""The command line: what it finds is what the library finds, mistakes end in one line and an exit code, files are safe."""

import csv
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.cli import main, search
from mercer.cli.baselines import baselines
from mercer.cli.console import Console, Outcome, aligned, as_plain
from mercer.cli.families import Family, families, is_sequence, stretched
from mercer.cli.main import VERBS
from mercer.cli.making import make_study
from mercer.cli.prepare import Choices, prepare
from mercer.cli.search import Clock, Search
from mercer.cli.tables import Sheet, read_sheet
from mercer.errors import ModelFileError, TableError
from mercer.estimators import Coding, TableModel
from mercer.kernels import RBF, Categorical, Linear, Spectrum, TfIdf
from mercer.persist import container
from mercer.registry import KERNELS
from mercer.report.intervals import scores, wilson


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, and a short search."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(search, "FACTORS", (1.0, 0.5, 2.0))
    monkeypatch.setattr(search, "COSTS", (1.0, 100.0))
    monkeypatch.setattr("mercer.report.intervals._DRAWS", 50)
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A csv and a model of it, made once."""
    place = tmp_path_factory.mktemp("fitted")
    write_csv(place / "a.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FACTORS", (1.0,))
        assert main(["fit", str(place / "a.csv"), "--target", "kind", "-o", str(place / "model.mercer"), "-q"]) == 0
    return place


@pytest.fixture
def model(fitted, folder):
    """Copies of both in the folder."""
    for name in ("a.csv", "model.mercer"):
        (folder / name).write_bytes((fitted / name).read_bytes())
    return folder / "model.mercer"


def call(capsys, *words):
    """Exit code, output and errors of a command."""
    code = main([str(w) for w in words])
    out = capsys.readouterr()
    return code, out.out, out.err


def found(capsys, *words):
    code, out, _ = call(capsys, *words, "--json")
    assert code == 0, out
    return json.loads(out)


def table(n=60, seed=0):
    """Rows of two numbers, a category and a text; a class and a number to predict."""
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((2, n)).round(6)
    shop = np.array(["north", "south", "east"])[rng.integers(0, 3, n)]
    said = [f"good {w} bread" if a > 0 else f"bad {w} cheese" for a, w in zip(u, "abcdef" * n, strict=False)]
    price = (np.sin(2 * u) + (shop == "north")).round(6)
    names = ["u", "v", "shop", "said", "kind", "price", "wave"]
    kind, wave = np.where(u > 0, "up", "down"), np.sin(2 * u) + 0.05 * rng.standard_normal(n)
    return names, list(zip(u, v, shop, said, kind, price, wave, strict=True))


def write_csv(path, columns=("u", "v", "kind"), n=60, seed=0, **changes):
    names, rows = table(n, seed)
    places = [names.index(c) for c in columns]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([changes.get(c, c) for c in columns])
        writer.writerows([[row[j] for j in places] for row in rows])
    return path


# ------------------------------------------------------------------------------------------------ fit and predict
def test_fit_predict_score_and_info_fit_together(capsys):
    write_csv("a.csv")
    said = found(capsys, "fit", "a.csv", "--target", "kind")
    assert said["task"] == "classification"
    assert said["classes"] == ["down", "up"]
    assert said["rows"] == {"train": 48, "test": 12}
    assert [c["kind"] for c in said["columns"]] == ["numeric", "numeric"]
    assert said["scores"]["accuracy"][0] > 0.8 > said["baselines"]["largest class"]["accuracy"][0]
    assert len(said["candidates"]) >= 4
    assert max(c["accuracy"] for c in said["candidates"]) == next(
        c["accuracy"] for c in said["candidates"] if c["kernel"] == said["kernel"]
    )

    facts = found(capsys, "info", "model.mercer")
    assert (facts["class"], facts["target"], facts["classes"]) == ("SVC", "kind", ["down", "up"])
    assert facts["scores"]["accuracy"] == said["scores"]["accuracy"]
    assert facts["kernel"] == said["kernel"]
    assert "up" in call(capsys, "info", "model.mercer")[1]

    write_csv("new.csv", ("v", "u"), n=20, seed=1)  # another order, no target
    predicted = found(capsys, "predict", "model.mercer", "new.csv")["predictions"]
    model, sheet = mercer.load("model.mercer"), read_sheet("new.csv")
    assert predicted == model.predict(sheet.columns).tolist()
    centre = [model.codings[0].centre, model.codings[1].centre]
    scale = [model.codings[0].scale, model.codings[1].scale]
    X = (np.column_stack([sheet.columns["u"], sheet.columns["v"]]) - centre) / scale
    assert predicted == np.array(["down", "up"])[model.model.predict(X)].tolist()

    write_csv("more.csv", n=20, seed=1)
    truth = [row[4] for row in table(20, 1)[1]]
    share = np.mean([a == b for a, b in zip(truth, predicted, strict=True)])
    assert found(capsys, "score", "model.mercer", "more.csv")["scores"]["accuracy"][0] == pytest.approx(share)


def test_regression_beats_a_line_and_writes_csv(capsys):
    write_csv("a.csv", ("u", "v", "price", "shop"), n=80)
    said = found(capsys, "fit", "a.csv", "--target", "price", "-o", "p.mercer", "--seed", "3")
    assert said["task"] == "regression"
    assert said["model"] == "KernelRidgeCV"
    assert said["scores"]["rmse"][0] < said["baselines"]["linear"]["rmse"][0] < said["baselines"]["mean"]["rmse"][0]
    low, value, high = np.array(said["scores"]["rmse"])[[1, 0, 2]]
    assert low < value < high
    code, out, _ = call(capsys, "predict", "p.mercer", "a.csv", "-o", "out.csv")
    assert code == 0
    assert "80 predictions" in out
    with open("out.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["price"]
    model, sheet = mercer.load("p.mercer"), read_sheet("a.csv")
    np.testing.assert_array_equal([float(r[0]) for r in rows[1:]], model.predict(sheet.columns))
    again = found(capsys, "fit", "a.csv", "--target", "price", "-o", "again.mercer", "--seed", "3")
    assert again["scores"] == said["scores"]
    other = found(capsys, "fit", "a.csv", "--target", "price", "-o", "other.mercer", "--seed", "4")
    assert other["scores"] != said["scores"]


def test_every_kind_of_column_takes_part(capsys):
    write_csv("a.csv", ("u", "shop", "said", "kind"))
    said = found(capsys, "fit", "a.csv", "--target", "kind", "--text", "said")
    assert [c["kind"] for c in said["columns"]] == ["numeric", "category", "text"]
    assert "RBF" in said["kernel"]
    assert "TfIdf" in said["kernel"]
    assert "Categorical" in said["kernel"]
    model = mercer.load("model.mercer")
    columns = {
        "u": np.array([np.nan, 1.0]),
        "shop": np.array(["moon", None], object),
        "said": np.array([None, "good"], object),
    }
    assert set(model.predict(columns)) <= {"up", "down"}  # new levels and missing values are answered


def test_text_alone_and_without_a_header(capsys, folder):
    rows = table(80)[1]
    lines = "".join(f"{row[4]}\t{row[3]}\n" for row in rows)
    (folder / "a.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    said = found(capsys, "fit", "a.tsv.gz", "--no-header", "--target", "0", "--text", "1")
    assert said["kernel"].startswith("TfIdf")
    assert said["scores"]["accuracy"][0] == 1.0
    with_target = found(capsys, "predict", "model.mercer", "a.tsv.gz", "--no-header")
    assert with_target["rows"] == 80
    with gzip.open("a.tsv.gz", "rt") as file, open("new.tsv", "w") as new:
        new.writelines(line.split("\t")[1] for line in file)
    without = found(capsys, "predict", "model.mercer", "new.tsv", "--no-header")
    assert without["predictions"] == with_target["predictions"]


def test_strings_get_substrings(capsys, folder):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice([*"acgt"], 30 + i % 2)) for i in range(60)]
    lines = [
        "dna,y",
        *(f"{w if i % 2 else w[:10] + 'gattaca' + w[17:]},{'no' if i % 2 else 'yes'}" for i, w in enumerate(words)),
    ]
    (folder / "a.csv").write_text("\n".join(lines))
    said = found(capsys, "fit", "a.csv")
    assert "Spectrum" in said["kernel"]
    assert said["scores"]["accuracy"][0] > 0.8


def test_sparse_rows(capsys, folder):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    lines = [f"{2 * c - 1} {1 + c}:5 {rng.integers(3, 9)}:{rng.random():.3f}" for c in y]
    (folder / "a.libsvm").write_text("\n".join(lines))
    (folder / "b.libsvm").write_text("1 1:5 3:0.1\n-1 2:5\n")
    (folder / "c.libsvm").write_text("1 1:5 33:0.1\n")
    assert found(capsys, "fit", "a.libsvm")["scores"]["accuracy"][0] == 1.0
    assert found(capsys, "predict", "model.mercer", "b.libsvm")["predictions"] == ["-1", "1"]
    assert "made for 8" in call(capsys, "predict", "model.mercer", "c.libsvm")[2]
    write_csv("d.csv")
    assert "reads sparse rows" in call(capsys, "predict", "model.mercer", "d.csv")[2]


def test_a_kernel_of_ones_own_and_its_names(capsys):
    write_csv("a.csv", ("u", "v", "price"))
    said = found(capsys, "fit", "a.csv", "--target", "price", "--kernel", 'RBF().on("u") + Linear().on("v")')
    assert ".on('u')" in said["kernel"]
    assert {c["family"] for c in said["candidates"]} == {"given"}
    assert len({c["kernel"] for c in said["candidates"]}) == 5  # at several widths


@pytest.mark.parametrize(("model", "name", "target"), [
    ("logistic", "KernelLogistic", "kind"), ("gp", "GaussianProcessClassifier", "kind"),
    ("gp", "GaussianProcessRegressor", "price"), ("svr", "SVR", "price"),
])  # fmt: skip
def test_models_by_name(model, name, target, capsys):
    write_csv("a.csv", ("u", "v", target))
    said = found(capsys, "fit", "a.csv", "--target", target, "--model", model)
    assert said["model"] == name
    if target == "price":
        assert said["scores"]["rmse"][0] < said["baselines"]["mean"]["rmse"][0]
        return
    assert said["scores"]["accuracy"][0] > 0.8
    table_ = found(capsys, "predict", "model.mercer", "a.csv", "--probability")["columns"]
    np.testing.assert_allclose(np.add(table_["probability of down"], table_["probability of up"]), 1.0)
    up = np.array(table_["probability of up"]) > 0.5
    assert np.where(up, "up", "down").tolist() == table_["kind"]


def test_options_that_do_not_fit(capsys, model):
    assert (
        "none for a classification"
        in call(capsys, "fit", "a.csv", "--target", "kind", "--model", "ridge", "--force")[2]
    )
    assert "has no probabilities" in call(capsys, "predict", "model.mercer", "a.csv", "--probability")[2]


def test_rows_to_test_on_from_another_file(capsys):
    write_csv("a.csv", n=60)
    write_csv("b.csv", n=25, seed=5)
    said = found(capsys, "fit", "a.csv", "--target", "kind", "--test", "b.csv")
    assert said["rows"] == {"train": 60, "test": 25}
    assert found(capsys, "score", "model.mercer", "b.csv")["scores"] == said["scores"]


# ------------------------------------------------------------------------------------------------ what was asked wrongly
def csv_of(*columns, n=40):
    """A csv of columns (name, value of row i)."""
    lines = [",".join(name for name, _ in columns), *(",".join(str(f(i)) for _, f in columns) for i in range(n))]
    return "\n".join(lines) + "\n"


U, KIND = ("u", lambda i: i * 37 % 11), ("kind", lambda i: "ab"[i * 7 % 3 % 2])
MISTAKES = {
    "no such column": (csv_of(U, KIND), ["--target", "knd"], 'no column "knd"; did you mean "kind"?'),
    "no target": (csv_of(U, KIND), [], "say it with --target; there are u, kind"),
    "constant": (csv_of(U, ("kind", lambda i: 1)), ["--target", "kind"], "is 1.0 in all rows"),
    "missing": (csv_of(U, ("kind", lambda i: "" if i % 5 else "a")), ["--target", "kind"], "missing in 32 of 40 rows"),
    "mixed": (csv_of(U, ("w", lambda i: "x" if i == 9 else i), KIND), ["--target", "kind"],
              '"w" holds 39 numbers and 1 texts, the first in line 11: x'),
    "mixed target": (csv_of(U, ("kind", lambda i: "x" if i == 9 else i)), ["--target", "kind"], "either numbers or names"),
    "ragged": (csv_of(U, KIND) + "1,2,3\n", ["--target", "kind"], "line 42 has 3 fields"),
    "typo in the kernel": (csv_of(U, KIND), ["--target", "kind", "--kernel", "RBF() + Linaer()"], "did you mean Linear?"),
    "names of rows": (csv_of(U, ("kind", lambda i: f"r{i}")), ["--target", "kind"], "40 values in 40 rows"),
    "few rows": (csv_of(U, KIND, n=6), ["--target", "kind"], "at least 10"),
    "texts for a regression": (csv_of(U, KIND), ["--target", "kind", "--task", "regression"], "needs numbers"),
    "no columns": (csv_of(KIND), ["--target", "kind"], "no column is left"),
    "unknown column to drop": (csv_of(U, KIND), ["--target", "kind", "--drop", "w"], '--drop: there is no column "w"'),
    "column of a kernel": (csv_of(U, KIND), ["--target", "kind", "--kernel", 'RBF().on("w")'], "reads the column 'w'"),
    "too large": (csv_of(("u", lambda i: f"{i}e300"), KIND), ["--target", "kind"], "too large for their squares"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_end_in_one_line(what, capsys, folder):
    content, options, said = MISTAKES[what]
    (folder / "a.csv").write_text(content)
    code, out, err = call(capsys, "fit", "a.csv", *options, "-q")
    assert code == 1
    assert out == ""
    assert said in err
    assert err.startswith("mercer: ")
    assert err.count("\n") == (3 if "kernel" in what and "typo" in what else 1)
    code, out, err = call(capsys, "fit", "a.csv", *options, "--json")
    assert code == 1
    assert err == ""
    assert said in json.loads(out)["error"]
    assert os.listdir(folder) == ["a.csv"]


def test_the_kernel_is_pointed_into(capsys):
    code, _, err = call(capsys, "check-kernel", "RBF() + Linaer()")
    assert code == 1
    lines = err.split("\n")
    assert lines[2].index("^") == lines[1].index("Linaer")


@pytest.mark.parametrize("words", [["fit"], ["fix"], ["fit", "a", "--time", "soon"], ["fit", "a", "--test-size", "2"], [],
                                   ["fit", "a", "--time", "nan"], ["compress", "a", "--vectors", "0"], ["info"],
                                   ["fit", "a", "--model", "forest"], ["predict", "a"], ["kernels", "--seed", "x"]])  # fmt: skip
def test_usage_is_exit_code_2(words, capsys):
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert "usage: mercer" in err
    code, out, err = call(capsys, *words, "--json")
    assert (code, err) == (2, "")
    assert json.loads(out)["code"] == 2


def test_notes_tell_what_was_done(capsys, folder):
    columns = [U, ("id", lambda i: f"r{i}x"), ("same", lambda i: 4), ("gap", lambda i: "" if i % 4 == 0 else i % 7),
               ("grade", lambda i: "" if i == 3 else i % 3)]  # fmt: skip
    (folder / "a.csv").write_text(csv_of(*columns, n=60))
    code, _, err = call(capsys, "fit", "a.csv", "--target", "grade")
    assert code == 0
    for said in (
        '"id" names each row',
        '"same" is the same in all rows',
        "1 rows without a target",
        "taken as classes",
    ):
        assert said in err
    facts = found(capsys, "info", "model.mercer")
    assert [c["name"] for c in facts["read"]] == ["u", "gap"]
    assert mercer.load("model.mercer").codings[1].indicator


# ------------------------------------------------------------------------------------------------ files
def test_nothing_is_overwritten_without_force(capsys, folder, model):
    before = model.read_bytes()
    code, _, err = call(capsys, "fit", "a.csv", "--target", "kind", "--seed", "1")
    assert code == 1
    assert "model.mercer exists; --force" in err
    assert model.read_bytes() == before
    assert call(capsys, "fit", "a.csv", "--target", "kind", "--force", "-q", "--seed", "1")[0] == 0
    assert model.read_bytes() != before
    assert call(capsys, "predict", "model.mercer", "a.csv", "-o", "a.csv")[0] == 1
    assert (folder / "a.csv").read_text().startswith("u,v,kind")
    assert call(capsys, "compress", "model.mercer", "-o", "model.mercer")[0] == 1


def test_places_of_output(capsys, folder, model):
    fit = ["compress", "model.mercer", "-q", "--vectors", "3", "-o"]
    (folder / "target").write_text("precious")
    (folder / "link").symlink_to("target")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "sub").mkdir()
    for place, said in (
        ("link", "exists"),
        ("dangling", "exists"),
        ("sub", "is a folder"),
        ("no/where", "does not exist"),
    ):
        code, _, err = call(capsys, *fit, place)
        assert code == 1
        assert said in err
    if os.name == "posix":
        code, _, err = call(capsys, *fit, "/dev/null", "--force")
        assert code == 1
        assert "device or a pipe" in err
    assert call(capsys, *fit, "link", "--force")[0] == 0
    assert (folder / "target").read_text() == "precious"  # the link is replaced, not what it points to
    assert call(capsys, *fit, "sub/../up.mercer")[0] == 0
    assert (folder / "up.mercer").exists()
    assert call(capsys, *fit[:-1], "-o=-x.mercer")[0] == 0
    assert call(capsys, "info", "--", "-x.mercer")[0] == 0
    code, out, _ = call(capsys, *fit, "line\nbreak.mercer")
    assert code == 0
    assert "line\\nbreak.mercer" in out


def test_the_report_is_asked_for(capsys, folder, monkeypatch):
    asked = []
    monkeypatch.setattr("mercer.report.write_report", lambda *a, **k: asked.append((a, k)), raising=False)
    write_csv("a.csv")
    fit = ["fit", "a.csv", "--target", "kind", "--report"]
    assert "cannot be the model and the report" in call(capsys, *fit, "./model.mercer")[2]
    (folder / "r.html").write_text("precious")
    assert "r.html exists" in call(capsys, *fit, "r.html")[2]
    assert found(capsys, *fit, "new.html")["report"] == "new.html"
    ((path, study), options) = asked[0]
    assert (path, options) == ("new.html", {"force": False})
    assert study.title == "a.csv"


def test_pickles_are_refused(capsys, folder):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, ("exploded",))

    data = pickle.dumps(Bomb())
    write_csv("a.csv")
    for name in ("m.pkl", "m.mercer", "m.joblib"):
        (folder / name).write_bytes(data)
        for words in (["predict", name, "a.csv"], ["info", name], ["score", name, "a.csv"], ["compress", name]):
            code, _, err = call(capsys, *words)
            assert code == 1
            assert "a pickle can run any code" in err
    assert not (folder / "exploded").exists()


def test_files_that_are_no_models(capsys, folder, monkeypatch):
    write_csv("a.csv")
    mercer.save(RBF(2.0), "kernel.mercer")
    assert "without the columns of a table" in call(capsys, "predict", "kernel.mercer", "a.csv")[2]
    assert found(capsys, "info", "kernel.mercer")["class"] == "RBF"
    (folder / "junk").write_bytes(b"PK\x03\x04junk")
    assert "damaged or something else" in call(capsys, "info", "junk")[2]
    assert "there is no such file" in call(capsys, "info", "none")[2]
    with monkeypatch.context() as newer:
        newer.setattr(container, "FORMAT_VERSION", 2)
        mercer.save(RBF(), "new.mercer")
    code, _, err = call(capsys, "info", "new.mercer")
    assert code == 1
    assert "made by a newer mercer" in err


def test_new_rows_must_have_the_columns(capsys, folder, model):
    (folder / "b.csv").write_text("U,v\n1,2\n")
    (folder / "c.csv").write_text("u,v\nx,2\n")
    (folder / "d.csv").write_text("u,v,kind\n1,2,sideways\n")
    (folder / "e.csv").write_text("u,v\n,2\n")
    (folder / "f.csv").write_text("u,v\n1,2\nx,2\n")
    assert 'reads the column "u", which is not there' in call(capsys, "predict", "model.mercer", "b.csv")[2]
    assert "reads numbers there" in call(capsys, "predict", "model.mercer", "c.csv")[2]
    assert "in line 3: x" in call(capsys, "predict", "model.mercer", "f.csv")[2]
    assert "is sideways in a row; the classes are down, up" in call(capsys, "score", "model.mercer", "d.csv")[2]
    assert call(capsys, "predict", "model.mercer", "e.csv")[0] == 0  # a missing number is the median


def test_names_of_users_do_not_break_out(capsys, folder):
    evil = "x\x1b[2J\u202e=1+1"
    write_csv("a.csv", ("u", "v", "kind"), u=evil, kind="=cmd()")
    code, out, err = call(capsys, "fit", "a.csv", "--target", "=cmd()")
    assert code == 0
    assert not set(out + err) & {"\x1b", "\u202e"}
    said = found(capsys, "info", "model.mercer")
    assert said["read"][0]["name"] == evil
    raw = call(capsys, "info", "model.mercer", "--json")[1]
    assert raw.isascii()
    _, out, _ = call(capsys, "predict", "model.mercer", "a.csv")
    assert out.startswith("'=cmd()\n")


def test_spreadsheets_get_no_formulas():
    from mercer.cli.predict import as_csv

    text = as_csv({"=a": ["=1+1", "-1", "+x", "@b", "plain", "-b"], "n": [1.5, -2.0, 0.1, 1e-9, 3, -4]})
    rows = list(csv.reader(io.StringIO(text)))
    assert [r[0] for r in rows] == ["'=a", "'=1+1", "-1", "'+x", "'@b", "plain", "'-b"]
    assert [float(r[1]) for r in rows[1:]] == [1.5, -2.0, 0.1, 1e-9, 3, -4]


# ------------------------------------------------------------------------------------------------ other verbs
def test_tune_finds_what_the_library_finds(capsys):
    write_csv("a.csv", ("u", "v", "wave"), n=80)
    said = found(capsys, "tune", "a.csv", "--target", "wave", "--ard", "-o", "t.mercer", "--steps", "30")
    kernel = mercer.kernels.parse_kernel(said["kernel"])
    p = prepare(read_sheet("a.csv"), None, Choices("wave"), np.random.default_rng(0))
    ridge = mercer.KernelRidge(1e-2, kernel=RBF(), fit_intercept=True)
    own = mercer.tune(ridge, p.X, p.y, ard=True, max_iter=30, random_state=0)
    np.testing.assert_allclose(kernel.lengthscale, own.kernel.lengthscale, rtol=1e-3)
    assert said["value"] == pytest.approx(own.value, rel=1e-6)
    assert said["objective"] == "loo"
    assert found(capsys, "predict", "t.mercer", "a.csv")["rows"] == 80
    text = call(capsys, "tune", "a.csv", "--target", "wave", "--steps", "2", "-q")[1]
    assert "evaluations" in text


def test_compress_keeps_the_predictions(capsys, model):
    before = found(capsys, "predict", "model.mercer", "a.csv")["predictions"]
    said = found(capsys, "compress", "model.mercer", "--vectors", "4", "-o", "small.mercer")
    assert said["n_vectors"] <= 4 < said["n_before"]
    after = found(capsys, "predict", "small.mercer", "a.csv")["predictions"]
    assert np.mean([a == b for a, b in zip(before, after, strict=True)]) > 0.9
    assert found(capsys, "info", "small.mercer")["training_rows"] == said["n_vectors"]


def test_kernels_are_listed_with_certificates(capsys):
    listed = {row["name"]: row for row in found(capsys, "kernels")["kernels"]}
    public = {name for name in mercer.kernels.__all__ if name in KERNELS}
    assert set(listed) == public
    assert listed["RBF"]["certificate"].startswith("pd: ")
    assert listed["Sigmoid"]["certificate"].startswith("unknown")
    assert "\\exp" in listed["RBF"]["formula"]
    assert "lengthscale=1.0" in listed["RBF"]["signature"]
    assert "Gaussian" in call(capsys, "kernels", "RBF")[1]
    assert "RBF " in call(capsys, "kernels")[1]
    assert "did you mean" in call(capsys, "kernels", "Lineer")[2]


def test_check_kernel_refutes(capsys):
    assert found(capsys, "check-kernel", "RBF() + Linear()")["refuted"] is False
    code, out, _ = call(capsys, "check-kernel", "RBF() - Linear()", "--json")
    said = json.loads(out)
    assert code == 1
    assert said["refuted"]
    assert said["smallest_eigenvalue"] < -1
    assert "does not read plain numbers" in call(capsys, "check-kernel", "Spectrum(3)")[2]
    code, _, err = call(capsys, "check-kernel", "Intersection()", "--rows", "20")
    assert code == 0
    assert "tested on absolute values" in err
    X = np.random.default_rng(7).standard_normal((30, 2))
    smallest = np.linalg.eigvalsh(RBF()(X) - Linear()(X)).min()
    words = ["check-kernel", "RBF() - Linear()", "--rows", "30", "--width", "2", "--seed", "7", "--json"]
    assert json.loads(call(capsys, *words)[1])["smallest_eigenvalue"] == pytest.approx(smallest)
    write_csv("a.csv", ("u", "shop", "said"))
    assert found(capsys, "check-kernel", 'Spectrum(3).on("said")', "--data", "a.csv", "--rows", "9")["rows"] == 9


def test_gallery_lists_copies_and_runs(capsys, folder):
    names = [row["name"] for row in found(capsys, "gallery")["examples"]]
    assert "xor" in names
    assert all(row["about"] for row in found(capsys, "gallery")["examples"])
    assert call(capsys, "gallery", "xor", "--out", "g", "--copy")[0] == 0
    assert (folder / "g" / "plot_xor.py").is_file()
    assert "--force overwrites" in call(capsys, "gallery", "plot_xor.py", "--out", "g")[2]
    assert "did you mean" in call(capsys, "gallery", "xer")[2]
    (folder / "g" / "plot_xor.py").unlink()


def test_gallery_tells_how_a_run_ended(capsys, folder, monkeypatch):
    from mercer.cli import gallery

    for name, text, code in (("good", "print('pic' + 'ture')", 0), ("bad", "raise SystemExit('broken')", 1)):
        (folder / f"plot_{name}.py").write_text(f'"""Title."""\n{text}\n')
        monkeypatch.setattr(gallery, "examples", lambda name=name: {name: folder / f"plot_{name}.py"})
        found_code, out, _ = call(capsys, "gallery", name, "--out", "g")
        assert found_code == code
        assert ("picture" if code == 0 else "broken") in out


def test_bench_measures(capsys):
    seconds = found(capsys, "bench", "--rows", "100")["seconds"]
    assert len(seconds) == 3
    assert all(s > 0 for s in seconds.values())


def test_doctor_tells_what_is_broken(capsys, monkeypatch):
    from mercer.cli import doctor

    said = found(capsys, "doctor")
    assert said["ok"]
    assert said["facts"]["numpy"] == np.__version__
    monkeypatch.setitem(doctor.CHECKS, "files", lambda: 1 / 0)
    code, out, _ = call(capsys, "doctor")
    assert code == 1
    assert "failed: ZeroDivisionError" in out
    assert "1 of 3 checks failed" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_helps_with_an_example(verb, capsys):
    code, out, _ = call(capsys, verb, "--help")
    assert code == 0
    assert f"example: mercer {verb}" in out
    assert "--json" in out
    assert "--seed" in out


def test_the_process_itself():
    where = {**os.environ, "PYTHONPATH": str(Path(mercer.__file__).parents[1])}
    run = partial(subprocess.run, capture_output=True, text=True, check=False, env=where)
    done = run([sys.executable, "-m", "mercer", "--version"])
    assert (done.returncode, done.stdout) == (0, f"mercer {mercer.__version__}\n")
    done = run([sys.executable, "-m", "mercer", "info", "none"])
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "mercer: none: there is no such file\n")


def test_an_interrupt_ends_it_and_writes_nothing(capsys, folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    write_csv("a.csv")
    monkeypatch.setattr(Search, "best", interrupted)
    code, out, err = call(capsys, "fit", "a.csv", "--target", "kind")
    assert (code, out) == (130, "")
    assert err.endswith("mercer: stopped\n")
    assert os.listdir(folder) == ["a.csv"]


def test_errors_can_be_seen_whole(capsys):
    with pytest.raises(TableError):
        main(["fit", "none.csv", "--debug"])


# ------------------------------------------------------------------------------------------------ parts
def sheet_of(**columns):
    return Sheet({k: np.array(v, dtype=object if isinstance(v[0], str) else float) for k, v in columns.items()})


@pytest.mark.parametrize(("values", "task"), [
    ([0, 1] * 10, "classification"), (list(range(4)) * 5, "classification"), ([0.5, 1.5] * 10, "classification"),
    (list(range(20)), "regression"), ([0, 1, 2, 3.5] * 5, "regression"), ([0] * 17 + [1] * 2 + [2], "regression"),
    (["a", "b"] * 10, "classification"),
])  # fmt: skip
def test_the_task_follows_from_the_target(values, task):
    sheet = sheet_of(x=np.arange(20.0), y=values)
    p = prepare(sheet, None, Choices(), np.random.default_rng(0))
    assert p.task == task


def test_rows_held_out_are_of_every_class_and_scale_is_that_of_training():
    y = ["a"] * 40 + ["b"] * 10 + ["c"]
    sheet = sheet_of(x=np.arange(51.0), y=y)
    p = prepare(sheet, None, Choices(test_size=0.3), np.random.default_rng(0))
    assert np.bincount(p.y_test).tolist() == [12, 3]
    assert np.bincount(p.y).tolist() == [28, 7, 1]
    np.testing.assert_allclose([p.X.mean(), p.X.std()], [0.0, 1.0], atol=1e-12)
    back = np.sort(np.concatenate([p.X, p.X_test])[:, 0] * p.codings[0].scale + p.codings[0].centre)
    np.testing.assert_allclose(back, np.arange(51.0), atol=1e-9)


def test_a_missing_number_is_the_median_and_told_by_a_column():
    c = Coding.learned("x", "numeric", np.array([1.0, np.nan, 3.0, 100.0]))
    assert (c.fill, c.indicator) == (3.0, True)
    coded = c.coded(np.array([np.nan, 3.0]))
    assert coded["x"][0] == coded["x"][1]
    assert coded["x (missing)"].tolist() == [1.0, 0.0]
    whole = Coding.learned("x", "numeric", np.array([5.0, 5.0]))
    assert (whole.scale, whole.indicator) == (1.0, False)


def test_kinds_of_columns():
    n = 60
    sheet = sheet_of(
        few=["red", "green"] * 30, long=[f"a sentence of forty letters or even more {i % 3}" for i in range(n)],
        many=[f"word number {i}" for i in range(n)], y=[0, 1] * 30,
    )  # fmt: skip
    p = prepare(sheet, None, Choices(), np.random.default_rng(0))
    assert {c["name"]: c["kind"] for c in p.columns} == {"few": "category", "long": "text", "many": "text"}
    p = prepare(sheet, None, Choices(category=["*"], drop=["long"]), np.random.default_rng(0))
    assert {c["name"]: c["kind"] for c in p.columns} == {"few": "category", "many": "category"}
    p = prepare(sheet, None, Choices(drop=["few", "long"]), np.random.default_rng(0))
    assert p.layout == "text"


def test_sequences_are_told_from_documents():
    assert is_sequence(["acgtacgtacgt", "ttttttttttt"])
    assert is_sequence(["MKVLAAGIVGLL", "MSTNPKPQRK"])
    assert not is_sequence(["a cat sat on the mat", "a dog"])
    assert not is_sequence(["acg", "ttt"])
    assert not is_sequence([])


def test_families_begin_at_the_median_distance():
    X = np.random.default_rng(0).standard_normal((30, 3))
    family = Family.of("g", RBF("median"), X)
    D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))[np.triu_indices(30, 1)]
    assert family.make(1.0).lengthscale == pytest.approx(np.median(D), rel=1e-3)
    assert family.make(2.0).lengthscale == pytest.approx(2 * np.median(D), rel=1e-3)
    assert not Family.of("l", Linear(), X).has_widths
    assert repr(stretched(RBF([1.0, 2.0]).on(0, 1) + Linear(), 3.0)) == repr(RBF([3.0, 6.0]).on(0, 1) + Linear())


def test_mixed_tables_get_sums_and_products():
    sheet = sheet_of(
        u=np.arange(30.0),
        shop=["n", "s", "e"] * 10,
        said=[f"a text of several words {i}" for i in range(30)],
        y=[0, 1] * 15,
    )
    p = prepare(sheet, None, Choices(), np.random.default_rng(0))
    product, total = families(p, p.X)
    leaves = [{type(leaf) for leaf in f.make(1.0)._leaves} for f in (product, total)]
    assert leaves == [{RBF, Categorical, TfIdf}] * 2
    assert product.make(1.0) != total.make(1.0)


def test_scores_are_those_of_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    y, f = rng.standard_normal((2, 50))
    got = scores("regression", y, f)
    assert got["rmse"][0] == pytest.approx(metrics.root_mean_squared_error(y, f))
    assert got["mae"][0] == pytest.approx(metrics.mean_absolute_error(y, f))
    assert got["r2"][0] == pytest.approx(metrics.r2_score(y, f))
    labels, guess = rng.integers(0, 3, (2, 50))
    P = rng.dirichlet(np.ones(3), 50)
    got = scores("classification", labels, guess, P)
    assert got["balanced_accuracy"][0] == pytest.approx(metrics.balanced_accuracy_score(labels, guess))
    assert got["log_loss"][0] == pytest.approx(metrics.log_loss(labels, P))
    assert all(low <= value <= high for value, low, high in got.values())


def test_intervals_cover():
    from scipy.stats import binomtest

    for right, n in ((0, 10), (7, 10), (10, 10), (480, 1000)):
        expected = binomtest(right, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(right, n), (right / n, *expected), atol=1e-12)
    rng = np.random.default_rng(0)
    inside = 0
    for seed in range(40):
        _, low, high = scores("regression", rng.standard_normal(80), np.zeros(80), seed=seed)["mae"]
        inside += low < np.sqrt(2 / np.pi) < high
    assert 33 <= inside


def test_large_tables_are_searched_on_some_rows_and_it_is_told(monkeypatch):
    monkeypatch.setattr(search, "ROWS", 60)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] * X[:, 1] > 0).astype(float)})
    made = make_study(sheet, None, Choices())
    assert made.study.approximations == ["the kernel was chosen on 60 of 240 training rows"]
    assert len(made.study.model.classes_) == 2
    assert made.study.scores["accuracy"][0] > 0.85
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(300)})
    monkeypatch.setattr(search, "EXACT", 100)
    monkeypatch.setattr(search, "LANDMARKS", 40)
    made = make_study(sheet, None, Choices())
    assert "landmarks instead of all rows" in made.study.approximations[-1]
    assert made.study.scores["r2"][0] > 0.8


def test_a_short_time_is_kept_and_told(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] > 0).astype(float)})
    monkeypatch.setattr(search, "ROWS", 100)
    made = make_study(sheet, None, Choices(), seconds=1e-6)
    assert len(made.study.candidates) == 1  # one must be tried
    assert made.study.approximations[-1].startswith("fitted on 100 of 320 training rows")


def test_the_search_finds_what_a_grid_search_finds():
    """The score of a candidate is the mean accuracy of folds, which scikit-learn computes too."""
    from sklearn.model_selection import cross_val_score
    from sklearn.svm import SVC as SklearnSVC  # noqa: N811

    X = np.random.default_rng(0).standard_normal((90, 2))
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] * X[:, 1] > 0).astype(float)})
    p = prepare(sheet, None, Choices(), np.random.default_rng(0))
    search = Search(p, "auto", Clock(100.0), np.random.default_rng(1), lambda *_: None)
    best = search.best(None)
    kernel = best.kernel
    model = SklearnSVC(C=best.price, kernel=lambda A, B: kernel(A, B))
    assert cross_val_score(model, search.rows, search.y, cv=search.folds).mean() == pytest.approx(best.score)
    assert best.score == max(c["accuracy"] for c in best.candidates)


def test_the_baselines_are_simple_models():
    from sklearn.linear_model import RidgeCV

    X = np.random.default_rng(0).standard_normal((60, 2))
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] + 0.1 * X[:, 1] ** 2})
    p = prepare(sheet, None, Choices(), np.random.default_rng(0))
    found_ = baselines(p, 0)
    linear = RidgeCV(np.logspace(-3, 3, 13)).fit(p.X, p.y).predict(p.X_test)
    assert found_["linear"] == scores("regression", p.y_test, linear)
    assert found_["mean"] == scores("regression", p.y_test, np.full(len(p.y_test), p.y.mean()))


def test_the_study_has_what_reports_read():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    sheet = Sheet({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": X[:, 0]})
    study, model, _ = make_study(sheet, None, Choices(), title="t")
    assert study.names == ["a", "b", "c"]
    np.testing.assert_array_equal(study.predicted, study.model.predict(study.X_test))
    np.testing.assert_array_equal(study.model.predict(study.X_train[:3]), model.model.predict(study.X_train[:3]))
    assert "Gram 48 x 48" in study.plan
    assert study.certificate == str(study.kernel.validity)
    assert set(study.timings) == {"prepare", "compile", "search", "fit", "test", "baselines"}
    assert {"family", "kernel", "alpha", "rmse", "seconds"} <= set(study.candidates[0])
    assert study.versions["mercer"] == mercer.__version__


def test_files_refuse_models_that_do_not_fit_together():
    ridge = mercer.KernelRidge(kernel=RBF()).fit([[0.0], [1.0]], [0.0, 1.0])
    good = {
        "model": ridge,
        "task": "regression",
        "target": "y",
        "codings": (Coding("x", "numeric"),),
        "layout": "matrix",
    }
    assert TableModel(**good).predict({"x": np.array([1.0])}).shape == (1,)
    for change in ({"layout": "cube"}, {"model": 3}, {"classes": ("a", "b")}, {"task": "classification"}, {"codings": ("x",)},
                   {"layout": "sparse"}, {"scales": np.ones(1)}):  # fmt: skip
        with pytest.raises(ModelFileError):
            TableModel(**{**good, **change})
    for bad in ({"scale": 0.0}, {"centre": np.nan}, {"kind": "colour"}, {"name": 3}):
        with pytest.raises(ModelFileError):
            Coding(**{"name": "x", "kind": "numeric", **bad})


def test_results_as_json_and_as_columns():
    assert as_plain({"a": np.float64("nan"), "b": [np.int64(2), (np.inf,)], "c": np.arange(2)}) == {
        "a": None,
        "b": [2, [None]],
        "c": [0, 1],
    }
    assert aligned([("a", 1.23456), ("bcd", 10.0)], ["x", "n"]) == "x        n\na    1.235\nbcd     10"
    assert as_plain(Spectrum(3)) == repr(Spectrum(3))


def test_progress_is_told_on_standard_error_only(capsys):
    console = Console()
    console.tell("one", 0.0)
    console.tell("two", 0.5)  # too soon after the first
    console.tell("three", 1.0)
    console.give(Outcome({}, "result"))
    out = capsys.readouterr()
    assert out.out == "result\n"
    assert [line.split("  ")[-1] for line in out.err.splitlines()] == ["one", "three"]
    for quiet in (Console(quiet=True), Console(as_json=True)):
        quiet.tell("one", 0.0)
        quiet.note("note")
    assert capsys.readouterr().err == ""


def test_columns_get_widths_where_that_helps():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    sheet = Sheet(
        {**{name: X[:, j] for j, name in enumerate("abcd")}, "y": np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(120)}
    )
    study = make_study(sheet, None, Choices()).study
    last = study.candidates[-1]
    assert last["family"] == "a width for each column"
    assert last["rmse"] < 0.5 * min(c["rmse"] for c in study.candidates[:-1])
    assert repr(study.kernel) == last["kernel"]
    assert 3 * study.kernel.lengthscale[0] < min(study.kernel.lengthscale[1:])


def test_parts_of_a_sum_get_weights_where_that_helps(monkeypatch):
    rng = np.random.default_rng(0)
    u, shop = rng.standard_normal(100), rng.integers(0, 12, 100)
    names = np.array([f"shop {i}" for i in shop], object)
    sheet = Sheet({"u": u, "shop": names, "y": u + 20.0 * np.cos(shop) + 0.1 * rng.standard_normal(100)})
    for helps in (True, False):
        monkeypatch.setattr(
            Search, "_held_out", lambda self, kernel, tune, *_, helps=helps: float((tune == "all") != helps)
        )
        study = make_study(sheet, None, Choices()).study
        last = study.candidates[-1]
        assert (last["family"] == "a weight for each part") == helps
        if helps:
            assert last["rmse"] < min(c["rmse"] for c in study.candidates[:-1])
            assert repr(study.kernel) == last["kernel"]
            first, second = study.kernel.children
            assert first.scale != 1.0 != second.scale


@pytest.mark.parametrize(
    "labels", [["a"] * 38 + ["b"] * 2, [c for c in "abcdefg" for _ in range(3)], ["a"] * 5 + ["b"] * 5]
)
def test_few_rows_of_a_class_are_enough(labels):
    X = np.random.default_rng(0).standard_normal((len(labels), 2))
    sheet = Sheet({"u": X[:, 0], "v": X[:, 1], "y": np.array(labels, object)})
    study = make_study(sheet, None, Choices()).study
    assert 0.0 <= study.scores["accuracy"][0] <= 1.0
    assert study.classes == sorted(set(labels))
