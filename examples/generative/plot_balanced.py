"""
Balanced synthetic data against unequal treatment
=================================================

Label and group are released together as one class. ``sample(y=...)`` then draws all
four combinations equally often, and a classifier trained on such data does not learn
that one group is more often successful.
"""

# %%
# Simulated applicants: the label depends on merit and, unjustly, on the group; two of
# the features tell the group.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.generative import DPSinkhornGenerator

rng = np.random.default_rng(0)
n = 20_000
group = (rng.random(n) < 0.3).astype(int)
merit = rng.normal(size=(n, 2))
label = (merit.sum(axis=1) - 2.0 * group + 0.7 * rng.normal(size=n) > 0).astype(int)
hints = rng.normal(size=(n, 2)) + 3 * group[:, None]
X = np.hstack([merit, hints])
train = np.arange(n) < n // 2

# %%
# Four public classes: label and group.

classes = np.array([f"{a}{b}" for a in (0, 1) for b in (0, 1)])
cell = np.char.add(label.astype(str), group.astype(str))


def measure(X_train, y_train):
    """Accuracy and demographic parity difference on real test rows."""
    predicted = LogisticRegression().fit(X_train, y_train).predict(X[~train])
    rates = [predicted[group[~train] == a].mean() for a in (0, 1)]
    return np.mean(predicted == label[~train]), rates[0] - rates[1]


results = {"real data": measure(X[train], label[train])}
for epsilon in (10.0, 3.0, 1.0):
    generator = DPSinkhornGenerator(
        epsilon=epsilon, bounds=(-6, 6), classes=classes, random_state=0
    ).fit(X[train], cell[train])
    S, cells = generator.sample(10_000)
    as_released = measure(S, np.char.startswith(cells, "1").astype(int))
    S, cells = generator.sample(y=np.tile(classes, 2500))
    balanced = measure(S, np.char.startswith(cells, "1").astype(int))
    results[f"epsilon {epsilon:g}"] = as_released
    results[f"epsilon {epsilon:g}, balanced"] = balanced

for name, (accuracy, gap) in results.items():
    print(f"{name:22} accuracy {accuracy:.3f}  parity difference {gap:+.3f}")

# %%
# Balancing removes the advantage that frequencies give. It does not remove what the
# features themselves say, and accuracy on the unjust labels goes down with the gap:
# that is the cost of not repeating them. One release served both tables.

fig, ax = plt.subplots(figsize=(6, 4))
for name, (accuracy, gap) in results.items():
    marker = "s" if "balanced" in name else "o" if "epsilon" in name else "*"
    ax.plot(gap, accuracy, marker, label=name)
ax.set(xlabel="demographic parity difference", ylabel="accuracy on real rows")
ax.set_title("Classifiers, by what they were trained on")
ax.legend(fontsize="small")
fig.tight_layout()
plt.show()
