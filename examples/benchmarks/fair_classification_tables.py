"""Error and violation of demographic parity of `DP2DPClassifier`, in tables.

Part 1, simulated: exact class probabilities, calibration only. Part 2, real data: both
phases private for whole records at the printed epsilon, preprocessing by public bounds
and categories only, beside the published numbers of Lowy, Gupta and Razaviyayn (2023),
which protect the sensitive attribute only.

Run by hand; set FAIRPRIV_SKLEARN_DATA to a folder with the data or let them download:

    python examples/benchmarks/fair_classification_tables.py \
        > examples/benchmarks/fair_classification_tables.txt

Numbers as arguments choose parts: 4 is raw tables, encoder, model and repair under one
total.
"""

import platform
import sys
from functools import cache, partial

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_credit_default,
    fetch_parkinsons,
    make_biased_mixture,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import (
    demographic_parity_difference,
    equalized_odds_difference,
)
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import privacy_report, with_budget

# --- part 1: simulated --------------------------------------------------------------


class Posteriors(ClassifierMixin, BaseEstimator):
    """A classifier whose features are the exact class probabilities."""

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X


# Mixtures whose violation without repair and accuracy after it are close to those of
# the trial that the column "trial" quotes: the same mechanism, 8 to 10 runs, mixtures
# of its own. They were chosen by these two numbers alone.
SIMULATED = {
    "2 classes, groups 67/33": dict(
        n_classes=2, n_features=3, n_components=3, p=0.62, group_share=1 / 3
    ),
    "2 classes, groups 95/5": dict(
        n_classes=2, n_features=5, n_components=3, p=0.65, group_share=0.05
    ),
    "6 classes, groups 50/50": dict(n_features=5, p=0.58, random_state=3),
    "6 classes, groups 95/5": dict(
        n_features=5, p=0.59, group_share=0.05, random_state=5
    ),
    "6 classes, 3 groups": dict(n_features=5, p=0.58, third_group=True, random_state=3),
}
TRIAL_RUNS = 8
# (rows, epsilon) -> violation without noise and with it
TRIAL = {
    "2 classes, groups 67/33": {
        (2000, 0.5): (0.012, 0.014),
        (2000, 1.0): (0.016, 0.020),
        (9768, 0.5): (0.006, 0.005),
        (9768, 1.0): (0.012, 0.012),
    },
    "2 classes, groups 95/5": {
        (2000, 0.5): (0.029, 0.097),
        (2000, 1.0): (0.041, 0.073),
        (9768, 0.5): (0.009, 0.013),
        (9768, 1.0): (0.018, 0.011),
    },
    "6 classes, groups 50/50": {
        (2000, 0.5): (0.020, 0.029),
        (2000, 1.0): (0.026, 0.025),
        (9768, 0.5): (0.013, 0.012),
        (9768, 1.0): (0.015, 0.016),
    },
    "6 classes, groups 95/5": {
        (2000, 0.5): (0.051, 0.201),
        (9768, 1.0): (0.036, 0.034),
    },
    "6 classes, 3 groups": {(9768, 1.0): (0.018, 0.020)},
}
METHODS = {
    "gradient, T=30": dict(method="gradient"),
    "gradient, T=10": dict(method="gradient", max_iter=10),
    "histogram": dict(method="histogram"),
}


def simulated_table(n_runs=40, n_test=100_000):
    print("1. Simulated: exact probabilities, calibration on N rows, tolerance 0.")
    print(f"Violation/accuracy on {n_test} fresh rows, mean of {n_runs} runs.")
    print("trial: violation without noise, with noise, in a trial of gradient, T=30.")
    print("z: ours minus the trial's violation with noise, in standard errors of the")
    print("difference if a run of the trial spread like one of ours.\n")
    header = "".join(f"{m:>16}" for m in METHODS)
    print(f"{'':24}{'N':>6}{'epsilon':>9}{header}{'trial':>12}{'z':>6}")
    for name, setting in SIMULATED.items():
        pool = draw_pool(n_test + n_runs * 9768, **setting)
        y, group, p = pool
        test = slice(n_test)
        plain = rates(y[test], p[test].argmax(axis=1), group[test])
        print(f"{name:24}{'no repair':>15}{'{:.3f}/{:.3f}'.format(*plain):>16}")
        for n_rows in (2000, 9768):
            for epsilon in (np.inf, 1.0, 0.5):
                simulated_row(name, pool, n_test, n_rows, epsilon, n_runs)


def draw_pool(n_rows, third_group=False, random_state=0, **setting):
    """Labels, groups and exact probabilities; group 0 has no bias."""
    setting |= {"random_state": random_state, "return_posteriors": True}
    parts = [make_biased_mixture(n_rows, **setting)[1:]]
    if third_group:
        n_third = n_rows // 3
        _, y, group, p = make_biased_mixture(n_third, **setting | {"p": 0.5})
        kept = [part[: n_rows - n_third] for part in parts[0]]
        parts = [kept, (y, np.zeros_like(group), p)]
    order = np.random.default_rng(0).permutation(n_rows)
    return [np.concatenate(column)[order] for column in zip(*parts, strict=True)]


def rates(y, y_pred, group):
    gap = demographic_parity_difference(y, y_pred, sensitive_features=group)
    return gap, np.mean(y_pred == y)


def simulated_row(name, pool, n_test, n_rows, epsilon, n_runs):
    n_classes = pool[2].shape[1]
    cells = []
    for params in METHODS.values():
        if params["method"] == "histogram" and n_classes > 2:
            cells.append(None)
        else:
            runs = simulated_runs(pool, n_test, n_rows, epsilon, params, n_runs)
            cells.append((runs.mean(axis=0), runs.std(axis=0, ddof=1)))
    row = "".join(
        f"{'-' if cell is None else '{:.3f}/{:.3f}'.format(*cell[0]):>16}"
        for cell in cells
    )
    if (n_rows, epsilon) in TRIAL[name]:
        trial = TRIAL[name][n_rows, epsilon]
        (ours, _), (spread, _) = cells[0]
        error = spread * np.sqrt(1 / n_runs + 1 / TRIAL_RUNS)
        row += f"{'{:.3f} {:.3f}'.format(*trial):>12}{(ours - trial[1]) / error:>6.1f}"
    print(f"{'':24}{n_rows:>6}{epsilon:>9}{row}", flush=True)


def simulated_runs(pool, n_test, n_rows, epsilon, params, n_runs):
    """Violation and accuracy on the first rows, one row per run."""
    y, group, p = pool
    base = FrozenEstimator(Posteriors().fit(p, y))
    results = []
    for run in range(n_runs):
        start = n_test + run * 9768
        rows = slice(start, start + n_rows)
        model = DP2DPClassifier(
            base,
            epsilon=epsilon,
            base_guarantee="public",
            classes=range(p.shape[1]),
            groups=np.unique(group),
            random_state=run,
            **params,
        ).fit(p[rows], y[rows], sensitive_features=group[rows])
        y_pred = model.predict(p[:n_test], sensitive_features=group[:n_test])
        results.append(rates(y[:n_test], y_pred, group[:n_test]))
    return np.array(results)


# --- part 2: real data --------------------------------------------------------------

# Public knots, round figures: a numeric feature becomes the weights of the knots around
# its value, an amount of money that is mostly zero the indicators of its steps.
ADULT_KNOTS = {"age": [20, 30, 40, 50, 60, 70], "hours-per-week": [20, 40, 50, 60]}
ADULT_STEPS = {"capital-gain": [1, 3000, 5000, 7000], "capital-loss": [1, 1500, 2000]}


def encode(frame, bounds, categories, knots, steps):
    """Encode a table by public facts alone; every source column has norm at most 1."""
    columns = []
    for name, (low, high) in bounds.items():
        values = np.clip(frame[name].to_numpy(dtype=float), low, high)
        if name in steps:
            place = np.searchsorted(steps[name], values, side="right")
            columns.append(np.eye(len(steps[name]) + 1)[place][:, 1:])
        elif name in knots:
            units = np.eye(len(knots[name]))
            columns += [np.interp(values, knots[name], unit) for unit in units]
        else:
            columns.append((values - low) / (high - low))
    for name, values in categories.items():
        columns += [frame[name].to_numpy() == value for value in values]
    return np.column_stack([np.asarray(column, dtype=float) for column in columns])


def row_encoder(**settings):
    encoder = partial(encode, **settings)
    encoder.__fairpriv_row_pure__ = True  # it encodes each row on its own
    return encoder


@cache
def adult():
    data = fetch_adult(as_frame=True, missing="drop")
    bounds = {k: v for k, v in data.bounds.items() if k != "fnlwgt"}
    encoder = row_encoder(
        bounds=bounds,
        categories=data.categories,
        knots=ADULT_KNOTS,
        steps=ADULT_STEPS,
    )
    y = (data.target == ">50K").astype(int).to_numpy()
    norm = np.sqrt(len(bounds) + len(data.categories))
    return data.data, y, data.sensitive_features.to_numpy(), data.groups, encoder, norm


@cache
def credit():
    data = fetch_credit_default(as_frame=True)
    limits = [20_000, 50_000, 100_000, 200_000, 300_000, 500_000]
    delays = {f"PAY_{i}": [-1, 0, 1, 2, 3] for i in (0, 2, 3, 4, 5, 6)}
    encoder = row_encoder(
        bounds=data.bounds,
        categories=data.categories,
        knots=delays | {"AGE": [20, 30, 40, 50, 60], "LIMIT_BAL": limits},
        steps=dict.fromkeys((f"PAY_AMT{i}" for i in range(1, 7)), [1, 1000, 5000]),
    )
    norm = np.sqrt(len(data.bounds) + len(data.categories))
    y = data.target.astype(int).to_numpy()
    return data.data, y, data.sensitive_features.to_numpy(), data.groups, encoder, norm


@cache
def parkinsons():
    data = fetch_parkinsons(as_frame=True)
    motor = {"motor_UPDRS": [10, 15, 20, 25, 30]}
    encoder = row_encoder(bounds=data.bounds, categories={}, knots=motor, steps={})
    y = (data.target > 27.576).astype(int).to_numpy()
    norm = np.sqrt(len(data.bounds))
    return data.data, y, data.sensitive_features.to_numpy(), data.groups, encoder, norm


PUBLISHED = {
    "Adult": "DP-FERMI 0.5: .172/.100 .188/.029; 1: .166/.098 .187/.010; "
    "plain logistic .153/.184",
    "Credit card": "DP-FERMI .191/.0153 .200/.0049; plain logistic .180/.022",
    "Parkinsons": "DP-FERMI .050/.066 .086/.018; plain logistic .039/.076",
}


def real_table(name, load, n_seeds=5):
    print(f"\n{name}: {len(load()[1])} rows, splits 55/20/25, {n_seeds} seeds")
    print(f"published (error/violation): {PUBLISHED[name]}")
    print(f"{'epsilon':>8}{'tolerance':>11}{'plain':>14}{'private':>14}", end="")
    print(f"{'private and fair':>19}{'standard error':>19}{'epsilon of fit':>16}")
    for epsilon in (np.inf, 1.0, 0.5):
        for tolerance in (0.0, 0.02, 0.05):
            runs = [
                one_split(load, epsilon, tolerance, seed) for seed in range(n_seeds)
            ]
            cells = [np.array(cell) for cell in zip(*runs, strict=True)]
            *pairs, spent = cells
            means = [cell.mean(axis=0) for cell in pairs]
            error = pairs[-1].std(axis=0, ddof=1) / n_seeds**0.5
            print(f"{epsilon:>8}{tolerance:>11}", end="")
            print(*(f"{e:>8.4f}/{v:.4f}" for e, v in means), sep="", end="")
            print(
                f"{'':5}{error[0]:>8.4f}/{error[1]:.4f}{spent.max():>14.4f}", flush=True
            )


def fit_split(table, epsilon, seed, **params):
    """Fit both phases on three quarters; return the model and the test part."""
    X, y, group, groups, encoder, norm = table
    train, test = parted(table, seed)
    private = make_pipeline(
        FunctionTransformer(encoder),
        DPWassersteinLogisticRegression(
            epsilon=epsilon,
            fairness_weight=0,
            bounds=(-1, 1),
            data_norm=norm,
            classes=[0, 1],
            random_state=1000 + seed,
        ),
    )
    model = DP2DPClassifier(
        private,
        epsilon=epsilon,
        calibration_size=20 / 75,
        classes=[0, 1],
        groups=groups,
        random_state=seed,
        **params,
    ).fit(X.iloc[train], y[train], sensitive_features=group[train])
    return model, (X.iloc[test], y[test], group[test])


def parted(table, seed):
    """Numbers of the rows of both phases, three quarters, and of the test part."""
    order = np.random.default_rng(seed).permutation(len(table[1]))
    n_fit = int(0.75 * len(order))
    return order[:n_fit], order[n_fit:]


def error_and_violation(test, y_pred, metric=demographic_parity_difference):
    _, y, group = test
    return np.mean(y_pred != y), metric(y, y_pred, sensitive_features=group)


@cache
def plain_rates(load, seed):
    """Of a logistic regression without privacy, on the rows of both phases."""
    X, y, group, _, encoder, _ = table = load()
    train, test = parted(table, seed)
    plain = make_pipeline(
        FunctionTransformer(encoder), LogisticRegression(max_iter=1000)
    ).fit(X.iloc[train], y[train])
    rows = X.iloc[test], y[test], group[test]
    return error_and_violation(rows, plain.predict(rows[0]))


def one_split(load, epsilon, tolerance, seed):
    model, test = fit_split(load(), epsilon, seed, fairness_tolerance=tolerance)
    fair = model.predict(test[0], sensitive_features=test[2])
    return (
        plain_rates(load, seed),
        error_and_violation(test, model.estimator_.predict(test[0])),
        error_and_violation(test, fair),
        model.privacy_.epsilon,
    )


# --- part 3: error rates by true class ----------------------------------------------


def odds_table(n_seeds=5):
    table = adult()
    print("\n3. Adult, rates by true class; error/violation, 5 seeds, tolerance 0")
    print(f"{'epsilon':>8}{'constraint':>22}{'method':>12}{'plain':>16}{'fair':>16}")
    for epsilon in (np.inf, 1.0, 0.5):
        for constraint, method in (
            ("equalized_odds", "histogram"),
            ("equalized_odds", "gradient"),
            ("equal_opportunity", "histogram"),
        ):
            metric = equalized_odds_difference
            if constraint == "equal_opportunity":
                metric = recall_difference
            runs = []
            for seed in range(n_seeds):
                params = dict(constraint=constraint, method=method, max_iter=60)
                model, test = fit_split(table, epsilon, seed, **params)
                plain = model.estimator_.predict(test[0])
                fair = model.predict(test[0], sensitive_features=test[2])
                runs.append(
                    [error_and_violation(test, y, metric) for y in (plain, fair)]
                )
            (e0, v0), (e1, v1) = np.mean(runs, axis=0)
            print(f"{epsilon:>8}{constraint:>22}{method:>12}", end="")
            print(f"{e0:>9.4f}/{v0:.4f}{e1:>9.4f}/{v1:.4f}", flush=True)


def recall_difference(y_true, y_pred, *, sensitive_features):
    positive = y_true == 1
    return demographic_parity_difference(
        y_true[positive],
        y_pred[positive],
        sensitive_features=sensitive_features[positive],
    )


# --- part 4: raw tables -------------------------------------------------------------


def raw_table(name, load, n_seeds):
    """Encoder, model and repair at one total; nothing declared but groups and labels.

    The encoder and the model inside the repair share its budget as `with_budget` does
    by default; the repair reads other rows, a quarter. All columns go in, the sensitive
    one left out.
    """
    X, y, group, groups, *_ = table = load()
    print(f"\n{name}: {len(y)} rows, {n_seeds} splits, three quarters for the fit")
    print(f"{'':33}{'private':>14}{'and fair':>16}{'standard error':>18}  total")
    for epsilon in (1.0, 0.5):
        for label, params in RAW_METHODS.items():
            runs = []
            for seed in range(n_seeds):
                train, test = parted(table, seed)
                model = DP2DPClassifier(
                    make_pipeline(
                        DPTableEncoder(random_state=seed),
                        DPWassersteinLogisticRegression(
                            classes=[0, 1], fairness_weight=0, random_state=seed
                        ),
                    ),
                    classes=[0, 1],
                    groups=groups,
                    random_state=seed,
                    **params,
                )
                model = with_budget(model, epsilon, 1e-5)
                model.fit(X.iloc[train], y[train], sensitive_features=group[train])
                rows = X.iloc[test], y[test], group[test]
                fair = model.predict(rows[0], sensitive_features=rows[2])
                runs.append(
                    [
                        *error_and_violation(rows, model.estimator_.predict(rows[0])),
                        *error_and_violation(rows, fair),
                        privacy_report(model).guarantee.epsilon_at(1e-5),
                    ]
                )
            e0, v0, e1, v1, total = np.mean(runs, axis=0)
            e, v = np.std(runs, axis=0, ddof=1)[2:4] / n_seeds**0.5
            print(
                f"epsilon {epsilon:<4g}{label:21}{e0:>7.4f}/{v0:.4f}{e1:>9.4f}/{v1:.4f}"
                f"{e:>11.4f}/{v:.4f}  {total:.4f}",
                flush=True,
            )


RAW_METHODS = {
    "default": {},
    "tolerance .02": {"fairness_tolerance": 0.02},
    "histogram": {"method": "histogram"},
}


if __name__ == "__main__":
    chosen = sys.argv[1:] or list("1234")
    print("python examples/benchmarks/fair_classification_tables.py")
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, scipy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}\n"
    )
    if "1" in chosen:
        simulated_table()
    if "2" in chosen:
        print(
            "\n2. Real data. epsilon of fit: of both phases, for whole records, ",
            end="",
        )
        print("delta 1e-5")
        real_table("Adult", adult)
        real_table("Credit card", credit)
        real_table("Parkinsons", parkinsons)
    if "3" in chosen:
        odds_table()
    if "4" in chosen:
        print("\n4. Raw tables, everything private in one total; error/violation,")
        print("delta 1e-5.")
        raw_table("Adult", adult, 10)
        raw_table("Credit card", credit, 10)
