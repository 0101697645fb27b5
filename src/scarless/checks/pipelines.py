"""What stands at the end of a pipeline."""

from typing import Any

from sklearn.pipeline import Pipeline


def final_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline, however deep, or the estimator itself.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> final_step(make_pipeline("passthrough", make_pipeline(LogisticRegression())))
    LogisticRegression()
    """
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator
