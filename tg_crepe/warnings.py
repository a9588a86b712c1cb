"""Warnings of the package; each is raised at most once per call."""


class ConvergenceWarning(UserWarning):
    """An iterative part stopped at its limit before it reached its tolerance."""


class GraphWarning(UserWarning):
    """The input was usable but had to be repaired, or part of it cannot be labelled."""


class DatasetWarning(UserWarning):
    """The data set can be read, but a result on it needs a word of explanation."""
