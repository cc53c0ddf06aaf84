"""
What a grid search really costs
===============================

A grid search fits a model dozens of times and looks at the scores of all of them. Each
fit is a release of its own, and the scores are not private at all. Here is the bill,
from public numbers alone, and what a private search leaves for each fit.
"""

# %%
# The bill of a plain search
# --------------------------
# In K-fold cross-validation a record is in K - 1 of the K training sets, and the winner
# is fitted once more on everything. The ledger adds this up, tightly; it cannot add up
# the scores, which come out without noise.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV

DELTA = 1e-5
sizes = np.array([1, 2, 3, 5, 8, 12, 20, 30, 50, 100])


def bill(n_candidates, n_folds=5, epsilon=1.0):
    mu = calibrate_gaussian(epsilon, DELTA)
    n_fits = n_candidates * (n_folds - 1) + 1
    return compose_epsilon([GaussianEvent(mu, 0)] * n_fits, DELTA)


for n in sizes[[0, 3, 6]]:
    print(f"{n:3} candidates, each fitted with epsilon = 1: {bill(n):5.2f} in all")

# %%
# What a private search leaves
# ----------------------------
# :class:`~fairpriv_sklearn.model_selection.DPGridSearchCV` turns the question round:
# the total is given, and what a fit may use follows. Two ways are sound. All candidates
# can be fitted and composed, which divides the budget by about the square root of their
# number. Or a *random* number of them is tried, drawn with replacement, and only the
# best leaves: then the number of candidates hardly matters. The search repeats where
# that leaves a fit much more, as it may miss the best of few candidates; ``plan()``
# tells without touching any data.


def share(n_candidates, method):
    grid = {"C": np.geomspace(0.001, 10, n_candidates)}
    search = DPGridSearchCV(
        DPWassersteinLogisticRegression(), grid, epsilon=3.0, delta=DELTA, method=method
    )
    return search.plan()


fig, (left, right) = plt.subplots(ncols=2, figsize=(10, 4), layout="constrained")
left.plot(sizes, [bill(n) for n in sizes], "o-", color="firebrick")
left.set(xscale="log", xlabel="candidates", ylabel="total epsilon")
left.set_title("Plain 5-fold search, epsilon = 1 per fit\n(the scores come on top)")
for method, style in (("compose", "s--"), ("repeat", "^--"), ("auto", "k-")):
    shares = [share(n, method).fit.epsilon for n in sizes]
    right.plot(sizes, shares, style, label=method)
naive = [3.0 / (5 * n + 1) for n in sizes]
right.plot(sizes, naive, "x:", color="firebrick", label="budget / number of fits")
right.set(xscale="log", yscale="log", xlabel="candidates", ylabel="epsilon of one fit")
right.set_title("Private search, epsilon = 3 in all")
right.legend()
fig.suptitle("What a grid search costs, and what it leaves for a fit")

# %%
# The cost of repeating is computing time: with twenty candidates, about as many runs
# as it takes to try one of the best two with probability 0.8.

for n in (3, 10, 20, 50):
    plan = share(n, "auto")
    print(
        f"{n:3} candidates: {plan.method:8} epsilon = {plan.fit.epsilon:.2f} per fit, "
        f"{plan.expected_runs:.0f} fits expected"
    )

plt.show()
