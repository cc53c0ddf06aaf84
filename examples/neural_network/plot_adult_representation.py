"""
Adult: a fair code in an ordinary pipeline
==========================================

The first step of a pipeline turns census records into a short code that is private and
has nearly the same distribution for men and women. The second step is a logistic
regression out of the box.
"""

# %%
# The data are read from the folder in the environment variable
# ``FAIRPRIV_SKLEARN_DATA``, or downloaded. Preprocessing is public: numbers are scaled
# by the bounds of the codebook, categories become indicators of its lists. Sex is the
# last column, which the encoder takes out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.datasets import fetch_adult, make_census
from fairpriv_sklearn.neural_network import DPWassersteinAutoencoder


def encode(data, sex):
    columns = []
    for name in ("age", "education-num", "hours-per-week"):
        low, high = data.bounds[name]
        values = np.clip(data.data[name].to_numpy(dtype=float), low, high)
        columns.append(2 * (values - low) / (high - low) - 1)
    columns.append((data.data["capital-gain"] > 5000).to_numpy(float))
    for name in ("workclass", "marital-status", "occupation", "relationship"):
        values = data.categories[name]
        columns += [(data.data[name] == value).to_numpy(float) for value in values]
    return np.column_stack([*columns, sex == "Male"])


try:
    adult = fetch_adult(as_frame=True, missing="drop")
except Exception as error:
    print(f"Simulated people: Adult is not available here ({type(error).__name__}).")
    adult = make_census(45_222, random_state=0)

# %%
# Sensitive features are named in the constructor, so the pipeline needs no metadata.
# Noise is on the encoder; what follows is post-processing of the code *of new rows*.
# The logistic regression reads the training labels and is not private here: replace it
# by a private one, or train it on people who agree, for a guarantee on the labels.


def pipeline(weight, epsilon=2.0):
    encoder = DPWassersteinAutoencoder(
        n_components=4,
        epsilon=epsilon,
        fairness_weight=weight,
        n_projections=2,
        clip_norm=1.0,
        projection_clip_norm=0.5,
        max_iter=60,
        bounds=(-1, 1),
        sensitive_features=[-1],
        groups=[0.0, 1.0],
        random_state=0,
    )
    return make_pipeline(encoder, LogisticRegression(C=1e3, max_iter=1000))


sex = np.asarray(adult.sensitive_features).ravel()
X, y = encode(adult, sex), np.asarray(adult.target) == adult.classes[1]
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:33_916], order[33_916:]
weights, codes = [0, 0.75, 0.9], []
print("weight  accuracy  AUC    parity gap of the mean probability")
for weight in weights:
    model = pipeline(weight).fit(X[train], y[train])
    p = model.predict_proba(X[test])[:, 1]
    accuracy = model.score(X[test], y[test])
    auc = roc_auc_score(y[test], p)
    gap = abs(p[sex[test] == "Male"].mean() - p[sex[test] == "Female"].mean())
    codes.append(model[0].transform(X[test]))
    print(f"{weight:6g}  {accuracy:.3f}     {auc:.3f}  {gap:.3f}")
print(model[0].privacy_)

# %%
# The codes' first two coordinates, without and with the penalty.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), sharex=True, sharey=True)
for ax, k in zip(axes, (0, 1), strict=True):
    for name, color in (("Male", "#0072B2"), ("Female", "#D55E00")):
        chosen = codes[k][sex[test] == name][:1000]
        ax.plot(*chosen[:, :2].T, ".", ms=3, alpha=0.5, color=color, label=name)
    ax.set_title(f"fairness weight {weights[k]:g}")
axes[0].legend(markerscale=3)
fig.suptitle("Private codes of test rows, epsilon = 2")
fig.tight_layout()
plt.show()
