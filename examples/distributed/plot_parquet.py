"""
A Parquet file larger than the memory
=====================================

A table of salaries lies in a Parquet file that no machine has to hold: the encoder, the
model and its repair read it in batches, or on the workers of a cluster. What they learn
is bitwise what they would learn from the whole table, and so is the guarantee.

Here the file is small. ``examples/benchmarks/bench_distributed.py parquet`` fits the
same functions to one that is larger than a worker may use memory.
"""

# %%
# The file: every row group has the same number of people.

import os
import tempfile

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.preprocessing import DPTableEncoder

TRADES = ["nurse", "cook", "clerk", "driver"]


def make_people(n, seed):
    """Simulate n people; men and women are not in the same trades as often."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=n)
    trade = (4 * rng.uniform(size=n) ** np.where(sex, 1.8, 0.6)).astype(int)
    years, hours = rng.exponential(9, size=n).round(1), rng.normal(37, 6, size=n)
    salary = 22 + 6 * trade + 0.5 * years + 0.3 * hours
    return pd.DataFrame(
        {
            "trade": np.array(TRADES)[trade],
            "years": np.where(rng.uniform(size=n) < 0.02, np.nan, years),
            "hours": hours.round(1),
            "sex": np.array(["m", "f"])[sex],
            "salary": np.clip(salary + 4 * rng.normal(size=n), 0, 120).round(2),
        }
    )


def write_people(path, n_groups, n):
    """Write a file of `n_groups` row groups of n people."""
    first = pa.Table.from_pandas(make_people(10, 0))
    with pq.ParquetWriter(path, first.schema) as writer:
        for seed in range(n_groups):
            writer.write_table(pa.Table.from_pandas(make_people(n, seed)))


folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "people.parquet")
write_people(path, n_groups=8, n=2500)

# %%
# Batches take the place of X. Public are the ends of the salaries and the two groups;
# what the codebook of the encoder does not say it learns at a cost.


def read_people(path):
    """Batches of X, y and groups, as often as a fit asks for them."""

    def batches():
        file = pq.ParquetFile(path)
        for i in range(file.num_row_groups):
            people = file.read_row_group(i).to_pandas()
            yield people[["trade", "years", "hours"]], people["salary"], people["sex"]

    return Batches(batches)


def make_model():
    """Build an encoder, a model and a repair; epsilon 1 each."""
    ends = {"target_bounds": (0, 120), "random_state": 0}
    repair = DPBarycenterRegressor(
        DPLinearRegression(**ends), groups=["f", "m"], calibration_size=0.5, **ends
    )
    return make_pipeline(DPTableEncoder(random_state=0), repair)


model = make_model().fit(read_people(path))
print(model[-1].privacy_)

# %%
# The same on dask, here with threads. On a cluster, a client is all that is added; the
# user guide shows one whose connections are encrypted and whose workers are limited.


def fit_on_dask(path):
    """Fit where the row groups are."""
    people = dd.read_parquet(path, split_row_groups=True)
    with config_context(enable_metadata_routing=True):
        return make_model().fit(
            people[["trade", "years", "hours"]],
            people["salary"],
            sensitive_features=people["sex"],
        )


again = fit_on_dask(path)
whole = make_people(2500, 100)
X, groups = whole[["trade", "years", "hours"]], whole["sex"]
with config_context(enable_metadata_routing=True):
    fair, same = (m.predict(X, sensitive_features=groups) for m in (model, again))
print("the same predictions, bit for bit:", np.array_equal(fair, same))

# %%
# Answers come in batches as well, and are made when they are asked for: the picture is
# of one batch.

encoded = model[0].transform(X)
plain = model[-1].estimator_.predict(encoded)
figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True, sharey=True)
for axis, values, title in zip(axes, (plain, fair), ("model", "repaired"), strict=True):
    for name, style in (("f", "C0-"), ("m", "C1--")):
        ordered = np.sort(values[groups == name])
        axis.plot(ordered, np.linspace(0, 1, len(ordered)), style, label=name)
    axis.set(title=title, xlabel="predicted salary")
axes[0].set_ylabel("share of the group below")
axes[0].legend(title="sex")
figure.tight_layout()

folder.cleanup()
