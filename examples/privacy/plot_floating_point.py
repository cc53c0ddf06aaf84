"""
The attack on noise in floating point
=====================================

``x + rng.laplace()`` is not private. One look at the last bits of a release tells which
of two tables it came from. Noise on a grid withstands.
"""

# %%
# Two neighbouring tables, the true answers 0 and 1, and noise of scale 1: pure epsilon
# = 1 on paper. Between -1/2 and 1/2, every release of the second table is a multiple of
# 2**-53, as the noise was between -3/2 and -1/2 where doubles are no finer. Releases of
# the first table are the noise itself, with finer bits.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    noise_source,
)

N = 100_000
rng = np.random.default_rng(0)


def betrayed(released):
    """Share of releases near zero with bits finer than 2**-53."""
    fine = np.mod(released, 2.0**-53) != 0
    return np.mean((np.abs(released) < 0.5) & fine)


naive = {
    "Laplace": (rng.laplace(size=N), 1 + rng.laplace(size=N)),
    "normal": (rng.normal(size=N), 1 + rng.normal(size=N)),
}
for name, (zero, one) in naive.items():
    print(f"numpy {name}: answer 0 {betrayed(zero):.3f}, answer 1 {betrayed(one):.3f}")

# %%
# An event of probability 0.27 under one table and 0 under the other: epsilon is
# infinite, whatever the scale of the noise says. The library's mechanisms put every
# table on the same grid.

gaussian = GaussianMechanism(sensitivity=1.0, mu=1.0, n_coordinates=N)
laplace = DiscreteLaplaceMechanism(sensitivity=1, epsilon=1.0)
ours = {
    "Gaussian on a grid": [
        gaussian.release(np.full(N, float(x)), noise_source(x)) for x in (0, 1)
    ],
    "discrete Laplace": [
        laplace.release(np.full(N, x), noise_source(x)).astype(float) for x in (0, 1)
    ],
}
for name, (zero, one) in ours.items():
    print(f"{name}: answer 0 {betrayed(zero):.3f}, answer 1 {betrayed(one):.3f}")

# %%
# How fine are the releases between -1/2 and 1/2? For each, the largest power of two
# that divides it.


def spacing(released):
    """Exponent of the largest power of two that divides each release near zero."""
    released = released[(np.abs(released) < 0.5) & (released != 0)]
    mantissa, exponent = np.frexp(released)
    digits = np.abs(mantissa * 2.0**53).astype(np.int64)
    return exponent - 53 + np.log2(digits & -digits).astype(int)


fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharex=True, layout="constrained")
panels = [
    ("numpy, Laplace", naive["Laplace"]),
    ("on a grid, Gaussian", ours["Gaussian on a grid"]),
]
for ax, (title, pair) in zip(axes, panels, strict=True):
    bins = np.arange(-70.5, -10)
    looks = [("answer 0", "#0072B2", "-"), ("answer 1", "#D55E00", "--")]
    for released, (label, color, line) in zip(pair, looks, strict=True):
        ax.hist(
            spacing(released),
            bins,
            weights=np.full(len(spacing(released)), 1 / N),
            histtype="step",
            color=color,
            linestyle=line,
            linewidth=1.6,
            label=label,
        )
    ax.set(title=title, xlabel="finest bit of a release, as a power of two")
    ax.set_xlim(-66, -12)
    ax.grid(alpha=0.25)
axes[0].set_ylabel("share of the releases")
axes[0].legend(title="true answer")
plt.show()

# %%
# Left: only the answer 0 has bits finer than 2**-53. Right: both answers have the same
# finest bits. Fewer releases of the answer 1 lie near zero, which is no more than the
# guarantee allows.
