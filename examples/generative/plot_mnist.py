"""
Pictures of private MNIST digits
================================

Digits drawn by generators fitted to 60,000 MNIST images, in seconds on one core. The
study behind the numbers is ``examples/benchmarks/mnist_generators.py``.
"""

# %%
# The images: a local file ``mnist.npz`` in the folder named by FAIRPRIV_SKLEARN_DATA,
# else OpenML.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import fetch_openml

from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)

file = Path(os.environ.get("FAIRPRIV_SKLEARN_DATA", ".")) / "mnist.npz"
if file.exists():
    with np.load(file) as arrays:
        X, y = arrays["x_train"].reshape(-1, 784), arrays["y_train"].astype(int)
else:
    X, y = fetch_openml("mnist_784", return_X_y=True, as_frame=False)
    X, y = X[:60_000], y[:60_000].astype(int)

# %%
# One row of pictures per digit, six columns per generator and budget.

columns = {
    "data": None,
    "Sinkhorn\nepsilon = 10": DPSinkhornGenerator(epsilon=10),
    "Sinkhorn\nepsilon = 1": DPSinkhornGenerator(epsilon=1),
    "sliced\nepsilon = 10": DPSlicedWassersteinGenerator(epsilon=10),
}
wanted = np.repeat(np.arange(10), 6)
fig, axes = plt.subplots(1, len(columns), figsize=(10.4, 5))
for ax, (title, generator) in zip(axes, columns.items(), strict=True):
    if generator is None:
        images = np.concatenate([X[y == digit][:6] for digit in range(10)])
    else:
        generator.set_params(bounds=(0, 255), classes=range(10), random_state=0)
        images, _ = generator.fit(X, y).sample(y=wanted)
    mosaic = images.reshape(10, 6, 28, 28).transpose(0, 2, 1, 3).reshape(280, 168)
    ax.imshow(mosaic, cmap="gray_r", vmin=0, vmax=255)
    ax.set_title(title)
    ax.axis("off")
fig.tight_layout()

# %%
# The grey grain is deliberate. Fitted in 100 to 150 cosine frequencies, pictures
# without it would have pixels that never vary, and a classifier trained on them would
# be undefined along those directions. ``jitter=0`` draws smoother pictures and trains
# worse networks.

plt.show()
