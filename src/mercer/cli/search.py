"""Choosing a kernel and its parameters by cross-validation within a time limit, and fitting what was chosen."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from mercer import validate
from mercer.cli.families import Family, families, given_family
from mercer.cli.prepare import Prepared
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators import (
    SVC,
    SVR,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelLogistic,
    KernelRidge,
    KernelRidgeCV,
)
from mercer.gram.plan import human_seconds
from mercer.kernels import RBF, Kernel, Sum
from mercer.random import some_of

__all__ = ["MODELS", "Clock", "Found", "Search"]

MODELS = {
    "classification": ("svc", "logistic", "gp"),
    "regression": ("ridge", "svr", "gp"),
}
ROWS = 2000  # rows of the search at most
EXACT = 12_000  # rows up to which ridge and logistic regression use all rows as centres
LANDMARKS = 2000
RAISES = 4  # alphas that are tried, each 10 times the last, where a fit on landmarks does not converge
GP_ROWS = 3000  # rows up to which Gaussian processes take the closed form
FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0, 0.125, 8.0)  # of the median distance
FINER = (2**-0.5, 2**0.5)
COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
ALPHAS = tuple(10.0 ** np.arange(-6, 2.5, 0.5))
MOST_ARD = 60  # columns with a lengthscale of their own, each with so many rows at least:
ROWS_PER_COLUMN = 10
SHARE = 0.5  # of the time limit for the search; the rest is for the last fit


class Clock:
    """Seconds since the start, by stage, and how many are left."""

    def __init__(self, limit: float):
        self.limit, self.started = limit, time.monotonic()
        self.stages: dict[str, float] = {}
        self._mark = self.started

    @property
    def spent(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.limit - self.spent

    def begin(self):
        """What was before does not count against the limit."""
        self.started = time.monotonic()

    def stage(self, name: str):
        """What was done since the last stage had this name."""
        now = time.monotonic()
        self.stages[name] = self.stages.get(name, 0.0) + now - self._mark
        self._mark = now


@dataclass
class Found:
    """The chosen kernel and price, the score that decided (larger is better), and what was tried."""

    kernel: Kernel
    price: float
    score: float
    family: str
    candidates: list[dict] = field(default_factory=list)
    approximations: list[str] = field(default_factory=list)


class Search:
    """A search for the best kernel of a prepared table. tell: called with words and the share of work that is done."""

    def __init__(self, prepared: Prepared, model: str, clock: Clock, rng, tell: Callable[[str, float], None]):
        self.prepared, self.clock, self.rng, self.tell = prepared, clock, rng, tell
        self.task = prepared.task
        self.model = MODELS[self.task][0] if model == "auto" else model
        self.index = self._some_rows()
        self.rows = validate.take(prepared.X, self.index)
        self.y = prepared.y[self.index]
        self.folds = self._folds()
        self.candidates: list[dict] = []

    def _some_rows(self):
        """Rows that the search uses: all, or some of each class."""
        y, n = self.prepared.y, len(self.prepared.y)
        if n <= ROWS:
            return np.arange(n)
        if self.task == "regression":
            return some_of(np.arange(n), ROWS, self.rng)
        groups = [np.flatnonzero(y == c) for c in np.unique(y)]
        share = [max(min(len(g), 10), round(ROWS * len(g) / n)) for g in groups]
        return np.sort(np.concatenate([some_of(g, k, self.rng) for g, k in zip(groups, share, strict=True)]))

    def _folds(self):
        n, seed = len(self.y), int(self.rng.integers(2**31))
        count = 5 if n <= 1000 else 3
        if self.task == "regression":
            return list(KFold(min(count, n), shuffle=True, random_state=seed).split(self.y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a class with fewer rows than folds
            count = max(min(count, int(np.bincount(self.y).max())), 2)
            return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(self.y, self.y))

    def warm_up(self):
        """Tiny fits, so that compiling, which is done once on a machine, does not take the time of the search."""
        self.tell("starting", 0.0)
        x, y = np.linspace(0.0, 1.0, 12)[:, None], np.arange(12) % 2
        K = RBF().gram(x).dense()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ConvergenceWarning, NumericalWarning))
            if self.task == "classification":
                SVC(kernel="precomputed").path(K, y, COSTS[:1])[0].predict(K)
                return
            KernelRidgeCV(kernel="precomputed").fit(K, y)
        if self._freer(RBF())[1] is not None:
            self._tuned(RBF([1.0, 1.0]), "all", np.column_stack([x, x]), y, max_iter=1)

    # -------------------------------------------------------------------------------------- which kernel
    def best(self, given: Kernel | None) -> Found:
        """The best kernel of those that the table suggests, or of the given one at several widths."""
        tried = families(self.prepared, self.rows) if given is None else [given_family(given, self.rows)]
        jobs = [(f, factor) for f in tried for factor in (FACTORS if f.has_widths else (1.0,))]
        jobs.sort(key=lambda job: FACTORS.index(job[1]))  # the middle of every family first
        best = None
        for done, (family, factor) in enumerate(jobs):
            if best is not None and self._late:
                break
            width = f", width x {factor:g}" if family.has_widths else ""
            self._told_at(f"trying {family.name}{width}", done / (len(jobs) + 3))
            best = _better(best, self._tried(family, factor))
        best = self._refined(best, {f.name: f for f in tried})
        if given is None:
            best = self._by_gradient(best)
        self.tell("chosen", 1.0)
        return replace(best, candidates=self.candidates, approximations=self._told())

    def _refined(self, best, known):
        """Widths between those of the grid."""
        if not known[best.family].has_widths:
            return best
        middle = next(c["width"] for c in self.candidates if c["kernel"] is best.kernel)
        for factor in FINER:
            if self._late:
                return best
            best = _better(best, self._tried(known[best.family], middle * factor))
        return best

    @property
    def _late(self):
        return self.clock.spent > SHARE * self.clock.limit

    def _told_at(self, words, share):
        """The time limit may end a search before all is tried."""
        self.tell(words, min(max(share, self.clock.spent / (SHARE * self.clock.limit)), 0.99))

    def _told(self):
        n = len(self.prepared.y)
        return [f"the kernel was chosen on {len(self.y)} of {n} training rows"] if len(self.y) < n else []

    def _tried(self, family: Family, factor: float) -> Found:
        """Scores of one kernel at all prices; the best is returned."""
        began = time.monotonic()
        kernel = family.make(factor)
        prices, scores = self._scores(kernel)
        k = int(np.argmax(scores))
        self._note(family.name, kernel, factor, prices[k], float(scores[k]), time.monotonic() - began)
        return Found(kernel, float(prices[k]), float(scores[k]), family.name)

    def _note(self, name, kernel, factor, price, score, seconds):
        shown_score = math.sqrt(-score) if self.task == "regression" else score
        self.candidates.append({
            "family": name, "kernel": kernel, "width": factor, self._price: float(price),
            "rmse" if self.task == "regression" else "accuracy": shown_score, "seconds": seconds,
        })  # fmt: skip

    @property
    def _price(self):
        """Ridge regression and support vector machines choose the kernel, whatever the last model is."""
        return "alpha" if self.task == "regression" else "C"

    def _scores(self, kernel):
        """Prices and the scores they reach: by closed-form leave-one-out for ridge, by folds for others."""
        K = kernel.gram(self.rows).dense()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", (ConvergenceWarning, NumericalWarning)
            )  # of candidates that will not be taken
            if self.task == "regression":
                scale = float(np.mean(np.diagonal(K)))
                model = KernelRidgeCV([a * scale for a in ALPHAS], kernel="precomputed", fit_intercept=True).fit(
                    K, self.y
                )
                return model.alphas_, -model.scores_
            return np.asarray(COSTS), np.mean([self._fold(K, *fold) for fold in self.folds], axis=0)

    def _fold(self, K, train, test):
        if len(np.unique(self.y[train])) == 1:  # the only row of the other class is held out
            return [float(np.mean(self.y[test] == self.y[train][0]))] * len(COSTS)
        machines = SVC(kernel="precomputed").path(K[np.ix_(train, train)], self.y[train], COSTS)
        against = K[np.ix_(test, train)]
        return [float(np.mean(m.predict(against) == self.y[test])) for m in machines]

    # -------------------------------------------------------------------------------------- by gradient
    def _by_gradient(self, best):
        """A width for each column, or a weight for each part, if rows that the gradient has not seen say that it is better."""
        name, kernel = self._freer(best.kernel)
        if kernel is None or self._late:
            return best
        self._told_at(name, 0.9)
        began = time.monotonic()
        train, test = self.folds[0]
        if self._held_out(kernel, "all", train, test) >= self._held_out(best.kernel, None, train, test):
            return best
        model = self._tuned(kernel, "all", self.rows, self.y)
        learned = model.kernel_.get_params()
        # The numbers only: what a kernel knows of words is to be that of all rows, not of those of the search.
        kernel = kernel.replace(**{n: learned[n] for n in kernel.differentiable})
        score = -model.loo_error_
        self._note(name, kernel, 1.0, model.alpha_, score, time.monotonic() - began)
        # Landmarks of a kernel so wide and an alpha so small are dependent in rounding, and a larger alpha is another model.
        usable = len(self.prepared.y) <= EXACT or model.alpha_ >= ALPHAS[0]
        return Found(kernel, float(model.alpha_), score, name) if usable and score > best.score else best

    def _freer(self, kernel):
        """A kernel with more parameters than the chosen one, for the gradient; None where there is none, or too few rows."""
        if self.task != "regression":
            return "", None
        if isinstance(kernel, Sum):
            return "a weight for each part", _weighted(kernel)
        d = self.rows.shape[1] if self.prepared.layout == "matrix" else 0
        if isinstance(kernel, RBF) and 1 < d <= MOST_ARD and len(self.y) >= ROWS_PER_COLUMN * d:
            return "a width for each column", kernel.replace(lengthscale=np.full(d, float(kernel.lengthscale)))
        return "", None

    def _tuned(self, kernel, tune, X, y, max_iter=40):
        model = KernelRidgeCV(ALPHAS, kernel=kernel, fit_intercept=True, tune=tune, tune_rows=1000, max_iter=max_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ConvergenceWarning, NumericalWarning))  # a poor one is not taken
            return model.fit(X, y)

    def _held_out(self, kernel, tune, train, test):
        model = self._tuned(kernel, tune, validate.take(self.rows, train), self.y[train])
        return float(np.mean((model.predict(validate.take(self.rows, test)) - self.y[test]) ** 2))

    # -------------------------------------------------------------------------------------- the last fit
    def fitted(self, found: Found) -> Any:
        """The chosen machine on all training rows, or on as many as the time allows, which is told."""
        self.tell("fitting the chosen model", 1.0)
        X, y = self.prepared.X, self.prepared.y
        if self.model == "svc":
            return self._fitted_svc(found, X, y)
        return getattr(self, f"_fitted_{self.model}")(found, X, y)

    def _fitted_ridge(self, found, X, y):
        n = len(y)
        if n <= ROWS:
            alphas = [a * found.price for a in (0.1, 0.3, 1.0, 3.0, 10.0)]
            return KernelRidgeCV(alphas, kernel=found.kernel, fit_intercept=True).fit(X, y)
        if n <= EXACT:
            return KernelRidge(found.price, kernel=found.kernel, fit_intercept=True).fit(X, y)
        model = self._on_landmarks(found, X, y)
        found.approximations.append(_landmarks_told(model))
        return model

    def _on_landmarks(self, found, X, y):
        """A ridge on landmarks, with an alpha for which its iterations converge."""
        model = KernelRidge(kernel=found.kernel, fit_intercept=True, n_landmarks=LANDMARKS, random_state=0)
        for alpha in found.price * 10.0 ** np.arange(RAISES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the next alpha answers it
                if model.set_params(alpha=float(alpha)).fit(X, y).converged_:
                    break
        if model.alpha > found.price:
            found.approximations.append(
                f"alpha was raised from {found.price:.2g} to {model.alpha:.2g} for the landmarks"
            )
        if not model.converged_:
            found.approximations.append(f"the fit on landmarks stopped at a residual of {model.residual_:.1e}")
        return model

    def _fitted_svr(self, found, X, y):
        spread = float(np.std(y))
        model = SVR(kernel=found.kernel, C=10.0 * spread, epsilon=0.05 * spread)
        return self._on_affordable_rows(found, model, X, y)

    def _fitted_svc(self, found, X, y):
        return self._on_affordable_rows(found, SVC(C=found.price, kernel=found.kernel), X, y)

    def _fitted_logistic(self, found, X, y):
        n = len(y)
        landmarks = None if n <= ROWS else LANDMARKS
        model = KernelLogistic(1.0 / found.price, kernel=found.kernel, n_landmarks=landmarks, random_state=0).fit(X, y)
        if landmarks is not None:
            found.approximations.append(_landmarks_told(model))
        return model

    def _fitted_gp(self, found, X, y):
        if self.task == "classification":
            return self._on_affordable_rows(found, GaussianProcessClassifier(kernel=1.0 * found.kernel), X, y, power=3)
        if len(y) > GP_ROWS:
            found.approximations.append("the Gaussian process is one of inducing rows (method='sparse')")
        method = "exact" if len(y) <= GP_ROWS else "sparse"
        return GaussianProcessRegressor(kernel=1.0 * found.kernel, method=method).fit(X, y)

    def _on_affordable_rows(self, found, model, X, y, power=2):
        """Machines whose time grows like a power of the rows: as many rows as the time that is left will take."""
        n = len(y)
        if n > len(self.y):
            began = time.monotonic()
            model.fit(self.rows, self.y)
            pace = 1.5 * max(time.monotonic() - began, 1e-3) / len(self.y) ** power
            affordable = int((max(self.clock.left, 0.1 * self.clock.limit) / pace) ** (1 / power))
            if affordable < n:
                count = max(affordable, len(self.y))
                index = some_of(np.arange(n), count, self.rng)
                found.approximations.append(
                    f"fitted on {count} of {n} training rows: all would take about {human_seconds(pace * n**power)}; "
                    "--time gives more"
                )
                X, y = validate.take(X, index), y[index]
        return model.fit(X, y)


def _better(one, other):
    return other if one is None or other.score > one.score else one


def _weighted(kernel):
    """The same sum with a factor in front of each term."""
    if isinstance(kernel, Sum):
        return kernel.rebuild(tuple(_weighted(child) for child in kernel.children))
    return 1.0 * kernel


def _landmarks_told(model):
    error = getattr(model, "landmark_error_", None)
    share = "" if error is None else f", which leave {error:.2g} of the trace of the Gram matrix unexplained"
    return f"expanded in {len(model.X_fit_)} landmarks instead of all rows{share}"
