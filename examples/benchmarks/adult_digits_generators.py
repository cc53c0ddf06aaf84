"""Private Adult tables and digits: classifiers trained on synthetic rows, real tests.

    OMP_NUM_THREADS=1 python examples/benchmarks/adult_digits_generators.py --data DIR

DIR (default: the environment variable FAIRPRIV_SKLEARN_DATA) holds adult.csv.gz.
Adult: fit on the 32,561 UCI training rows (8 categorical columns with missing values as
a category, 6 numeric ones in public bins), as many synthetic rows, accuracy on the
16,281 UCI test rows; total variation of all one-way and two-way tables, label included,
between synthetic and training rows, averaged.  Digits: 75 % of 1797 images, 5000
synthetic ones, accuracy of a logistic regression on the rest.  delta = 1e-5, one record
replaced, means over seeds.  Times are process CPU seconds of the fit on one thread.
"""

import argparse
import itertools
import os
import platform
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

from fairpriv_sklearn.datasets import fetch_adult
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)

EPSILONS = (10.0, 3.0, 1.0)
SEEDS = range(3)
BINS = {
    "age": [17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47, 50, 55, 60, 65, 75, 91],
    "fnlwgt": [0, 6e4, 1.2e5, 1.8e5, 2.4e5, 3e5, 3.6e5, 4.2e5, 5e5, 2e6],
    "education-num": list(range(1, 18)),
    "capital-gain": [0, 1, 2e3, 4e3, 6e3, 8e3, 1e4, 1.5e4, 2e4, 5e4, 1e5],
    "capital-loss": [0, 1, 1e3, 1.5e3, 1.7e3, 1.8e3, 1.9e3, 2e3, 2.3e3, 2.6e3, 5e3],
    "hours-per-week": [1, 10, 20, 25, 30, 35, 40, 41, 45, 50, 55, 60, 70, 100],
}


def load_adult(folder):
    adult = fetch_adult(data_home=folder, as_frame=True)
    frame = adult.data.assign(sex=adult.sensitive_features)
    categories = {name: [*values, None] for name, values in adult.categories.items()}
    categories["sex"] = list(adult.groups)
    train = np.asarray(adult.uci_split) == "train"
    return frame, adult.target.to_numpy(), train, categories, adult.classes


def levels(frame, y):
    """Every column in its public levels, for the tables of frequencies."""
    columns = {"income": pd.factorize(y, sort=True)[0]}
    for name in frame:
        if name in BINS:
            columns[name] = np.digitize(frame[name], BINS[name])
        else:
            columns[name] = frame[name].astype(object).fillna("missing")
    return pd.DataFrame(columns)


def total_variation(first, second, n_ways):
    distances = []
    for names in itertools.combinations(first.columns, n_ways):
        tables = [t.value_counts(list(names), normalize=True) for t in (first, second)]
        distances.append(tables[0].sub(tables[1], fill_value=0).abs().sum() / 2)
    return np.mean(distances)


def downstream(categories):
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), list(categories)),
        (MaxAbsScaler(), list(BINS)),
        sparse_threshold=0,
    )
    yield make_pipeline(encode, LogisticRegression(max_iter=500))
    yield make_pipeline(encode, HistGradientBoostingClassifier(random_state=0))


def adult(folder):
    frame, y, train, categories, classes = load_adult(folder)
    real = levels(frame[train], y[train])

    def scores(X, labels):
        return [
            model.fit(X, labels).score(frame[~train], y[~train])
            for model in downstream(categories)
        ]

    print("Adult                LR  boosting  one-way  two-way     fit")
    print(
        "real         " + "".join(f"{s:10.4f}" for s in scores(frame[train], y[train]))
    )
    for epsilon in EPSILONS:
        rows = []
        for seed in SEEDS:
            generator = DPSinkhornGenerator(
                epsilon=epsilon,
                categories=categories,
                bins=BINS,
                classes=classes,
                random_state=seed,
            )
            start = time.process_time()
            generator.fit(frame[train], y[train])
            seconds = time.process_time() - start
            X, labels = generator.sample(int(train.sum()))
            synthetic = levels(X, labels)
            distances = [total_variation(real, synthetic, ways) for ways in (1, 2)]
            rows.append([*scores(X, labels), *distances, seconds])
        mean = np.mean(rows, axis=0)
        cells = "".join(f"{value:10.4f}" for value in mean[:2])
        cells += "".join(f"{value:9.4f}" for value in mean[2:4])
        print(f"eps {epsilon:<9g}{cells}{mean[4]:8.1f}")


def digits():
    X, y = load_digits(return_X_y=True)
    print("\nDigits, LR   sinkhorn    sliced      real")
    for epsilon in EPSILONS:
        rows = []
        for seed in range(5):
            X_train, X_test, y_train, y_test = train_test_split(
                X / 16, y, test_size=0.25, stratify=y, random_state=seed
            )
            public = {"epsilon": epsilon, "bounds": (0, 1), "classes": range(10)}
            tables = [
                Generator(random_state=seed, **public)
                .fit(X_train, y_train)
                .sample(5000)
                for Generator in (DPSinkhornGenerator, DPSlicedWassersteinGenerator)
            ]
            tables.append((X_train, y_train))
            rows.append(
                [
                    LogisticRegression(max_iter=500).fit(*table).score(X_test, y_test)
                    for table in tables
                ]
            )
        print(
            f"eps {epsilon:<7g}" + "".join(f"{s:10.3f}" for s in np.mean(rows, axis=0))
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("FAIRPRIV_SKLEARN_DATA"))
    folder = parser.parse_args().data
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}, one thread"
    )
    adult(folder)
    digits()


if __name__ == "__main__":
    main()
