"""What the paper ran, and what it is judged by."""

from functools import cache
from pathlib import Path

from scarless.experiments import Spec, read_spec

PATH = Path(__file__).with_name("spec.toml")
FIGURES = ("mse_f", "auc_f", "mse_e")  # the scores that the paper draws
# Its four methods that see labels only, ranked as they should be and as they were published.
CONTESTS = {
    "corrected": ("naive", "scar-km2", "scar-tice", "sar-em"),
    "as published": ("naive", "published-scar-km2", "published-scar-tice", "published-sar-em"),
}


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the experiment of the paper, or a quick one in its manner on data that need no download."""
    return read_spec(PATH, quick=quick)
