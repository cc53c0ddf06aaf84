"""What the encoder makes of columns: models behind it on simulated tables.

6,000 rows and twelve columns of one kind, or three of each: whole numbers of 3 to 8
values (two in five act each by itself, the others monotonously), categories
of 3 to 8, numbers that act as a sine, flags. Three quarters are fitted under one budget
(epsilon, 1e-5), nothing declared but classes or the range of the target; area under the
curve, or R2, on the others. Mean over ten tables, one split each, with standard error.

    OMP_NUM_THREADS=1 python examples/benchmarks/encoded_rows.py

The constants of the encoder's rows were chosen on tables of these kinds, some of them
these. The script reads arguments that older commits know as well.
"""

import platform
import warnings

import numpy as np
import pandas as pd
import sklearn
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

ROWS, COLUMNS, TABLES, EPSILONS = 6000, 12, 10, (0.3, 1.0, 3.0)
KINDS = ("flags", "categories", "smooth", "whole")


def column(kind, j, rng):
    """Cells, and what they do to the target."""
    if kind == "flags":
        x = (rng.random(ROWS) < rng.uniform(0.05, 0.5)).astype(int)
        return (x if j % 2 else np.array(["no", "yes"])[x]), rng.normal() * x
    if kind == "smooth":
        x = rng.normal(size=ROWS)
        effect = np.sin(rng.uniform(0.5, 2) * x + rng.normal())
        return (np.round(np.exp(x) * 100, 2) if j % 2 else x), effect
    k = rng.integers(3, 9)
    x = rng.choice(k, ROWS, p=rng.dirichlet(np.ones(k) * 1.5))
    if kind == "categories":
        return np.array([f"c{i}" for i in range(k)])[x], rng.normal(size=k)[x]
    is_monotone = rng.random() < 0.6
    effects = np.cumsum(rng.exponential(size=k)) if is_monotone else rng.normal(size=k)
    return x + rng.integers(0, 2), effects[x]


def table(kind, is_label, seed):
    rng = np.random.default_rng(seed)
    columns, score = {}, np.zeros(ROWS)
    for j in range(COLUMNS):
        cells, effect = column(KINDS[j % 4] if kind == "mixed" else kind, j, rng)
        score += (effect - effect.mean()) / max(effect.std(), 1e-9) * rng.exponential()
        columns[f"x{j}"] = cells
    score = (score - score.mean()) / score.std()
    y = score + rng.normal(size=ROWS)
    if is_label:
        y = (1.5 * score + rng.logistic(size=ROWS) > 1).astype(int)
    return pd.DataFrame(columns), y


def score_of(kind, is_label, epsilon, seed):
    X, y = table(kind, is_label, 1000 + seed)
    parts = train_test_split(X, y, test_size=0.25, random_state=seed)
    train, test, y_train, y_test = parts
    if is_label:
        model = DPWassersteinLogisticRegression(classes=[0, 1], fairness_weight=0)
    else:
        model = DPLinearRegression(target_bounds=(float(y.min()), float(y.max())))
    model.set_params(random_state=seed)
    line = make_pipeline(DPTableEncoder(random_state=seed), model)
    line = with_budget(line, epsilon=epsilon).fit(train, y_train)
    if is_label:
        return roc_auc_score(y_test, line.predict_proba(test)[:, 1])
    return r2_score(y_test, line.predict(test))


def main():
    warnings.simplefilter("ignore")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}, {platform.machine()}"
    )
    print(f"{'':17}" + "".join(f"{f'epsilon {e:g}':>18}" for e in EPSILONS))
    for kind in (*KINDS, "mixed"):
        for is_label in (True, False):
            print(f"{kind:12}{'AUC' if is_label else 'R2':5}", end="")
            for epsilon in EPSILONS:
                found = [score_of(kind, is_label, epsilon, s) for s in range(TABLES)]
                error = np.std(found, ddof=1) / TABLES**0.5
                print(f"{np.mean(found):10.3f} ({error:.3f})", end="", flush=True)
            print()


if __name__ == "__main__":
    main()
