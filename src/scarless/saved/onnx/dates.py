"""Year, month and day of a date, by whole numbers alone."""

import numpy as np

from scarless.saved.onnx.graph import Graph, Input

NO_DATE = np.int64(np.iinfo(np.int64).min)  # what numpy's NaT is as a whole number
_MARCH_OF_YEAR_0 = 719_468  # days from 0000-03-01 to 1970-01-01; years that begin in March end with the leap day
_CYCLE = 146_097  # days in 400 years


def add_date(graph: Graph, name: str, features: list[str]) -> str:
    """Add a date as an input, and return its year, month and day, or the first of these; NaN where it is missing.

    The calendar is the one that numpy, pandas and polars count by: today's rules, also before they were made. With `d`
    the day in a cycle of 400 years, :math:`(d - d/1460 + d/36524 - d/146096)/365` is its year in the cycle, in whole
    numbers, and :math:`(5t+2)/153` the month, from March on, of the day `t` of that year.
    """
    how = "Days since 1970-01-01, as datetime64[D] counts; missing is NaT, that is the least whole number."
    days = graph.input(Input(name, "date", "int64", str(NO_DATE), how))
    of_march = _plus(graph, days, _MARCH_OF_YEAR_0)
    day = graph.add("Mod", of_march, np.int64(_CYCLE))
    cycle = _over(graph, graph.add("Sub", of_march, day), _CYCLE)
    leaps = graph.add("Sub", _over(graph, day, 36_524), _over(graph, day, 1_460))
    year = _over(graph, graph.add("Sub", graph.add("Add", day, leaps), _over(graph, day, 146_096)), 365)
    before = graph.add(
        "Sub", graph.add("Add", _times(graph, year, 365), _over(graph, year, 4)), _over(graph, year, 100)
    )
    of_year = graph.add("Sub", day, before)
    month = _over(graph, _plus(graph, _times(graph, of_year, 5), 2), 153)
    of_month = graph.add("Sub", _plus(graph, of_year, 1), _over(graph, _plus(graph, _times(graph, month, 153), 2), 5))
    next_year = graph.cast(graph.add("GreaterOrEqual", month, np.int64(10)), "int64")  # January and February
    parts = {
        "year": graph.add("Add", graph.add("Add", year, _times(graph, cycle, 400)), next_year),
        "month": graph.add("Sub", _plus(graph, month, 3), _times(graph, next_year, 12)),
        "day": of_month,
    }
    all_parts = graph.cast(graph.add("Concat", *(parts[feature] for feature in features), axis=1), "float")
    return graph.add("Where", graph.add("Equal", days, NO_DATE), np.float32("nan"), all_parts)


def _plus(graph: Graph, x: str, number: int) -> str:
    return graph.add("Add", x, np.int64(number))


def _times(graph: Graph, x: str, number: int) -> str:
    return graph.add("Mul", x, np.int64(number))


def _over(graph: Graph, x: str, number: int) -> str:
    """Return the whole quotient, of numbers that are not negative or without a rest."""
    return graph.add("Div", x, np.int64(number))
