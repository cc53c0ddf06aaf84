"""The README: its Python runs as it stands, on people it does not make up itself."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    rng = np.random.default_rng(0)
    race = rng.choice(["asian", "black", "hisp", "white"], 3000)
    X = rng.uniform(-1, 1, size=(3000, 3))
    y = 2.5 + X[:, 0] / 2 + (race == "white") / 2
    names = {"X": X, "y": y, "race": race, "X_new": X[:9], "race_new": race[:9]}
    exec(compile(code, str(README), "exec"), names)
    model = names["model"]
    assert model.privacy_.epsilon <= 1.0 + 1e-9 and not model.privacy_.conditional_on
    fair = model.predict(X, sensitive_features=race)
    gaps = [np.ptp([p[race == g].mean() for g in set(race)]) for p in (y, fair)]
    assert gaps[1] < 0.3 * gaps[0]
