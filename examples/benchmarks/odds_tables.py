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

With the word "gradient" or "histogram" this method repairs and not the default. With
the word "tables" real tables are repaired by both: a third of the rows fits a logistic
regression, 2,000 or 7,000 others calibrate, a third judges. With the word "alike" all
groups are as the first one is, so that a repair can only do harm. With the word "bound"
it prints instead the least error of *any* rule that knows
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
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairpriv_sklearn
from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_credit_default,
    fetch_law_school,
)
from fairpriv_sklearn.postprocessing import DP2DPClassifier

ROWS, FRESH, SEEDS = 7000, 40_000, range(10)
CONSTRAINT = "equalized_odds"
METHODS = ("histogram", "gradient")
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
    asked = [m for m in METHODS if m in sys.argv]
    known |= {"method": asked[0]} if asked else {}
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


def real_tables():
    """Name, features, labels and groups of real tables."""

    def parts(values, n_parts):
        values = np.asarray(values, dtype=float)
        return np.searchsorted(
            np.quantile(values, np.arange(1, n_parts) / n_parts), values
        )

    adult = fetch_adult(as_frame=True, missing="drop")
    X, sex = adult.data, np.asarray(adult.sensitive_features)
    hours = X["hours-per-week"].to_numpy()
    race = X["race"].astype(str).where(X["race"].isin(["White", "Black"]), "Other")
    yield "Adult income, sex", X, (adult.target == ">50K").to_numpy().astype(int), sex
    hours, rest = (hours >= 40).astype(int) + (hours > 40), ["hours-per-week"]
    yield "Adult hours, sex", X.drop(columns=rest), hours, sex
    yield "Adult hours, race", X.drop(columns=[*rest, "race"]), hours, race.to_numpy()
    credit = fetch_credit_default(as_frame=True)
    X, sex = credit.data, np.asarray(credit.sensitive_features)
    rest, limit = X.drop(columns="LIMIT_BAL"), X["LIMIT_BAL"]
    school = X["EDUCATION"].where(X["EDUCATION"].isin([1, 2, 3]), 4).to_numpy()
    default = credit.target.to_numpy().astype(int)
    yield "Credit default, sex", X, default, sex
    yield "Credit default, school", X.drop(columns="EDUCATION"), default, school
    yield "Credit limit, sex", rest, parts(limit, 3), sex
    law = fetch_law_school(as_frame=True, missing="drop")
    race = np.asarray(law.sensitive_features)
    yield "Law School grade, race", law.data, parts(law.target, 2), race
    yield "Law School grade, race", law.data, parts(law.target, 3), race


def table_of_tables():
    print("error / gap at epsilon 1 (standard error of the gap)")
    print(f"{'table':24}{'groups':>7}{'classes':>8}{'rows':>7}{'none':>15}", end="")
    print("".join(f"{m:>23}" for m in METHODS))
    for name, X, y, group in real_tables():
        words = make_column_selector(dtype_exclude="number")
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
            remainder=StandardScaler(),
        )
        n_classes, groups = y.max() + 1, np.unique(group)
        for n_rows in (2000, 7000):
            found = []
            for seed in SEEDS:
                rows = np.random.default_rng(seed).permutation(len(y))
                fit, calibrate, judge = np.array_split(rows, 3)
                calibrate = calibrate[:n_rows]
                model = make_pipeline(encoder, LogisticRegression(max_iter=300))
                model = FrozenEstimator(clone(model).fit(X.iloc[fit], y[fit]))
                answers = [model.predict(X.iloc[judge])]
                for method in METHODS:
                    repair = DP2DPClassifier(
                        model,
                        constraint=CONSTRAINT,
                        method=method,
                        base_guarantee="public",
                        classes=range(n_classes),
                        groups=groups,
                        random_state=seed,
                    )
                    given = {"sensitive_features": group[calibrate]}
                    repair.fit(X.iloc[calibrate], y[calibrate], **given)
                    given = {"sensitive_features": group[judge]}
                    answers.append(repair.predict(X.iloc[judge], **given))
                found.append(
                    [
                        (np.mean(a != y[judge]), largest_gap(y[judge], a, group[judge]))
                        for a in answers
                    ]
                )
            means = np.mean(found, axis=0)
            errors = np.std(found, axis=0, ddof=1)[:, 1] / len(SEEDS) ** 0.5
            print(f"{name:24}{len(groups):>7}{n_classes:>8}{n_rows:>7}", end="")
            print(f"{means[0, 0]:>9.4f}/{means[0, 1]:.3f}", end="")
            for (error, gap), e in zip(means[1:], errors[1:], strict=True):
                print(f"{error:>9.4f}/{gap:.3f} ({e:.3f})", end="")
            print(flush=True)


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
    if "tables" in sys.argv:
        table_of_tables()
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
