"""
A synthetic table beside the real one
=====================================

The Adult census table as it is, nothing prepared: noisy tables of all pairs of columns
are released, and rows that are nobody's are drawn from what fits them. Pairs of
columns, real beside synthetic.
"""

# %%
# The frame goes in as it is. The codebook is that of the data set: ranges and
# categories from its documentation. What it does not say is learnt under the budget.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fairpriv_sklearn.datasets import fetch_adult, make_census
from fairpriv_sklearn.generative import DPSinkhornGenerator

try:
    adult = fetch_adult(as_frame=True)
except Exception as error:
    print(f"Simulated people: Adult is not available here ({type(error).__name__}).")
    adult = make_census(random_state=0)
real = adult.data.assign(sex=np.asarray(adult.sensitive_features))
label = adult.target.to_numpy()
known = {**adult.bounds, **adult.categories}
book = {
    name: {"kind": "number", "range": list(entry)}
    if name in adult.bounds
    else {"kind": "category", "categories": list(entry)}
    for name, entry in known.items()
}
book["sex"] = {
    "kind": "category",
    "categories": list(adult.groups),
    "missing": False,
    "other": False,
    "role": "group",
}
generator = DPSinkhornGenerator(
    epsilon=1.0, codebook=book, classes=list(adult.classes), random_state=0
).fit(real, label)
synthetic, synthetic_label = generator.sample(len(real))
print(synthetic[["age", "hours-per-week", "education", "sex"]].head().to_string())

# %%
# Pairs of columns. Shades are shares of the rows; a model that took columns one by one
# would show products of the margins.

pairs = [("age", "hours-per-week"), ("education-num", "age")]
fig, axes = plt.subplots(3, 2, figsize=(7, 8.5), layout="constrained")
for (a, b), row in zip(pairs, axes, strict=False):
    ranges = [adult.bounds[a], adult.bounds[b]]
    for table, ax, title in zip(
        (real, synthetic), row, ("real", "synthetic"), strict=True
    ):
        ax.hist2d(
            table[a].astype(float),
            table[b].astype(float),
            bins=(15, 20),
            range=ranges,
            cmap="Blues",
            norm="symlog",
        )
        ax.set(xlabel=a, ylabel=b, title=title)
order = real["marital-status"].value_counts().index
kinds = real["relationship"].value_counts().index
for table, ax, title in zip(
    (real, synthetic), axes[2], ("real", "synthetic"), strict=True
):
    shares = pd.crosstab(table["marital-status"], table["relationship"], normalize=True)
    shares = shares.reindex(index=order, columns=kinds, fill_value=0)
    ax.imshow(shares**0.5, cmap="Blues", aspect="auto")
    ax.set_xticks(range(len(kinds)), kinds, rotation=60, ha="right", fontsize=7)
    ax.set_yticks(range(len(order)), order, fontsize=7)
    ax.set_title(title)
plt.show()

# %%
# What a publisher needs: how far the table is from the real one, released under the
# same budget, with intervals; per class and group; and what must not be read from it.

print(generator.quality_report())

# %%
# Rows with a given sex and income, the rest conditional on them: a balanced table.

balanced, income = generator.sample(
    y=np.repeat(adult.classes, 2000),
    given={"sex": list(adult.groups) * 2000},
)
print(pd.crosstab(balanced["sex"], income))
