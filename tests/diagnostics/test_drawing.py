"""Every display draws on the given Axes and returns itself, as in scikit-learn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from scarless.diagnostics._drawing import Display, as_text


class Line(Display):
    def draw(self, ax):
        ax.plot([0, 1], [0, 1])


def test_a_display_draws_on_the_given_axes():
    figure, ax = plt.subplots()
    display = Line()
    assert display.plot(ax) is display
    assert (display.ax_, display.figure_) == (ax, figure)
    assert len(ax.lines) == 1
    plt.close(figure)


def test_a_display_creates_a_figure_by_default():
    display = Line().plot()
    assert len(display.ax_.lines) == 1
    assert display.figure_ is display.ax_.figure
    plt.close(display.figure_)


@pytest.mark.parametrize("bad", [np.empty(2, dtype=object), "here"])
def test_objects_other_than_axes_are_refused(bad):
    with pytest.raises(TypeError, match="ax must be a matplotlib Axes"):
        Line().plot(bad)


@pytest.mark.parametrize("name", ["income_$ and tax_$", r"a\$ and b_$", "$", "plain", 7])
def test_a_name_is_drawn_as_it_is_written(name):
    figure, ax = plt.subplots()
    title = ax.set_title(as_text(name))
    figure.canvas.draw()  # drawing would parse text between two dollar signs as mathematics
    assert title._preprocess_math(title.get_text()) == (str(name), False)
    plt.close(figure)
