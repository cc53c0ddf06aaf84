"""The table of real data sets: where they come from, and their public facts.

Bounds and categories are those of the published codebooks, never of the data. Where a
codebook gives no range (amounts of money, voice measures), the bounds are round
figures of ours that are wide enough for the published file; `rounded` names them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..preprocessing import Codebook, Column

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


@dataclass(frozen=True)
class Source:
    """One data set: file, origin, columns and codebook."""

    file: str  # gzip CSV with a header, rows in the source's order
    sha256: str  # of the CSV itself: gzip bytes differ between zlib versions
    origin: str
    bounds: dict[str, tuple[float, float]]  # numeric columns
    categories: dict[str, list]  # categorical columns
    targets: tuple[str, ...]  # the first one is the default
    sensitive: tuple[str, ...]  # the first one is the default
    urls: tuple[str, ...] = ()  # empty: local only, or `openml_id`
    openml_id: int | None = None
    to_csv: Callable[..., str] | None = None  # raw texts -> the CSV of `file`
    rounded: tuple[str, ...] = ()
    not_features: tuple[str, ...] = ()  # returned beside the data, under these names
    thresholds: dict[str, float] = field(default_factory=dict)  # derived indicators
    groups: dict[str, list] = field(default_factory=dict)  # default rows to keep
    notes: str = ""

    def codebook(self, target=None, sensitive=None) -> Codebook:
        """All columns as a codebook, with their roles."""
        target = self.targets[0] if target is None else target
        sensitive = self.sensitive[:1] if sensitive is None else sensitive
        roles = {**dict.fromkeys(sensitive, "group"), target: "target"}
        columns = {n: Column("number", range=ends) for n, ends in self.bounds.items()}
        for name, values in self.categories.items():
            columns[name] = Column("category", categories=tuple(values))
        for name, role in roles.items():
            columns[name] = replace(columns[name], role=role)
        return Codebook(tuple(columns.items()))


def _fields(text: str):
    """Rows of comma-separated fields; `?` means missing."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("|"):
            yield ["" if f.strip() == "?" else f.strip() for f in line.split(",")]


def _csv(header, rows) -> str:
    return "".join(",".join(row) + "\n" for row in [list(header), *rows])


# --------------------------------------------------------------------------------------
# Adult
# --------------------------------------------------------------------------------------
# Degrees of Adult, by years of schooling.
SCHOOLING = (
    "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college "
    "Assoc-voc Assoc-acdm Bachelors Masters Prof-school Doctorate".split()
)
_ADULT_HEADER = (
    "age workclass fnlwgt education education-num marital-status occupation "
    "relationship race sex capital-gain capital-loss hours-per-week native-country "
    "income uci_split"
).split()


def _adult_csv(train: str, test: str) -> str:
    rows = [row + ["train"] for row in _fields(train)]
    # the labels of the test file end in a full stop
    rows += [row[:-1] + [row[-1].rstrip("."), "test"] for row in _fields(test)]
    return _csv(_ADULT_HEADER, rows)


_ADULT = Source(
    file="adult.csv.gz",
    sha256="85ff1ac054af6460962396a6d7afdb77f1d079fa7c4bbdc06559b9cd4fd22d26",
    origin="UCI Machine Learning Repository, Adult (Becker & Kohavi 1996), "
    "doi:10.24432/C5XW20, CC BY 4.0",
    urls=(f"{_UCI}/adult/adult.data", f"{_UCI}/adult/adult.test"),
    to_csv=_adult_csv,
    bounds={
        "age": (17, 90),
        "fnlwgt": (0, 2_000_000),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5_000),
        "hours-per-week": (1, 99),
    },
    rounded=("fnlwgt", "capital-loss"),
    categories={
        "workclass": "Federal-gov Local-gov Never-worked Private Self-emp-inc "
        "Self-emp-not-inc State-gov Without-pay".split(),
        "education": sorted(SCHOOLING),
        "marital-status": "Divorced Married-AF-spouse Married-civ-spouse "
        "Married-spouse-absent Never-married Separated Widowed".split(),
        "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial "
        "Farming-fishing Handlers-cleaners Machine-op-inspct Other-service "
        "Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
        "Transport-moving".split(),
        "relationship": "Husband Not-in-family Other-relative Own-child Unmarried "
        "Wife".split(),
        "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White".split(),
        "sex": ["Female", "Male"],
        "native-country": "Cambodia Canada China Columbia Cuba Dominican-Republic "
        "Ecuador El-Salvador England France Germany Greece Guatemala Haiti "
        "Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica "
        "Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines "
        "Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago "
        "United-States Vietnam Yugoslavia".split(),
        "income": ["<=50K", ">50K"],
        "uci_split": ["train", "test"],
    },
    targets=("income",),
    sensitive=("sex", "race"),
    not_features=("uci_split",),
    notes="48,842 people of the 1994 US census survey, 45,222 without a missing value. "
    "The rows are UCI's training rows followed by its test rows (uci_split).",
)

# --------------------------------------------------------------------------------------
# Credit default
# --------------------------------------------------------------------------------------
_PAY = [f"PAY_{i}" for i in (0, 2, 3, 4, 5, 6)]
_BILL = [f"BILL_AMT{i}" for i in range(1, 7)]
_PAID = [f"PAY_AMT{i}" for i in range(1, 7)]
_CREDIT_HEADER = [
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *_PAY,
    *_BILL,
    *_PAID,
    "default payment next month",
]


def _credit_csv(rows) -> str:
    return _csv(_CREDIT_HEADER, ([str(int(float(v))) for v in row] for row in rows))


_CREDIT_DEFAULT = Source(
    file="credit_default.csv.gz",
    sha256="eeaaa5addd59a2c56e82cbfca996f37ad98714c0237f1a3cbc8d7e973102966d",
    origin="UCI Machine Learning Repository, Default of Credit Card Clients (Yeh "
    "2009), doi:10.24432/C55S3H, CC BY 4.0",
    openml_id=42477,
    to_csv=_credit_csv,
    bounds={
        "LIMIT_BAL": (0, 1_000_000),
        "AGE": (18, 100),
        **dict.fromkeys(_PAY, (-2, 9)),
        **dict.fromkeys(_BILL, (-500_000, 2_000_000)),
        **dict.fromkeys(_PAID, (0, 2_000_000)),
    },
    rounded=("LIMIT_BAL", "AGE", *_BILL, *_PAID),
    categories={
        "SEX": [1, 2],
        "EDUCATION": [0, 1, 2, 3, 4, 5, 6],
        "MARRIAGE": [0, 1, 2, 3],
        "default payment next month": [0, 1],
    },
    targets=("default payment next month",),
    sensitive=("SEX", "EDUCATION", "MARRIAGE"),
    notes="30,000 card holders in Taiwan, 2005. SEX: 1 male, 2 female. The codebook "
    "documents EDUCATION 1-4, MARRIAGE 1-3 and repayment status -1 and 1-9; the codes "
    "EDUCATION 0, 5, 6, MARRIAGE 0 and status -2, 0 are known to occur.",
)

# --------------------------------------------------------------------------------------
# Law school
# --------------------------------------------------------------------------------------
_LAW_SCHOOL = Source(
    file="law_school.csv.gz",
    sha256="7281ef4d9bca2d8cf28d18812eeae2650bcffcc01a0d3234edaad4f2372d2654",
    origin="LSAC National Longitudinal Bar Passage Study (Wightman 1998), the table "
    "known as bar_pass_prediction.csv, for example in the GitHub repository "
    "TheRohanVerma/CMPUT622_FairSMOTE_vs_FairClassBal, data/bar_pass_prediction.csv",
    bounds={"lsat": (10, 48), "ugpa": (1, 4), "DOB_yr": (0, 99), "fam_inc": (1, 5)},
    categories={
        "cluster": [1, 2, 3, 4, 5, 6],
        "fulltime": [1, 2],
        "gender": ["female", "male"],
        "race1": ["asian", "black", "hisp", "white", "other"],
        "pass_bar": [0, 1],
    },
    targets=("ugpa", "pass_bar"),
    sensitive=("race1", "gender"),
    groups={"race1": ["asian", "black", "hisp", "white"]},
    not_features=("pass_bar",),
    notes="22,407 students who entered US law schools in 1991. ugpa: undergraduate "
    "grades; lsat on the scale of that time. Left out: columns computed from the "
    "target (gpa, index6040, indxgrp, ...), outcomes during law school and duplicates "
    "of other columns.",
)

# --------------------------------------------------------------------------------------
# Communities and crime
# --------------------------------------------------------------------------------------
_COMMUNITIES_HEADER = """
state county community communityname fold population householdsize racepctblack
racePctWhite racePctAsian racePctHisp agePct12t21 agePct12t29 agePct16t24 agePct65up
numbUrban pctUrban medIncome pctWWage pctWFarmSelf pctWInvInc pctWSocSec pctWPubAsst
pctWRetire medFamInc perCapInc whitePerCap blackPerCap indianPerCap AsianPerCap
OtherPerCap HispPerCap NumUnderPov PctPopUnderPov PctLess9thGrade PctNotHSGrad
PctBSorMore PctUnemployed PctEmploy PctEmplManu PctEmplProfServ PctOccupManu
PctOccupMgmtProf MalePctDivorce MalePctNevMarr FemalePctDiv TotalPctDiv PersPerFam
PctFam2Par PctKids2Par PctYoungKids2Par PctTeen2Par PctWorkMomYoungKids PctWorkMom
NumIlleg PctIlleg NumImmig PctImmigRecent PctImmigRec5 PctImmigRec8 PctImmigRec10
PctRecentImmig PctRecImmig5 PctRecImmig8 PctRecImmig10 PctSpeakEnglOnly
PctNotSpeakEnglWell PctLargHouseFam PctLargHouseOccup PersPerOccupHous PersPerOwnOccHous
PersPerRentOccHous PctPersOwnOccup PctPersDenseHous PctHousLess3BR MedNumBR HousVacant
PctHousOccup PctHousOwnOcc PctVacantBoarded PctVacMore6Mos MedYrHousBuilt PctHousNoPhone
PctWOFullPlumb OwnOccLowQuart OwnOccMedVal OwnOccHiQuart RentLowQ RentMedian RentHighQ
MedRent MedRentPctHousInc MedOwnCostPctInc MedOwnCostPctIncNoMtg NumInShelters NumStreet
PctForeignBorn PctBornSameState PctSameHouse85 PctSameCity85 PctSameState85 LemasSwornFT
LemasSwFTPerPop LemasSwFTFieldOps LemasSwFTFieldPerPop LemasTotalReq LemasTotReqPerPop
PolicReqPerOffic PolicPerPop RacialMatchCommPol PctPolicWhite PctPolicBlack PctPolicHisp
PctPolicAsian PctPolicMinor OfficAssgnDrugUnits NumKindsDrugsSeiz PolicAveOTWorked
LandArea PopDens PctUsePubTrans PolicCars PolicOperBudg LemasPctPolicOnPatr
LemasGangUnitDeploy LemasPctOfficDrugUn PolicBudgPerPop ViolentCrimesPerPop
""".split()
# Columns for which the codebook counts missing values, and identifiers
_COMMUNITIES_OMITTED = set(
    """
    state county community communityname fold OtherPerCap LemasSwornFT LemasSwFTPerPop
    LemasSwFTFieldOps LemasSwFTFieldPerPop LemasTotalReq LemasTotReqPerPop
    PolicReqPerOffic PolicPerPop RacialMatchCommPol PctPolicWhite PctPolicBlack
    PctPolicHisp PctPolicAsian PctPolicMinor OfficAssgnDrugUnits NumKindsDrugsSeiz
    PolicAveOTWorked PolicCars PolicOperBudg LemasPctPolicOnPatr LemasGangUnitDeploy
    PolicBudgPerPop
    """.split()
)


_COMMUNITIES_CRIME = Source(
    file="communities_crime.csv.gz",
    sha256="2f9432bc4b6aecdd85b36844269cfb8d2c914c4583bd3712ca5a534fc0b81c7f",
    origin="UCI Machine Learning Repository, Communities and Crime (Redmond & Baveja "
    "2002), doi:10.24432/C53W3X, CC BY 4.0",
    urls=(f"{_UCI}/communities/communities.data",),
    to_csv=lambda data: _csv(_COMMUNITIES_HEADER, _fields(data)),
    bounds={
        name: (0, 1) for name in _COMMUNITIES_HEADER if name not in _COMMUNITIES_OMITTED
    },
    categories={"fold": list(range(1, 11)), "racepctblack > 0.06": [0, 1]},
    targets=("ViolentCrimesPerPop",),
    sensitive=("racepctblack > 0.06",),
    thresholds={"racepctblack > 0.06": 0.06},
    not_features=("fold",),
    notes="1,994 communities of the US, 1990 census and 1995 crime statistics, every "
    "column scaled to [0, 1] by its authors. The group is 1 where racepctblack is "
    "above 0.06; racepctblack itself remains a feature. Columns with missing values "
    "(22 about the police, county, community, OtherPerCap) and names are left out.",
)

# --------------------------------------------------------------------------------------
# Parkinsons telemonitoring
# --------------------------------------------------------------------------------------
_SHIMMER = ("Shimmer:APQ3", "Shimmer:APQ5", "Shimmer:APQ11", "Shimmer:DDA")
_PARKINSONS = Source(
    file="parkinsons_telemonitoring.csv.gz",
    sha256="cacdc7007846c68ca852cb3dbb43b1f68b7a9edefa2336f965f6610551cd30e6",
    origin="UCI Machine Learning Repository, Parkinsons Telemonitoring (Tsanas & "
    "Little 2009), doi:10.24432/C5ZS3N, CC BY 4.0",
    urls=(f"{_UCI}/parkinsons/telemonitoring/parkinsons_updrs.data",),
    to_csv=lambda data: "".join(line.strip() + "\n" for line in data.splitlines()),
    bounds={
        "age": (18, 100),
        "test_time": (-10, 230),
        "motor_UPDRS": (0, 108),
        "total_UPDRS": (0, 176),
        "Jitter(%)": (0, 0.2),
        "Jitter(Abs)": (0, 0.001),
        **dict.fromkeys(("Jitter:RAP", "Jitter:PPQ5", "Jitter:DDP"), (0, 0.2)),
        "Shimmer": (0, 0.5),
        "Shimmer(dB)": (0, 3),
        **dict.fromkeys(_SHIMMER, (0, 0.5)),
        "NHR": (0, 1),
        "HNR": (0, 40),
        **dict.fromkeys(("RPDE", "DFA", "PPE"), (0, 1)),
    },
    rounded=(
        *("age", "test_time", "Jitter(%)", "Jitter(Abs)", "Jitter:RAP", "Jitter:PPQ5"),
        *("Jitter:DDP", "Shimmer", "Shimmer(dB)", *_SHIMMER, "NHR", "HNR"),
    ),
    categories={"subject#": list(range(1, 43)), "sex": [0, 1]},
    targets=("total_UPDRS",),
    sensitive=("sex",),
    not_features=("subject#",),
    notes="5,875 voice recordings of 42 people (subject#): split by person, not by "
    "row. sex: 0 male, 1 female. motor_UPDRS is a part of the target, correlated 0.95 "
    "with it. A record here is one recording; privacy for a person who contributed "
    "150 recordings is weaker.",
)

SOURCES = {
    "adult": _ADULT,
    "credit_default": _CREDIT_DEFAULT,
    "law_school": _LAW_SCHOOL,
    "communities_crime": _COMMUNITIES_CRIME,
    "parkinsons": _PARKINSONS,
}
