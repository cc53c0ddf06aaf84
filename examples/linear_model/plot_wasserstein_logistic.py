"""
Private and fair logistic regression
====================================

Half of the features reveal the group, and the group says something about the class. A
penalty on the Wasserstein distance between the groups' predicted probabilities keeps
the model from using them; noisy gradients keep its training records private. These are
the classification experiments of Rodríguez-Vítores, Lalanne and Loubes (2025).
"""

# %%
# The simulated data: 30,000 records, 8 features that tell the class and 8 that tell the
# group, which agrees with the class in 70 % of the records.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression

n_train = 30_000
X, y, group = make_spurious_bias(n_train, random_state=0)
X_test, y_test, group_test = make_spurious_bias(20_000, random_state=1)
weights = [0, 0.25, 0.5, 0.75, 0.9]
epsilons = [np.inf, 10, 1, 0.1]

# %%
# Bounds, groups and classes are public arguments. The default settings are used
# throughout; nothing is tuned.


def fit(weight, epsilon, constraint="demographic_parity", seed=0):
    model = DPWassersteinLogisticRegression(
        epsilon=epsilon,
        delta=0.1 / n_train,
        fairness_weight=weight,
        constraint=constraint,
        bounds=(-10, 10),
        classes=[0, 1],
        groups=[0, 1],
        random_state=seed,
    )
    return model.fit(X, y, sensitive_features=group)


models = {(w, e): fit(w, e) for w in weights for e in epsilons}
print(models[0.75, 1].privacy_)

# %%
# Histograms of the predicted probabilities of the two groups. From top to bottom the
# penalty brings them together; from left to right the privacy grows. The penalty's
# gradient needs more noise than the loss, as it depends on every record through the
# ranks of all others. But it has few directions, and only the noise in these stays.

fig, axes = plt.subplots(
    len(weights), len(epsilons), figsize=(9, 9), sharex=True, sharey=True
)
bins = np.linspace(0, 1, 31)
for row, weight in zip(axes, weights, strict=True):
    for ax, epsilon in zip(row, epsilons, strict=True):
        p = models[weight, epsilon].predict_proba(X_test)[:, 1]
        for a, color in ((0, "tab:blue"), (1, "tab:orange")):
            ax.hist(
                p[group_test == a], bins, density=True, alpha=0.5, color=color,
                label=f"group {a}",
            )  # fmt: skip
        ax.set_ylim(0, 6)
        if weight == weights[0]:
            ax.set_title("no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}")
    row[0].set_ylabel(f"weight {weight:g}")
axes[0, 0].legend(fontsize="small")
fig.supxlabel("predicted probability of class 1")
fig.tight_layout()

# %%
# Statistical parity and equality of odds, each against accuracy; the weight grows from
# right to left. Disparate impact is the ratio of the groups' rates of positive
# predictions; 1 is parity. The penalty pulls probabilities together, and at epsilon 0.1
# it pulls them to 1/2, as the histograms show: cut there, narrow distributions that are
# close to each other still part the groups, even more than without a penalty. Where
# decisions have to agree, repair them with ``DP2DPClassifier``.


def rates(model):
    labels = model.predict(X_test)
    overall = np.array([labels[group_test == a].mean() for a in (0, 1)])
    inside = [
        labels[(group_test == a) & (y_test == k)].mean() for k in (0, 1) for a in (0, 1)
    ]
    odds = max(abs(inside[0] - inside[1]), abs(inside[2] - inside[3]))
    return (
        np.mean(labels == y_test),
        np.ptp(overall),
        overall.min() / overall.max(),
        odds,
    )


odds_models = {
    (w, e): fit(w, e, constraint="equalized_odds") for w in weights for e in epsilons
}
print("weight  epsilon   accuracy  parity gap  disparate impact    odds: accuracy  gap")
for key in models:
    accuracy, parity, impact, _ = rates(models[key])
    odds_accuracy, _, _, odds = rates(odds_models[key])
    print(
        f"{key[0]:6g}  {key[1]:7g}   {accuracy:8.3f}  {parity:10.3f}  {impact:16.3f}"
        f"    {odds_accuracy:14.3f}  {odds:.3f}"
    )

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for ax, fitted, gap, name in (
    (axes[0], models, 1, "demographic parity difference"),
    (axes[1], odds_models, 3, "equalized odds difference"),
):
    for epsilon, look in zip(epsilons, ("o-", "s--", "^-.", "v:"), strict=True):
        points = np.array([rates(fitted[weight, epsilon]) for weight in weights])
        label = "no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}"
        ax.plot(points[:, gap], points[:, 0], look, label=label)
    ax.set(xlabel=name, ylabel="accuracy")
axes[0].legend()
fig.suptitle("Accuracy against two disparities, by budget")
fig.tight_layout()

# %%
# The noise that one gradient needs is proportional to what one record can change in
# it: here the bound of the paper, which takes the group sizes as public, and that of
# this library, which does not. The user guide has both proofs. Rows have norm 1.

alphas = np.linspace(0, 1, 101)
paper = (1 - alphas) * 2 / n_train + alphas * 16 / (n_train / 2)
here = (1 - alphas) / n_train + alphas * 4 / 6 * 4 / n_train
fig, ax = plt.subplots(figsize=(5, 3.5))
ax.plot(alphas, paper * n_train, label="paper, group sizes public")
ax.plot(alphas, here * n_train, "--", label="here, group sizes private")
ax.set(xlabel="fairness weight", ylabel="sensitivity times n", yscale="log")
ax.set_title("What one record can change in a gradient")
ax.legend()
fig.tight_layout()
plt.show()
