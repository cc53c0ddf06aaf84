"""Hypothesis without its clock: on a busy machine a slow example is no mistake."""

from hypothesis import settings

settings.register_profile("without_deadline", deadline=None)
settings.load_profile("without_deadline")
