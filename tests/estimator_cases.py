"""Estimators to try, the data that suit them, and estimators with one lie each, which the contract's checks must reject."""

from dataclasses import dataclass
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_clusterer

from mercer import (
    GPLVM,
    SVC,
    SVR,
    BudgetKernelClassifier,
    BudgetKernelRegressor,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelCCA,
    KernelDensity,
    KernelDensityClassifier,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelLogistic,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    KMedoids,
    L1VMClassifier,
    L1VMRegressor,
    L2VMClassifier,
    L2VMRegressor,
    LocalRegression,
    MeanShift,
    MixtureRegression,
    MKLClassifier,
    MKLRegressor,
    NadarayaWatson,
    NearestMedoidClassifier,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    PolynomialSketch,
    RandomFourierFeatures,
    RBFNetwork,
    RVMClassifier,
    RVMRegressor,
    SVCPath,
)
from mercer.kernels import RBF, Linear, Matern, Multiquadric, Polynomial, ThinPlate

N, D = 40, 3


@dataclass(frozen=True)
class EstimatorCase:
    estimator: BaseEstimator

    def __str__(self):
        return " ".join(repr(self.estimator).split())

    @property
    def precomputed(self):
        kernel = getattr(self.estimator, "kernel", None)
        return (isinstance(kernel, str) and kernel == "precomputed") or self.of_distances

    @property
    def of_distances(self):
        """Whether the estimator wants distances in place of rows."""
        return getattr(self.estimator, "metric", None) == "precomputed"

    @property
    def ridge(self):
        """Whether targets are numbers that the answer is linear in, in one or several columns."""
        return isinstance(self.estimator, (KernelRidge, KernelRidgeCV, Honest))

    def precise(self):
        """The estimator with a tolerance at which the way to the solution no longer shows."""
        iterates = hasattr(self.estimator, "tol") and hasattr(self.estimator, "predict") and not self.ridge
        return clone(self.estimator).set_params(tol=1e-10) if iterates else clone(self.estimator)

    @property
    def weighted(self):
        """Whether rows may have weights."""
        return "sample_weight" in signature(self.estimator.fit).parameters

    def weights(self, w):
        """Weights as a keyword of fit, where it has one."""
        return {"sample_weight": w} if self.weighted else {}

    def data(self, n=N, seed=0):
        """Rows and targets of the kind that the estimator takes."""
        X, y = regression(n, seed=seed)
        return X, suited(self.estimator, y)

    def answer(self, model, T):
        """What the model says about rows, in numbers that move with it."""
        return answers(model, T)

    @property
    def columns(self):
        """Shape of the answer for one row."""
        if is_clusterer(self.estimator):
            return (self.estimator.n_clusters,) if hasattr(self.estimator, "transform") else ()
        one = hasattr(self.estimator, "predict") or self.is_density
        return () if one else (self.estimator.n_components,)

    @property
    def is_density(self):
        return self.estimator.__sklearn_tags__().estimator_type == "density_estimator"

    @property
    def needs_variance(self):
        """Whether rows must differ for there to be an answer, and its columns are at most so many as they differ in."""
        return isinstance(self.estimator, (KernelCCA, KernelPCA))

    @property
    def needs_spread(self):
        """Whether the bandwidth is a word for a rule that no column of equal values can follow; the error names the column."""
        by_word = isinstance(getattr(self.estimator, "bandwidth", None), str) and not self.precomputed
        if isinstance(self.estimator, NadarayaWatson):
            return by_word and isinstance(self.estimator.kernel, str)
        return isinstance(self.estimator, LocalRegression) and by_word and self.estimator.span is None

    def rows(self, X):
        """X, or its Gram matrix or distances where the estimator wants them."""
        return self.test_rows(X, X)

    def test_rows(self, T, X):
        if not self.precomputed:
            return T
        return RBF(1.5).distance(T, X) if self.of_distances else RBF(1.5)(T, X)


def answers(model, T):
    if hasattr(model, "predict_proba") and not hasattr(model, "decision_function"):  # labels do not move with the model
        return model.predict_proba(T)[:, -1]
    verbs = ["decision_function", "predict", "transform", "score_samples"]
    if is_clusterer(model):  # a cluster's number does not move with the model, distances do
        verbs.reverse()
    return getattr(model, next(v for v in verbs if hasattr(model, v)))(T)


def sensitive(cls, **settings):
    """An estimator whose answers for new rows move with the kernel's parameters.

    Equal votes of neighbours depend on the order of distances alone, which is the same for every lengthscale. An RBF network
    passes through all points by default, which wide kernels allow up to rounding only, and it says so. Sparse machines have
    no vectors at all when the penalty is large, whatever the kernel. Machines on a budget have fewer points than there are rows.
    """
    extra = {"weights": "distance"} if hasattr(cls, "kneighbors") else {"alpha": 0.1} if cls is RBFNetwork else {}
    extra = {"alpha": 0.05} if issubclass(cls, (L1VMClassifier, L1VMRegressor)) else extra
    if issubclass(cls, (BudgetKernelClassifier, BudgetKernelRegressor)):
        extra = {"n_vectors": 6, "max_iter": 3}
    if "optimizer" in signature(cls).parameters:  # the parameters are learned, wherever they start
        extra = {"optimizer": None}
    return cls(**settings, **extra)


def suited(estimator, y):
    """Targets for an estimator: numbers, or two equally frequent labels."""
    return (y > np.median(y)).astype(int) if is_classifier(estimator) else y


def cases(*estimators):
    return [EstimatorCase(e) for e in estimators]


#: Several of every registered class: kernels by word and by object, intercepts, precomputed Grams, every solver.
ESTIMATOR_CASES = cases(
    BudgetKernelClassifier(5, max_iter=3, random_state=0),
    BudgetKernelClassifier(
        6,
        loss="logistic",
        alpha=0.1,
        kernel=2 * RBF(0.7) + Linear(),
        class_weight="balanced",
        max_iter=3,
        random_state=0,
    ),
    BudgetKernelClassifier(5, kernel="precomputed", learn_vectors=False, random_state=0),
    BudgetKernelRegressor(5, max_iter=3, random_state=0),
    BudgetKernelRegressor(
        4, kernel=Matern(1.5, lengthscale="median"), alpha=0.1, batch_size=8, max_iter=2, random_state=0
    ),
    BudgetKernelRegressor(
        20,
        alpha=0.01,
        kernel="laplacian",
        learn_vectors=False,
        fit_intercept=False,
        engine="reference",
        memory="1GB",
        random_state=0,
    ),
    BudgetKernelRegressor(8, kernel="precomputed", random_state=0),
    GPLVM(1, optimizer=None),
    GPLVM(1, kernel=Linear(), alpha=0.1),
    GPLVM(
        1,
        kernel=2 * RBF(1.5) + Linear(),
        alpha=0.1,
        normalize=True,
        back_constraint=RBF(1.5),
        optimizer=None,
        engine="reference",
        memory="1GB",
    ),
    KernelCCA(1),
    KernelCCA(2, kernel=Matern(1.5), kernel_y=RBF(0.7), alpha=0.1),
    KernelCCA(1, kernel=Linear(), kernel_y="linear", engine="reference", memory="1GB"),
    KernelCCA(1, kernel="precomputed"),
    KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(), n_landmarks=10, random_state=0),
    KernelPCA(1),
    KernelPCA(2, kernel="rbf", whiten=True, random_state=0),
    KernelPCA(2, kernel=Matern(1.5), eigen_solver="dense"),
    KernelPCA(2, kernel="precomputed"),
    KernelPCA(2, kernel=RBF(1.5), n_landmarks=10, random_state=0),
    KernelDensity(),
    KernelDensity(1.234, kernel="tophat", algorithm="tiles"),
    KernelDensity(2.1, kernel="epanechnikov", form="product"),
    KernelDensity(0.7, kernel="exponential", factors="adaptive"),
    KernelDensityClassifier(),
    KernelDensityClassifier(0.7, kernel="exponential", form="product"),
    KernelDensityClassifier("mad", kernel="gaussian", shared=True),
    KernelDensityClassifier(neighbors=2),
    KernelFisherDiscriminant(),
    KernelFisherDiscriminant(kernel=RBF(1.5) + Linear(), alpha=1.0, n_components=1),
    KernelFisherDiscriminant(kernel="precomputed"),
    KernelKMeans(2, n_init=10, random_state=0),
    KernelKMeans(2, kernel=Linear(), init="random", n_init=10, random_state=0),
    KernelKMeans(2, kernel="precomputed", n_init=10, random_state=0),
    KernelKMeans(2, kernel=RBF(1.5), n_landmarks=1e-3, n_init=10, random_state=0),
    KernelRidge(),
    KernelRidge(kernel="rbf"),
    KernelRidge(kernel="poly", degree=2, gamma=0.5),
    KernelRidge(kernel=2 * RBF(0.7) + Linear(), fit_intercept=True),
    KernelRidge(kernel=Matern(1.5, lengthscale="median"), alpha=0.1, fit_intercept=True),
    KernelRidge(kernel="rbf", n_landmarks=1e-3, random_state=0),
    KernelRidge(0.1, kernel=RBF(1.5), n_landmarks=1e-3, fit_intercept=True, tol=1e-10, random_state=0),
    KernelRidge(kernel="precomputed"),
    KernelRidge(kernel="precomputed", fit_intercept=True),
    KernelRidge(kernel="rbf", solver="exact", alpha=0.1),
    KernelRidge(kernel="rbf", solver="cg"),
    KernelRidge(kernel=RBF(1.3), solver="cg", fit_intercept=True, alpha=0.5),
    KernelRidge(solver="primal"),
    KernelRidge(kernel=Polynomial(2), solver="primal", fit_intercept=True, alpha=0.1),
    KernelRidge(kernel="laplacian", engine="reference", memory="1GB"),
    KernelRidgeCV(),
    KernelRidgeCV(kernel=RBF(1.2), fit_intercept=True),
    KernelRidgeCV(kernel="linear", scoring="gcv", alpha_per_target=True),
    KernelRidgeCV(kernel="precomputed", alphas=[0.1, 1.0]),
    KernelRidgeCV(kernel=RBF(), tune="all", fit_intercept=True, max_iter=5),
    SVC(),
    SVC(kernel="linear", C=0.5),
    SVC(kernel="poly", degree=2, coef0=1.0, class_weight="balanced"),
    SVC(kernel=2 * RBF(0.7) + Linear(), multi_class="ovr"),
    SVC(kernel="precomputed", shrinking=False),
    SVC(kernel=Matern(1.5, lengthscale="median"), break_ties=True, memory="1MB"),
    NuSVC(nu=0.2),
    NuSVC(nu=0.2, kernel="precomputed"),
    SVR(),
    SVR(kernel=RBF(1.2), C=10.0, epsilon=0.01),
    SVR(kernel="precomputed"),
    SVR(kernel="laplacian", engine="reference"),
    NuSVR(),
    NuSVR(kernel="linear", nu=0.33),
    OneClassSVM(),
    OneClassSVM(kernel=RBF(2.0), nu=0.1),
    OneClassSVM(kernel="precomputed"),
    SVCPath([0.1, 1.0, 10.0], cv=3),
    SVCPath([1.0, 10.0], kernel=RBF(), kernel_grid={"lengthscale": [0.5, 2.0]}, cv=2),
    SVCPath([1.0, 10.0], kernel="precomputed", cv=2),
    KernelPerceptron(random_state=0),
    KernelPerceptron(kernel="linear", random_state=0),
    KernelPerceptron(kernel=RBF(1.5), variant="voted", random_state=0),
    KernelPerceptron(kernel=RBF(1.5), variant="pocket", fit_intercept=False, random_state=0),
    KernelPerceptron(kernel=RBF(1.5), budget=20, random_state=0),
    KernelPerceptron(kernel="precomputed", random_state=0),
    KMedoids(2, n_init=10, random_state=0),
    KMedoids(2, kernel=2 * RBF(0.7) + Linear(), n_init=10, random_state=0),
    KMedoids(2, kernel=RBF(1.5), method="alternate", init="build"),
    KMedoids(2, kernel=RBF(1.5), method="onebatch", n_init=10, random_state=0),
    KMedoids(2, kernel="precomputed", n_init=10, random_state=0),
    KMedoids(2, metric="precomputed", n_init=10, random_state=0),
    NearestMedoidClassifier(),
    NearestMedoidClassifier(2, kernel=2 * RBF(0.7) + Linear(), init="build"),
    NearestMedoidClassifier(2, kernel="precomputed", n_init=10, random_state=0),
    KernelLogistic(),
    KernelLogistic(0.1, kernel=2 * RBF(0.7) + Linear(), class_weight="balanced"),
    KernelLogistic(kernel="linear"),
    KernelLogistic(kernel="poly", degree=2, gamma=0.5, fit_intercept=False),
    KernelLogistic(kernel="precomputed"),
    KernelLogistic(kernel=RBF(1.5), n_landmarks=1e-4, random_state=0),
    KernelMachineClassifier(random_state=0),
    KernelMachineClassifier(None, alpha=0.1, kernel="sigmoid"),
    KernelMachineClassifier(4, centers="ols", kernel=RBF(1.5), alpha=0.1),
    KernelMachineClassifier(6, kernel=Matern(1.5, lengthscale="median"), normalised=True, random_state=0),
    KernelMachineClassifier(5, centers="random", kernel="precomputed", random_state=0),
    KernelMachineRegressor(random_state=0),
    KernelMachineRegressor(10, centers="random", kernel=2 * RBF(0.7) + Linear(), random_state=0),
    KernelMachineRegressor(6, centers="ols", kernel=Matern(1.5, lengthscale="median")),
    KernelMachineRegressor(None, alpha=0.1, kernel="sigmoid", fit_intercept=False),
    KernelMachineRegressor(20, kernel="laplacian", normalised=True, engine="reference", memory="1GB", random_state=0),
    KernelMachineRegressor(15, centers="random", kernel="precomputed", random_state=0),
    RBFNetwork(alpha=0.1),
    RBFNetwork(kernel=ThinPlate(), alpha=0.1),
    RBFNetwork(15, kernel=Multiquadric(), alpha=0.1, random_state=0),
    RBFNetwork(kernel=RBF(1.5), alpha=0.1, normalised=True),
    RBFNetwork(kernel="precomputed", alpha=0.1, tail="constant"),
    KernelNeighborsClassifier(),
    KernelNeighborsClassifier(3, weights="distance", kernel=2 * RBF(0.7) + Linear()),
    KernelNeighborsClassifier(radius=0.6, outlier_label="most_frequent", kernel=Matern(1.5, lengthscale="median")),
    KernelNeighborsClassifier(2, algorithm="tree", kernel=3 * RBF(0.5)),
    KernelNeighborsClassifier(kernel="precomputed"),
    KernelNeighborsRegressor(),
    KernelNeighborsRegressor(2, weights="distance", algorithm="tree"),
    KernelNeighborsRegressor(4, kernel="poly", degree=2, weights="distance"),
    KernelNeighborsRegressor(1, kernel="laplacian", engine="reference", memory="1GB"),
    KernelNeighborsRegressor(3, kernel="precomputed"),
    MeanShift(max_iter=5000),
    MeanShift(1.1, kernel="epanechnikov"),
    MeanShift(1.5, kernel="biweight", bin_seeding=True, max_iter=5000),
    MixtureRegression(max_components=3, random_state=0),
    MixtureRegression(1, covariance_type="tied"),
    MixtureRegression(2, max_iter=5000, random_state=0),
    MixtureRegression(None, bandwidth=(0.7, 0.3)),
    MKLClassifier(),
    MKLClassifier(
        [RBF(0.7), Linear(), Matern(lengthscale="median")], method="alignment", class_weight="balanced", cv=2
    ),
    MKLClassifier({"near": RBF(), "flat": "linear"}, method="simple", C=0.5, multi_class="ovr", cv=2),
    MKLClassifier([RBF(2.0), Linear()], method="lp", cv=2, memory="1GB"),
    MKLRegressor(),
    MKLRegressor([RBF(0.7), Linear(), Matern(lengthscale="median")], method="banded", cv=2),
    MKLRegressor({"near": RBF(), "flat": "linear"}, method="simple", alpha=0.1, per_target=True, cv=2),
    MKLRegressor(["laplacian", Linear()], method="lp", p=4 / 3, cv=2, engine="reference"),
    NadarayaWatson(),
    NadarayaWatson("gaussian", "loo"),
    NadarayaWatson("exponential", 0.7, form="product"),
    NadarayaWatson("epanechnikov", 3.5, target_bandwidth=0.3),
    NadarayaWatson(kernel=2 * RBF(0.7) + Matern(1.5), engine="reference", memory="1GB"),
    NadarayaWatson(kernel="precomputed"),
    LocalRegression(),
    LocalRegression(kernel="tricube"),
    LocalRegression(1, 6.0),
    LocalRegression(0, "gcv", kernel="gaussian"),
    LocalRegression(1, 3.0, kernel="gaussian", robust=2),
    LocalRegression(1, span=0.9, robust=1),
    LocalRegression(1, "mad", kernel="exponential", form="product"),
    L1VMRegressor(0.1),
    L1VMRegressor("cv", kernel=2 * RBF(0.7) + Linear(), n_alphas=4, cv=2, random_state=0),
    L1VMRegressor(0.05, kernel="sigmoid", gamma=0.1, fit_intercept=False),
    L1VMRegressor(0.1, kernel="precomputed"),
    L1VMClassifier(0.1),
    L1VMClassifier("cv", kernel=RBF(1.2), class_weight="balanced", n_alphas=2, cv=2, random_state=0),
    L1VMClassifier(0.2, kernel="laplacian", fit_intercept=False, engine="reference", memory="1GB"),
    L1VMClassifier(0.1, kernel="precomputed"),
    L2VMRegressor(),
    L2VMRegressor("cv", kernel=Matern(1.5, lengthscale="median"), n_alphas=5, cv="loo"),
    L2VMRegressor("cv", kernel=RBF(1.2), fit_intercept=False, n_alphas=2, cv=2, random_state=0),
    L2VMRegressor(0.1, kernel="precomputed"),
    L2VMClassifier(),
    L2VMClassifier("cv", kernel=RBF(1.2), n_alphas=2, cv=2, random_state=0),
    L2VMClassifier(0.1, kernel="poly", degree=2, gamma=0.5, fit_intercept=False, class_weight="balanced"),
    L2VMClassifier(0.1, kernel="precomputed"),
    Nystroem(n_components=2, random_state=0),
    Nystroem(RBF(1.5), n_components=2, landmarks="kmeans++", random_state=0),
    RVMClassifier(),
    RVMClassifier(kernel=2 * RBF(0.7) + Linear(), fit_intercept=False),
    RVMClassifier(kernel="linear", moderated=True),
    RVMClassifier(kernel="precomputed"),
    GaussianProcessClassifier(),
    GaussianProcessClassifier(2 * Matern(2.5, 1.5), optimizer=None, engine="reference", memory="1GB"),
    GaussianProcessRegressor(),
    GaussianProcessRegressor(
        2 * Matern(2.5, 1.5), alpha=0.1, mean="linear", optimizer=None, normalize_y=True, memory="1GB"
    ),
    GaussianProcessRegressor("rbf", mean="zero", ard=True, optimizer=None, engine="reference"),
    GaussianProcessRegressor(2 * RBF(3.0), alpha=0.1, method="sparse", n_inducing=20, optimizer=None, random_state=0),
    GaussianProcessRegressor(2 * RBF(1.5), alpha=0.1, method="iterative", optimizer=None, random_state=0),
    RVMRegressor(),
    RVMRegressor(kernel="laplacian", fit_intercept=False, noise=0.1, engine="reference", memory="1GB"),
    RVMRegressor(kernel=RBF(3.0), variance="augmented"),
    RVMRegressor(kernel="precomputed"),
    RandomFourierFeatures(random_state=0),
    RandomFourierFeatures("laplacian", gamma=0.3, random_state=0),
    RandomFourierFeatures(2 * Matern(1.5, lengthscale="median"), n_components=51, kind="structured", random_state=0),
    RandomFourierFeatures(RBF(1.5), n_components=20, kind="plain", random_state=0),
    PolynomialSketch(random_state=0),
    PolynomialSketch(3, gamma=0.1, coef0=1, n_components=51, kind="complex", random_state=0),
    PolynomialSketch(gamma="scale", kind="maclaurin", random_state=0),
)


def regression(n=N, d=D, seed=0):
    """Seeded rows and targets, read-only."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, -1] + 0.05 * rng.standard_normal(n)
    X.setflags(write=False)
    y.setflags(write=False)
    return X, y


# ------------------------------------------------------------------------------------------------ wrong ones
class Honest(RegressorMixin, BaseEstimator):
    """Mean of the targets, and the first column: as small as an estimator can be."""

    def __init__(self, kernel="rbf"):
        self.kernel = kernel

    def fit(self, X, y, sample_weight=None):
        X, y = np.asarray(X), np.asarray(y)
        self.mean_, self.n_features_in_ = y.mean(axis=0), X.shape[1]
        self.solver_used_ = "mean"
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0] + self.mean_


class ForgetsPickle(Honest):
    def __getstate__(self):
        return {**self.__dict__, "mean_": 0.0}


class PicklesGram(Honest):
    def fit(self, X, y, sample_weight=None):
        self.K_ = np.asarray(X) @ np.asarray(X).T
        return super().fit(X, y)


class KeepsRows(Honest):
    def fit(self, X, y, sample_weight=None):
        self.X_fit_ = X
        return super().fit(X, y)

    def predict(self, X):
        return super().predict(X) + self.X_fit_[0, 0]


class ChangesRows(Honest):
    def fit(self, X, y, sample_weight=None):
        X[0, 0] += 1.0
        return super().fit(X, y)


class ChangesRowsAtPredict(Honest):
    def predict(self, X):
        X[0, 0] += 1.0
        return super().predict(X)


class Remembers(Honest):
    def fit(self, X, y, sample_weight=None):
        if len(y) > 30:
            self.large_ = True
        return super().fit(X, y)


class WritesAtPredict(Honest):
    def predict(self, X):
        self.last_ = len(X)
        return super().predict(X)


class FollowsParameters(Honest):
    def predict(self, X):
        return super().predict(X) + len(str(self.kernel))


class SwallowsNan(Honest):
    """Accepts anything."""


class ClaimsOutput(Honest):
    def set_output(self, *, transform=None):
        return self


class Nameless(Honest):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        del self.n_features_in_
        return self


class HalfFitted(Honest):
    def fit(self, X, y, sample_weight=None):
        self.kernel_ = self.kernel
        if not np.isfinite(np.asarray(y, float)).all():
            raise ValueError("y holds NaN")
        return super().fit(X, y)


class IgnoresWeights(Honest):
    """Its signature has weights, its fit has not."""


class RefusesSparse(Honest):
    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X, float), y)


class Misnamed(Honest):
    def __repr__(self):
        return "KernelRidge()"


class ReadsLayout(Honest):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        self.mean_ = self.mean_ + np.asarray(X).strides[0]
        return self
