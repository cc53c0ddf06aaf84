"""No bad bargain: is a private model ever worse than a private constant?

The encoder with a model, under one budget (epsilon, 1e-5), against the best of four
private constants with the whole budget: Gaussian or Laplace noise on the counts of the
classes, or on the sum of the targets, and for shares two ways to keep them positive.
The loss of a constant is the mean over 1,000 draws of its noise on each split. Where
the model itself answers a constant, with fewer records than `min_records`, its loss is
the mean over 200 fits a split, to the targets alone (the encoder learns nothing then,
and features play no part): with one, luck of the noise alone would decide.

Simulated settings are drawn by `setting(seed)`: 250 to 6,000 rows, 1 to 60 columns or
more columns than rows, numbers and categories, declared or not; signals from none to
strong; classes of 50 to 2 %, constant labels, several classes; targets normal, skewed,
with heavy tails, constant, and public ranges up to 3 times too wide. Every second
split draws new rows, and the noise of every fit is fresh. A setting holds if the mean
excess over the splits is at most .01 in error, .02 in log loss relative to the entropy
(that of a share of 2 % at least), or .02 in R2 (of a standard deviation of an eighth
of the public range at least).

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/bad_bargain.py simulated FILE
[settings] [splits] [first seed]`` or ``... tables [splits] [set ...]``;
FAIRPRIV_SKLEARN_DATA names a folder with the data. FILE keeps the losses of every
setting and split: a run that is stopped goes on where it was, first with a few splits
of all settings. ``... report FILE`` prints what it holds. Constants of the models were
chosen on settings from seeds 1,000 and 3,000 on; those reported start at 0.
"""

import json
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.neural_network import (
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-5
LIMITS = {"error": 0.01, "log loss": 0.02, "R2": 0.02}
N_TEST, N_NOISES, N_FITS = 1000, 1000, 200
BLOCKS = 0, 4, 10, 20  # splits of all settings before more of any


# --- simulated settings ---------------------------------------------------------------


@dataclass
class Setting:
    """A population, a model, a budget."""

    seed: int
    kind: str  # "classifier", "regressor", "network classifier", "network regressor"
    epsilon: float
    n_rows: int
    n_numbers: int
    n_categories: int
    target: str
    signal: float
    declared: bool
    fairness_weight: float

    def __str__(self):
        width = f"{self.n_numbers}+{self.n_categories}"
        return (
            f"{self.seed:6d} {self.kind:18s} eps {self.epsilon:<4g} n {self.n_rows:<5d}"
            f" columns {width:7s} {self.target:14s} signal {self.signal:<4g}"
            f" weight {self.fairness_weight:g}{' declared' if self.declared else ''}"
        )

    @property
    def is_network(self):
        return self.kind.startswith("network")

    @property
    def is_classifier(self):
        return self.kind.endswith("classifier")


def setting(seed):
    rng = np.random.default_rng([14, seed])
    kinds = ["classifier", "regressor", "network classifier", "network regressor"]
    kind = str(rng.choice(kinds, p=[0.4, 0.35, 0.125, 0.125]))
    epsilon = float(rng.choice(EPSILONS, p=[0.4, 0.2, 0.2, 0.2]))
    n_rows = int(round(np.exp(rng.uniform(np.log(250), np.log(6000)))))
    n_numbers, n_categories = int(rng.integers(1, 20)), int(rng.integers(0, 12))
    if rng.random() < 0.1:
        n_rows, n_numbers = int(rng.integers(250, 400)), int(rng.integers(400, 500))
    if kind.endswith("classifier"):
        names = ["balanced", "share .3", "share .1", "share .02", "constant", "classes"]
        target = str(rng.choice(names, p=[0.2, 0.2, 0.15, 0.2, 0.1, 0.15]))
    else:
        names = ["normal", "skewed", "heavy tails", "constant"]
        target = str(rng.choice(names, p=[0.4, 0.3, 0.2, 0.1]))
    return Setting(
        seed, kind, epsilon, n_rows, n_numbers, n_categories, target,
        signal=float(rng.choice([0.0, 0.5, 1.0, 2.0])),
        declared=bool(rng.random() < 0.5),
        fairness_weight=float(rng.choice([0.0, 0.5], p=[0.75, 0.25])),
    )  # fmt: skip


class Population:
    """Draws tables of a setting."""

    def __init__(self, chosen):
        self.chosen = chosen
        rng = self.rng = np.random.default_rng([15, chosen.seed])
        self.shapes = rng.choice(["normal", "lognormal", "steps"], chosen.n_numbers)
        self.scales = np.exp(rng.normal(0, 3, chosen.n_numbers))
        self.levels = rng.integers(2, 13, chosen.n_categories)
        self.effects = [rng.normal(size=k) for k in self.levels]
        sparse = rng.random(chosen.n_numbers) < 5 / chosen.n_numbers
        self.weights = rng.normal(size=chosen.n_numbers) * sparse
        self.n_classes = int(rng.integers(3, 6))
        self.tilt = rng.normal(size=self.n_classes)
        # Known of the population, not of a table: thresholds and ranges.
        score = self._draw(20_000)[1]
        self.center, self.spread = score.mean(), score.std() or 1.0
        self.width = float(rng.choice([1.0, 1.0, 1.0, 3.0]))
        share = {"balanced": 0.5, "share .3": 0.3, "share .1": 0.1, "share .02": 0.02}
        latent = self._latent(score, rng)
        self.cut = np.quantile(latent, 1 - share.get(chosen.target, 0.5))
        self.cuts = np.quantile(latent, np.cumsum(_softmax(self.tilt))[:-1])
        y = self._target(latent)
        if not chosen.is_classifier:
            low, high = np.quantile(y, [0.001, 0.999])
            reach = max(high - low, 1.0) * self.width
            at = rng.random() if self.width > 1 else 0.5
            self.bounds = (low - at * (reach - (high - low)),)
            self.bounds += (self.bounds[0] + reach,)
            floor = (reach / 8) ** 2
            self.variance = max(np.var(np.clip(y, *self.bounds)), floor)
        else:
            self.classes = list(range(self.n_classes if self._has_many else 2))
            shares = np.bincount(y, minlength=len(self.classes)) / len(y)
            self.entropy = max(_entropy(shares), _entropy(np.array([0.02, 0.98])))

    @property
    def _has_many(self):
        return self.chosen.target == "classes"

    def table(self, n_rows, rng):
        self.rng = rng
        frame, score, group = self._draw(n_rows)
        return frame, self._target(self._latent(score, self.rng)), group

    def _draw(self, n_rows):
        rng, columns, score = self.rng, {}, np.zeros(n_rows)
        group = (rng.random(n_rows) < 0.3).astype(int)
        for j, shape in enumerate(self.shapes):
            z = rng.normal(size=n_rows) + 0.5 * group * (j == 0)
            score += self.weights[j] * (z if j % 2 else np.abs(z) + z)
            value = {"normal": z, "lognormal": np.exp(z), "steps": np.rint(2 * z)}
            columns[f"number{j}"] = value[shape] * self.scales[j]
        for j, effects in enumerate(self.effects):
            level = np.minimum(rng.geometric(0.35, n_rows) - 1, len(effects) - 1)
            score += 0.5 * effects[level]
            columns[f"category{j}"] = np.array([f"level {k}" for k in level])
        return pd.DataFrame(columns), score, group

    def _latent(self, score, rng):
        noise = rng.standard_t(3, len(score)) if "heavy" in self.chosen.target else (
            rng.normal(size=len(score))
        )  # fmt: skip
        return self.chosen.signal * (score - self.center) / self.spread + noise

    def _target(self, latent):
        if self.chosen.target == "constant":
            zero = np.zeros(len(latent))
            return zero.astype(int) if self.chosen.is_classifier else zero
        if self._has_many:
            return np.searchsorted(self.cuts, latent)
        if self.chosen.is_classifier:
            return (latent > self.cut).astype(int)
        return np.exp(latent) if self.chosen.target == "skewed" else latent

    def codebook(self):
        if not self.chosen.declared:
            return None
        book = {}
        for j, shape in enumerate(self.shapes):
            low, high = {"lognormal": (0, 20), "steps": (-8, 8)}.get(shape, (-4, 4))
            book[f"number{j}"] = {
                "kind": "number",
                "range": [low * self.scales[j], high * self.scales[j]],
            }
        for j, k in enumerate(self.levels):
            book[f"category{j}"] = {
                "kind": "category",
                "categories": [f"level {i}" for i in range(k)],
            }
        return book


def _softmax(z):
    z = np.exp(z - z.max())
    return z / z.sum()


def _entropy(shares):
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def final(kind, weight, classes, bounds):
    fair = {"fairness_weight": weight}
    if weight:
        fair["groups"] = [0, 1]
    if kind == "classifier":
        return DPWassersteinLogisticRegression(classes=classes, **fair)
    if kind == "regressor":
        return DPLinearRegression(target_bounds=bounds)
    if kind == "network classifier":
        return DPWassersteinMLPClassifier(classes=classes, **fair)
    return DPWassersteinMLPRegressor(target_bounds=bounds, **fair)


# --- constants ------------------------------------------------------------------------


def constant_losses(y, test, epsilon, classes, bounds, rng):
    """Mean losses of the private constants, by name."""
    n, mu = len(y), calibrate_gaussian(epsilon, DELTA)
    scale = len(classes) if classes else 1
    sensitivity = 1.0 if scale <= 2 else np.sqrt(2)
    noises = {
        "Gaussian": (rng.normal(size=(N_NOISES, scale)), sensitivity / mu),
        "Laplace": (rng.laplace(size=(N_NOISES, scale)), sensitivity**2 / epsilon),
    }
    found = {}
    for name, (noise, size) in noises.items():
        if not classes:
            half = (bounds[1] - bounds[0]) / 2
            clipped = np.clip(y, *bounds)
            mean = np.clip(clipped.mean() + 2 * half * noise * size / n, *bounds)
            found[name] = {"R2": np.mean((test - mean) ** 2)}
            continue
        if scale == 2:  # one count says both
            noise = np.column_stack([noise[:, 0], -noise[:, 0]])
        counts = np.bincount(y, minlength=scale) + noise * size
        test_shares = np.bincount(test, minlength=scale) / len(test)
        for least, how in ((1.0, "raised to 1"), (size, "raised to the noise")):
            p = np.maximum(counts, least)
            p /= p.sum(axis=1, keepdims=True)
            found[f"{name}, {how}"] = {
                "error": 1 - test_shares[p.argmax(axis=1)].mean(),
                "log loss": -(test_shares * np.log(p)).sum(axis=1).mean(),
            }
    return found


def model_losses(model, frame, target, classes):
    if not classes:
        return {"R2": np.mean((target - model.predict(frame)) ** 2)}
    p = model.predict_proba(frame)
    own = np.clip(p[np.arange(len(target)), target], 1e-9, 1.0)
    wrong = np.mean(model.predict(frame) != target)
    return {"error": wrong, "log loss": -np.log(own).mean()}


def mean_excess(ours, constants, units):
    """Excess over the best constant in each loss; over Gaussian ones alone as well."""
    found = {}
    for loss, unit in units.items():
        mean = np.mean([one[loss] for one in ours])
        by_name = {
            name: np.mean([one[name][loss] for one in constants])
            for name in constants[0]
        }
        best = min(by_name.values())
        gaussian = min(v for k, v in by_name.items() if k.startswith("Gaussian"))
        found[loss] = (mean - best) / unit, (mean - gaussian) / unit
    return found


def simulated_losses(chosen, splits):
    """Losses of the model and of the constants on some splits."""
    population = Population(chosen)
    book = population.codebook()
    classes = getattr(population, "classes", None)
    bounds = getattr(population, "bounds", None)
    weight = chosen.fairness_weight if chosen.kind != "regressor" else 0.0
    model = make_pipeline(
        DPTableEncoder(book), final(chosen.kind, weight, classes, bounds)
    )
    model = with_budget(model, chosen.epsilon, DELTA)
    encoder, last = model
    is_constant = chosen.n_rows < (last.min_records or 0)
    drawn = None
    for split in splits:
        if drawn != split // 2:  # every second split draws new rows
            drawn = split // 2
            rng = np.random.default_rng([15, chosen.seed, drawn])
            train, y, group = population.table(chosen.n_rows, rng)
            frame, target, _ = population.table(N_TEST, rng)
            if bounds:
                target = np.clip(target, *bounds)
        rng = np.random.default_rng([16, chosen.seed, split])
        fair = {"sensitive_features": group} if weight else {}
        Z, test = np.zeros((len(y), 1)), np.zeros((len(target), 1))
        if not is_constant:
            encoder.set_params(random_state=int(rng.integers(2**31)))
            Z = encoder.fit(train).transform(train)
            test = encoder.transform(frame)
        found = []
        for _ in range(N_FITS if is_constant else 1):
            last.set_params(random_state=int(rng.integers(2**31))).fit(Z, y, **fair)
            found.append(model_losses(last, test, target, classes))
        ours = {k: float(np.mean([one[k] for one in found])) for k in found[0]}
        constants = constant_losses(y, target, chosen.epsilon, classes, bounds, rng)
        units = {"error": 1.0, "log loss": population.entropy} if classes else {
            "R2": population.variance,
        }  # fmt: skip
        yield {
            "seed": chosen.seed, "split": split, "ours": ours, "than": constants,
            "units": {k: float(v) for k, v in units.items()},
        }  # fmt: skip


def report(label, excess):
    """Print an excess; return the largest in units of the limits."""
    worst = [max(v[i] / LIMITS[k] for k, v in excess.items()) for i in (0, 1)]
    cells = "  ".join(f"{k} {v[0]:+.4f} ({v[1]:+.4f})" for k, v in excess.items())
    print(f"{label}  {cells}{'  ABOVE' if worst[0] > 1 else ''}", flush=True)
    return worst


def simulated(path, n_settings=200, n_splits=20, first=0):
    path = Path(path)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(one["seed"], one["split"]) for one in map(json.loads, lines)}
    start = time.process_time()
    for block in range(len(BLOCKS) - 1):
        wanted = range(BLOCKS[block], min(BLOCKS[block + 1], n_splits))
        for seed in range(first, first + n_settings):
            splits = [one for one in wanted if (seed, one) not in done]
            if not splits:
                continue
            found = list(simulated_losses(setting(seed), splits))
            found[-1]["seconds"] = time.process_time() - start
            start = time.process_time()
            with path.open("a") as file:
                file.writelines(json.dumps(one) + "\n" for one in found)
    printed(path)


def printed(path):
    losses, worst, seconds = {}, [], 0.0
    for line in Path(path).read_text().splitlines():
        one = json.loads(line)
        losses.setdefault(one["seed"], []).append(one)
        seconds += one.get("seconds", 0.0)
    print("excess over the best of all constants (of the Gaussian ones)")
    for seed in sorted(losses):
        found = [[one[k] for one in losses[seed]] for k in ("ours", "than")]
        excess = mean_excess(*found, losses[seed][0]["units"])
        label = f"{setting(seed)}  {len(losses[seed]):2d} splits"
        worst.append((len(losses[seed]), *report(label, excess)))
    worst = np.array(worst)
    for n_splits in sorted(set(worst[:, 0])):
        for name, k in (("all constants", 1), ("Gaussian ones", 2)):
            column = worst[worst[:, 0] == n_splits, k]
            print(
                f"{len(column)} settings with {n_splits:.0f} splits against {name}: "
                f"{np.sum(column <= 1)} within the limits, {np.sum(column > 3)} above "
                "three times"
            )
    print(f"{seconds:.0f} CPU seconds for the fits")


# --- tables ---------------------------------------------------------------------------


def tables(n_splits=20, names=("Adult", "Credit", "Law School", "Communities")):
    from private_tables import load

    for name in names:
        X, y, codebook, bounds = load(name)
        classes = [0, 1] if bounds is None else None
        for epsilon in EPSILONS:
            for label, book in (("codebook", codebook), ("nothing declared", None)):
                kind = "regressor" if bounds else "classifier"
                model = make_pipeline(
                    DPTableEncoder(book), final(kind, 0, classes, bounds)
                )
                model = with_budget(model, epsilon, DELTA)
                ours, constants = [], []
                for split in range(n_splits):
                    rng = np.random.default_rng([17, split])
                    order = rng.permutation(len(X))
                    train, test = np.split(order, [len(X) * 3 // 4])
                    model.fit(X.iloc[train], y[train])
                    ours.append(model_losses(model, X.iloc[test], y[test], classes))
                    constants.append(
                        constant_losses(
                            y[train], y[test], epsilon, classes, bounds, rng
                        )
                    )
                units = {"R2": np.var(y)} if bounds else {
                    "error": 1.0, "log loss": _entropy(np.bincount(y) / len(y)),
                }  # fmt: skip
                excess = mean_excess(ours, constants, units)
                report(f"{name:12s} {label:16s} eps {epsilon:<4g}", excess)


def main(what="simulated", *rest):
    warnings.simplefilter("ignore")
    print(f"Python {platform.python_version()}, {platform.processor() or 'CPU'}")
    if what == "simulated":
        simulated(rest[0], *map(int, rest[1:]))
    elif what == "report":
        printed(rest[0])
    else:
        start = time.process_time()
        tables(int(rest[0]) if rest else 20, *[rest[1:]] if rest[1:] else [])
        print(f"{time.process_time() - start:.0f} CPU seconds")


if __name__ == "__main__":
    main(*sys.argv[1:])
