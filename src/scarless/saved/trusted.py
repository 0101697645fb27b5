"""Types and functions that a model file may name, each with the one kind of use that is allowed.

A part of a skops file names a class or function, and how to create it (its *kind*). skops allows every kind for a
trusted name: a class that is meant to receive attributes could also be called with arguments from the file. Each name
here is therefore trusted for one kind only, and no prefix of names is trusted. In addition skops' own list applies:
numbers, texts, containers, arrays, scikit-learn's estimators, and the elementwise functions of NumPy and SciPy.

What an attacker could do with a file that contains these names:

- ``ObjectNode``: an object is created without its ``__init__`` and receives attributes from the file. These classes
  only store the attributes: they open no files, import nothing, and call nothing until they predict. They then call
  methods (``predict``, ``transform``) of their attributes, whose types are on the list, too.
- ``TupleNode``: named tuples of this package, created from their fields.
- Functions are not called when a file is read. skrub's selectors and scikit-learn's transformers call them later with a
  column of the user: ``is_numeric``, ``is_any_date``, ``is_categorical``, ``is_string`` and ``_cardinality_below``
  return whether a column has a property; ``_created_by_predicate`` looks up the name of a column; ``check_array``
  returns an array or raises, and is the only function that ``functools.partial`` may hold.
- The only method, ``Crossed.plain_logits``, predicts.
- ``ConstructorFromReduceNode`` calls the named type: a time zone (Python looks up its name in its own tables, not as a
  path), an offset of a time zone, or a time span.
- ``Tree`` and ``TreePredictor`` are read by compiled code that does not check their indices. Forged indices could
  make it read other memory, or loop for ever. skops therefore does not trust them; here their indices are checked
  before the model is returned (`scarless.saved.values`).
- ``LossNode``: constants and formulas that are used in training only.

A file can still hold a wrong model, or arrays that other compiled code does not expect. Do not trust the predictions of
a model from an unknown author.
"""

OBJECT, TUPLE, FUNCTION, METHOD = "ObjectNode", "TupleNode", "FunctionNode", "MethodNode"
CALLED, PARTIAL = "ConstructorFromReduceNode", "PartialNode"

_OURS = {
    OBJECT: (
        "scarless.checks.labels.LabelCoding",
        "scarless.field.bagging.PUBaggingClassifier",
        "scarless.field.cut_offs.PGlinClassifier",
        "scarless.field.cut_offs.ThresholdedNaiveClassifier",
        "scarless.field.lbe.LBEClassifier",
        "scarless.field.non_negative.NNPUBoostingClassifier",
        "scarless.field.tm.HalfwayLearner",
        "scarless.field.tm.TMClassifier",
        "scarless.field.two_step.TwoStepClassifier",
        "scarless.field.weighted_risk.PUeClassifier",
        "scarless.field.weighted_risk.UPUClassifier",
        "scarless.label_frequency.held_out_scores.BestBinEstimator",
        "scarless.label_frequency.held_out_scores.DEDPUL",
        "scarless.label_frequency.held_out_scores.ElkanNoto",
        "scarless.label_frequency.kernel_mean.KernelMean",
        "scarless.label_frequency.tice.TIcE",
        "scarless.raw.preparation.KeepNone",
        "scarless.raw.preparation.LongTail",
        "scarless.raw.preparation.NumberColumns",
        "scarless.raw.preparation.TableColumns",
        "scarless.raw.preparation.WordParts",
        "scarless.models.propensity_weighted.CrossedLearner",
        "scarless.models.propensity_weighted.PropensityWeightedClassifier",
        "scarless.models.published_em.PublishedEMClassifier",
        "scarless.models.sar_em.SAREMClassifier",
        "scarless.models.sar_em_cv.SAREMClassifierCV",
        "scarless.models.sar_stacking.SARStackingClassifier",
        "scarless.models.scar.NaiveClassifier",
        "scarless.models.scar.SCARClassifier",
        "scarless.models.stratified_scar.StratifiedSCARClassifier",
        "scarless.raw.reference.ReferenceRows",
        "scarless.raw.table_classifier.TableClassifier",
        "scarless.numerics.linear.Design",
        "scarless.numerics.looks_objective.LooksLikelihood",
        "scarless.numerics.objectives.LogisticPair",
        "scarless.pair.boosting.HistogramBooster",
        "scarless.pair.boosting._Prepared",
        "scarless.pair.boosting._Stepped",
        "scarless.pair.crossed.Crossed",
        "scarless.pair.crossed.CrossedKnown",
        "scarless.pair.constraints.ClassPrior",
        "scarless.pair.constraints.PseudoObservations",
        "scarless.pair.constraints.LabelFrequency",
        "scarless.pair.draws.BalancedDraws",
        "scarless.pair.draws.GrownTrees",
        "scarless.pair.fitted.FittedPair",
        "scarless.pair.fitted.StackSource",
        "scarless.pair.inference.PairInference",
        "scarless.pair.constraints.Labelling",
        "scarless.pair.learners.ConstantLearner",
        "scarless.pair.learners.CopiesLearner",
        "scarless.pair.learners.LogisticLearner",
        "scarless.pair.learners.TreeLearner",
        "scarless.pair.stack.LinearMember",
        "scarless.pair.stack.Member",
        "scarless.pair.cross_fit.FixedPropensity",
        "scarless.pair.cross_fit.LearnedPropensity",
        "scarless.pair.cross_fit.LogisticPropensity",
        "scarless.pair.recalibrated.Recalibration",
        "scarless.pair.optima.Optimum",
        "scarless.pair.optima.Selection",
        "scarless.pair.solving.Pull",
        "scarless.scale.preparing.FilePreparation",
    ),
    TUPLE: (
        "scarless.raw.origins.Origin",
        "scarless.field._base.InnerFit",
        "scarless.label_frequency._base.Halves",
        "scarless.label_frequency.tice.BoundingSubset",
        "scarless.pair.fitted.LookModels",
        "scarless.raw.visits.VisitColumns",
        "scarless.models.stratified_scar.Combinations",
        "scarless.models.stratified_scar.Stratum",
        "scarless.numerics.uncertainty.Interval",
        "scarless.numerics.uncertainty.PairSums",
        "scarless.pair.cross_fit.Boosted",
        "scarless.pair.cross_fit.CrossFit",
        "scarless.pair.cross_fit.Learned",
        "scarless.pair.draws.Drawn",
        "scarless.pair.form.FormDirection",
        "scarless.pair.heterogeneity.SpreadFit",
        "scarless.pair.form.FormTest",
        "scarless.pair.problem.PseudoPositives",
        "scarless.pair.recalibrated.ClassPriorGrid",
        "scarless.scale.raw_columns.Output",
        "scarless.scale.raw_columns.RawColumn",
        "scarless.scale.raw_columns.Tail",
    ),
    METHOD: ("scarless.pair.crossed.Crossed.plain_logits",),
}
_SCIKIT_LEARN = {  # attributes of its estimators; newer versions of skops trust some of them
    OBJECT: (
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    ),
    FUNCTION: ("sklearn.utils.validation.check_array",),
    "LossNode": (
        "sklearn._loss._loss.CyExponentialLoss",
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfSquaredError",
    ),
    "TreeNode": ("sklearn.tree._tree.Tree",),
}
_SKRUB = {  # versions 0.7 to 0.11, between which modules and classes were renamed
    OBJECT: (
        "skrub._apply_to_cols.ApplyToCols",
        "skrub._apply_to_each_col.ApplyToEachCol",
        "skrub._apply_to_frame.ApplyToFrame",
        "skrub._apply_to_sub_frame.ApplyToSubFrame",
        "skrub._check_input.CheckInputDataFrame",
        "skrub._clean_categories.CleanCategories",
        "skrub._clean_null_strings.CleanNullStrings",
        "skrub._datetime_encoder.DatetimeEncoder",
        "skrub._datetime_encoder._CircularEncoder",
        "skrub._datetime_encoder._SplineEncoder",
        "skrub._drop_uninformative.DropUninformative",
        "skrub._duration_to_float.DurationToFloat",
        "skrub._gap_encoder.GapEncoder",
        "skrub._minhash_encoder.MinHashEncoder",
        "skrub._squashing_scaler.SquashingScaler",
        "skrub._string_encoder.StringEncoder",
        "skrub._table_vectorizer.Cleaner",
        "skrub._table_vectorizer.Drop",
        "skrub._table_vectorizer.PassThrough",
        "skrub._table_vectorizer.ShortReprDict",
        "skrub._table_vectorizer.TableVectorizer",
        "skrub._to_categorical.ToCategorical",
        "skrub._to_datetime.ToDatetime",
        "skrub._to_float.ToFloat",
        "skrub._to_float.ToFloat32",
        "skrub._to_float32.ToFloat32",
        "skrub._to_str.ToStr",
        "skrub.selectors._base.All",
        "skrub.selectors._base.And",
        "skrub.selectors._base.Cols",
        "skrub.selectors._base.Filter",
        "skrub.selectors._base.Inv",
        "skrub.selectors._base.Or",
        "skrub.selectors._base.Sub",
    ),
    FUNCTION: (
        "skrub._dataframe._common.is_any_date",
        "skrub._dataframe._common.is_categorical",
        "skrub._dataframe._common.is_numeric",
        "skrub._dataframe._common.is_string",
        "skrub._table_vectorizer._created_by_predicate",
        "skrub.selectors._selectors._cardinality_below",
    ),
}
_DATA = {
    OBJECT: ("pandas.DatetimeTZDtype", "polars.datatypes.classes.Datetime"),
    CALLED: ("datetime.timedelta", "datetime.timezone", "zoneinfo.ZoneInfo"),
    PARTIAL: ("functools.partial",),
    "DTypeNode": ("numpy.dtype",),
}

# Earlier name -> current name of classes that moved, for files of earlier versions.
MOVED_CLASSES = {
    "scarless.pair.form.Direction": "scarless.pair.form.FormDirection",
    "scarless.pair.problem.Audits": "scarless.pair.problem.PseudoPositives",
    "scarless.pair.stack.Linear": "scarless.pair.stack.LinearMember",
    "scarless.pair.facts.ClassPrior": "scarless.pair.constraints.ClassPrior",
    "scarless.pair.facts.ImaginaryAudits": "scarless.pair.constraints.PseudoObservations",
    "scarless.pair.facts.LabelFrequency": "scarless.pair.constraints.LabelFrequency",
    "scarless.pair.facts.Labelling": "scarless.pair.constraints.Labelling",
    "scarless.pair.fitted.Looks": "scarless.pair.fitted.LookModels",
    "scarless.pair.optima.Basin": "scarless.pair.optima.Optimum",
    "scarless.pair.relaxed.Levels": "scarless.pair.recalibrated.ClassPriorGrid",
    "scarless.pair.relaxed.Relaxation": "scarless.pair.recalibrated.Recalibration",
    "scarless.numerics.interval.Interval": "scarless.numerics.uncertainty.Interval",
    "scarless.models._looks_design.Looks": "scarless.pair.fitted.LookModels",
    "scarless.models._observed.Looks": "scarless.pair.fitted.LookModels",
    "scarless.models._strata.Combinations": "scarless.models.stratified_scar.Combinations",
    "scarless.pair.members.Member": "scarless.pair.stack.Member",
    "scarless.pair.members.Linear": "scarless.pair.stack.LinearMember",
    "scarless.pair.crossed.LooksCrossed": "scarless.pair.crossed.Crossed",
    "scarless.pair.looks_crossed.LooksCrossed": "scarless.pair.crossed.Crossed",
    "scarless.pair.propensities.LogisticPropensity": "scarless.pair.cross_fit.LogisticPropensity",
    "scarless.pair.propensities.LearnedPropensity": "scarless.pair.cross_fit.LearnedPropensity",
    "scarless.pair.propensities.FixedPropensity": "scarless.pair.cross_fit.FixedPropensity",
    "scarless.numerics.looks_objective.LooksSums": "scarless.numerics.uncertainty.PairSums",
    "scarless.label_frequency.best_bin.BestBinEstimator": "scarless.label_frequency.held_out_scores.BestBinEstimator",
    "scarless.label_frequency.dedpul.DEDPUL": "scarless.label_frequency.held_out_scores.DEDPUL",
    "scarless.label_frequency.elkan_noto.ElkanNoto": "scarless.label_frequency.held_out_scores.ElkanNoto",
    "scarless.label_frequency.kernel_mean.estimator.KernelMean": "scarless.label_frequency.kernel_mean.KernelMean",
    "scarless.label_frequency.tice.estimator.BoundingSubset": "scarless.label_frequency.tice.BoundingSubset",
    "scarless.label_frequency.tice.estimator.TIcE": "scarless.label_frequency.tice.TIcE",
    "scarless.pair.basins.Basin": "scarless.pair.optima.Optimum",
    "scarless.pair.looks_inference.LooksInference": "scarless.pair.inference.PairInference",
    "scarless.pair.selection.Selection": "scarless.pair.optima.Selection",
    "scarless.checks.origins.Origin": "scarless.raw.origins.Origin",
    "scarless.scale.raw_columns.Column": "scarless.scale.raw_columns.RawColumn",
    "scarless.models._visits.VisitColumns": "scarless.raw.visits.VisitColumns",
    "scarless.models.preparation.KeepNone": "scarless.raw.preparation.KeepNone",
    "scarless.models.preparation.LongTail": "scarless.raw.preparation.LongTail",
    "scarless.models.preparation.NumberColumns": "scarless.raw.preparation.NumberColumns",
    "scarless.models.preparation.TableColumns": "scarless.raw.preparation.TableColumns",
    "scarless.models.preparation.WordParts": "scarless.raw.preparation.WordParts",
    "scarless.models.table_classifier.TableClassifier": "scarless.raw.table_classifier.TableClassifier",
}

# Name -> the only kind that it may have.
TRUSTED = {
    name: kind for names in (_OURS, _SCIKIT_LEARN, _SKRUB, _DATA) for kind, those in names.items() for name in those
}
IN_PARTIAL = "sklearn.utils.validation.check_array"
BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
# Kinds for which only skops' own list applies. Sparse matrices are not among them: they would be zips within the zip.
PLAIN_KINDS = frozenset(
    {
        "BytearrayNode",
        "BytesNode",
        "DictNode",
        "JsonNode",
        "ListNode",
        "NdArrayNode",
        "RandomGeneratorNode",
        "RandomStateNode",
        "SetNode",
        "SliceNode",
        "TypeNode",
    }
)
KINDS = PLAIN_KINDS | set(TRUSTED.values())
LISTED_KINDS = frozenset({METHOD, CALLED, PARTIAL, "DTypeNode", "TreeNode"})  # only listed names have these kinds
