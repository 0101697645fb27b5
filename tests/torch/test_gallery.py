"""Run the gallery page that the documentation build cannot run, and compare its output with the printed numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "gallery" / "torch_images.py"


def cells():
    """Return the code of each cell, without the text before it."""
    parts = PAGE.read_text(encoding="utf-8").split("# %%\n")[1:]
    return ["\n".join(line for line in part.splitlines() if not line.startswith("#")) for part in parts]


def numbers(lines):
    return [float(each) for each in re.findall(r"\d+\.\d+", "\n".join(lines))]


def test_images_with_biased_labels_take_40_lines():
    first = [line for line in cells()[0].splitlines() if line.strip()]
    assert "SARNetClassifier(" in "\n".join(first)
    assert len(first) <= 40


@pytest.mark.filterwarnings(
    "ignore:The fit of SARNetClassifier is uncertain:UserWarning"
)  # the number of the network that ignores brightness
def test_the_gallery_page_prints_its_documented_numbers(capsys):
    exec(compile("\n".join(cells()), str(PAGE), "exec"), {"__name__": "page"})
    found = capsys.readouterr().out.splitlines()
    told = [line[6:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("#     ")]
    wordless = [re.sub(r"\d+\.\d+", "", line) for line in found]
    assert wordless == [re.sub(r"\d+\.\d+", "", line) for line in told]
    # On other machines and with other versions of torch, rounding differs, and so do the networks.
    np.testing.assert_allclose(numbers(found), numbers(told), atol=0.06)
    by_scar, by_brightness = numbers(found)[3:5]
    assert by_brightness < 0.4 * by_scar
