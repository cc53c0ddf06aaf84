"""
A private table
===============

The Adult census table is released as a synthetic table with the same columns and
types. Classifiers trained on it are tested on real people.
"""

# %%
# Categories, classes and bounds come from the code book, bins from common sense. None
# in a list of categories stands for a missing value.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder
from sklearn.utils import Bunch

from fairpriv_sklearn.datasets import fetch_adult
from fairpriv_sklearn.generative import DPSinkhornGenerator


def people(n=40_000, seed=0):
    """Simulated people, with the names that the page uses of Adult."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["Female", "Male"], n)
    age = np.clip(rng.gamma(6, 7, n), 17, 90).round()
    years = np.clip(rng.normal(10 + 0.02 * (60 - age), 2.5, n).round(), 1, 16)
    hours = np.clip(rng.normal(38 + 4 * (sex == "Male"), 9, n).round(), 1, 99)
    married = rng.random(n) < 1 / (1 + np.exp(3 - age / 11))
    wife = np.where(sex == "Female", "Wife", "Husband")
    alone = rng.choice(["Not-in-family", "Own-child"], n)
    odds = 0.4 * years + 0.05 * hours + 0.03 * age + 0.8 * married - 8.5
    rich = rng.random(n) < 1 / (1 + np.exp(-odds - 0.7 * (sex == "Male")))
    columns = {
        "age": age,
        "education-num": years,
        "hours-per-week": hours,
        "marital-status": np.where(married, "Married", "Never-married"),
        "relationship": np.where(married, wife, alone),
    }
    return Bunch(
        data=pd.DataFrame(columns),
        target=pd.Series(np.where(rich, ">50K", "<=50K")),
        sensitive_features=pd.Series(sex),
        uci_split=np.where(rng.random(n) < 2 / 3, "train", "test"),
        bounds={"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99)},
        categories={
            "marital-status": ["Married", "Never-married"],
            "relationship": ["Wife", "Husband", "Not-in-family", "Own-child"],
        },
        classes=["<=50K", ">50K"],
        groups=["Female", "Male"],
    )


try:
    adult = fetch_adult(as_frame=True)
except Exception as error:
    print(f"Adult is not available here ({type(error).__name__}): simulated people.")
    adult = people()
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
bins = {name: edges for name, edges in bins.items() if name in X}

# %%
# The generator, at three budgets.

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
for epsilon in (10.0, 3.0, 1.0):
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
ax.set(xlabel="accuracy on real test people", xlim=(0.5, 1))
ax.invert_yaxis()
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# What people get to see, at the smallest budget.

columns = ["age", "sex", "education-num", "marital-status", "hours-per-week"]
print(X_synthetic[columns].head().round(1).to_string())
guarantee = generator.privacy_
print(f"({guarantee.epsilon:.4f}, {guarantee.delta})-differentially private")
