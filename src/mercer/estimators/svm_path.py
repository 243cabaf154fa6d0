"""Choosing C and the kernel of a support vector classifier by cross-validation along paths (M8)."""

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv

from mercer import validate
from mercer.estimators.labels import class_labels
from mercer.estimators.svm import _OF_CLASSIFIERS, SVC, _Classifier, _prices
from mercer.kernels import Kernel
from mercer.registry import register_estimator

__all__ = ["SVCPath"]

_CHOSEN = ("probability", "random_state")  # of SVC's settings those that a path has not


@register_estimator
class SVCPath(_Classifier):
    r"""Support vector classification whose C, and parameters of the kernel, are chosen by cross-validation.

    For every kernel and fold the machines for all C are fitted one after the other, each from the solution of the next smaller
    C and with the kernel rows that the others have computed. The chosen machine is fitted to all rows.

    Parameters
    ----------
    Cs : prices to choose from.
    kernel_grid : lists of kernel parameters by name, for kernel objects: {"lengthscale": [0.5, 1, 2]}.
    cv : folds or a splitter; scoring : as in scikit-learn, accuracy by default.
    kernel, degree, gamma, coef0, class_weight, tol and others : as in `SVC`. Weights of rows are not taken: a row that is
        there twice may be in two folds, a row of weight 2 may not.

    Attributes
    ----------
    C_, kernel_ : what was chosen. scores_ (kernels, Cs) : mean scores of the folds. grid_ : the kernels' parameters.
    support_, dual_coef_, intercept_, ... : of the machine fitted to all rows, as in `SVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from mercer import SVCPath
    >>> from mercer.kernels import RBF
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SVCPath([0.1, 1, 10], kernel=RBF(), kernel_grid={"lengthscale": [1.0, 5.0]}).fit(scale(X), y)
    >>> model.scores_.shape, model.kernel_.lengthscale
    ((2, 3), 5.0)
    """

    _kind = "c_svc"
    _parameter_constraints = {
        **{k: v for k, v in _OF_CLASSIFIERS.items() if k not in _CHOSEN},
        "Cs": ["array-like"],
        "kernel_grid": [dict, None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
    }

    def __init__(self, Cs=(0.01, 0.1, 1.0, 10.0, 100.0, 1000.0), *, kernel="rbf", kernel_grid=None, cv=5, scoring=None, degree=3,
                 gamma="scale", coef0=0.0, shrinking=True, tol=1e-3, cache_size=200, class_weight=None, verbose=False,
                 max_iter=-1, decision_function_shape="ovr", break_ties=False, multi_class="ovo", time_limit=None, callback=None,
                 engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.Cs = Cs
        self.kernel = kernel
        self.kernel_grid = kernel_grid
        self.cv = cv
        self.scoring = scoring
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.multi_class = multi_class
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y) -> "SVCPath":
        """Choose and fit on rows X and labels y (n,)."""
        rows, y, _, _ = self._begin(X, y, None, multi_output=False)
        class_labels(y)
        Cs, (grid, kernels) = _prices(self.Cs), self._kernels()
        folds = list(check_cv(self.cv, y, classifier=True).split(np.zeros(len(y)), y))
        scores = np.array([self._scores(kernel, Cs, rows, y, folds) for kernel in kernels])
        best, chosen = np.unravel_index(int(scores.argmax()), scores.shape)
        self.C_, self.scores_, self.grid_ = float(Cs[chosen]), scores, grid
        return self._fit_chosen(self._svc(kernels[best], self.C_), rows, y)

    def _fit_chosen(self, svc, rows, y):
        setup = svc._setup(rows, y, None)
        for name in ("classes_", "class_weight_", "kernel_", "kept_", "repair_"):
            if name in vars(svc):
                setattr(self, name, vars(svc)[name])
        found = [(inside, machine) for inside, (machine,) in svc._machines(setup, [svc])]
        self._store(setup, found)
        return self._finish([machine for _, machine in found])

    def _kernels(self):
        if not self.kernel_grid:
            return [{}], [self.kernel]
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel_grid needs a kernel object such as RBF(), got kernel={self.kernel!r}")
        grid = list(ParameterGrid(self.kernel_grid))
        return grid, [self.kernel.replace(**changes) for changes in grid]

    def _svc(self, kernel, C):
        own = self.get_params(deep=False)
        shared = {n: v for n, v in own.items() if n in SVC().get_params(deep=False)}
        return SVC(**{**shared, "kernel": kernel, "C": C})

    def _scores(self, kernel, Cs, rows, y, folds):
        """Mean score of every C over the folds."""
        svc = self._svc(kernel, 1.0)
        scorer = check_scoring(svc, scoring=self.scoring)
        table = []
        for train, test in folds:
            models = svc.path(self._part(rows, train, train), y[train], Cs)
            table.append([scorer(model, self._part(rows, test, train), y[test]) for model in models])
        return np.mean(table, axis=0)

    def _part(self, rows, chosen, columns):
        """Some rows; of a given Gram with the columns of the rows that were trained on."""
        return rows[np.ix_(chosen, columns)] if self._precomputed else validate.take(rows, chosen)
