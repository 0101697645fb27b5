r"""Minus the observed log-likelihood, by logits: `u` of :math:`f = \Pr(y=1|x)`, `v` of :math:`e = \Pr(s=1|y=1,x)`."""

from typing import Any

from scarless.checks.options import real_number
from scarless.outside.extras import need
from scarless.torch.losses.logits import RowLoss, beside, column, log_not, wide

torch: Any = need("torch", "scarless.torch.losses", "torch")


def sar_log_likelihood(u: Any, v: Any, s: Any) -> Any:
    r"""Return :math:`s(\log f + \log e) + (1-s)\log(1 - fe)` per row, to full precision for any finite logit.

    .. math:: -\log(1 - fe) = \log(1 + e^t), \qquad t = -\log(e^{-u-v} + e^{-u} + e^{-v}).

    No probability is subtracted, neither here nor in the derivatives, which are sums of terms of one sign.

    Examples
    --------
    >>> import torch
    >>> sar_log_likelihood(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]))
    tensor([-1.3863, -0.2877])
    """
    unlabelled = log_not(-torch.logsumexp(torch.stack([-u - v, -u, -v]), dim=0))
    labelled = torch.nn.functional.logsigmoid(u) + torch.nn.functional.logsigmoid(v)
    return torch.where(s == 1, labelled, unlabelled)


class SARLikelihoodLoss(RowLoss):
    r"""Minus the observed log-likelihood of labels, by the logits of two networks.

    .. math:: -s(\log f + \log e) - (1-s)\log(1 - fe), \qquad s \sim \mathrm{Bernoulli}(fe).

    Right when labels are given to positives only, with a probability that depends on what the second network sees. What
    tells the two networks apart is that they see different attributes, or are of different form.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        The mean is weighted where weights are given.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> import torch
    >>> loss = SARLikelihoodLoss()
    >>> loss(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]))
    tensor(0.8370)
    """

    def forward(self, u: Any, v: Any, s: Any, weight: Any = None) -> Any:
        """Return the loss.

        Parameters
        ----------
        u, v : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class and of the propensity.
        s : tensor of shape (n_rows,)
            1 for labelled rows, 0 for the others.
        weight : tensor of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        tensor
        """
        u, v = column(u, "u"), column(v, "v")
        if u.shape != v.shape:
            raise ValueError(
                f"u and v must hold one logit per row each; their shapes are {tuple(u.shape)} and {tuple(v.shape)}."
            )
        return self._reduced(-sar_log_likelihood(u, v, beside(s, u, "s")), weight)


class LooksLikelihoodLoss(RowLoss):
    r"""Minus the log-likelihood of rows that were looked at several times, or whose class was checked.

    .. math:: A = \prod_j e_j^{t_j}(1-e_j)^{m_j-t_j}, \quad B = \prod_j h_j^{t_j}(1-h_j)^{m_j-t_j}, \quad
        -\log\{f A + (1-f) B\}

    with :math:`m_j` looks of kind `j`, :math:`t_j` of them with a label, and rates :math:`h_j` at which negatives are
    labelled. Rows whose class was checked have :math:`-\log fA` or :math:`-\log (1-f)B`. Right when looks are
    independent given class and attributes.

    Parameters
    ----------
    bounds : (float, float), optional
        Of propensities: :math:`e = l + (b - l)\,\sigma(v)`.
    reduction : {"mean", "sum", "none"}, default="mean"
        The mean is weighted where weights are given.

    References
    ----------
    MacKenzie, Nichols, Lachman, Droege, Royle and Langtimm (2002), "Estimating site occupancy rates when detection
    probabilities are less than one", Ecology. Royle and Link (2006), "Generalized site occupancy models allowing for
    false positive and false negative errors", Ecology.

    Examples
    --------
    >>> import torch
    >>> loss = LooksLikelihoodLoss()
    >>> nothing, twice = torch.zeros(1, 1), torch.tensor([[2.0]])  # two looks, no label, f = e = 1/2
    >>> round(loss(torch.zeros(1), torch.zeros(1, 1), nothing, twice).exp().item(), 3)  # 1 / (5/8)
    1.6
    """

    def __init__(self, *, bounds: tuple[float, float] | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.bounds = _check_bounds(bounds)

    def forward(
        self, u: Any, v: Any, labels: Any, looks: Any = None, audit: Any = None, *, g: Any = None, weight: Any = None
    ) -> Any:
        """Return the loss.

        Parameters
        ----------
        u : tensor of shape (n_rows,)
            Logits of the class.
        v : tensor of shape (n_rows, n_looks)
            Logits of each look's propensity.
        labels : tensor of shape (n_rows, n_looks)
            How often each kind of look gave a label.
        looks : tensor of shape (n_rows, n_looks), optional
            How often it took place; once where it is not given.
        audit : tensor of shape (n_rows,), optional
            1 or 0 for rows whose class was checked, -1 for the others.
        g : tensor of shape (n_rows, n_looks), optional
            Logits of the rates at which negatives are labelled; without them no negative is.
        weight : tensor of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        tensor
        """
        u, v = column(u, "u"), wide(v)
        v = v[:, None] if v.ndim == 1 else v
        labels = _table(labels, v, "labels")
        looks = torch.ones_like(v) if looks is None else _table(looks, v, "looks")
        positive = torch.nn.functional.logsigmoid(u) + self._log_positive(v, labels, looks - labels)
        negative = log_not(u)
        if g is not None:
            negative = negative + _log_bernoulli(_table(g, v, "g"), labels, looks - labels)
        impossible = (labels.sum(dim=1) > 0) if g is None else torch.zeros_like(u, dtype=torch.bool)
        value = torch.where(impossible, positive, torch.logaddexp(positive, negative))
        if audit is not None:
            audit = beside(audit, u, "audit")
            _refuse_labelled_negatives(impossible & (audit == 0))
            value = torch.where(audit >= 0, torch.where(audit == 1, positive, negative), value)
        return self._reduced(-value, weight)

    def _log_positive(self, v: Any, labels: Any, missed: Any) -> Any:
        if self.bounds is None:
            return _log_bernoulli(v, labels, missed)
        low, high = self.bounds
        least = torch.finfo(v.dtype).tiny
        e = (low + (high - low) * torch.sigmoid(v)).clamp_min(least)
        not_e = ((1.0 - high) + (high - low) * torch.sigmoid(-v)).clamp_min(least)
        return (labels * e.log() + missed * not_e.log()).sum(dim=1)


def _log_bernoulli(z: Any, labels: Any, missed: Any) -> Any:
    return (labels * torch.nn.functional.logsigmoid(z) + missed * log_not(z)).sum(dim=1)


def _table(values: Any, v: Any, name: str) -> Any:
    """Return one value for each look of each row; of one kind of look, a vector will do."""
    values = torch.as_tensor(values)
    return beside(values[:, None] if values.ndim == 1 else values, v, name)


def _refuse_labelled_negatives(rows: Any) -> None:
    if bool(rows.any()):
        raise ValueError(
            f"{int(rows.sum())} rows have a label and an audit that found them negative, which cannot be without false "
            "positives. Give g, the logits of the rates at which negatives are labelled, or correct these rows."
        )


def _check_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = (real_number(end) for end in bounds)
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"bounds must be two numbers with 0 <= low < high <= 1; got {bounds!r}.")
    return low, high
