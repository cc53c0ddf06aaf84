"""What is wrong with the user's input."""


class InputError(ValueError):
    """What is wrong with the user's input, in one sentence that says the way out."""
