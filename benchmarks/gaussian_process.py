"""How fast is the evidence of a Gaussian process with its gradient, beside scikit-learn and GPyTorch?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "one evaluation of the log evidence and of its slopes in eight lengthscales, a scale and the noise, float64. GPyTorch by its "
    "own Cholesky path, autograd for the slopes. Errors are the largest difference of the evidence and of the slopes in logs "
    "from scikit-learn's, relative to the largest slope"
)


@benchmark("Gaussian process evidence and gradient (C8): 2000 rows, a lengthscale for each of 8 columns")
def gaussian_process(small):
    n = 120 if small else 2000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n)
    lengths, scale, noise = np.linspace(1.0, 4.0, 8), 1.5, 0.02
    truth = _sklearn(X, y, lengths, scale, noise)()
    peers = [Contender("scikit-learn", _sklearn(X, y, lengths, scale, noise), rounds=None if small else 2, aim=5.0)]
    if _has_gpytorch():
        peers.append(Contender("GPyTorch", _gpytorch(X, y, lengths, scale, noise), aim=1.0))
    else:
        peers.append(Contender("GPyTorch", lambda: None, needs="gpytorch", aim=1.0))
    yield compare(
        f"evidence and slopes, n = {n}",
        [Contender(OURS, _ours(X, y, lengths, scale, noise)), *peers],
        error=lambda found: float(np.abs(found - truth).max() / np.abs(truth[1:]).max()),
        error_name="difference",
        sizes={"n": n, "d": 8},
        small=small,
        notes=NOTES,
    )


def _has_gpytorch():
    from benchmarks.harness import installed

    return installed("gpytorch")


def _ours(X, y, lengths, scale, noise):
    """Value, slopes in log scale, log lengthscales and log noise."""
    from mercer.gram import gram
    from mercer.kernels import RBF
    from mercer.solvers.gaussian import posterior

    kernel, H = scale * RBF(lengths), np.zeros((len(y), 0))

    def run():
        K = gram(kernel, X)
        found = posterior(K.dense(), noise, y[:, None], H)
        value, W = found.evidence, found.slope(overwrite=True)
        slopes = K.pullback(W)
        return np.concatenate(
            [[value, scale * slopes["scale"]], lengths * slopes["rbf__lengthscale"], [noise * np.trace(W)]]
        )

    return run


def _sklearn(X, y, lengths, scale, noise):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(scale) * RBF(lengths) + WhiteKernel(noise)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    model.X_train_, model.y_train_, model.kernel_ = X, y, kernel  # what the fit sets before it evaluates

    def run():
        value, slopes = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)
        return np.concatenate([[value], slopes])

    return run


def _gpytorch(X, y, lengths, scale, noise):
    import gpytorch
    import torch

    rows, targets = torch.from_numpy(X), torch.from_numpy(y)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(rows, targets, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=8))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).double()
    likelihood.double()
    model.covar_module.outputscale, likelihood.noise = scale, noise
    model.covar_module.base_kernel.lengthscale = torch.from_numpy(lengths)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    likelihood.train()

    def run():
        model.zero_grad()
        with gpytorch.settings.fast_computations(False, False, False):
            value = objective(model(rows), targets) * len(targets)
        value.backward()
        slopes = [
            model.covar_module.raw_outputscale.grad.reshape(1) * _by_log(model.covar_module.raw_outputscale, scale),
            model.covar_module.base_kernel.raw_lengthscale.grad.reshape(-1)
            * _by_log(model.covar_module.base_kernel.raw_lengthscale.reshape(-1), torch.from_numpy(lengths)),
            likelihood.noise_covar.raw_noise.grad.reshape(1) * _by_log(likelihood.noise_covar.raw_noise, noise),
        ]
        return np.concatenate([[value.item()], torch.cat([s.reshape(-1) for s in slopes]).detach().numpy()])

    return run


def _by_log(raw, value):
    """d raw / d log value: its parameters are softplus (plus a constant) of raw ones."""
    return value / raw.sigmoid()
