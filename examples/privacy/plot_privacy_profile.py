"""
What thirty releases cost together
==================================

A guarantee is a curve: for every epsilon the smallest delta that holds. Drawn are one
release, thirty of them composed, and what adding up thirty statements would give.
"""

# %%
# One Gaussian release whose statement is epsilon = 0.2 at delta = 1e-6.

import matplotlib.pyplot as plt

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    gaussian_mu,
)
from fairpriv_sklearn.inspection import PrivacyProfileDisplay
from fairpriv_sklearn.privacy import PrivacyGuarantee

mu = gaussian_mu(epsilon=0.2, delta=1e-6)
one = PrivacyGuarantee.from_events(
    [GaussianEvent(mu, 0)],
    delta=1e-6,
    neighboring="replace_one",
    mechanism="one Gaussian release",
)

# %%
# Composition reads the parts of a guarantee, here the Gaussian and its size, and is
# exact. Whoever knows only the pair (0.2, 1e-6) has to assume the worst mechanism with
# this statement, and can do no better than nearly add up.

thirty = one.compose(*[one] * 29)
declared = PrivacyGuarantee(0.2, 1e-6, "replace_one", "one release, of unknown kind")
thirty_declared = declared.compose(*[declared] * 29)
for name, guarantee in [("exact", thirty), ("from the pairs", thirty_declared)]:
    print(f"{name}: epsilon {guarantee.epsilon:.2f} at delta {guarantee.delta:.0e}")

# %%
# The dots mark the stated pairs. All of the curve may be quoted: a smaller delta at a
# larger epsilon, or the other way round.

display = PrivacyProfileDisplay.from_guarantees(
    {
        "one release": one,
        "thirty, composed exactly": thirty,
        "thirty, from their pairs": thirty_declared,
    }
)
plt.show()
