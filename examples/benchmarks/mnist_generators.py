"""Private MNIST: classifiers trained on synthetic digits, scored on real ones.

    OMP_NUM_THREADS=1 python examples/benchmarks/mnist_generators.py --data DIR \
        [--methods semidual sliced gaussian gradient network] [--epsilons 10 3 1] \
        [--seeds 0 1 2]

DIR (default: the environment variable FAIRPRIV_SKLEARN_DATA) holds mnist.npz with
x_train, y_train, x_test, y_test.  Fit on all 60,000 training images, delta = 1e-5,
one record replaced (network: added or removed, as published).  LR: logistic
regression on 20,000 synthetic images; MLP: one hidden layer of 100, 12 epochs, on
20,000 and on 60,000.  Times are process CPU seconds on one thread; "total" is the fit
and 60,000 samples.
"""

import argparse
import os
import platform
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)

DELTA = 1e-5
N_SMALL, N_LARGE = 20_000, 60_000
PUBLISHED = {"LR": 0.795, "MLP": 0.802}  # epsilon 10, own accounting, 60,000 images


def load(folder):
    with np.load(Path(folder) / "mnist.npz") as file:
        images = [
            file[f"x_{part}"].reshape(-1, 784) / 255 for part in ("train", "test")
        ]
        labels = [file[f"y_{part}"].astype(int) for part in ("train", "test")]
    return images[0], labels[0], images[1], labels[1]


def make(method, epsilon, seed, max_iter):
    public = {"epsilon": epsilon, "delta": DELTA, "bounds": (0, 1)}
    public |= {"classes": range(10), "random_state": seed}
    if method == "sliced":
        return DPSlicedWassersteinGenerator(**public)
    if method == "gradient":
        return DPSlicedWassersteinGenerator(method=method, **public)
    if method == "network":
        # The relation and the rate of the published experiment: batches of about 50.
        public |= {"neighboring": "add_remove", "sampling_rate": 50 / 60_000}
        return DPSinkhornGenerator(method=method, max_iter=max_iter, **public)
    if method == "gaussian":  # class means and covariances, and no points
        return DPSinkhornGenerator(n_points=1, **public)
    return DPSinkhornGenerator(method=method, **public)


def accuracies(X, y, X_test, y_test):
    """LR on the small set, MLP on the small and on the large one."""
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    small = X[:N_SMALL], y[:N_SMALL]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = [
            LogisticRegression(max_iter=100).fit(*small),
            MLPClassifier((100,), max_iter=12, random_state=0).fit(*small),
            MLPClassifier((100,), max_iter=12, random_state=0).fit(X, y),
        ]
    return [model.score(X_test, y_test) for model in models]


def row(name, epsilon, seed, scores, times=("", "")):
    cells = [f"{score:8.4f}" for score in scores]
    print(
        f"{name:10}{epsilon:>8}{seed:>6}" + "".join(cells) + "{:>9}{:>9}".format(*times)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("FAIRPRIV_SKLEARN_DATA"))
    parser.add_argument("--methods", nargs="+", default=["semidual", "sliced"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10, 3, 1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--max-iter", type=int, default=50_000, help="network only")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data or set FAIRPRIV_SKLEARN_DATA")
    X, y, X_test, y_test = load(args.data)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}, one thread"
    )
    print("published at epsilon 10: LR {LR:.3f}, MLP {MLP:.3f}".format(**PUBLISHED))
    header = ["LR", "MLP20k", "MLP60k", "fit", "total"]
    print(
        f"{'method':10}{'epsilon':>8}{'seed':>6}"
        + "".join(f"{h:>8}" for h in header[:3])
        + "".join(f"{h:>9}" for h in header[3:])
    )
    order = np.random.default_rng(0).permutation(len(X))
    row("real", "inf", "", accuracies(X[order], y[order], X_test, y_test))
    for method in args.methods:
        for epsilon in args.epsilons:
            all_scores = []
            for seed in args.seeds:
                start = time.process_time()
                generator = make(method, epsilon, seed, args.max_iter).fit(X, y)
                fitted = time.process_time()
                S, labels = generator.sample(N_LARGE)
                times = [f"{t - start:.1f}" for t in (fitted, time.process_time())]
                all_scores.append(accuracies(S, labels, X_test, y_test))
                row(method, epsilon, seed, all_scores[-1], times)
            row(method, epsilon, "mean", np.mean(all_scores, axis=0))


if __name__ == "__main__":
    main()
