"""Make the picture of the README: ``python docs/make_readme_picture.py``.

The simulated people of the README's main job: predictions of a private regression for
three groups, before and after the repair.
"""

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from fairpriv_sklearn.datasets import make_biased_regression
from fairpriv_sklearn.inspection import GroupDistributionDisplay
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor

X, y, group = make_biased_regression(n_samples=40_000, random_state=0)
X = np.column_stack([np.clip(X / 4, -1, 1), group - 1.0])
X_train, X_test, y_train, _, group_train, group_test = train_test_split(
    X, y, group, random_state=0
)
model = DPBarycenterRegressor(
    DPLinearRegression(
        epsilon=1.0,
        bounds=(-1, 1),
        data_norm=1.5,
        target_bounds=(-5, 5),
        random_state=0,
    ),
    epsilon=1.0,
    target_bounds=(-5, 5),
    groups=[0, 1, 2],
    random_state=0,
).fit(X_train, y_train, sensitive_features=group_train)

display = GroupDistributionDisplay.from_predictions(
    model.estimator_.predict(X_test),
    model.predict(X_test, sensitive_features=group_test),
    sensitive_features=group_test,
    score_name="prediction",
)
path = Path(__file__).parent / "_static" / "readme.png"
display.figure_.savefig(path, dpi=110)
print(path.name, "epsilon", round(model.privacy_.epsilon, 3))
