"""Simulated people in the form of the Adult data set."""

import numpy as np
from sklearn.utils import check_random_state

from .._shared.arguments import checked, count, seed
from .._shared.packages import needed
from ._fetch import codebook_of, described, features_of
from ._sources import SCHOOLING, SOURCES

# Years of schooling, as Adult counts them.
_YEARS = {name: years for years, name in enumerate(SCHOOLING, start=1)}
_DESK = {"Adm-clerical", "Exec-managerial", "Prof-specialty", "Sales", "Tech-support"}


@checked(n_samples=count(1), random_state=seed)
def make_census(n_samples=48_842, *, random_state=None):
    """Simulate people with the columns and the codebook of :func:`fetch_adult`.

    Nobody's data: a stand-in for programs that are to run without a download. Incomes
    depend on schooling, age, hours and marriage, on the occupation, and on sex, through
    the occupation and directly. Only the names are those of Adult; no share, mean or
    correlation was fitted to it.

    Parameters
    ----------
    n_samples : int, default=48842
        Number of people.
    random_state : int, RandomState instance or None, default=None
        Fixes the people.

    Returns
    -------
    census : Bunch
        With the entries of ``fetch_adult(as_frame=True)``: `data`, `target`,
        `sensitive_features`, `bounds`, `categories`, `groups`, `classes`, `codebook`,
        `uci_split`, `frame` and others. Needs pandas.

    See Also
    --------
    fetch_adult : The real table.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_census
    >>> census = make_census(1000, random_state=0)
    >>> census.data.shape, census.groups, census.bounds["age"]
    ((1000, 13), ['Female', 'Male'], (17, 90))
    """
    pandas = needed("pandas", "make_census needs pandas: pip install pandas.")
    rng = check_random_state(random_state)
    source = SOURCES["adult"]
    frame = pandas.DataFrame(_people(n_samples, rng, source.categories))
    features = features_of(source, "income", ["sex"])
    public = source, features, "income", ["sex"], list(source.categories["sex"])
    return described(
        *public,
        data=frame[features],
        target=frame["income"],
        sensitive_features=frame["sex"],
        codebook=codebook_of(*public),
        DESCR="Simulated people in the form of Adult.",
        frame=frame,
        uci_split=frame["uci_split"],
    )


def _people(n, rng, listed) -> dict[str, np.ndarray]:
    """Columns of Adult, in its order."""

    def falling(name, power=1.0):
        """Values of a category, the later the rarer."""
        values = np.array(listed[name])
        shares = 1.0 / np.arange(1, len(values) + 1) ** power
        return rng.permutation(values)[
            rng.choice(len(values), n, p=shares / shares.sum())
        ]

    sex = rng.choice(listed["sex"], n)
    male = sex == "Male"
    age = np.clip(rng.gamma(6, 6.5, n), 17, 90).round()
    years = np.clip(rng.normal(10, 2.6, n).round(), 1, 16).astype(int)
    married = rng.random(n) < 1 / (1 + np.exp(3 - age / 13))
    occupation = falling("occupation", 0.5)
    desk = np.isin(occupation, list(_DESK))
    occupation = np.where(desk & ~male, rng.permutation(occupation), occupation)
    desk = np.isin(occupation, list(_DESK))
    hours = np.clip(rng.normal(38 + 4 * male, 9, n).round(), 1, 99)
    gain = np.where(rng.random(n) < 0.03 + 0.004 * years, rng.gamma(1.2, 5000, n), 0)
    loss = np.where(rng.random(n) < 0.05, rng.normal(1900, 350, n), 0)
    score = 0.35 * (years - 10) + 0.04 * (hours - 40) + 0.03 * (age - 40)
    score += 1.6 * married + 0.7 * desk + 0.5 * male + gain / 4000 - 2.6
    rich = rng.random(n) < 1 / (1 + np.exp(-1.5 * score))
    single = np.where(age < 30, "Own-child", "Not-in-family")
    spouse = np.where(male, "Husband", "Wife")
    unmarried = np.where(age < 35, "Never-married", "Divorced")
    schools = np.array(list(_YEARS))
    return {
        "age": age,
        "workclass": falling("workclass"),
        "fnlwgt": np.clip(rng.gamma(3, 60_000, n), 10_000, 1.5e6).round(),
        "education": schools[years - 1],
        "education-num": years.astype(float),
        "marital-status": np.where(married, "Married-civ-spouse", unmarried),
        "occupation": occupation,
        "relationship": np.where(married, spouse, single),
        "race": falling("race", 2.0),
        "sex": sex,
        "capital-gain": np.clip(gain, 0, 99_999).round(),
        "capital-loss": np.clip(loss, 0, 5000).round(),
        "hours-per-week": hours,
        "native-country": falling("native-country", 2.0),
        "income": np.where(rich, ">50K", "<=50K"),
        "uci_split": np.where(np.arange(n) < 2 * n // 3, "train", "test"),
    }
