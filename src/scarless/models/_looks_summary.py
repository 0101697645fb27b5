"""The table of a fit to several looks, audits and facts from elsewhere."""

from scipy.special import expit

from scarless.models._looks import LooksMixin
from scarless.models._looks_design import Looks
from scarless.models._looks_doubts import choice_remark
from scarless.models.summary import Block, Summary, few_labels_remarks
from scarless.models.uncertainty import NOT_CONVERGED
from scarless.numerics.arrays import Vector
from scarless.numerics.interval import Interval, quantile
from scarless.numerics.linear import Design
from scarless.pair.inference import PairInference


class LooksSummary(LooksMixin):
    """What a fit says of itself."""

    def _summary_of_looks(self, level: float) -> Summary:
        """Return the table of a fit to several looks."""
        looks, inference, z = self._need_looks("summary"), self._known_inference(), quantile(level)
        errors, beta, objective = inference.parameter_errors(), inference.parameters, inference.objective
        blocks = [self._block("Classifier: Pr(y=1|x)", self._names(objective.f), beta, errors, objective.places[0], z)]
        shared = len(objective.models) == 1
        for k, place in enumerate(objective.places[1 : 1 + len(objective.models)]):
            title = "Propensity: Pr(s=1|y=1,x)" + ("" if shared else f", {looks.names[k]}")
            blocks.append(self._block(title, self._look_names(looks), beta, errors, place, z))
        sums = inference.sums
        facts = [("Naive share", f"{float(sums.labelled / sums.weight):.3f}")]
        facts.append(("Looks", f"{looks.n_looks} ({float(sums.looks.sum()):,.0f} took place)"))
        audited = f"{float(sums.audits.sum()):,.0f} ({float(sums.audits[0]):,.0f} positive)"
        facts.append(("Audited rows", audited if sums.audits.sum() else "none"))
        if self._said.audit_labels != "keep":
            facts.append(("Their labels", "dropped" if self._said.audit_labels == "drop" else "undone"))
        for kind in range(objective.n_kinds):
            name = "Every look" if objective.n_kinds == 1 else _titled(looks.names[kind])
            frequency = inference.label_frequency_of(kind)
            facts.append((name, _share(frequency.value, inference.interval_of(frequency, level))))
        facts += self._rate_facts(inference, z)
        if objective.bounds is not None:
            facts.append(("Propensity bounds", f"{objective.bounds[0]:g} to {objective.bounds[1]:g} (given)"))
        return Summary(
            title=type(self).__name__,
            level=level,
            n_rows=inference.n_rows,
            weight=float(sums.weight),
            labelled=float(sums.labelled),
            log_likelihood=inference.log_likelihood,
            converged=bool(self.converged_),
            C=inference.C,
            propensity_C=inference.propensity_C,
            class_prior=self.class_prior_,
            class_prior_interval=self.class_prior_interval(level=level),
            label_frequency=self.label_frequency_,
            label_frequency_interval=self.label_frequency_interval(level=level),
            blocks=tuple(blocks),
            remarks=(*self._collinear_remarks(), *self._looks_remarks()),
            extra=tuple(facts),
        )

    def _rate_facts(self, inference: PairInference, z: float) -> list[tuple[str, str]]:
        objective = inference.objective
        if objective.false_positives is None:
            return [("False positives", "none, by assumption")]
        if not objective.n_rates:
            return [("False positives", f"{self._said.false_positive_rate} (given)")]
        errors, found = inference.parameter_errors(), []
        for place in objective.places[1 + len(objective.models) :]:
            centre, error = inference.parameters[place.start], errors[place.start]
            low, high = expit([centre - z * error, centre + z * error])
            found.append(("False positives", _share(float(expit(centre)), Interval(float(low), float(high)))))
        return found

    def _block(self, title: str, names: list[str], beta: Vector, errors: Vector, place: slice, z: float) -> Block:
        return Block.of(title, names, beta[place], errors[place], z)

    def _look_names(self, looks: Looks) -> list[str]:
        return [*self._names(Design.of(self._e_columns))[:-1], *looks.visits, "intercept"]

    def _looks_remarks(self) -> list[str]:
        looks = self._need_looks("summary")
        remarks = [told[0].upper() + told[1:] for told in self._remembered]
        if self._inference is not None:
            remarks += few_labels_remarks(float(self._inference.sums.labelled))
        if not self.converged_:
            remarks.append(NOT_CONVERGED)
        if looks.n_looks == 2 and not looks.n_audited:
            remarks.append(
                "With two looks and no audit, rows hardly show whether one look is partly a copy of the other: only "
                "the form of the models tells. In a simulation with a copy in 60% of rows the class prior was 0.18 to "
                "0.21 instead of 0.42. A third look, or 50 to 100 audits of rows without a label, show it."
            )
        if looks.n_looks == 1 and looks.objective.false_positives is not None and not looks.objective.n_rates:
            remarks.append(
                "With one look of each row the false-positive rate is taken as given: rows show at most that it is too "
                "high. The class prior depends on it. Audits of labelled rows, or a second look, allow "
                "false_positive_rate='estimate'."
            )
        if looks.objective.bounds is not None:
            remarks.append(
                "Propensity bounds are taken as given, and the class prior depends on them. Rows contradict them only "
                "where the models fit clearly better without."
            )
        if looks.n_looks > 1:
            remarks.append(
                "Looks count as independent given the attributes. Differences between rows that no attribute explains "
                "make the class prior too low, and intervals far too short. goodness_of_fit looks for them; "
                "audited_class_prior is right whatever the models are."
            )
        if looks.n_audited:
            remarks.append(
                "Audits count as chosen by attributes, labels or chance. If positives were more likely to be checked, "
                "or to be reported, the class prior is too high."
            )
            if self._said.audit_labels == "keep":
                remarks.append(
                    "Labels of audited rows count as labelling. If findings of audits were entered as labels, the "
                    "class prior is too low: use audit_labels='drop' or 'undo'."
                )
            else:
                told = self._choice_remark or choice_remark(None, self._said.audit_labels)
                remarks.append(f"Labels of audited rows count as findings of the audits, not as labelling. {told}")
        return remarks


def _share(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _titled(name: str) -> str:
    return name[0].upper() + name[1:] if name.startswith("look ") else f"Look {name}"
