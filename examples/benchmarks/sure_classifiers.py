"""Demographic parity of classifiers that are sure of themselves, or say few things.

`DP2DPClassifier` with defaults at the given epsilon around a classifier that was
fitted on other rows, four calibrations each: gap between groups and error on fresh
rows, of the classifier and of the repair, the standard deviation of the latter's gap,
and how many of the four draw decisions. The scale on which margins are told apart, and
when decisions are drawn, were chosen on other tables of `make_biased_mixture` and
`make_spurious_bias`. Run::

    python examples/benchmarks/sure_classifiers.py
"""

import platform
import warnings

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from wide_targets import numbers

from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_credit_default,
    make_biased_mixture,
    make_spurious_bias,
)
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.postprocessing import DP2DPClassifier

SIMULATED = {
    "mixture, seed 1": lambda: make_biased_mixture(60_000, n_classes=2, random_state=1),
    "mixture, seed 2": lambda: make_biased_mixture(60_000, n_classes=2, random_state=2),
    "four classes": lambda: make_biased_mixture(60_000, n_classes=4, random_state=1),
    "spurious, seed 1": lambda: make_spurious_bias(60_000, random_state=1),
}


def real(fetch):
    X, y = numbers(fetch, None, as_float=False)
    group = np.asarray(fetch().sensitive_features).astype(str)
    return X, *(np.unique(one, return_inverse=True)[1] for one in (y, group))


REAL = {
    "Adult, sex": lambda: real(fetch_adult),
    "Credit, SEX": lambda: real(fetch_credit_default),
}


def models(X, classes):
    ends = X.min(axis=0), np.maximum(X.max(axis=0), X.min(axis=0) + 1)
    yield (
        "network",
        DPWassersteinMLPClassifier(
            fairness_weight=0, classes=classes, bounds=ends, random_state=0
        ),
    )
    yield "logistic regression", LogisticRegression(max_iter=5000)
    yield "boosting", HistGradientBoostingClassifier(random_state=0)
    yield "naive Bayes", GaussianNB()
    yield "forest of 30", RandomForestClassifier(30, random_state=0)
    yield "tree", DecisionTreeClassifier(random_state=0)
    yield "tree of depth 4", DecisionTreeClassifier(max_depth=4, random_state=0)
    yield "nearest neighbour", KNeighborsClassifier(1)


def main():
    warnings.simplefilter("ignore")
    print("python examples/benchmarks/sure_classifiers.py")
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}"
    )
    print(f"{'':45}{'gap':>6}{'error':>7}{'gap':>9}{'':9}{'error':>6}{'drawn':>6}")
    for table, made in (SIMULATED | REAL).items():
        X, y, group = (np.asarray(one) for one in made()[:3])
        order = np.random.default_rng(0).permutation(len(y))
        train, told, fresh = np.split(order[:60_000], [10_000, 20_000])
        classes = np.unique(y).tolist()
        for name, model in models(X, classes):
            model.fit(X[train], y[train])
            frozen = FrozenEstimator(model)
            groups = {"sensitive_features": group[fresh]}

            def measured(decided, y=y[fresh], groups=groups):
                gap = demographic_parity_difference(y, decided, **groups)
                return gap, np.mean(decided != y)

            own = measured(model.predict(X[fresh]))
            for epsilon in (0.3, 1.0):
                found, drawn = [], 0
                for seed in range(4):
                    repair = DP2DPClassifier(
                        frozen,
                        epsilon=epsilon,
                        classes=classes,
                        groups=np.unique(group).tolist(),
                        random_state=seed,
                    ).fit(X[told], y[told], sensitive_features=group[told])
                    found.append(measured(repair.predict(X[fresh], **groups)))
                    drawn += hasattr(repair, "rule_")
                (gap, error), deviation = np.mean(found, axis=0), np.std(found, axis=0)
                print(
                    f"{table:18}{name:22}{epsilon:>5}{own[0]:>6.3f}{own[1]:>7.3f}"
                    f"{gap:>9.4f} ({deviation[0]:.4f}){error:>7.4f}{drawn:>6}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
