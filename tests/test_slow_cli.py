"""`mercer fit` as it comes, on real data: as good as the baselines of the data folder, within 3 %, and within 3 minutes."""

import json
import shutil

import numpy as np
import pytest

from mercer.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def held_out(share):
    """An npz of the first rows of a fixed permutation to train on and the others to test on, as the data's README says."""

    def write(source, path):
        with np.load(source, allow_pickle=False) as file:
            X, y = file["X"], file["y"]
        order = np.random.RandomState(0).permutation(len(y))
        train, test = order[: int(share * len(y))], order[int(share * len(y)) :][:8000]
        np.savez(path, X_train=X[train], y_train=y[train], X_test=X[test][:LARGEST], y_test=y[test][:LARGEST])

    return write


LARGEST = 8000  # test rows
AS_IT_IS = shutil.copy
BASELINES = {  # file: (measure, what a simple model reaches, how the file is made, options)
    "svmguide1.npz": ("accuracy", 0.9615, AS_IT_IS, []),
    "ripley_synth.npz": ("accuracy", 0.9100, AS_IT_IS, []),
    "ts_gunpoint.npz": ("accuracy", 0.960, AS_IT_IS, []),
    "a9a.npz": ("accuracy", 0.8498, AS_IT_IS, []),
    "letter.npz": ("accuracy", 0.9355, held_out(0.8), []),
    "shuttle.npz": ("accuracy", 0.9975, held_out(0.8), ["--task", "classification"]),
    "covtype_15k.npz": ("accuracy", 0.7642, held_out(0.8), []),
    "mushroom.npz": ("accuracy", 0.9978, held_out(0.1), ["--category", "*"]),
    "reuters_r8_train.tsv.gz": ("accuracy", 0.9744, AS_IT_IS, []),
    "protein_family_train.tsv.gz": ("accuracy", 0.9750, AS_IT_IS, []),
    "kin8nm.npz": ("rmse", 0.07556, held_out(0.8), []),
    "abalone.npz": ("rmse", 2.086, held_out(0.8), []),
    "california_housing.npz": ("rmse", 57510.0, held_out(0.8), []),
    "tecator.npz": ("rmse", 1.951, AS_IT_IS, []),
}


@pytest.mark.parametrize("name", BASELINES)
def test_defaults_reach_the_baselines(name, data_home, tmp_path, capsys):
    measure, baseline, write, options = BASELINES[name]
    source = data_home / name
    write(source, tmp_path / name)
    if ".tsv" in name:
        options = [*options, "--no-header", "--target", "0", "--test", str(data_home / name.replace("train", "test"))]
    command = ["fit", str(tmp_path / name), "-o", str(tmp_path / "model.mercer"), "--json", *options]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    reached = found["scores"][measure][0]
    print(f"{name:28} {measure} {reached:.4g} (baseline {baseline:g}), {sum(found['seconds'].values()):.0f} s")
    assert reached <= 1.03 * baseline if measure == "rmse" else reached >= 0.97 * baseline
