"""Equalized odds with several groups and classes, few rows, epsilon 1.

7,000 simulated rows. "scores": all of them calibrate, and the wrapped model is the true
probabilities; "fit": three quarters fit a logistic regression (not private), the rest
calibrate. 40,000 fresh people judge. The gap is the largest difference between groups
in how often a class is chosen among people of one true class. Beside it the same repair
without noise, no repair, and the best constant. Five populations, two seeds each; the
standard errors are those within a population. The constants of the repair were chosen
on other populations of the same kind.

The script reads arguments that an older commit knows as well. Run it there and here::

    PYTHONPATH=. python examples/benchmarks/odds_tables.py

With the word "gradient" `method="gradient"` repairs and not the default. With the word
"alike" all groups are as the first one is, so that a repair can only do harm. With the
word "bound" it prints instead the least error of *any* rule that knows
group, features and true probabilities, at the gap that the commit of the goal reached:
a linear program over a randomised decision for each of many people and, for two
classes, all pairs of error rates on a fine grid. The goal was .02 less error than that
commit.
"""

import platform
import sys
import warnings

import numpy as np
import sklearn
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import fairpriv_sklearn
from fairpriv_sklearn.postprocessing import DP2DPClassifier

ROWS, FRESH, SEEDS = 7000, 40_000, range(10)
CONSTRAINT = "equalized_odds"
SETTINGS = ((3, 2, 0.8), (3, 2, 0.4), (2, 3, 0.8), (3, 3, 0.8), (2, 5, 0.8))
SHARES = {2: (0.6, 0.4), 3: (0.5, 0.3, 0.2), 4: (0.4, 0.3, 0.2, 0.1)}


class Population:
    """Outcomes depend on features and group; groups differ in features too."""

    def __init__(self, n_groups, n_classes, strength, seed=0):
        rng = np.random.default_rng(seed)
        self.shares, self.n_classes = np.array(SHARES[n_groups]), n_classes
        self.means = rng.normal(size=(n_groups, 4)) * 0.6
        self.slopes = rng.normal(size=(4, n_classes)) * strength
        self.lifts = rng.normal(size=(n_groups, n_classes)) * 0.5
        if "alike" in sys.argv:
            self.means, self.lifts = (
                np.repeat(of[:1], n_groups, axis=0) for of in (self.means, self.lifts)
            )

    def draw(self, n_rows, rng):
        group = rng.choice(len(self.shares), size=n_rows, p=self.shares)
        X = rng.normal(size=(n_rows, 4)) + self.means[group]
        p = self.chances(X, group)
        y = (rng.random((n_rows, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        return np.column_stack([X, np.eye(len(self.shares))[group]]), y, group

    def chances(self, X, group):
        logits = X @ self.slopes + self.lifts[group]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


class Truth(ClassifierMixin, BaseEstimator):
    """The true probabilities; the group is in the last columns."""

    def __init__(self, population=None):
        self.population = population

    def fit(self, X=None, y=None):
        self.classes_ = np.arange(self.population.n_classes)
        return self

    def predict_proba(self, X):
        return self.population.chances(X[:, :4], X[:, 4:].argmax(axis=1))

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def largest_gap(y, y_pred, group):
    gaps = []
    for k in np.unique(y):
        rates = [
            np.bincount(y_pred[(y == k) & (group == s)], minlength=y.max() + 1)
            / ((y == k) & (group == s)).sum()
            for s in np.unique(group)
        ]
        gaps.append(np.ptp(rates, axis=0).max())
    return max(gaps)


def once(population, base, n_groups, epsilon, seed, constraint):
    rng = np.random.default_rng(1000 + seed)
    X, y, group = population.draw(ROWS, rng)
    fresh, truth, groups = population.draw(FRESH, rng)
    known = {"base_guarantee": "public"} if base == "scores" else {}
    known |= {"method": "gradient"} if "gradient" in sys.argv else {}
    model = FrozenEstimator(Truth(population).fit())
    repair = DP2DPClassifier(
        model if base == "scores" else LogisticRegression(max_iter=500),
        epsilon=epsilon,
        constraint=constraint,
        classes=list(range(population.n_classes)),
        groups=list(range(n_groups)),
        random_state=seed,
        **known,
    ).fit(X, y, sensitive_features=group)
    answers = (
        repair.predict(fresh, sensitive_features=groups),
        repair.estimator_.predict(fresh),
    )
    found = [(np.mean(a != truth), largest_gap(truth, a, groups)) for a in answers]
    return (*found[0], *found[1], 1 - np.bincount(truth).max() / FRESH)


# (groups, classes, strength), rows, and error and gap of the commit of the goal.
BEFORE = (
    ((3, 2, 0.8), "scores", 0.2526, 0.029),
    ((3, 2, 0.8), "fit", 0.2644, 0.070),
    ((3, 2, 0.4), "scores", 0.3455, 0.030),
    ((3, 2, 0.4), "fit", 0.3498, 0.061),
    ((3, 3, 0.8), "scores", 0.3693, 0.055),
    ((3, 3, 0.8), "fit", 0.3893, 0.139),
)


def least_error(p, group, gap):
    """Of all randomised decisions for these people, as a linear program."""
    n, n_classes = p.shape
    n_x, rows, limits = n * n_classes, [], []
    for y in range(n_classes):
        for k in range(n_classes):
            for s in np.unique(group):
                people = np.flatnonzero(group == s)
                share = p[people, y] / p[people, y].sum()
                columns = np.append(people * n_classes + k, n_x + y * n_classes + k)
                row = sparse.csr_array(
                    (np.append(share, -1.0), (np.zeros(len(columns), int), columns)),
                    shape=(1, n_x + n_classes**2),
                )
                rows += [row, -row]
                limits += [gap / 2, gap / 2]
    ones = sparse.kron(sparse.eye_array(n), np.ones((1, n_classes)))
    found = linprog(
        np.append(((1 - p) / n).ravel(), np.zeros(n_classes**2)),
        A_ub=sparse.csr_array(sparse.vstack(rows)),
        b_ub=limits,
        A_eq=sparse.csr_array(
            sparse.hstack([ones, sparse.csr_array((n, n_classes**2))])
        ),
        b_eq=np.ones(n),
        bounds=(0, 1),
        method="highs-ds",
    )
    return found.fun


def by_brute_force(p, group, gap, n_points=300, n_inside=31):
    """The same for two classes: every centre of the groups' error rates on a grid."""
    grid, half, total = np.linspace(0, 1, n_points), gap / 2, 0.0
    near = np.linspace(-half, half, n_inside)
    fall = np.clip(grid[:, None] + near, 0, 1)  # false positive rates tried
    for s in np.unique(group):
        one = -np.sort(-p[group == s, 1])
        roc = [np.append(0, np.cumsum(part)) for part in (1 - one, one)]
        best = np.interp(fall, roc[0] / roc[0][-1], roc[1] / roc[1][-1])
        hit = np.minimum(best[:, :, None], grid + half)  # true positive rates
        error = roc[0][-1] * fall[:, :, None] + roc[1][-1] * (1 - hit)
        error = np.where(best[:, :, None] >= grid - half, error, np.inf)
        total = total + error.min(axis=1) / len(p)
    return total.min()


def bounds(n_people=9000):
    print(
        f"least error of any rule at this gap, mean of 5 populations, {n_people} people"
    )
    print(
        f"{'groups':>6}{'classes':>8}{'strength':>10}{'rows':>8}{'before':>15}", end=""
    )
    print(
        f"{'goal':>8}{'any rule':>10}{'by grid':>9}{'no gap asked':>14}{'':4}attainable"
    )
    for setting, rows, error, gap in BEFORE:
        found = []
        for i in range(5):
            population = Population(*setting, i)
            X, _, group = population.draw(n_people, np.random.default_rng(2000 + i))
            p = population.chances(X[:, :4], group)
            grid = by_brute_force(p, group, gap) if setting[1] == 2 else np.nan
            found.append((least_error(p, group, gap), grid, 1 - p.max(axis=1).mean()))
        least, grid, none = np.mean(found, axis=0)
        print(
            f"{setting[0]:>6}{setting[1]:>8}{setting[2]:>10}{rows:>8}{error:>9.4f}/"
            f"{gap:.3f}{error - 0.02:>8.4f}{least:>10.4f}{grid:>9.4f}{none:>14.4f}"
            f"{'':4}{'no' if least > error - 0.02 else 'by a perfect rule'}",
            flush=True,
        )


def main():
    print("python " + " ".join(sys.argv))
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, scikit-learn "
        f"{sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}; {len(SEEDS)} seeds"
    )
    if "bound" in sys.argv:
        bounds()
        return
    print(f"error / gap, {ROWS} rows calibrate; s.e. of the lines at epsilon 1")
    print(f"{'groups':>6}{'classes':>8}{'strength':>10}{'rows':>8}{'none':>15}", end="")
    print(f"{'no noise':>15}{'epsilon 1':>15}{'s.e.':>15}{'constant':>10}")
    for n_groups, n_classes, strength in SETTINGS:
        for base in ("scores", "fit"):
            worlds = [Population(n_groups, n_classes, strength, i) for i in range(5)]
            none, one = (
                np.array(
                    [
                        once(worlds[s // 2], base, n_groups, epsilon, s, CONSTRAINT)
                        for s in SEEDS
                    ]
                )
                for epsilon in (np.inf, 1.0)
            )
            apart = np.diff(one.reshape(5, 2, -1), axis=1)[:, 0]
            error = np.sqrt((apart**2).mean(axis=0)) / 2 / 5**0.5
            none, one = none.mean(axis=0), one.mean(axis=0)
            print(f"{n_groups:>6}{n_classes:>8}{strength:>10}{base:>8}", end="")
            for e, v in (one[2:4], none[:2], one[:2], error[:2]):
                print(f"{e:>9.4f}/{v:.3f}", end="")
            print(f"{one[4]:>10.4f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
