"""Ranges learnt in bounds: batches of linear models, autoencoders, and generators.

Each with learnt ranges and without, on the same rows, in bounds of the columns' own and
in bounds ten times as wide about other centres.

Batches: accuracy of `DPWassersteinLogisticRegression` without a penalty, epsilon 1: six
normal columns in bounds 1 to 100 times as wide as six deviations, eight seeds, and real
tables in batches of a twentieth, numbers only and with categories as indicators, eight
splits.

Autoencoders: squared error of two components on held-out rows, in parts of the columns'
own bounds, relative to that of the mean; numbers only, without a penalty, eight splits.

Generators: total variation of samples to held-out rows in 20 bins of equal content,
mean over the columns, and the accuracy of a logistic regression on held-out rows,
fitted to the samples, if there are classes; numbers only, eight splits.

Encoded: accuracy or R2 of networks behind a `DPTableEncoder` under one epsilon, nothing
declared but classes or the range of the target, and of the constant; eight splits.

    OMP_NUM_THREADS=1 python examples/benchmarks/learnt_ranges.py [PART ...]
"""

import itertools
import platform
import sys
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from wide_bounds import encoded, in_bounds

from fairpriv_sklearn._training._design import default_data_norm
from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
    fetch_parkinsons,
)
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

WIDTHS = ((1, "own"), (10, "too wide"))


def report(start, pairs):
    """Means of (learnt, without), and of the difference with its standard error."""
    pairs = np.array(pairs)
    learnt, without = pairs.mean(axis=0)
    gains = pairs[:, 0] - pairs[:, 1]
    error = gains.std(ddof=1) / len(gains) ** 0.5
    print(f"{start}{without:9.3f}{learnt:9.3f}{gains.mean():+9.3f} +- {error:.3f}")
    sys.stdout.flush()


def heading(title, words):
    print(f"\n{title:40}{words:>10}{'without':>9}{'learnt':>9}{'difference':>18}")


def in_batches(X, y, test, batch_size, bounds, seed):
    norm = default_data_norm(X.shape[1])
    scores = []
    for data_norm in (None, norm):
        model = DPWassersteinLogisticRegression(
            epsilon=1.0,
            fairness_weight=0,
            classes=np.unique(y),
            bounds=bounds,
            batch_size=batch_size,
            data_norm=data_norm,
            random_state=seed,
        ).fit(X, y)
        scores.append(model.score(*test))
    return scores


def batches():
    heading("batches, epsilon 1, accuracy", "bounds")

    def normal(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 6))
        slopes = np.array([1.5, -1, 0.5, 1, -0.5, 0])
        return X, (X @ slopes + rng.logistic(size=n) / 2 > 0).astype(int)

    for n_rows, size in ((3000, 300), (20_000, 500)):
        for factor in (1, 3, 10, 100):
            wide = -3.0 * factor, 3.0 * factor
            pairs = [
                in_batches(*normal(n_rows, s), normal(20_000, s + 1000), size, wide, s)
                for s in range(900, 908)
            ]
            report(f"{'normal, 6':20}{n_rows:>10}{size:>10}{factor:>8} x", pairs)
    tables = {"Adult": fetch_adult, "Credit": fetch_credit_default}
    for (name, fetch), only in itertools.product(tables.items(), (True, False)):
        data = fetch(missing="drop")
        X, ends, n_numbers = encoded(data, only)
        for n_rows in (1000, 3000, 20_000):
            for factor, words in WIDTHS:
                pairs = []
                for seed in range(900, 908):
                    rng = np.random.default_rng(seed)
                    bounds = in_bounds(ends, n_numbers, factor, rng)
                    train, test = np.split(rng.permutation(len(X)), [n_rows])
                    known = X[test], data.target[test]
                    case = X[train], data.target[train], known, n_rows // 20
                    pairs.append(in_batches(*case, bounds, seed))
                start = f"{name + f', {X.shape[1]}':20}{n_rows:>10}{n_rows // 20:>10}"
                report(f"{start}{words:>10}", pairs)


def numbers(fetch, n_columns=None):
    """A table of numbers: its columns, their bounds, and labels if it has classes."""
    data = fetch(missing="drop")
    X, ends, _ = encoded(data, True)
    y = None if data.classes is None else np.asarray(data.target)
    return SimpleNamespace(X=X[:, :n_columns], ends=ends[:n_columns], y=y)


def digits():
    X, y = load_digits(return_X_y=True)
    return SimpleNamespace(X=X, ends=np.tile([0.0, 16.0], (64, 1)), y=y)


LAW = partial(numbers, fetch_law_school)
COMMUNITIES = partial(numbers, fetch_communities_crime, 20)
ADULT = partial(numbers, fetch_adult)
CREDIT = partial(numbers, fetch_credit_default)


def split_of(data, n_rows, factor, seed):
    """Training rows, held-out rows and bounds."""
    rng = np.random.default_rng(seed)
    bounds = in_bounds(data.ends, len(data.ends), factor, rng)
    return *np.split(rng.permutation(len(data.X)), [n_rows]), bounds


def reconstruction(data, n_rows, epsilon, factor, seed):
    train, test, bounds = split_of(data, n_rows, factor, seed)
    low, high = data.ends.T
    errors = []
    for data_norm in (None, data.X.shape[1] ** 0.5):
        model = DPWassersteinAutoencoder(
            n_components=2,
            epsilon=epsilon,
            fairness_weight=0,
            bounds=bounds,
            data_norm=data_norm,
            random_state=seed,
        ).fit(data.X[train])
        told = model.inverse_transform(model.transform(data.X[test]))
        X, told = ((part - low) / (high - low) for part in (data.X[test], told))
        errors.append(((X - told) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum())
    return errors


def autoencoders():
    heading("autoencoders, relative error", "bounds")
    for name, load, n_rows in (
        ("Law School", LAW, 3000),
        ("Adult", ADULT, 3000),
        ("Communities", COMMUNITIES, 1329),
    ):
        data = load()
        for epsilon in (1.0, 3.0):
            for factor, words in WIDTHS:
                case = data, n_rows, epsilon, factor
                pairs = [reconstruction(*case, seed) for seed in range(900, 908)]
                start = f"{name + f', {data.X.shape[1]}':20}{n_rows:>10}{epsilon:>10}"
                report(f"{start}{words:>10}", pairs)


class SinkhornWithout(DPSinkhornGenerator):
    def _range_counts(self, space, n_records):
        return None


class SlicedWithout(DPSlicedWassersteinGenerator):
    def _range_counts(self, space, n_records):
        return None


def variation(samples, held_out):
    """Mean over the columns of the total variation in 20 bins of equal content."""
    distances = []
    for ours, theirs in zip(samples.T, held_out.T, strict=True):
        edges = np.unique(np.quantile(theirs, np.linspace(0, 1, 21)[1:-1]))
        shares = [
            np.bincount(np.searchsorted(edges, part), minlength=len(edges) + 1)
            / len(part)
            for part in (ours, theirs)
        ]
        distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return np.mean(distances)


def generated(data, kinds, n_rows, epsilon, factor, seed):
    """Distance and accuracy of samples, with learnt ranges and without."""
    train, test, bounds = split_of(data, n_rows, factor, seed)
    found = []
    for kind in kinds:
        model = kind(epsilon=epsilon, bounds=bounds, random_state=seed)
        if data.y is None:
            samples = model.fit(data.X[train]).sample(n_rows)
            found.append([variation(samples, data.X[test]), np.nan])
            continue
        model.set_params(classes=np.unique(data.y)).fit(data.X[train], data.y[train])
        samples, labels = model.sample(n_rows)
        plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        accuracy = np.nan
        if len(np.unique(labels)) > 1:
            accuracy = plain.fit(samples, labels).score(data.X[test], data.y[test])
        found.append([variation(samples, data.X[test]), accuracy])
    return np.array(found)


def generators():
    tables = [
        ("Law School", LAW, 3000, 1.0),
        ("Law School", LAW, 16_000, 1.0),
        ("Communities", COMMUNITIES, 1329, 1.0),
        ("Communities", COMMUNITIES, 1329, 3.0),
        ("Digits", digits, 1198, 3.0),
        ("Adult", ADULT, 3000, 1.0),
        ("Adult", ADULT, 3000, 3.0),
        ("Credit", CREDIT, 3000, 1.0),
        ("Credit", CREDIT, 3000, 3.0),
    ]
    methods = {
        "semidual": (DPSinkhornGenerator, SinkhornWithout),
        "histogram": (DPSlicedWassersteinGenerator, SlicedWithout),
    }
    for method, kinds in methods.items():
        heading(f"{method}, distance; then accuracy", "bounds")
        for name, load, n_rows, epsilon in tables:
            data = load()
            for factor, words in WIDTHS:
                case = data, kinds, n_rows, epsilon, factor
                runs = np.array([generated(*case, seed) for seed in range(900, 908)])
                start = f"{name + f', {data.X.shape[1]}':20}{n_rows:>10}{epsilon:>10}"
                report(f"{start}{words:>10}", runs[:, :, 0])
                if data.y is not None:
                    report(f"{'   accuracy':40}{words:>10}", runs[:, :, 1])


def behind_encoder(data, n_rows, seed):
    """Score of a network behind a table encoder, and of the constant of its rows."""
    order = np.random.default_rng(seed).permutation(len(data.data))
    train, test = np.split(order, [n_rows])
    y = np.asarray(data.target)
    if data.classes is None:
        network = DPWassersteinMLPRegressor(target_bounds=data.target_bounds)
        constant = DummyRegressor()
    else:
        network = DPWassersteinMLPClassifier(classes=data.classes)
        constant = DummyClassifier()
    network.set_params(fairness_weight=0, random_state=seed)
    pipeline = make_pipeline(DPTableEncoder(random_state=seed), network)
    model = with_budget(pipeline, 1.0, 1e-5)
    return [
        one.fit(data.data.iloc[train], y[train]).score(data.data.iloc[test], y[test])
        for one in (model, constant)
    ]


def encoded_tables():
    print(
        f"\n{'networks behind an encoder, epsilon 1':40}{'rows':>7}{'score':>18}",
        end="",
    )
    print(f"{'constant':>10}")
    for name, fetch in {
        "Adult, accuracy": fetch_adult,
        "Credit default, accuracy": fetch_credit_default,
        "Law School, R2": fetch_law_school,
        "Communities, R2": fetch_communities_crime,
        "Parkinsons, R2": fetch_parkinsons,
    }.items():
        data = fetch(as_frame=True, missing="drop")
        for n_rows in (1000, 3000, 12_000):
            if n_rows > 0.75 * len(data.data):
                continue
            runs = np.array([behind_encoder(data, n_rows, s) for s in range(900, 908)])
            (score, constant), error = (
                runs.mean(axis=0),
                runs[:, 0].std(ddof=1) / 8**0.5,
            )
            print(f"{name:40}{n_rows:>7}{score:>9.3f} +- {error:.3f}{constant:>10.3f}")
            sys.stdout.flush()


PARTS = {
    "batches": batches,
    "autoencoders": autoencoders,
    "generators": generators,
    "encoded": encoded_tables,
}


def main():
    warnings.simplefilter("ignore")
    print(
        "OMP_NUM_THREADS=1 python examples/benchmarks/learnt_ranges.py", *sys.argv[1:]
    )
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
