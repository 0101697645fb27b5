"""Networks for tests, with the options of their training beside all others."""

from scarless.torch import NetTraining, SARNetClassifier


def make_net(*modules, **options):
    """Return a classifier; options that `NetTraining` knows are its."""
    training = {name: options.pop(name) for name in NetTraining().get_params() if name in options}
    return SARNetClassifier(*modules, training=NetTraining(**training), **options)
