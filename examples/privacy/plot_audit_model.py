"""
Auditing a private model
========================

A guarantee can be checked by anybody: neighbouring tables are made, the model is fitted
to both, and what comes out is compared. Here a mean that forgot to clip, and the same
mean as it should be.
"""

# %%
# Two models, written without this library. Both claim epsilon = 1 for tables with cells
# in [0, 1].

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator

from fairpriv_sklearn.audit import AuditDisplay, audit_estimator


class NoisyMean(BaseEstimator):
    """Means of the columns, with Laplace noise."""

    def __init__(self, clip=True):
        self.clip = clip

    def fit(self, X, y=None):
        rows = np.clip(X, 0, 1) if self.clip else X
        noise = np.random.default_rng().laplace(scale=2 / len(X), size=2)
        self.mean_ = rows.mean(axis=0) + noise
        return self


X = np.random.default_rng(0).uniform(size=(50, 2))
reports = {
    clip: audit_estimator(
        NoisyMean(clip), X, claim=1.0, max_fits=3000, max_seconds=20, random_state=0
    )
    for clip in (False, True)
}
for report in reports.values():
    print(report, "\n")

# %%
# The audit recognises the noise that was added, and computes the loss of each pair of
# tables. On tables in [0, 1] both models keep the claim; one far record is enough to
# refute the one that does not clip.

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, (clip, report) in zip(axes, reports.items(), strict=True):
    AuditDisplay.from_report(report, ax=ax)
    ax.set_title("clipped" if clip else "not clipped")
plt.show()

# %%
# As a step of continuous integration, a violation is exit code 1::
#
#     python -m fairpriv_sklearn.audit mypackage.models:make_model
