"""
A private table
===============

The Adult census table is released as a synthetic table with the same columns and
types. Classifiers trained on it are tested on real people.
"""

# %%
# Categories, classes and bounds come from the codebook, bins from common sense. None
# in a list of categories stands for a missing value.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

from fairpriv_sklearn.datasets import fetch_adult, make_census
from fairpriv_sklearn.generative import DPSinkhornGenerator

try:
    adult = fetch_adult(as_frame=True)
except Exception as error:
    print(f"Simulated people: Adult is not available here ({type(error).__name__}).")
    adult = make_census(random_state=0)
X = adult.data.assign(sex=adult.sensitive_features)
y = adult.target.to_numpy()
train = np.asarray(adult.uci_split) == "train"
categories = {name: [*values, None] for name, values in adult.categories.items()}
categories["sex"] = list(adult.groups)
bins = {
    "age": [17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47, 50, 55, 60, 65, 75, 91],
    "fnlwgt": [0, 6e4, 1.2e5, 1.8e5, 2.4e5, 3e5, 3.6e5, 4.2e5, 5e5, 2e6],
    "education-num": list(range(1, 18)),
    "capital-gain": [0, 1, 2e3, 4e3, 6e3, 8e3, 1e4, 1.5e4, 2e4, 5e4, 1e5],
    "capital-loss": [0, 1, 1e3, 1.5e3, 1.7e3, 1.8e3, 1.9e3, 2e3, 2.3e3, 2.6e3, 5e3],
    "hours-per-week": [1, 10, 20, 25, 30, 35, 40, 41, 45, 50, 55, 60, 70, 100],
}

# %%
# The generator, at two budgets.

downstream = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), list(categories)),
        (MaxAbsScaler(), list(bins)),
    ),
    LogisticRegression(max_iter=500),
)


def score(X_train, y_train):
    """Accuracy on real test people."""
    return downstream.fit(X_train, y_train).score(X[~train], y[~train])


accuracies = {"real table": score(X[train], y[train])}
print(f"real table          accuracy {accuracies['real table']:.4f}")
for epsilon in (10.0, 1.0):
    generator = DPSinkhornGenerator(
        epsilon=epsilon,
        categories=categories,
        bins=bins,
        classes=adult.classes,
        random_state=0,
    ).fit(X[train], y[train])
    X_synthetic, y_synthetic = generator.sample(30_000)
    accuracy = score(X_synthetic, y_synthetic)
    accuracies[f"epsilon = {epsilon:g}"] = accuracy
    print(f"epsilon = {epsilon:<4g}      accuracy {accuracy:.4f}")

constant = max(np.mean(y[~train] == label) for label in adult.classes)
fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
bars = ax.barh(list(accuracies), list(accuracies.values()), color="#0072B2")
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.axvline(constant, color="0.3", linestyle=":", label="always the same answer")
ax.set(xlabel="accuracy on people who were held out", xlim=(0.5, 1))
ax.invert_yaxis()
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.25))
plt.show()

# %%
# What people get to see, at the smallest budget.

columns = ["age", "sex", "education", "occupation", "hours-per-week"]
print(X_synthetic[columns].head().round(1).to_string())
guarantee = generator.privacy_
print(f"({guarantee.epsilon:.4f}, {guarantee.delta})-differentially private")
