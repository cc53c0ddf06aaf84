"""
A raw table under one budget: encoder, model, repair and search
===============================================================

Numbers, text, gaps and dates go in as they are; ranges, categories and kinds are
learnt. One budget covers the encoder, the candidates of a search, and the repair.
"""

# %%
# A table as it comes out of a database: simulated, so that this page can be built
# anywhere. Income has gaps, and the day of joining is a date.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.inspection import AdditiveShapesDisplay
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import privacy_report, with_budget


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex, job = rng.choice(["f", "m"], n), rng.choice(["clerk", "cook", "pilot"], n)
    age = rng.integers(18, 80, n)
    income = np.exp(rng.normal(10, 0.8, n) + 0.5 * (sex == "m"))
    score = np.log(income) - 10 - ((age - 45) / 15) ** 2 + 2 * (job == "pilot")
    target = np.where(score + rng.normal(0, 0.7, n) > -0.5, "yes", "no")
    days = pd.to_timedelta(rng.integers(0, 4000, n), unit="D")
    frame = pd.DataFrame({"age": age, "income": income, "job": job, "sex": sex})
    frame.loc[rng.random(n) < 0.1, "income"] = None
    return frame.assign(joined=pd.Timestamp("2010-01-01") + days), target


X, y = people(20_000, seed=0)
X.head()

# %%
# Ten lines. The names of the columns, of the labels and of the groups are public; so is
# the list of candidates. Nobody says what is a number, what a category, in which range.

labels = ["no", "yes"]
pipeline = make_pipeline(
    DPTableEncoder(),
    DPWassersteinLogisticRegression(classes=labels, fairness_weight=0),
)
grid = {"dpwassersteinlogisticregression__C": [0.1, 10.0]}
search = DPGridSearchCV(pipeline, grid, classes=labels, random_state=0)
repair = DP2DPClassifier(
    search, sensitive_features="sex", groups=["f", "m"], classes=labels, random_state=0
)
model = with_budget(repair, epsilon=1.0, delta=1e-5).fit(X, y)
print(privacy_report(model).guarantee)

# %%
# What it is worth, on people it has not seen.

X_new, y_new = people(20_000, seed=1)
decided = model.predict(X_new)
gap = demographic_parity_difference(y_new, decided, sensitive_features=X_new["sex"])
print(f"error {np.mean(decided != y_new):.3f}, parity gap {gap:.3f}")

# %%
# Without the repair the model is a sum of one curve per column. Curves are released
# with the model: looking at them costs nothing. The bands are 95 % intervals, for the
# noise and for who happens to be in the table.

pipeline = with_budget(pipeline, epsilon=1.0, shares={"dptableencoder": 0.1})
pipeline.set_params(
    dptableencoder__random_state=0, dpwassersteinlogisticregression__random_state=0
)
display = AdditiveShapesDisplay.from_estimator(pipeline.fit(X, y))
plt.show()
