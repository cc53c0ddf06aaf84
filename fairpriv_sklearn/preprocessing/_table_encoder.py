"""A data frame as it is, turned into bounded numbers."""

import math
from collections.abc import Mapping
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .._door.estimator import DELTA_CONSTRAINT, MIN_RECORDS, DPEstimator
from .._door.groups import refuse_twins, two_dimensional
from .._shared.arguments import each, optional, word
from .._shared.arrays import project_simplex
from .._shared.callers import warn_caller
from .._shared.origin import remembering
from .._shared.sklearn import Interval, StrOptions, check_feature_names, fit_context
from .._wall import (
    KEY_SHARE,
    Fact,
    KeyedRelease,
    Release,
    calibrate_gaussian,
    noise_source,
    open_wall,
    read_rows,
)
from ._cells import TableReader, as_table
from ._codebook import Codebook, Column, declared_of
from ._counting import (
    ColumnCounts,
    check_gaps,
    check_lists,
    placed_columns,
    refuse_unknown,
    told_total,
)
from ._draft import Draft
from ._encoded import (
    SIGNAL_OF_INDICATORS,
    CodedTable,
    Layout,
    Products,
    n_leading,
    n_other_indicators,
)
from ._places import LOOKS, N_LOOKS, look_closer, looks
from ._ranks import n_coordinates, universal_edges

# Half of the squared Gaussian parameter finds where a column lies, and the rest its
# quantiles. A hundredth pays for each look into crowded cells: twice as much costs
# ordinary columns something where budgets are small.
_FIRST_SHARE, _LOOK_SHARE = 0.5, 0.01
_MOST_CELLS = 64
_FIRST, _SECOND = "kinds and places of the columns", "quantiles and categories"
# Scale of the noise of counts that were not asked for.
_DROWNED = 2.0**30
_NAMELESS = (
    ' or, as X came without names, pass a data frame (set_output(transform="pandas") '
    "on the steps before)"
)


@remembering
class DPTableEncoder(TransformerMixin, DPEstimator):
    r"""Turn a data frame into bounded numbers, learning privately what is not public.

    A number with rank u in its column becomes the smooth functions

    .. math:: \phi_k(u) = a_k \cos(\pi k u), \quad a_k \propto 1 / k, \qquad
        \|\phi(u)\| \le \textstyle\sum_k a_k^2 = 1,

    of which a linear model makes any smooth curve, and smooth noise; a rank that many
    records have is an indicator as well; a category is one. Less their mean, as the
    noisy counts tell it, rows are scaled, and the long ones shortened, to norm at most
    1, which `data_norm_` says, so that a model needs no bounds.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the rows of X. What the codebook declares is public and
    costs nothing. The rest is learnt from at most five Gaussian releases of counts, to
    which a record adds one per column: where numbers lie and whether a column holds
    numbers, dates or text; up to three times the parts of two cells that hold most of a
    column, or first the years of dates; then counts at its quantiles, and those of
    categories above a threshold. A hundredth of delta pays for the chance that a
    category shows which a single record has. Public: names and number of the columns,
    `codebook`, and the number of rows under "replace_one". The type of a column is not
    taken from the frame: one cell can change it.

    Parameters
    ----------
    codebook : Codebook or mapping, default=None
        What is public about the columns, as :meth:`Codebook.from_dict` reads it. A
        column that it does not name, or says nothing of, is learnt. Columns left out,
        and those with the role of a group or target, are not used.
    {epsilon}
    {delta}
    sensitive_features : str or list of str, default=None
        Names of columns that are left out, and not read.
    ranks : {"learn", "uniform"}, default="learn"
        How a number or date with a public range is ranked: by its learnt quantiles, or
        by its place in the range, which costs nothing.
    handle_unknown : {"other", "ignore"}, default="other"
        Whether categories outside the list get indicators of their own or none.
    n_coordinates : int, default=None
        Columns that a number becomes. None: 24, and fewer with more than 10 numbers or
        few records or little budget. Range: [1, 64].
    interactions : bool, default=False
        Whether a row ends with products of columns, of which a linear model learns how
        two act together: of the two smoothest functions, or indicators that vary most,
        of each, of one, or of none, as records and budget allow; none of more than 16
        columns. A warning tells of none. Where no two act together it costs some
        accuracy.
    min_records : int, default=None
        Below this public number of records nothing is learnt and nothing is spent.
        None, and under "add_remove": never.
        :func:`~fairpriv_sklearn.privacy.with_budget` sets it where the model will
        answer a constant.
    {neighboring}
    {ledger}
    {random_state}

    Attributes
    ----------
    codebook_ : Codebook
        The codebook, completed by what was learnt.
    data_norm_ : float
        Bound of the norm of a row, 1.0.
    rank_maps_ : dict of str to callable
        Rank of a value, by name of the column, for numbers and dates.
    feature_slices_ : dict of str to slice
        Which columns of the result belong to a column of the table.
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        Before the budget is spent, if the codebook or `sensitive_features` names a
        column that is not there, if a cell is one that the codebook rules out, or if
        `epsilon` is too small for its noise to be drawn.

    Warns
    -----
    UserWarning
        As the noisy counts tell it, of columns that nobody declared: if most of their
        cells are texts that too few records share, or more than a twentieth are text
        beside numbers or dates, which counts as missing. And if `interactions` are
        asked for and no columns are multiplied.

    See Also
    --------
    Codebook : What is public about the columns.
    parse_cells : Reads money, percentages and dates that are held as text.
    fairpriv_sklearn.privacy.with_budget : One budget for encoder and model.

    Notes
    -----
    Categories that are not listed and that no crowd has share one indicator, "other",
    or, where their noisy count is large, up to 32, to which a hash of their text parts
    them [3]_: in small tables no category may be frequent enough to be shown. With very
    little budget (fewer than 60 records times the encoder's Gaussian-DP parameter)
    they share one again: a model would learn the noise of 32.

    Text that says a number is a number, and text that says a day as ISO 8601 does, as
    in 2021-03-04, is a date. "31.12.2021", "$1,234" and "5 %" are categories here, of
    which little is learnt, and a warning says so: :func:`parse_cells` reads them
    before. A cell that does not fit the kind of its column counts as missing, which has
    an indicator where it is frequent, and is in the middle otherwise. Dates are days
    since 1970. Where no column is left, or none is told from noise, the result is one
    of zeros, on which a model is a constant.

    Where noise hides the place of a number, it is taken for the place of all numbers of
    unknown range together. Constants were chosen on simulated columns, Adult and
    Credit, and the prior of the ranks, the scale of the rows and what such columns
    share also with Communities and Law School in view.

    References
    ----------
    .. [1] K. Amin, T. Dick, A. Kulesza, A. Munoz Medina, S. Vassilvitskii,
       "Differentially private covariance estimation", NeurIPS, 2019.
    .. [2] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas, "Releasing search queries
       and clicks privately", WWW, 2009.
    .. [3] K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg, "Feature
       hashing for large scale multitask learning", ICML, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fairpriv_sklearn.preprocessing import DPTableEncoder
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(
    ...     {
    ...         "age": rng.integers(18, 80, 20000),
    ...         "work": rng.choice(["private", "public", None], 20000),
    ...     }
    ... )
    >>> encoder = DPTableEncoder(epsilon=1.0, random_state=0).fit(frame)
    >>> encoder.codebook_["work"].categories
    ('private', 'public')
    >>> Z = encoder.transform(frame)
    >>> bool(np.linalg.norm(Z, axis=1).max() <= encoder.data_norm_)
    True
    """

    _n_leading = 0  # of one that was pickled before there were `interactions`

    def __init__(
        self,
        codebook=None,
        *,
        epsilon=1.0,
        delta=1e-5,
        sensitive_features=None,
        ranks="learn",
        handle_unknown="other",
        n_coordinates=None,
        interactions=False,
        min_records=None,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ) -> None:
        self.codebook = codebook
        self.epsilon = epsilon
        self.delta = delta
        self.sensitive_features = sensitive_features
        self.ranks = ranks
        self.handle_unknown = handle_unknown
        self.n_coordinates = n_coordinates
        self.interactions = interactions
        self.min_records = min_records
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _reads_batches = True
    _can_resume = True
    _budget_kind = "encoder"

    _parameter_constraints = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        **MIN_RECORDS,
        "codebook": [None, Codebook, Mapping],
        "sensitive_features": "no_validation",  # `_check_names` says what is wrong
        "ranks": [StrOptions({"learn", "uniform"})],
        "handle_unknown": [StrOptions({"other", "ignore"})],
        "n_coordinates": [None, Interval(Real, 1, 64, closed="both")],
        "interactions": ["boolean"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn what the codebook does not say.

        Parameters
        ----------
        X : data frame, Arrow table or array-like of shape (n_samples, n_features)
            Numbers, text, booleans, dates, missing cells.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        rows = read_rows(self._read, X)
        columns = self._drafts()
        unknown = [c for c in columns if c.declared.kind is None]
        located = [c for c in columns if c.is_located]
        counted = [c for c in columns if c in located or c.is_keyed]
        plan, noise = self._plan(columns, rows.n_rows), noise_source(self.random_state)
        facts = codebook_facts(self.codebook)
        wall = open_wall(self, plan, facts=facts, noise=noise)
        total = float(rows.n_rows) if self.neighboring == "replace_one" else math.inf
        found, total = self._locate(wall, rows, located, total)
        columns = [found.get(c.position, c) for c in columns]
        counted = [found.get(c.position, c) for c in counted]
        learnt = self._count(wall, rows, counted, total)
        columns = [learnt.get(c.position, c) for c in columns]

        n_others = self._publish(columns, self._signal(total))
        self._warn_of_text(columns, {c.position for c in unknown}, n_others)
        self.privacy_ = wall.guarantee()
        return self

    def transform(self, X):
        """Encode a table; every row by itself.

        A cell that is not of the kind of its column, such as 70,5 where numbers were
        learnt, is missing, and a category in another spelling is another one. No
        warning says so, as rows may be private; ``predict`` of the command line does.

        Parameters
        ----------
        X : data frame, Arrow table or array-like of shape (n_samples, n_features)
            The columns of `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out), float32
            Rows of norm at most 1.
        """
        check_is_fitted(self)
        table = self._refuse_rows(X)
        Z = np.empty((len(table), len(self._feature_names)), dtype=np.float32)
        layout = self._layout()
        with np.errstate(all="ignore"):
            for rows, codes in layout.codes(table):
                CodedTable(layout, codes).write(Z[rows])
        return Z

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the columns of the result.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Ignored, or the names seen in `fit`.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        check_feature_names(self, input_features)
        return np.asarray(self._feature_names, dtype=object)

    def shape_points(self, name, n_points=201) -> tuple[np.ndarray, np.ndarray]:
        """Return values of one column and what they become, for pictures of a model.

        Parameters
        ----------
        name : str
            A column that is used.
        n_points : int, default=201
            For a number.

        Returns
        -------
        values : ndarray of shape (n_values,)
            Numbers or dates of the learnt range, between the quantiles of 1 % and 99 %,
            or names of categories.
        rows : ndarray of shape (n_values, n_features_out_of_the_column)
        """
        check_is_fitted(self)
        word("name", name)
        if name not in self.feature_slices_:
            raise ValueError("name must be that of a column that the encoder uses.")
        at, layout = [*self.feature_slices_].index(name), self._layout()
        values, cells = self._columns[at].points(n_points)
        codes = np.zeros((len(values), len(self._columns)), dtype=np.intp)
        codes[:, at] = self._columns[at].codes(cells)
        rows = np.empty((len(values), layout.width))
        layout.write(codes, rows)
        return values, rows[:, self.feature_slices_[name]]

    def __sklearn_tags__(self):
        """Tags: cells may be text or missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _layout(self) -> Layout:
        return Layout(self._columns, self.feature_slices_, self._n_leading)

    @property
    def _gives_codes(self) -> bool:
        """Whether codes may stand for the answers: not where `transform` is another."""
        return type(self).transform is DPTableEncoder.transform

    def _codes(self, X) -> np.ndarray:
        """Codes of the cells of a table, of which `_coded` makes what it becomes."""
        table = self._refuse_rows(X)
        with np.errstate(all="ignore"):
            return np.concatenate([codes for _, codes in self._layout().codes(table)])

    def _coded(self, codes) -> CodedTable:
        return CodedTable(self._layout(), codes)

    # -- the table ---------------------------------------------------------------------
    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._left_out()
        Codebook.from_dict(self.codebook or {})

    def _refuse_cells(self, X) -> None:
        asked = clone(self)
        table = asked._read(X, None, None)["cells"]
        asked._plan(asked._drafts(), len(table))

    def _refuse_rows(self, X) -> TableReader:
        """The columns of X; what `transform` does not refuse it encodes in [-1, 1]."""
        table = read_cells(self, X, reset=False)
        check_lists(table, self._columns)
        return table

    def _left_out(self) -> list[str]:
        """Names of the columns that the constructor leaves out."""
        named = self.sensitive_features
        named = [named] if isinstance(named, str) else named
        return optional(each(word))("sensitive_features", named) or []

    def _read(self, X, y, sensitive_features) -> dict:
        """The private columns, or those of a batch of them."""
        table = read_cells(self, X, reset=True)
        check_lists(table, drafts := self._drafts())
        check_gaps(table, drafts)
        return {"cells": table}

    def _drafts(self) -> list[Draft]:
        """Columns that are used, with what is declared of them."""
        codebook = Codebook.from_dict(self.codebook or {})
        names, way_out = getattr(self, "feature_names_in_", None), ""
        if names is None:
            names, way_out = [f"x{i}" for i in range(self.n_features_in_)], _NAMELESS
        left_out = self._left_out()
        _check_names(left_out, names, "sensitive_features", way_out)
        used = [n for n, c in codebook.entries if c.role == "feature"]
        used = [n for n in used if codebook[n].kind != "left out"]
        _check_names(used, names, "codebook", way_out)
        drafts = []
        for position, name in enumerate(names):
            declared = codebook[name] if name in codebook else Column()
            if name in left_out or name not in used and name in codebook:
                continue
            drafts.append(Draft(str(name), position, declared, self.ranks))
            drafts[-1].check_categories()
        return drafts

    def _needs_nothing(self) -> bool:
        """Whether the codebook declares all columns that it names."""
        entries = Codebook.from_dict(self.codebook or {}).entries
        used = [c for _, c in entries if c.role == "feature" and c.kind != "left out"]
        drafts = [Draft("", 0, column, self.ranks) for column in used]
        counted = [d.is_located or d.is_keyed for d in drafts]
        return bool(entries) and not any(counted)

    # -- the releases ------------------------------------------------------------------
    def _plan(self, columns, n_rows: int) -> list[Release]:
        """At most five releases, together of the Gaussian parameter mu."""
        n_located = sum(c.is_located for c in columns)
        n_counted = sum(c.is_located or c.is_keyed for c in columns)
        if not n_counted or self._has_few_records(n_rows):
            return []
        has_keys = any(c.is_keyed or c.declared.kind is None for c in columns)
        delta = self.delta * (KEY_SHARE if has_keys else 0.0)
        # A look at crowded cells asks for fewer counts than the first release.
        n_first = n_located * (len(universal_edges()) + _MOST_CELLS)
        n_second = n_counted * (_MOST_CELLS + 2) + 1
        n_draws = (1 + N_LOOKS) * n_first + n_second
        mu = calibrate_gaussian(
            self.epsilon, self.delta, n_draws=n_draws, failure=delta
        )
        plan: list[Release] = []
        rest = 1.0
        if n_located:
            mu_first = mu * math.sqrt(_FIRST_SHARE)
            plan.append(KeyedRelease(_FIRST, "gaussian", mu_first, n_first))
            plan.append(looks(mu * math.sqrt(_LOOK_SHARE), n_first))
            rest -= _FIRST_SHARE + N_LOOKS * _LOOK_SHARE
        mu_second = mu * math.sqrt(rest)
        told = KeyedRelease(_SECOND, "gaussian", mu_second, n_second, delta=delta)
        return [*plan, told]

    def _locate(self, wall, rows, located, total) -> tuple[dict[int, Draft], float]:
        """Find where numbers lie, and the kind of columns that nobody declared.

        And how many records there are, where that is not public (`total` is infinite).
        """
        if not located:
            return {}, total
        query = ColumnCounts(tuple(c.located() for c in located))
        noisy, _, scale = _asked(wall, query, rows, _FIRST)
        counts, doubt = query.split(noisy), 0.0
        if total == math.inf:
            total, doubt = told_total(counts, scale)
        columns = placed_columns(located, counts, total, scale, doubt)
        columns = [
            now if was.declared.kind else now.with_texts(seen, total, scale, doubt)
            for was, now, seen in zip(located, columns, counts, strict=True)
        ]
        common = _common_shares(columns, counts, total) if scale < _DROWNED else None
        if LOOKS in wall._lines:
            columns = look_closer(wall, rows, columns, total)
        found = [column.with_location(total, scale, common) for column in columns]
        return {column.position: column for column in found}, total

    def _count(self, wall, rows, counted, total) -> dict[int, Draft]:
        """Count at the quantiles, and categories."""
        query = ColumnCounts(tuple(c.counted() for c in counted))
        noisy, keyed, scale = _asked(wall, query, rows, _SECOND)
        learnt = {}
        for column, seen in zip(counted, query.split(noisy), strict=True):
            own = {k: n for (at, k), n in keyed.items() if at == column.position}
            learnt[column.position] = column.with_counts(seen, total, own, scale)
        return learnt

    # -- what is public ----------------------------------------------------------------
    def _signal(self, total) -> float:
        """Records times the Gaussian parameter: public, or released; or not known."""
        if total == math.inf:
            return total
        return total * calibrate_gaussian(self.epsilon, self.delta)

    def _warn_of_text(self, drafts, unknown, n_others) -> None:
        """Say of which columns that nobody declared a hash is nearly all that counts.

        Or nothing, if others share no or one indicator; and in which texts count as
        missing. By what is released: noisy counts of kinds, categories and others.
        """
        drafts = [draft for draft in drafts if draft.position in unknown]
        names = [draft.name for draft in drafts if draft.is_mostly_hashed]
        if names:
            left = "only a hash of them counts"
            if n_others < 2:
                left = "nothing tells them apart"
            warn_caller(
                f"Most cells of the columns {names} hold texts that too few records "
                f"share for this epsilon, so that {left}: "
                "parse_cells (fairpriv_sklearn.preprocessing) reads money, percentages "
                "and dates, and a codebook lists categories or leaves columns out.",
                UserWarning,
            )
        names = [draft.name for draft in drafts if draft.has_texts]
        if names:
            warn_caller(
                f"In the columns {names} more than a twentieth of the cells are text "
                "beside numbers or dates, as '5+' is beside 4: they count as missing. "
                "A codebook that lists categories keeps them apart.",
                UserWarning,
            )

    def _publish(self, drafts, signal) -> int:
        """Set what was learnt; how many indicators others of a column share."""
        drafts = [draft.with_ranks() for draft in drafts]
        n_numbers = sum(draft.rank_map is not None for draft in drafts)
        width = self.n_coordinates or n_coordinates(n_numbers, signal)
        n_lists = sum(draft.has_many_others for draft in drafts)
        is_other = self.handle_unknown == "other"
        n_others = n_other_indicators(n_lists, signal) if is_other else 0
        has_atoms = signal >= SIGNAL_OF_INDICATORS
        columns = [draft.finished(int(width), n_others, has_atoms) for draft in drafts]
        self._columns = columns
        self._feature_names: list[str] = []
        self.feature_slices_ = {}
        for column in columns:
            start = len(self._feature_names)
            self._feature_names += column.feature_names()
            self.feature_slices_[column.name] = slice(start, len(self._feature_names))
        if not self._feature_names:  # all drowned in noise: zeros, for a constant model
            self._feature_names = ["constant"]
        self._n_leading = 0
        if self.interactions:
            self._n_leading = n_leading(columns, self.feature_slices_, signal)
            if not self._n_leading:  # which follows from what is released
                warn_caller(
                    "No columns are multiplied for interactions: records are too few "
                    "for this epsilon, or columns more than 16 or fewer than two.",
                    UserWarning,
                )
        products = Products(columns, self.feature_slices_, self._n_leading)
        self._feature_names += products.feature_names(self._feature_names)
        given = Codebook.from_dict(self.codebook or {})
        learnt = {draft.name: draft.described() for draft in drafts}
        kept = {n: c for n, c in given.entries if n not in learnt}
        self.codebook_ = Codebook(tuple({**learnt, **kept}.items()))
        self.rank_maps_ = {
            draft.name: draft.rank_map for draft in drafts if draft.rank_map is not None
        }
        self.data_norm_ = 1.0
        return n_others


def read_cells(estimator, X, *, reset: bool) -> TableReader:
    """The columns of X; a table outside the domain is refused.

    Sets, or checks, what scikit-learn keeps of the columns.
    """
    if sparse.issparse(X):
        raise TypeError(
            "Sparse data was passed, but a table of cells is required: use a data "
            "frame or X.toarray()."
        )
    X = as_table(X)
    two_dimensional(np.shape(X))
    refuse_twins(X)
    validate_data(estimator, X=X, reset=reset, skip_check_array=True)
    return TableReader.of(X)


def _asked(wall, query, rows, name):
    """Noisy counts, those of keys, and the scale of the noise: too large if unasked."""
    if name not in wall._lines:
        return np.zeros(query.n_coordinates), {}, _DROWNED
    counts, keyed = wall.release_keyed(query, rows, name=name)
    return counts, keyed, wall.scale(query, name=name)


def _common_shares(columns, counts, total):
    """Shares of the cells over all numbers of unknown range, None if there are none.

    Columns of one table often lie in one place: together they stand out of the noise
    that hides each of them.
    """
    n_cells = len(universal_edges()) - 1
    pairs = zip(columns, counts, strict=True)
    alike = [seen[:n_cells] for column, seen in pairs if column.is_universal]
    if not alike:
        return None
    n_records = total * len(alike)
    return project_simplex(np.sum(alike, axis=0), n_records) / n_records


def codebook_facts(codebook, *others: str) -> list[Fact]:
    """What is declared of columns; where that is nothing, names: of others as well.

    Whoever signs has to see which ranges and categories are taken as public.
    """
    given = Codebook.from_dict(codebook or {})
    names = [*given, *others]
    return [Fact("codebook", declared_of(given.entries) or names)] if names else []


def _check_names(given, names, argument, way_out) -> None:
    if len(given) > len(names):  # labels of rows, perhaps: not to be quoted
        raise ValueError(f"{argument} names more columns than X has.")
    refuse_unknown(argument, given, list(names), way_out)
