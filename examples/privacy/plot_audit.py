"""
How much a published audit can say
==================================

Rates of decisions per group are released with noise and with intervals that know of it.
The smaller the group and the budget, the wider the interval. At epsilon 1 most of its
width is sampling error, which is there without privacy too.
"""

# %%
# Decisions about two groups of equal size, 60 % and 40 % positive.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.metrics import dp_group_rates

sizes = np.array([20, 50, 100, 200, 500, 1000, 2000, 5000])
looks = {0.1: ("#D55E00", "s--"), 1.0: ("#009E73", "^-."), np.inf: ("#0072B2", "o-")}


def audit(n, epsilon, seed):
    """Release the rates of two groups of n people."""
    positive = np.arange(n)
    return dp_group_rates(
        None,
        np.concatenate([positive < 0.6 * n, positive < 0.4 * n]).astype(int),
        sensitive_features=np.repeat(["a", "b"], n),
        groups=["a", "b"],
        classes=[0, 1],
        epsilon=epsilon,
        random_state=seed,
    )


# %%
# One release, as it would be published.

result = audit(500, 1.0, seed=0)
print("counts\n", result.counts)
print("rates of the positive decision", result.rates[:, 1].round(3))
print("difference between", np.round(result.disparity_interval, 3))
print(result.privacy_)

# %%
# The middle of twenty releases for each size and budget. Without noise the width is the
# sampling error of so few people.

fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
for epsilon, (color, look) in looks.items():
    widths = [
        np.median(
            [np.ptp(audit(n, epsilon, seed).disparity_interval) for seed in range(20)]
        )
        for n in sizes
    ]
    label = "no noise" if np.isinf(epsilon) else f"{epsilon:g}"
    ax.plot(sizes, widths, look, color=color, label=label)
ax.set(
    xscale="log",
    xlabel="people in each group",
    ylabel="width of the interval of the difference",
    title="Interval of a published disparity",
    ylim=(0, 1.05),
)
ax.grid(alpha=0.25)
ax.legend(title="epsilon")
plt.show()
