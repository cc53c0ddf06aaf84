"""The wall: the only way from private rows to anything public.

A fit states a plan of releases (public numbers) and opens a `PrivacyFilter` (a privacy
filter in the sense of Rogers, Roth, Ullman, Vadhan, NeurIPS 2016, with a plan fixed
beforehand). `reserve` takes the cost of the plan out of the ledger. From then on
`release` computes a `Query` on private `Rows`, adds the noise that the plan paid for,
and writes it down. `guarantee` states the reserved plan: a guarantee cannot be printed
that was not spent, and a release that was not reserved is refused before its noise is
drawn.

A `Query` sums a pure function of blocks of rows, in exact integers: the sum is the
same for every order, chunking and number of workers, and a record's contribution is
the same whatever stands around it.

A room that fits something private finds here all it needs of what lies below: events
and calibration, mechanisms and sources of noise, facts and guarantees.
"""

from .._shared.markdown import markdown_line, markdown_table
from .._shared.rounded import round_up
from ..accounting import (
    DeclaredEvent,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
    calibrate_poisson,
    calibrate_without_replacement,
    compose_delta,
    compose_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    without_sampler_error,
)
from ..mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    PermuteAndFlip,
    PublicDraws,
    noise_source,
)
from ..privacy import (
    CONDITIONAL,
    CONSTANT_SHARE,
    DRAWS_OF_ONE,
    FEW_DRAWS,
    KEY_SHARE,
    READ,
    Fact,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    budget_of_steps,
    conditions_of,
    epsilon_factor,
    expected_guarantee,
    guarantee_of,
    has_budget,
    is_diffprivlibs,
    is_encoder,
    kept,
    leaks_foreseen,
    leaks_refused,
    learns_nothing,
    own_guarantee,
    places_told,
    privacy_report,
    reads_all_rows,
    refuse_arguments,
    refuse_learners,
    refuse_one_target,
    refuse_target,
    refuse_together,
    refuse_widths,
    refuse_without_room,
    rehearse,
    roomier,
    settings_of,
    surely,
    tell_again,
    untell,
    warn_leak,
    ways_out,
    with_budget,
)
from ._draws import keyed_draws
from ._filter import PlanError, PrivacyFilter, open_wall
from ._plan import Combined, KeyedRelease, Release, Split, Wrapped
from ._query import CellCounts, KeyedQuery, Query
from ._rows import (
    MAX_ROWS,
    Rows,
    column_length,
    current_journal,
    n_columns_of,
    n_rows_of,
    read_rows,
    refuse_many_rows,
    rows_of,
)
