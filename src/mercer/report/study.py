"""The record of one study: what was in the table, what was tried, what was chosen, and how well it predicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Score = tuple[float, float, float]  # value, and the lower and upper end of its 95 % interval


@dataclass(frozen=True)
class Study:
    """A model with everything a reader wants to know about how it came to be.

    Parameters
    ----------
    title : str
        A line that names the study.
    task : {"regression", "classification"}
    columns : sequence of dict
        One for each column the model uses: ``name``, ``kind`` ("numeric", "category", "text"), ``missing`` (how many
        rows have no value), ``levels`` (how many different values, or None), ``low`` and ``high`` (or None).
    target : str
        Name of the column that is predicted.
    kernel : Kernel
        The kernel of the final model, with the parameters that were chosen.
    certificate : str
        Why the kernel is positive definite.
    plan : str
        How the Gram matrix of the final model is computed.
    timings : mapping
        Seconds by stage.
    candidates : sequence of dict
        What was tried, with the score that decided.
    scores : mapping
        Scores on the test rows: name -> (value, low, high), the last two a 95 % interval.
    baselines : mapping
        The same mapping for simple models: name of the model -> scores.
    y_test, predicted : ndarray of shape (n_test,)
        Targets of the test rows and what the model predicts; in a classification both are codes into ``classes``.
    probability : ndarray of shape (n_test, number of classes) or None
    classes : sequence of str or None
        Names of the classes.
    model : estimator
        The fitted final model.
    X_train, X_test : inputs as the model takes them
    y_train : ndarray of shape (n_train,)
    names : sequence of str
        Names of the columns of ``X_train``.
    approximations : sequence of str
        What was approximated, in words, with its error where that is known. Empty for an exact fit.
    seed : int
    versions : mapping
        Versions of the packages that matter.
    """

    title: str
    task: str
    columns: Sequence[Mapping[str, Any]]
    target: str
    kernel: Any
    certificate: str
    plan: str
    timings: Mapping[str, float]
    candidates: Sequence[Mapping[str, Any]]
    scores: Mapping[str, Score]
    baselines: Mapping[str, Mapping[str, Score]]
    y_test: Any
    predicted: Any
    probability: Any
    classes: Sequence[str] | None
    model: Any
    X_train: Any
    y_train: Any
    X_test: Any
    names: Sequence[str]
    approximations: Sequence[str] = ()
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
