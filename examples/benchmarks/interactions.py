"""Products of columns beside them: what `interactions` of the table encoder is worth.

The encoder with the linear model, nothing declared, under one budget (epsilon, 1e-5),
with `interactions` and without, where the encoder's rule multiplies columns at all.
R2 or accuracy on rows that were not trained on, and the mean difference with its
standard error.

Simulated tables, of new columns in every one: the target is a sum of a curve of each of
three columns, or half of it is what two columns do together, four times: a product, two
signs, two thresholds, a slope for each category. Then the tables of `private_tables.py`
and `held_out_tables.py`, which says what FOLDER holds. The share of a row that products
have, and the records that one needs, were chosen on other simulated tables.

    OMP_NUM_THREADS=1 python examples/benchmarks/interactions.py FOLDER [splits]
"""

import sys
import warnings

import held_out_tables
import numpy as np
import pandas as pd
import private_tables
from private_tables import DELTA, cpu, final, installed, scores
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

EPSILONS, N_TEST = (1.0, 3.0), 5000
N_TABLES = 8


def standard(values):
    values = np.asarray(values, dtype=float)
    return (values - values.mean()) / values.std()


def simulated(n_rows, n_columns, is_class, together, seed):
    """A third of the columns, at least one, are categories."""
    rng = np.random.default_rng([41, seed])
    z = rng.normal(size=(n_rows, n_columns))
    n_categories = n_columns // 3
    level = np.digitize(z[:, :n_categories], [-1.0, 0.0, 0.8])
    columns = {
        f"word{j}": np.array([*"abcd"])[level[:, j]] for j in range(n_categories)
    }
    columns |= {f"x{j}": np.exp(z[:, j]) for j in range(n_categories, n_columns)}
    curves = [np.sin, np.square, np.abs]
    active = rng.permutation(n_columns)[:3]
    alone = [curve(z[:, j]) for curve, j in zip(curves, active, strict=True)]
    score = standard(sum(map(standard, alone)))
    if together:
        terms = []
        for kind in range(4):
            a, b = rng.choice(np.arange(n_categories, n_columns), 2, replace=False)
            a, b, own = z[:, a], z[:, b], rng.normal(size=4)[level[:, 0]]
            terms.append([a * b, a * b > 0, (a > 0) & (b > 0.3), own * a][kind])
        score = standard(score + standard(sum(map(standard, terms))))
    y = score + 0.5 * rng.normal(size=n_rows)
    if is_class:
        return pd.DataFrame(columns), (y > 0.5).astype(int), None
    return pd.DataFrame(columns), y, (-6.0, 8.0)


def compared(X, y, bounds, epsilon, seed, train, test):
    """Number of products, and the score without and with them; None without any."""
    found = []
    for interactions in (True, False):
        encoder = DPTableEncoder(interactions=interactions, random_state=seed)
        model = final(bounds, random_state=seed)
        pipeline = with_budget(make_pipeline(encoder, model), epsilon, DELTA)
        of_model = scores(pipeline, bounds, X, y, train, test)
        found.append(of_model[0] if bounds else 1 - of_model[1])
        names = pipeline[0].get_feature_names_out()
        if interactions and not (n_products := sum(" * " in name for name in names)):
            return None
    return n_products, found[1], found[0]


def line(name, rows):
    """Print the mean of some comparisons, if columns were multiplied in all of them."""
    if None in rows:
        return
    n_products, alone, together = np.array(rows).T
    gain = together - alone
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(
        f"{name:46s} {n_products.mean():5.0f} {alone.mean():8.3f} "
        f"{together.mean():6.3f}  {gain.mean():+.4f} ({error:.4f})",
        flush=True,
    )


def main(folder, n_splits="5"):
    warnings.simplefilter("ignore")
    print(f"python examples/benchmarks/interactions.py FOLDER {n_splits}")
    print(*map(installed, ("numpy", "scikit-learn")), f"delta {DELTA:g}; {cpu()}")
    print(f"{'':39s} epsilon products without   with  difference")
    for is_class in (False, True):
        for together in (False, True):
            for n_columns in (4, 8):
                for n_rows in (5000, 20_000):
                    for epsilon in EPSILONS:
                        rows = []
                        for seed in range(N_TABLES):
                            given = (n_columns, is_class, together, seed)
                            table = simulated(n_rows + N_TEST, *given)
                            halves = np.arange(n_rows + N_TEST)
                            halves = np.split(halves, [n_rows])
                            rows.append(compared(*table, epsilon, seed, *halves))
                            if rows[-1] is None:
                                break
                        kind = "classes" if is_class else "numbers"
                        how = "together" if together else "alone"
                        name = f"{kind}, {n_columns} columns act {how}, {n_rows:5d}"
                        line(f"{name:42s} {epsilon:g}", rows)
    for module, names in (
        (private_tables, private_tables.SETS), (held_out_tables, held_out_tables.SETS)
    ):  # fmt: skip
        for name in names:
            if module is private_tables:
                X, y, _, bounds = module.load(name)
            else:
                X, y, bounds = module.load(folder, name)
            for epsilon in EPSILONS:
                rows = []
                for split in held_out_tables.splits(len(X), int(n_splits)):
                    rows.append(compared(X, y, bounds, epsilon, *split))
                    if rows[-1] is None:
                        break
                line(f"{f'{name}, {len(X)} rows':42s} {epsilon:g}", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
