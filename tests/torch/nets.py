"""Networks for tests, whose training options can be passed like all other options."""

from scarless.torch import NetTraining, SARNetClassifier


def make_net(*modules, **options):
    """Return a classifier; options of `NetTraining` are passed to its `training`."""
    training = {name: options.pop(name) for name in NetTraining().get_params() if name in options}
    return SARNetClassifier(*modules, training=NetTraining(**training), **options)
