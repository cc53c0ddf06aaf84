"""From how many candidates on a private search repeats: composition beside it.

Composition fits each candidate once and divides the budget; repetition leaves a fit
more, but may miss the best candidate. Simulated tables of two classes, grids in which
most candidates are bad: accuracy on fresh rows of "repeat" less that of "compose" on
the same tables, and how many times as much a fit gets. By this `WORTH_MISSING` was
chosen.

    python examples/benchmarks/few_candidates.py

About ten minutes on one core.
"""

import platform
import warnings

import numpy as np
import scipy
import sklearn

from fairpriv_sklearn.datasets import make_biased_mixture
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV

N_ROWS, N_TEST, N_TABLES = 1500, 4000, 20
GRIDS = {"C": (1e-4, 1e2), "data_norm": (0.02, 10.0)}


def compared(name, epsilon, n_candidates):
    """Gain of a fit, and accuracy of both ways on every table."""
    grid = {name: list(np.geomspace(*GRIDS[name], n_candidates))}
    model = DPWassersteinLogisticRegression(fairness_weight=0, classes=[0, 1])
    sizes, scores = [], []
    for method in ("compose", "repeat"):
        search = DPGridSearchCV(model, grid, epsilon=epsilon, method=method)
        sizes.append(search.plan().fit.size)
        for seed in range(N_TABLES):
            size = {"n_samples": N_ROWS + N_TEST, "n_classes": 2}
            X, y, _ = make_biased_mixture(**size, random_state=seed)
            search.set_params(random_state=seed).fit(X[:N_ROWS], y[:N_ROWS])
            scores.append(np.mean(search.predict(X[N_ROWS:]) == y[N_ROWS:]))
    return sizes[1] / sizes[0], np.reshape(scores, (2, N_TABLES))


def main():
    warnings.simplefilter("ignore")
    print("Command: python examples/benchmarks/few_candidates.py")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}\n"
    )
    print("grid       epsilon  candidates  gain of a fit  compose  repeat - compose")
    for name in GRIDS:
        for epsilon in (0.5, 1.0, 3.0):
            for n in (2, 3, 4, 5, 6, 8):
                gain, (composed, repeated) = compared(name, epsilon, n)
                more = repeated - composed
                error = more.std(ddof=1) / np.sqrt(N_TABLES)
                print(
                    f"{name:10}{epsilon:8}{n:12}{gain:15.2f}{composed.mean():9.4f}"
                    f"{more.mean():11.4f} +- {error:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
