"""Settings, slow tests and fixtures of all tests.

Property tests draw the same examples in every run, so that a failure is caused by a change of the code and not by the
draw. ``make test-random`` draws new examples; add each failure as an explicit example.
"""

import gc
import json
import os
from importlib.util import find_spec

# scikit-learn's checks of array API dispatch run only with this variable, which SciPy reads when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse
from tests.engines.shards import in_pieces
from tests.helpers import make_two_optima, simulate
from threadpoolctl import threadpool_limits

from scarless.diagnostics.drift import columns
from scarless.diagnostics.fit import examination
from scarless.engines import open_rows
from scarless.experiments import Spec
from scarless.pair import starts

TESTS = Path(__file__).parent
SCORER_OF_REPORTS = examination.scorer_of

# 40 examples are enough in the profile `fixed`, because they are the same in every run. The profile `random` has 100,
# the default of hypothesis.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure():
    """Under ``make test-shards``, split every table into three partitions instead of keeping it in memory."""
    if os.environ.get("SCARLESS_TEST_ENGINE") == "shards":
        for kind in (np.ndarray, sparse.sparray, sparse.spmatrix):
            open_rows.register(kind, in_pieces)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Under `make test-shards`, skip tests that pass their own folds, which are supported for rows in memory only."""
    report = yield
    if os.environ.get("SCARLESS_TEST_ENGINE") == "shards" and call.excinfo is not None:
        said = str(call.excinfo.value)
        if "cv must be a number of folds if the rows of X are not in memory" in said:
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, "Skipped: the test passes its own folds")
    return report


# Slow tests, which only `make test-slow` runs, because `make test` is run for every change and must stay fast. Entries
# are beginnings of test ids. `make test` runs scikit-learn's checks with one set of options for each fast class. If a
# whole workflow is slow, `make test` runs its most common case; other tests cover the parts of the workflow.
SLOW = (
    "tests/papers/teisseyre2025/test_published_numbers.py::test_three_tables_are_as_published",
    "tests/papers/field/test_field.py::test_the_quick_version_runs_and_has_a_page_that_answers",
    "tests/papers/field/test_leaks.py::test_every_method_sees_only_what_it_says_that_it_knows",
    "tests/analysis/test_worksheet.py::test_three_rounds_of_checks_shorten_the_interval_of_the_patients",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[looks with gaps-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[false positives-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[known share-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[visit attributes-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[offset-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[bounds-quick",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[one label-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[several looks-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[audits-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[looks with gaps-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[false positives-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[known share-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[visit attributes-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[offset-slow",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[bounds-slow",
    "tests/test_peers.py::test_real_",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SARStackingClassifier",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SAREMClassifierCV",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SAREMClassifier(cv",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[PublishedEMClassifier()",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SAREMClassifier()",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SCARClassifier()",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[SCARClassifier(label_frequency=0.9,",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[PropensityWeightedClassifier(estimator",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[PropensityWeightedClassifier(method",
    "tests/test_sklearn_checks.py::test_estimator_passes_scikit_learns_checks[NaiveClassifier(estimator",
    "tests/models/test_scar.py::test_it_passes_scikit_learns_checks[SCARClassifier(estimator",
    "tests/models/test_scar.py::test_it_passes_scikit_learns_checks[SCARClassifier(label_frequency=RootShare(root=10),",
    "tests/models/test_stratified_scar.py::test_it_passes_scikit_learns_checks"
    "[StratifiedSCARClassifier(label_frequency=RootShare(root=10),method",
    "tests/models/test_stratified_scar.py::test_it_passes_scikit_learns_checks"
    "[StratifiedSCARClassifier(label_frequency=RootShare(root=10),propensity_attributes=None",
    "tests/label_frequency/test_held_out_scores.py::test_scikit_learns_checks_of_best_bin",
    "tests/label_frequency/test_held_out_scores.py::test_scikit_learns_checks_of_dedpul",
    "tests/label_frequency/test_held_out_scores.py::test_scikit_learns_checks[ElkanNoto(cv",
    "tests/label_frequency/test_kernel_mean.py::test_estimator_passes_scikit_learns_checks[KernelMean(max_rows",
    "tests/label_frequency/test_tice.py::test_scikit_learns_checks[TIcE(cv",
    "tests/field/test_lbe.py::test_variants_pass_scikit_learns_checks",
    "tests/field/test_tm.py::test_variants_pass_scikit_learns_checks",
    "tests/field/test_weighted_risk.py::test_variants_pass_scikit_learns_checks",
    "tests/field/test_non_negative.py::test_variants_pass_scikit_learns_checks",
    "tests/field/test_contract.py::test_other_estimators_pass_scikit_learns_checks",
    "tests/pair/test_form.py::test_a_wrong_attribute_is_reported_nearly_always",
    "tests/pair/test_groups.py::test_a_fit_warns_about_survey_weights_and_groups_rows_ignores_their_scale[SARStackingClassifier",
    "tests/models/test_looks_claims.py::test_a_look_that_is_partly_a_copy_gets_a_warning[all",
    "tests/models/test_device.py::test_folds_can_come_from_a_splitter_or_a_list[strict-list",
    "tests/models/test_device.py::test_folds_can_come_from_a_splitter_or_a_list[strict-splitter",
    "tests/models/test_device.py::test_folds_can_come_from_a_splitter_or_a_list[strict-repeated",
    "tests/models/test_device.py::test_searches_select_the_same_candidates_as_with_numpy_arrays[strict-penalties",
    "tests/models/test_device.py::test_searches_select_the_same_candidates_as_with_numpy_arrays[strict-both",
    "tests/cli/test_rows.py::test_rows_of_one_patient_are_a_group",
    "tests/cli/test_rows.py::test_a_sheet_can_be_selected_by_name",
    "tests/cli/test_rows.py::test_visit_attributes_can_be_the_only_propensity_attributes[logistic",
    "tests/cli/test_cells.py::test_label_values_ignore_case_and_can_be_several",
    "tests/cli/test_cells.py::test_fit_and_predict_report_infinite_and_huge_cells[1e300",
    "tests/cli/test_information.py::test_findings_entered_as_labels",
    "tests/cli/test_information.py::test_a_seed_of_0",
    "tests/report/fit/test_ranked.py::test_names_of_rows",
    "tests/report/fit/test_answer.py::test_the_notes_report_the_measured_coverage",
    "tests/report/fit/test_effects.py::test_columns_are_tested_jointly_first[1",
    "tests/report/fit/test_effects.py::test_columns_are_tested_jointly_first[2",
    "tests/report/fit/test_effects.py::test_an_effect_on_the_labelling_is_found_if_the_class_model_has_the_column_too[1",
    "tests/report/fit/test_effects.py::test_an_effect_on_the_labelling_is_found_if_the_class_model_has_the_column_too[2",
    "tests/report/fit/test_build.py::test_json_has_the_same_keys_for_every_model_and_all_numbers[swappable",
    "tests/diagnostics/drift/test_drift.py::test_other_models",
    "tests/diagnostics/fit/test_comparison.py::test_coverage_of_the_difference_if_nothing_changed",
    "tests/diagnostics/fit/test_comparison.py::test_other_classes",
    "tests/analysis/test_drift.py::test_weights",
    "tests/cli/test_drift.py::test_results_of_several_months",
    "tests/pair/test_predictive.py::test_draws_agree_with_draws_of_posteriors[stack",
    "tests/diagnostics/audits/test_yields.py::test_intervals_of_correct_models_cover_the_truth",
    "tests/diagnostics/audits/test_plan.py::test_rows_are_drawn_with_their_probabilities",
    "tests/diagnostics/audits/test_goodness.py::test_n_jobs_does_not_change_the_result",
    "tests/analysis/test_analyse.py::test_with_many_rows_penalties_are_chosen_with_a_sample[sets2",
    "tests/analysis/test_analyse.py::test_rows_are_ranked_by_labels_if_the_models_may_be_swapped[stack",
    "tests/analysis/test_information.py::test_a_table_is_prepared_once_for_fit_ranking_summary_report_and_files[looks",
    "tests/checks/test_estimators.py::test_calibration_to_labels_warns_and_undoes_the_correction[table-options2",
    "tests/scale/test_checkpoints.py::test_a_damaged_checkpoint_warns_and_is_computed_again",
    "tests/scale/test_looks.py::test_known_values_and_false_positives_of_one_look[Dask",
    "tests/scale/test_looks.py::test_known_values_and_false_positives_of_one_look[LazyFrame",
    "tests/cli/test_information.py::test_two_hundred_audits",
    "tests/pair/test_groups.py::test_intervals_with_groups_agree_with_a_bootstrap",
    "tests/saved/test_files.py::test_an_edited_array_with_its_hash_never_predicts_nan[newton",
    "tests/saved/test_files.py::test_an_edited_array_with_its_hash_never_predicts_nan[forest",
    "tests/saved/test_files.py::test_an_edited_array_with_its_hash_never_predicts_nan[search, every edit",
    "tests/saved/test_files.py::test_an_edited_array_with_its_hash_never_predicts_nan[SCAR, every edit",
    "tests/models/test_stratified_scar.py::test_labels_that_contradict_label_frequencies_get_a_warning[1",
    "tests/models/test_stratified_scar.py::test_labels_that_contradict_label_frequencies_get_a_warning[2",
    "tests/report/fit/test_effects.py::test_an_effect_on_the_class_is_not_mistaken_for_an_effect_on_the_labelling[1",
    "tests/report/fit/test_effects.py::test_an_effect_on_the_class_is_not_mistaken_for_an_effect_on_the_labelling[2",
    "tests/report/fit/test_effects.py::test_survey_weights_do_not_change_p_values[1",
    "tests/report/fit/test_page.py::test_pages_are_valid_and_self_contained[StratifiedSCARClassifier",
    "tests/cli/test_tables.py::test_no_number_of_positives_is_shown_if_the_fit_cannot_estimate_it[logistic",
    "tests/pair/test_form.py::test_stack_and_cross_fit_report_a_wrong_attribute[<lambda>1",
    "tests/models/test_looks_claims.py::test_dropped_labels_of_several_looks_get_no_warning[1",
    "tests/scale/test_dask",
    "tests/scale/test_s3",
    "tests/experiments/test_run.py::test_killed",
    "tests/experiments/test_run.py::test_a_killed_worker",
    "tests/experiments/test_run.py::test_two_workers",
    "tests/experiments/test_own.py::test_every_estimator_of_ours",
    "tests/experiments/test_own.py::test_two_workers",
    "tests/metrics/test_score.py::test_intervals_cover_with_few_labels",
    "tests/metrics/test_scorers.py::test_in_several_processes",
    "tests/saved/test_files.py::test_loaded_models_predict_identically_to_the_bit",
    "tests/models/test_sar_em.py::test_newton_finds_the_optimum_of_em",
    "tests/models/test_weights.py::test_rows_of_weight_0_have_no_influence",
    "tests/test_column_selectors.py::test_all_spellings_mean_the_same_columns",
    "tests/test_column_selectors.py::test_a_raw_name_means_all_its_columns",
    "tests/test_column_selectors.py::test_the_columns_that_are_selected_matter",
    "tests/label_frequency/test_weights.py::test_the_order_of_weighted_rows_changes_nothing[BestBin",
    "tests/label_frequency/test_held_out_scores.py::test_one_seed_fixes_everything_in_any_order_of_rows",
    "tests/report/test_browser.py",
    "tests/report/fit/test_browser.py",
    "tests/report/fit/test_working_in_browser.py",
    "tests/pair/test_optima.py::test_five_starts",
    "tests/models/test_sar_em_cv_looks.py",
    "tests/models/test_looks_crossed.py",
    "tests/cli/test_information.py::test_a_fit_to_three_looks",
    "tests/cli/test_information.py::test_a_known_label_frequency",
    "tests/cli/test_information.py::test_false_positive_rates",
    "tests/cli/test_information.py::test_a_folder_of_files_gives",
    "tests/cli/test_information.py::test_label_and_looks_replace",
    "tests/cli/test_information.py::test_propensities_respect",
    "tests/cli/test_compare.py::test_the_page_lists_a_method_that_fails",
    "tests/experiments/test_run.py::test_any_record_that_is_missing",
    "tests/experiments/test_run.py::test_one_method_alone_has_the_same_records[published",
    "tests/experiments/test_run.py::test_one_method_alone_has_the_same_records[sar-em-refit",
    "tests/experiments/test_own.py::test_no_estimator_uses_the_truth[StratifiedSCARClassifier",
    "tests/scale/test_looks.py::test_every_source_gives_the_fit_in_memory[Dataset",
    "tests/scale/test_looks.py::test_every_source_gives_the_fit_in_memory[DuckDB",
    "tests/scale/test_models.py::test_a_fit_is_the_fit_in_memory[search]",
    "tests/scale/test_models.py::test_a_fit_is_the_fit_in_memory[estimated frequency by",
    "tests/models/test_sar_em.py::test_newton_reaches_the_optimum_of_slow_em[None",
    "tests/models/test_sar_em.py::test_newton_reaches_the_optimum_of_slow_em[attributes2",
    "tests/models/test_sar_em.py::test_newton_is_no_worse_than_em_on_few_rows[11-options1",
    "tests/models/test_sar_stacking.py::test_none_and_all_are_equal",
    "tests/models/test_weights.py::test_rows_of_weight_0_have_no_influence[SAREMClassifier(estimator",
    "tests/pair/test_optima.py::test_the_chosen_optimum_is_not_swapped",
    "tests/models/test_published_em.py::test_logistic_regressions",
    "tests/pair/test_recalibrated.py::test_slope_and_shift_are_recovered[2.0",
    "tests/pair/test_recalibrated.py::test_slope_and_shift_are_recovered[1.0",
    "tests/diagnostics/scar/test_scar_tests.py::test_p_values_are_uniform_under_scar_if_the_model_is_right[wald",
    "tests/diagnostics/scar/test_scar_tests.py::test_p_values_are_uniform_under_scar_if_the_model_is_right[like",
    "tests/metrics/test_intervals.py::test_coverage_in_a_moderate_setting[squared",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[accuracy",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[precision",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[recall",
    "tests/metrics/test_scores.py::test_the_mean_over_many_labelings_is_the_supervised_score[accuracy",
    "tests/metrics/test_scores.py::test_the_mean_over_many_labelings_is_the_supervised_score[precision",
    "tests/metrics/test_scores.py::test_the_mean_over_many_labelings_is_the_supervised_score[recall",
    "tests/report/fit/test_build.py::test_every_kind_of_model_has_a_report_of_plain_data[StratifiedSCARClassifier",
    "tests/report/fit/test_build.py::test_json_has_the_same_keys_for_every_model_and_all_numbers[StratifiedSCARClassifier",
    "tests/raw/test_table_classifier.py::test_other_classifiers_of_the_package[inner1",
    "tests/analysis/test_files.py::test_the_report_states_that_it_is_based_on_a_sample",
    "tests/analysis/test_files.py::test_labels_may_be_text",
    "tests/diagnostics/audits/test_goodness.py::test_every_kind_of_fit_to_several_looks_can_be_tested[{'known",
    "tests/diagnostics/audits/test_goodness.py::test_every_kind_of_fit_to_several_looks_can_be_tested"
    "[{'labelling': Labelling(shared",
    "tests/engines/test_shards.py::test_a_fit_to_shards_is_the_fit_in_memory[search-",
    "tests/engines/test_shards.py::test_a_bootstrap_draws_the_same_rows_in_any_pieces[False",
    "tests/pair/test_namespace.py::test_several_starts",
    "tests/scale/test_predict_to.py::test_after_a_kill",
    "tests/scale/test_sources.py::test_a_bootstrap_reads_the_table_once[dask",
    "tests/checks/test_estimators.py::test_correct_uses_do_not_warn[pipeline",
    "tests/checks/test_estimators.py::test_calibration_to_labels_warns_and_undoes_the_correction[model-options2",
    "tests/checks/test_estimators.py::test_calibration_to_labels_warns_and_undoes_the_correction[pipeline-options2",
    "tests/models/test_sar_em_looks.py::test_the_order_of_rows_and_looks_changes_nothing[0.01",
    "tests/models/test_sar_em_looks.py::test_exact_known_values_hold_exactly[True",
    "tests/models/test_stratified_scar.py::test_text_defines_strata_if_the_estimator_reads_it[str",
    "tests/models/test_stratified_scar.py::test_text_defines_strata_if_the_estimator_reads_it[object",
    "tests/pair/test_learners.py::test_pipelines_receive_sample_weights[likelihood-DecisionTree",
    "tests/pair/test_learners.py::test_pipelines_receive_sample_weights[likelihood-GaussianNB",
    "tests/pair/test_optima.py::test_each_optimum_is_an_optimum_of_the_penalised_likelihood_and_the_best_comes_first[case0",
    "tests/cli/test_experiments.py::test_stopping_while_the_page_is_written[command1",
    "tests/diagnostics/scar/test_scar_tests.py::TestInvariance::test_sparse_and_single_precision_tables[wald",
    "tests/diagnostics/scar/test_scar_tests.py::TestInvariance::test_sparse_and_single_precision_tables[like",
    "tests/diagnostics/uncertainty/test_bootstrap.py::test_the_spread_of_resamples_agrees",
    "tests/engines/test_shards.py::test_a_fit_to_shards_is_the_fit_in_memory[search, all",
    "tests/experiments/test_run.py::test_the_order_of_methods",
    "tests/label_frequency/test_weights.py::test_weights_of_1_are_none[BestBinEstimator(cv",
    "tests/label_frequency/test_weights.py::test_weights_of_1_are_none[KernelMean(variant",
    "tests/label_frequency/test_weights.py::test_a_row_of_weight_0_is_not_there[KernelMean(variant",
    "tests/metrics/test_score.py::test_with_many_labels_the_interval_is_the_estimate_and_its_standard_error[True",
    "tests/metrics/test_scores.py::test_intervals_cover",
    "tests/models/test_bad_input.py::test_every_fit_and_posterior_warns_about_labels_in_another_order[SARStacking",
    "tests/models/test_bad_input.py::test_every_fit_and_posterior_warns_about_labels_in_another_order[SAREMClassifierCV",
    "tests/models/test_looks_doubts.py::test_undeclared_false_positives_get_a_warning",
    "tests/models/test_published_em.py::test_kinds_of_tables_give_the_same_model[csr",
    "tests/models/test_weights.py::test_weights_equal_copies[SAREMClassifier(estimator",
    "tests/scale/test_looks.py::test_a_search_is_that_of_rows_in_memory[False",
    "tests/scale/test_looks.py::test_raw_tables_in_files[True",
    "docs/believe.md",
    "docs/propensity-attributes.md",
    "src/scarless/models/sar_stacking.py::",
    "src/scarless/diagnostics/scar/tests.py::",
    "src/scarless/diagnostics/scar/attribute_tests.py::",
    "tests/cli/test_tables.py::test_another_model",
    "tests/cli/test_tables.py::test_all_file_formats_can_be_read[patients.csv.gz",
    "tests/cli/test_tables.py::test_all_file_formats_can_be_read[patients.feather",
    "tests/analysis/test_analyse.py::test_with_many_rows_penalties_are_chosen_with_a_sample[sets0",
    "tests/analysis/test_analyse.py::test_with_many_rows_penalties_are_chosen_with_a_sample[sets1",
    "tests/analysis/test_files.py::test_a_pandas_index_is_read_as_a_column",
    "tests/analysis/test_files.py::test_penalties_are_chosen_with_all_audited_rows",
    "tests/analysis/test_information.py::test_penalties_of_a_search_are_chosen_with_all_audited_rows",
    "tests/datasets/test_datasets.py::test_the_whole_archive",
    "tests/diagnostics/uncertainty/test_bootstrap.py::test_any_classifier_of_the_package[tree",
    "tests/engines/test_shards.py::test_other_kinds_of_pieces[search",
    "tests/models/test_sar_stacking.py::test_members_that_can_read",
    "tests/saved/test_files.py::test_a_pipeline_of_a_raw_table_can_be_loaded[model1",
    "tests/scale/test_looks.py::test_labels_and_audits_are_not_sent_to_workers",
    "tests/models/test_looks_guards.py::test_bootstraps",
    "tests/scale/test_models.py::test_a_label_frequency_of_few_rows",
    "tests/scale/test_models.py::test_the_classifier_stores_the_size_of_the_sample",
    "tests/scale/test_sources.py::test_label_frequencies_are_estimated",
    "tests/scale/test_ray.py::test_an_actor_forgets_entries",
    "tests/scale/test_ray.py::test_memory_is_reused_despite_the_environment_variable",
    "tests/test_fuzz.py::test_unusual_calls_end_clearly[1",
    "tests/test_fuzz.py::test_unusual_calls_end_clearly[2",
    "tests/test_fuzz.py::test_unusual_calls_end_clearly[75",
    "tests/pair/test_optima.py::test_swappable_models_keep_the_roles_of_the_papers_start[1.0-10.0",
    "tests/pair/test_optima.py::test_swappable_models_keep_the_roles_of_the_papers_start[30.0",
    "tests/pair/test_optima.py::test_swapping_the_penalties_of_swappable_models_finds_the_same_best_optimum[3",
    "tests/models/test_device.py::test_searches_select_the_same_candidates_as_with_numpy_arrays[strict-swappable",
    "tests/models/test_device.py::test_resamples_of_a_search",
    "tests/models/test_few_labels.py::test_a_search_over_all_columns_ranks_like_the_naive_model_or_warns[2",
    "tests/models/test_few_labels.py::test_a_search_over_all_columns_ranks_like_the_naive_model_or_warns[3",
    "tests/saved/test_files.py::test_an_edited_array_with_its_hash_never_predicts_nan[boosted",
    "tests/report/fit/test_effects.py::test_single_significant_columns_of_noise_may_be_due_to_chance[8",
    "tests/test_capabilities.py::test_each_cell_is_as_the_page_says[audits-quick",
    "tests/papers/bekker2019/test_methods.py::test_only_published_known_e_uses_the_truth[published-sar-em-all",
    "tests/papers/bekker2019/test_methods.py::test_published_methods_drop_negative_weights[sar_em-all",
    "tests/diagnostics/audits/test_yields.py::test_draws_of_recalibrated_models_have_the_class_priors_of_their_interval[stack",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[log loss",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[average",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_jackknifes[Brier",
    "tests/metrics/test_scores.py::test_the_standard_error_is_near_the_bootstraps[average",
    "tests/diagnostics/scar/test_scar_tests.py::test_p_values_are_uniform_under_scar_if_the_model_is_right[kolm",
    "tests/cli/test_rows.py::test_rows_of_one_patient_with_looks_and_audits[audits",
    "tests/cli/test_rows.py::test_visit_attributes_can_be_the_only_propensity_attributes[search",
    "tests/cli/test_tables.py::test_no_number_of_positives_is_shown_if_the_fit_cannot_estimate_it[search",
    "tests/saved/test_files.py::test_nan_in_files_without_a_list_of_such_arrays_is_refused[forest",
)


# Tests that need packages which `make test` does not install, because few tests use them. `make test-extras` installs
# them and runs these tests. Entries are beginnings of test ids, as in SLOW.
PACKAGES_OF_EXTRAS = ("dask", "distributed", "duckdb", "fsspec", "onnx", "onnxruntime", "skl2onnx", "yaml")
EXTRA = (
    "docs/persistence.md",
    "src/scarless/saved/onnx_export.py",
    "tests/cli/test_cells.py::test_the_error_about_an_output_folder_suggests_a_file_name",
    "tests/cli/test_tables.py::test_a_model_that_cannot_be_an_onnx_graph_is_refused",
    "tests/cli/test_tables.py::test_a_stored_model_is_exported_completely_or_not_at_all",
    "tests/cli/test_tables.py::test_without_onnx_an_export_names_the_extras",
    "tests/cli/test_tables.py::test_unwritable_folders_are_refused_before_the_file_is_read",
    "tests/models/test_looks_guards.py::test_audits_and_known_values_do_not_change_the_meaning_of_propensity",
    "tests/saved/asking.py",
    "tests/saved/test_onnx",
    "tests/scale/cluster.py",
    "tests/scale/test_dask",
    "tests/scale/test_files.py::test_a_file_system_of_fsspec",
    "tests/scale/test_looks.py",
    "tests/scale/test_parquet.py::test_files_of_pyarrow_polars_and_duckdb_are_read_alike",
    "tests/scale/test_parquet.py::test_the_index_of_dask_is_not_an_attribute",
    "tests/scale/test_sources.py",
    "tests/test_capabilities.py",
    "tests/test_conda_recipe.py",
)
MISSING = [name for name in PACKAGES_OF_EXTRAS if find_spec(name) is None]


def pytest_ignore_collect(collection_path, config):
    """Leave out files that would import packages which are not installed."""
    place = collection_path.relative_to(config.rootpath).as_posix()
    return True if MISSING and collection_path.is_file() and place.startswith(EXTRA) else None


def pytest_sessionstart():
    """Under `make test-extras`, raise an error if a package is missing: no test may be left out without a word."""
    if MISSING and os.environ.get("SCARLESS_TEST_EXTRAS"):
        raise pytest.UsageError(f"The tests of the extras need {', '.join(MISSING)}. `make test-extras` installs them.")


def pytest_terminal_summary(terminalreporter):
    if MISSING:
        terminalreporter.write_line(
            f"Tests that need {', '.join(MISSING)} were left out. `make test-extras` installs these packages and runs "
            "the tests."
        )


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
        if item.nodeid.startswith(EXTRA):
            item.add_marker("extra")
            if MISSING:
                item.add_marker(pytest.mark.skip(reason="`make test-extras` runs this test"))


def pytest_collection_finish():
    """Exclude modules and tests from garbage collection, which would otherwise examine all of them again and again."""
    gc.freeze()


def pytest_sessionfinish():
    """Include them again, because some libraries report objects that are left at the end."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def one_thread(request):
    """Limit OpenMP and BLAS to one thread, because several test processes share few cores.

    ``make test`` sets this limit by environment variables. The limit is then not set here, because this would take
    longer than most tests.
    """
    started_with_one = all(os.environ.get(name) == "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))
    if started_with_one or not {"models", "pair"} & set(request.path.parts):
        yield
    else:
        with threadpool_limits(1):
            yield


@pytest.fixture
def pu():
    return simulate()


@pytest.fixture
def simulated():
    return simulate


@pytest.fixture(scope="session", autouse=True)
def quick_reports():
    """Use logistic models instead of random forests in the SCAR test of a report.

    The forests would take most of the time of a report; the fixture `full_reports` restores them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "scorer_of", lambda sample: "logistic")
        yield


@pytest.fixture(scope="module", autouse=True)
def few_trial_fits(request):
    """Use fewer trial fits for starts in tests that do not test them."""
    with pytest.MonkeyPatch.context() as patch:
        if {"analysis", "cli", "report"} & set(request.path.relative_to(TESTS).parts):
            patch.setattr(starts, "TRIAL_FITS", 3)
        yield


@pytest.fixture(autouse=True, scope="session")
def few_trees():
    """Use fewer trees in the classifier of new against old rows, which takes most of the time of `detect_drift`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "N_TREES", 8)
        yield


@pytest.fixture
def full_reports(monkeypatch):
    """Use random forests in the SCAR test of a report, which is the default for users."""
    monkeypatch.setattr(examination, "scorer_of", SCORER_OF_REPORTS)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Change to an empty folder, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def two_optima():
    return make_two_optima


# Invented results of an experiment, with which tests can produce any outcome.
EXPERIMENT = Spec(
    name="made-up",
    title="An experiment that nobody ran",
    seed=7,
    datasets=("newsgroups", "adult", "breastcancer", "covtype", "diabetes", "imagesegmentation", "mushroom", "splice"),
    settings=("all", "original"),
    n_propensity_attributes=(2, 4),
    n_splits=5,
    n_labellings=5,
    test_share=0.2,
    methods=("supervised", "naive", "known-e", "known-c", "scar-km2", "scar-tice", "sar-em", "sar-em-refit"),
    added_attributes=4,
    clusters=5,
    low=0.2,
    high=0.8,
    C=1.0,
    km_max_rows=100,
)
ERROR = {
    "supervised": 0.04, "known-e": 0.06, "known-c": 0.09, "naive": 0.20, "scar-km2": 0.12, "scar-tice": 0.11,
    "sar-em": 0.07, "sar-em-refit": 0.08, "published-known-e": 0.10, "published-scar-km2": 0.15,
    "published-scar-tice": 0.16, "published-sar-em": 0.13,
}  # fmt: skip
PROPENSITY_ERROR = {"naive": 0.33, "known-c": 0.04, "known-e": 0.0, "sar-em": 0.005}


class Made:
    """Invented records of an experiment, with four runs for each combination of dataset, setting and method by default.

    By default, the error of a method is its error in `ERROR`, with a little noise.
    """

    usual_error = ERROR
    base = EXPERIMENT

    def __init__(self, noise=0.002, error=None, propensity_error=None, **changes):
        self.spec = replace(self.base, **{"n_splits": 2, "n_labellings": 2, **changes})
        self.noise = noise
        self.error = error or (lambda dataset, setting, k, method: ERROR[method])
        self.propensity_error = propensity_error or (
            lambda dataset, setting, k, method: PROPENSITY_ERROR.get(method.removeprefix("published-"), 0.05)
        )
        self.records = [self.record(key) for key in self.keys()]

    def keys(self):
        spec = self.spec
        splits, labellings = range(spec.n_splits), range(spec.n_labellings)
        counts = spec.n_propensity_attributes
        return product(spec.datasets, spec.settings, counts, splits, labellings, spec.methods)

    def record(self, key):
        dataset, setting, k, *_, method = key
        names = ("dataset", "setting", "k", "split", "labelling", "method")
        noise = self.noise * np.random.default_rng(crc32(repr(key).encode())).normal(size=2)
        mse_f = self.error(dataset, setting, k, method) + noise[0]
        scores = {"mse_f": mse_f, "auc_f": 1 - mse_f, "class_prior": 0.4, "class_prior_error": -0.01, "n_iter": 9}
        if method != "supervised":
            scores["mse_e"] = max(self.propensity_error(dataset, setting, k, method) + noise[1] / 10, 0.0)
        return {**dict(zip(names, key, strict=True)), **scores, "converged": True}

    @property
    def timings(self):
        names = ("dataset", "setting", "k", "split", "labelling", "method")
        extra = {"seconds": 0.25, "peak_mb": 100, "versions": "scarless 0.1.0", "machine": "abacus, 2 cores"}
        return [{**{name: record[name] for name in names}, **extra} for record in self.records]

    @property
    def manifest(self):
        spec = json.loads(json.dumps(asdict(self.spec)))
        return {"name": self.spec.name, "digest": self.spec.digest, "spec": spec}

    @property
    def everything(self):
        return self.records, self.timings, self.manifest

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.json").write_text(json.dumps(self.manifest))
        for name, rows in (("records", self.records), ("timings", self.timings)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder


@pytest.fixture(scope="session")
def make():
    """Return the class that invents results of an experiment."""
    return Made


@pytest.fixture(scope="session")
def full():
    """Return results with the full number of runs, in which the same methods are best in all runs."""
    return Made(n_splits=5, n_labellings=5)
