"""Noisy descent of the networks."""

from __future__ import annotations

import numpy as np

from fairpriv_sklearn._shared.arrays import Floats

_LARGEST = 1e6


def noisy_descent(
    theta: Floats,
    noisy_gradient,
    optimizer,
    *,
    n_steps,
    learning_rate,
    decay,
    average,
    project,
) -> None:
    """Move `theta` in place; at the end it is the mean of the second half of the path.

    Parameters
    ----------
    theta : ndarray of shape (n_parameters,)
    noisy_gradient : callable
        Released gradient at the present `theta`; called `n_steps` times.
    optimizer : SGD or Adam
    n_steps : int
    learning_rate : float
    decay : ndarray of shape (n_parameters,)
        Strength of the penalty of the squared weights.
    average : bool
        False leaves the last iterate.
    project : callable
        Called after every step; moves `theta` into a convex set.
    """
    total, n_averaged = np.zeros_like(theta), 0
    for step in range(n_steps):
        gradient = noisy_gradient() + decay * theta
        optimizer.step(theta, gradient, learning_rate)
        # Weights of this size say nothing any more; infinities would become NaN.
        np.clip(theta, -_LARGEST, _LARGEST, out=theta)
        project()
        if step >= n_steps // 2:
            total += theta
            n_averaged += 1
    if average:
        theta[:] = total / n_averaged
