class DatasetWarning(UserWarning):
    """The data set can be read, but a result on it needs a word of explanation."""
