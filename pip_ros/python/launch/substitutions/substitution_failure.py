"""A substitution has no value here."""


class SubstitutionFailure(RuntimeError):
    pass
