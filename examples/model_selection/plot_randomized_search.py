"""
Searching fairness weight and regularisation at random
======================================================

How strong should the penalty for fairness be, how strong the regularisation? The answer
depends on the noise of the fits, so rules of thumb help little. A random search looks
for it, and the fits, the scores and the choice cost one budget together.
"""

# %%
# The simulated data: half of the features reveal the group, which agrees with the class
# in 70 % of the records. The test rows come from the same distribution.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import loguniform, uniform
from sklearn.base import clone
from sklearn.model_selection import ParameterSampler

from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.model_selection import ConstrainedScore, DPRandomizedSearchCV

X, y, group = make_spurious_bias(12_000, random_state=0)
X_test, y_test, group_test = make_spurious_bias(20_000, random_state=1)

# %%
# Bounds, classes and groups are public arguments, and so are the distributions of the
# candidates and the rule: the best accuracy among those with a demographic parity
# difference of at most 0.1. (Ranges and rule were settled by trials on this simulation,
# which is nobody's.) The epsilon of a fit is no parameter to search; it is what the
# total leaves.

model = DPWassersteinLogisticRegression(bounds=(-10, 10), classes=[0, 1], groups=[0, 1])
distributions = {"fairness_weight": uniform(0.5, 0.45), "C": loguniform(1e-3, 10)}
AT_MOST = 0.1
search = DPRandomizedSearchCV(
    model,
    distributions,
    n_iter=40,
    scoring=ConstrainedScore("accuracy", at_most=AT_MOST),
    epsilon=3.0,
    random_state=0,
)

# %%
# The plan comes before the data. A random number of candidates is tried, enough to meet
# one of the best tenth with probability 0.8, and a longer list takes no more runs.

for n_iter in (20, 40, 400):
    plan = clone(search).set_params(n_iter=n_iter).plan()
    print(
        f"{n_iter:3} candidates: about {plan.expected_runs:.0f} fits, "
        f"epsilon {plan.fit.epsilon:.2f} for each"
    )

# %%
# A search is random: chance makes the list, and the candidates that are tried. Here are
# three, to see how much that matters; each of them costs the whole budget, and in
# earnest there would be one. A winner may miss the rule by a little: it was judged on
# the holdout, with noise.


def quality(fitted):
    predicted = fitted.predict(X_test)
    gap = demographic_parity_difference(
        y_test, predicted, sensitive_features=group_test
    )
    return gap, np.mean(predicted == y_test)


searches = [
    clone(search).set_params(random_state=seed).fit(X, y, sensitive_features=group)
    for seed in range(3)
]
winners = np.array([quality(fitted) for fitted in searches])
for fitted, (gap, accuracy) in zip(searches, winners, strict=True):
    best = fitted.best_params_
    print(
        f"weight {best['fairness_weight']:.2f}, C {best['C']:.3f}: "
        f"accuracy {accuracy:.3f}, parity difference {gap:.3f} on the test rows"
    )

# %%
# The guarantee of a search is the one to quote. That of the winner speaks of its own
# fit, on the condition that the choice is public.

print(searches[0].privacy_)
own = searches[0].best_estimator_.privacy_.epsilon_if_public
print(f"\nThe winner's own fit: epsilon {own:.2f}")

# %%
# The losers and their scores are never stored. These records are nobody's, so that we
# may look at what there was to find: other draws from the same distributions, each
# fitted on all rows with the epsilon of a fit of the search.

candidates = list(ParameterSampler(distributions, 24, random_state=0))
model.set_params(epsilon=searches[0].plan_.fit.epsilon)
points = []
for i, candidate in enumerate(candidates):
    fitted = clone(model).set_params(**candidate, random_state=i)
    points.append(quality(fitted.fit(X, y, sensitive_features=group)))
points = np.array(points)
kept = points[:, 0] <= AT_MOST
print(
    f"{kept.sum()} of {len(points)} keep the rule on the test rows; "
    f"the best of them has accuracy {points[kept, 1].max():.3f}"
)

# %%
# On the left what the candidates reach, on the right their parameters. The rule takes a
# weight of about 0.8 at least; how accurate the winner is depends on the luck of the
# draws, and on the noise in its own fit.


def parameters(several):
    return np.array([[c["fairness_weight"], c["C"]] for c in several])


looks = [
    (~kept, {"color": "0.65", "label": "candidates that break the rule"}),
    (kept, {"color": "#0072B2", "label": "candidates that keep it"}),
]
stars = {"color": "#D55E00", "mec": "black", "ms": 13, "label": "winners of searches"}
panels = [
    (points, winners),
    (parameters(candidates), parameters(fitted.best_params_ for fitted in searches)),
]
fig, axes = plt.subplots(ncols=2, figsize=(9, 4), layout="constrained")
for ax, (places, best) in zip(axes, panels, strict=True):
    for chosen, look in looks:
        ax.plot(*places[chosen].T, "o", ms=5, **look)
    ax.plot(*best.T, "*", **stars)
left, right = axes
left.axvline(AT_MOST, color="0.5", linestyle="--")
left.set(xlabel="demographic parity difference", ylabel="accuracy", xlim=(0, None))
right.set(xlabel="fairness weight", ylabel="C (small: strong regularisation)")
right.set_yscale("log")
fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
fig.suptitle("Candidates and winners, measured on test rows")
plt.show()
