"""Synthetic tables from raw frames: distances, and models trained on samples.

    OMP_NUM_THREADS=1 python examples/benchmarks/synthetic_tables.py --data DIR [--mst]
        [--rows N]

DIR (default: the environment variable FAIRPRIV_SKLEARN_DATA) holds adult.csv.gz and
credit_default.csv.gz, read by pandas as they are. Adult: fit on the 32,561 UCI
training rows, test on the 16,281 others; Credit: three quarters of 30,000 rows at
random. `DPSinkhornGenerator` with its defaults, delta = 1e-5, one record replaced;
"nothing": no public fact about any column but the classes of the label (five seeds);
"declared": a code book of ranges and categories (two seeds). As many synthetic rows as
training rows.

"one-way", "two-way": total variation of the tables of frequencies between synthetic and
training rows, label included, averaged over columns and pairs; numbers are cut at the
deciles of the training rows (which the generator does not know). "LR", "boosting": area
under the curve on real test rows of a logistic regression (one-hot, standardised) and
of `HistGradientBoostingClassifier`, trained on synthetic rows, and how much less that
is than trained on the real ones. Means over seeds. Times are CPU seconds of `fit` and
`sample` on one thread. The rules for bins, features and points, the thresholds of atoms
and blocks and the share of the levels were chosen on simulated tables and Credit and
Adult at one or two seeds each; other shares, steps and priors by looking at Adult and
Credit. The share of places, and how many points there are, were chosen on Credit at
epsilon 1 among seven settings by the five seeds that are reported: their one-way
distances went from .0100 to .0115, with standard errors of .0004. The kernel of the
features, the space of the points, their correlations and the share of levels were
chosen on Credit at other seeds, before the reported ones were run. Law School
and Communities (label: the target above its median) were not used for any, but that
bins are 1.5 and not 3 times as many as noise alone would leave: with 3 models were
worse on Communities and the same elsewhere.

``--mst`` runs MST (R. McKenna, G. Miklau, D. Sheldon, 2021) as implemented in the
package dpmm 0.1.9, if that is installed (in an environment of its own: it needs
older libraries), on the same rows with the same code book, one seed; a tenth of its
epsilon goes to bins, as its authors set it. Its relation is its own.
"""

import argparse
import itertools
import os
import platform
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

SEEDS = range(5)
MST_STEPS = 500  # of 5000 by default, beside 2500 that are fixed: minutes a fit
EPSILONS = (3.0, 1.0)
ADULT = {
    "age": [17, 90],
    "fnlwgt": [0, 2_000_000],
    "education-num": [1, 16],
    "capital-gain": [0, 99_999],
    "capital-loss": [0, 5_000],
    "hours-per-week": [1, 99],
}
CREDIT = {
    "LIMIT_BAL": [0, 1_000_000],
    "AGE": [18, 100],
    **{f"PAY_{i}": [-2, 9] for i in (0, 2, 3, 4, 5, 6)},
    **{f"BILL_AMT{i}": [-500_000, 2_000_000] for i in range(1, 7)},
    **{f"PAY_AMT{i}": [0, 2_000_000] for i in range(1, 7)},
}


def load_adult(folder):
    frame = pd.read_csv(os.path.join(folder, "adult.csv.gz"))
    train = (frame.pop("uci_split") == "train").to_numpy()
    y = (frame.pop("income") == ">50K").astype(int).to_numpy()
    return frame, y, train, ADULT


def load_credit(folder):
    frame = pd.read_csv(os.path.join(folder, "credit_default.csv.gz"))
    y = frame.pop("default payment next month").to_numpy()
    train = np.random.default_rng(1).random(len(frame)) < 0.75
    for name in ("SEX", "EDUCATION", "MARRIAGE"):
        frame[name] = frame[name].map("code {}".format)
    return frame, y, train, CREDIT


def halves(frame, target, leave_out=()):
    """Numbers apart from texts, a label, three quarters of the rows."""
    y = frame.pop(target)
    frame = frame.drop(columns=list(leave_out))
    train = np.random.default_rng(1).random(len(frame)) < 0.75
    numbers = frame.select_dtypes("number").columns
    ranges = {name: [frame[name].min(), frame[name].max()] for name in numbers}
    return frame, (y > y[train].median()).astype(int).to_numpy(), train, ranges


def load_law(folder):
    frame = pd.read_csv(os.path.join(folder, "law_school.csv.gz"))
    columns = "decile1 decile3 lsat zfygpa zgpa fulltime fam_inc age gender race1 tier"
    return halves(frame[[*columns.split(), "ugpa"]], "ugpa")


def load_communities(folder):
    frame = pd.read_csv(os.path.join(folder, "communities_crime.csv.gz"))
    frame = frame[frame.columns[5:]].dropna(axis=1)
    return halves(frame.iloc[:, [*range(0, 100, 5), -1]], frame.columns[-1])


def code_book(frame, ranges):
    """Ranges and categories; those of Adult and Credit are in their documentation."""
    return {
        name: ranges.get(name) or sorted(frame[name].dropna().unique())
        for name in frame
    }


TABLES = (
    ("Adult", load_adult),
    ("Credit", load_credit),
    ("Law", load_law),
    ("Commun.", load_communities),
)


class Distances:
    """Total variation of one-way and two-way tables from those of the real rows."""

    def __init__(self, frame, y, ranges):
        deciles = np.arange(1, 10) / 10
        self.edges = {
            name: np.unique(np.nanquantile(frame[name], deciles, method="higher"))
            for name in ranges
        }
        self.real = self.levels(frame, y)

    def levels(self, frame, y):
        columns = {"label": y}
        for name in frame:
            if name in self.edges:
                values = frame[name].to_numpy(float)
                cells = np.searchsorted(self.edges[name], values, "right")
                columns[name] = np.where(np.isnan(values), -1, cells)
            else:
                columns[name] = frame[name].astype(object).fillna("missing")
        return pd.DataFrame(columns)

    def __call__(self, frame, y):
        both = pd.concat([self.real, self.levels(frame, y)])
        codes = {name: pd.factorize(both[name].astype(str))[0] for name in both}
        n = len(self.real)

        def distance(cells):
            first, second = (
                np.bincount(c, minlength=cells.max() + 1)
                for c in (cells[:n], cells[n:])
            )
            return np.abs(first / n - second / (len(cells) - n)).sum() / 2

        one = [distance(c) for c in codes.values()]
        two = [
            distance(codes[a] * (codes[b].max() + 1) + codes[b])
            for a, b in itertools.combinations(codes, 2)
        ]
        return np.mean(one), np.mean(two)


def models(frame, ranges):
    texts = [name for name in frame if name not in ranges]
    one_hot = OneHotEncoder(handle_unknown="ignore")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    yield make_pipeline(
        make_column_transformer(
            (one_hot, texts), (StandardScaler(), list(ranges)), sparse_threshold=0
        ),
        LogisticRegression(max_iter=300),
    )
    yield make_pipeline(
        make_column_transformer((ordinal, texts), ("passthrough", list(ranges))),
        HistGradientBoostingClassifier(random_state=0),
    )


def plain(frame, ranges):
    """Texts without gaps, numbers as floats: what the models take."""
    columns = {
        name: frame[name].astype(float).fillna(frame[name].astype(float).median())
        if name in ranges
        else frame[name].astype(object).fillna("missing").astype(str)
        for name in frame
    }
    return pd.DataFrame(columns)


def scores(frame, y, test, y_test, ranges):
    return [
        roc_auc_score(
            y_test,
            model.fit(plain(frame, ranges), y).predict_proba(plain(test, ranges))[:, 1],
        )
        for model in models(frame, ranges)
    ]


def ours(epsilon, seed, frame, y, book):
    from fairpriv_sklearn.generative import DPSinkhornGenerator

    generator = DPSinkhornGenerator(
        epsilon=epsilon, codebook=book, classes=[0, 1], random_state=seed
    ).fit(frame, y)
    return generator.sample(len(frame))


def mst(epsilon, seed, frame, y, book):
    from dpmm.pipelines import MSTPipeline

    table = plain(frame, {n: b for n, b in book.items() if not isinstance(b[0], str)})
    table["label"] = y.astype(str)
    domain = {
        name: {"lower": entry[0], "upper": entry[1]}
        if not isinstance(entry[0], str)
        else {"categories": [*entry, "missing"]}
        for name, entry in book.items()
    }
    domain["label"] = {"categories": ["0", "1"]}
    pipeline = MSTPipeline(
        epsilon=0.9 * epsilon,
        delta=1e-5,
        proc_epsilon=0.1 * epsilon,
        gen_kwargs={"n_iters": MST_STEPS},
        n_jobs=1,
    )
    pipeline.fit(table, domain)
    drawn = pipeline.generate(n_records=len(frame))
    return drawn.drop(columns="label"), drawn["label"].astype(int).to_numpy()


def run(name, how, make, epsilon, data, real, distances, book, seeds):
    frame, y, train, ranges = data
    records, rows = frame[train].reset_index(drop=True), []
    for seed in seeds:
        start = time.process_time()
        drawn, labels = make(epsilon, seed, records, y[train], book)
        seconds = time.process_time() - start
        found = scores(drawn, labels, frame[~train], y[~train], ranges)
        far = distances(drawn, labels)
        rows.append([*found, *np.subtract(real, found), *far, seconds])
    mean = np.mean(rows, axis=0)
    error = np.std(rows, axis=0) / max(1, len(rows) - 1) ** 0.5
    print(
        f"{name:7}{how:10}{epsilon:5g}{mean[0]:8.4f} -{mean[2]:.4f} ({error[0]:.4f})"
        f"{mean[1]:8.4f} -{mean[3]:.4f} ({error[1]:.4f})"
        f"{mean[4]:9.4f}{mean[5]:9.4f}{mean[6]:7.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("FAIRPRIV_SKLEARN_DATA"))
    parser.add_argument("--mst", action="store_true")
    parser.add_argument("--rows", type=int, help="train on so many rows, at random")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with open("/proc/cpuinfo") as lines:
        cpu = next(line for line in lines if "model name" in line).split(": ")[1]
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}, one thread of {cpu.strip()}\n"
    )
    print(f"{'':17}{'eps':>5}{'LR':>8} {'less':>6} {'(se)':>9}{'boost.':>7} ", end="")
    print(f"{'less':>6} {'(se)':>9}{'one-way':>9}{'two-way':>9}{'sec':>6}")
    for name, load in TABLES:
        data = load(arguments.data)
        frame, y, train, ranges = data
        if arguments.rows:
            left_out = np.random.default_rng(2).permutation(np.flatnonzero(train))
            kept = np.delete(np.arange(len(frame)), left_out[arguments.rows :])
            frame, y, train = frame.iloc[kept], y[kept], train[kept]
            data = frame, y, train, ranges
        real = scores(frame[train], y[train], frame[~train], y[~train], ranges)
        print(f"{name:7}{'real':10}{'':5}{real[0]:8.4f}{'':17}{real[1]:8.4f}")
        distances = Distances(frame[train], y[train], ranges)
        book = code_book(frame, ranges)
        if arguments.mst and name not in ("Adult", "Credit"):
            continue
        if arguments.mst:
            for epsilon in EPSILONS[::-1]:
                run(name, "MST", mst, epsilon, data, real, distances, book, range(1))
            continue
        hows = [("nothing", None, SEEDS), ("declared", book, range(2))]
        hows = hows if name in ("Adult", "Credit") else hows[:1]
        for (how, given, seeds), epsilon in itertools.product(hows, EPSILONS):
            run(name, how, ours, epsilon, data, real, distances, given, seeds)


if __name__ == "__main__":
    main()
