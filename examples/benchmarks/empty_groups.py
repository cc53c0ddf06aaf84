"""Blind repairs of decisions whose list of groups names one with next to nobody.

10,000 and 40,000 simulated rows at epsilon 1, two groups (.6 and .4) and a third with
nobody or a two-hundredth of the people, drawn from both, or, of groups that differ
less, with so many that they are about three deviations of the noise of their number;
public models of class and group, who know two. The gap of 40,000 fresh people over the
two large groups and the error, mean of eight fits with standard errors: unrepaired,
repaired with three groups listed, repaired with two (people of the third counted in
the second). "left out" is how often the third was. Seeds were not looked at when
constants were chosen. Run::

    python examples/benchmarks/empty_groups.py
"""

import platform
import warnings

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier

SEEDS = range(700, 708)


def table(n, share, seed, differ=1.0):
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 1.2 * differ * group
    X[:, 1] += 0.9 * differ * group
    score = X @ [0.9, 0.5, -0.4, 0.3] - 0.6
    y = (score + rng.logistic(size=n) > 0).astype(int)
    return X, y, np.where(rng.random(n) < share, 2, group)


def fitted(X, y, group, groups, seed, differ):
    known, classes, sides = table(20_000, 0.0, 1, differ)
    model = DP2DPClassifier(
        FrozenEstimator(LogisticRegression().fit(known, classes)),
        blind=True,
        group_estimator=FrozenEstimator(LogisticRegression().fit(known, sides)),
        base_guarantee="public",
        group_guarantee="public",
        groups=groups,
        classes=[0, 1],
        epsilon=1.0,
        random_state=seed,
    )
    return model.fit(X, y, sensitive_features=group)


def measured(predicted, y, group):
    large = group < 2
    gap = demographic_parity_difference(
        y[large], predicted[large], sensitive_features=group[large]
    )
    return gap, np.mean(predicted != y)


def shown(runs):
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0) / len(runs) ** 0.5
    return f"{mean[0]:.3f} ({error[0]:.3f}) / {mean[1]:.3f}"


def main():
    warnings.simplefilter("ignore")
    print("python examples/benchmarks/empty_groups.py")
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}"
    )
    print(
        f"{'rows':>6}{'differ':>8}{'third':>7}  {'unrepaired':22}{'three listed':22}",
        end="",
    )
    print(f"{'two listed':22}left out")
    for n_rows, differ, share in (
        (10_000, 1.0, 0.0),
        (10_000, 1.0, 0.005),
        (10_000, 0.2, 0.012),
        (40_000, 1.0, 0.0),
        (40_000, 1.0, 0.005),
        (40_000, 0.2, 0.003),
    ):
        none, three, two, out = [], [], [], []
        for seed in SEEDS:
            X, y, group = table(n_rows, share, seed, differ)
            fresh, truth, groups = table(40_000, share, seed + 10_000, differ)
            model = fitted(X, y, group, [0, 1, 2], seed, differ)
            none.append(measured(model.estimator_.predict(fresh), truth, groups))
            three.append(measured(model.predict(fresh), truth, groups))
            out.append(2 in getattr(model, "pooled_groups_", []))
            model = fitted(X, y, np.minimum(group, 1), [0, 1], seed, differ)
            two.append(measured(model.predict(fresh), truth, groups))
        print(f"{n_rows:>6}{differ:>8}{share:>7}  ", end="")
        print("".join(f"{shown(runs):22}" for runs in (none, three, two)), end="")
        print(f"{np.mean(out):.2f}", flush=True)


if __name__ == "__main__":
    main()
