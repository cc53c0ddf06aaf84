"""Candidates get their share of the budget, a quiet fit and a checked guarantee."""

from ._answers import fit_quietly, responses
from ._checks import (
    check_candidates,
    refuse_large_epsilon,
    refuse_shares,
    refuse_uncovered,
    refuse_unpaid,
    refuse_without_budget,
    warn_of_lowered,
)
from ._costs import (
    OtherCost,
    are_foreseen,
    check_cost,
    expected_cost,
    expected_fit,
    foreseen_share,
    refuse_unforeseen,
)
from ._facts import (
    CHOSEN,
    lists_of_all,
    public_argument,
    tell_inside,
    tell_of_the_choice,
    told,
    warn_of_facts,
)
from ._groups import groups_for, named_groups, read_groups
from ._making import candidate, made, seed_of
