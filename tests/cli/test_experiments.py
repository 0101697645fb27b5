"""Commands for experiments, called through `main`: output, files and exit codes."""

import errno
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scarless import cli
from scarless.cli import main
from scarless.experiments import Store, run_experiment
from scarless.papers import METHODS
from scarless.papers.bekker2019 import specification

RUN, PAGE = "scarless.experiments.run_experiment", "scarless.papers.render_results"
TINY = """
name = "tiny"
title = "A tiny experiment"
seed = 1
datasets = ["simulated", "bundled_breast_cancer"]
settings = ["all"]
n_propensity_attributes = [2]
n_splits = 1
n_labellings = 1
test_share = 0.2
methods = ["naive", "sar-em"]

[labelling]
added_attributes = 2
clusters = 2
low = 0.2
high = 0.8

[options]
C = 1.0
km_max_rows = 100

[quick]
datasets = ["simulated"]
"""


@pytest.fixture
def spec(tmp_path):
    return write_spec(tmp_path)


def write_spec(folder, text=TINY):
    path = folder / "tiny.toml"
    path.write_text(text)
    return str(path)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty folder, with an empty cache and no downloaded data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCARLESS_DATA", raising=False)
    return tmp_path


def plain(text):
    return re.sub(r"\s+", " ", text)


def test_reproduce_runs_and_writes_the_page_and_report_writes_it_again(spec, here, capsys):
    assert main(["compare", spec, "--out", "found", "--jobs", "1"]) == 0
    assert capsys.readouterr().out == "Report: found/report.html\n"
    assert len(Store("found").records()) == 4
    page = (here / "found" / "report.html").read_bytes()
    assert b"A tiny experiment" in page
    (here / "found" / "report.html").unlink()
    assert main(["report", "found"]) == 0
    assert (here / "found" / "report.html").read_bytes() == page


def test_reproduce_continues_an_interrupted_run(spec, here):
    assert main(["compare", spec, "--out", "found", "--jobs", "1"]) == 0
    whole = (here / "found" / "records.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (here / "found" / "records.jsonl").write_bytes(b"".join(lines[:2]))
    assert main(["compare", spec, "--out", "found", "--jobs", "1"]) == 0
    assert (here / "found" / "records.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("options", "folder", "datasets"),
    [
        (["--quick"], "tiny-quick", ["simulated"]),
        (["--datasets", "simulated"], "tiny-simulated", ["simulated"]),
        (["--datasets", "simulated,bundled_breast_cancer"], "tiny-simulated-bundled_breast_cancer", None),
        (["--datasets", "simulated", "bundled_breast_cancer"], "tiny-simulated-bundled_breast_cancer", None),
        ([], "tiny", None),
    ],
)
def test_options_select_datasets_and_the_folder(spec, here, monkeypatch, options, folder, datasets):
    asked = []
    monkeypatch.setattr(RUN, lambda spec, folder, **_: asked.append((spec.datasets, folder)))
    monkeypatch.setattr(PAGE, lambda folder: folder)
    assert main(["compare", spec, *options]) == 0
    assert asked == [(tuple(datasets or ["simulated", "bundled_breast_cancer"]), Path("results") / folder)]


def test_options_reach_the_experiment(spec, here, monkeypatch):
    asked = {}
    monkeypatch.setattr(RUN, lambda spec, folder, **options: asked.update(options))
    monkeypatch.setattr(PAGE, lambda folder: folder)
    assert main(["compare", spec, "--jobs", "3", "--data-home", "data", "--no-download"]) == 0
    assert (asked["jobs"], asked["data_home"], asked["download"]) == (3, Path("data"), False)


def test_all_cores_are_the_default(monkeypatch, spec, here):
    asked = {}
    monkeypatch.setattr(RUN, lambda spec, folder, **options: asked.update(options))
    monkeypatch.setattr(PAGE, lambda folder: folder)
    monkeypatch.setattr(cli.experiments, "_cores", lambda: 7)
    main(["compare", spec])
    assert asked["jobs"] == 7


def test_reproduce_runs_the_papers_experiment_and_its_page_says_so(here, monkeypatch):
    asked = []

    def one_split(spec, folder, **options):
        asked.append(spec)
        run_experiment(replace(spec, n_splits=1, n_labellings=1, methods=("naive", "sar-em")), folder, **options)
        manifest = json.loads((folder / "spec.json").read_text())
        del manifest["sha256"]  # It belongs to the digest of the reduced specification, like the timings.
        (folder / "timings.jsonl").unlink()
        (folder / "spec.json").write_text(json.dumps({**manifest, "digest": spec.digest}))

    monkeypatch.setattr(RUN, one_split)
    assert main(["reproduce", "--quick", "--datasets", "simulated", "--out", "found", "--jobs", "1"]) == 0
    assert asked == [specification(quick=True).only(("simulated",))]
    page = (here / "found" / "report.html").read_text()
    assert "The experiment of the paper, bekker2019, run with scarless" in page
    assert page.count("Cannot be answered") == 1  # question 1, because the reduced specification has no SCAR method


def test_the_page_of_another_specification_does_not_claim_to_be_the_papers(here):
    """Not even if it has the name and the title of the paper."""
    text = TINY.replace('name = "tiny"', 'name = "bekker2019"').replace("A tiny experiment", specification().title)
    assert main(["compare", write_spec(here, text), "--quick", "--out", "found", "--jobs", "1"]) == 0
    page = (here / "found" / "report.html").read_text()
    assert "An experiment, bekker2019, run with scarless" in page
    assert "paper" not in page.lower()
    assert re.findall(r'<section id="(\w+)"', page) == ["summary", "figures", "ranks", "tables", "run"]


def test_a_dataset_that_is_not_available_is_left_out_and_named_on_the_page(here, capsys):
    text = TINY.replace('"simulated", "bundled_breast_cancer"', '"simulated", "adult"')
    assert main(["compare", write_spec(here, text), "--out", "found", "--jobs", "1", "--no-download"]) == 0
    assert "adult is left out: " in plain(capsys.readouterr().err)
    page = (here / "found" / "report.html").read_text()
    assert "There are no results for Adult" in page
    assert "2 of 4 runs are finished" in page


def test_a_run_without_any_available_dataset_fails(here, capsys):
    path = write_spec(here, TINY.replace('"simulated", "bundled_breast_cancer"', '"adult"'))
    assert main(["compare", path, "--out", "found", "--jobs", "1", "--no-download"]) == 1
    assert "scarless: found has no finished runs" in plain(capsys.readouterr().err)


def test_markup_in_messages_is_printed_as_it_is(here, capsys):
    path = write_spec(here, TINY.replace('"bundled_breast_cancer"', '"adult"'))
    home = ["--data-home", "[red]x[/red]", "--no-download"]
    assert main(["compare", path, "--out", "found", "--jobs", "1", *home]) == 0
    assert "[red]x[/red]" in plain(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is not valid TOML"),
        (TINY.replace('"simulated"', '"simulatd"'), "There is no dataset 'simulatd'. Did you mean 'simulated'?"),
        (TINY.replace("seed = 1\n", "sed = 1\n"), "has unknown entries sed. Did you mean 'seed'?"),
        (
            TINY.replace('"sar-em"', '"no such method"'),
            "There is no method 'no such method'. The methods are supervised,",
        ),
        (TINY.replace("test_share = 0.2", "test_share = 2.0"), "test_share must lie strictly between 0 and 1"),
    ],
)
def test_wrong_specifications_give_one_message_and_exit_code_1(here, capsys, text, message):
    assert main(["compare", write_spec(here, text), "--out", "found", "--jobs", "1"]) == 1
    error = plain(capsys.readouterr().err)
    assert "scarless: " in error
    assert message in error
    assert "Traceback" not in error


def test_unknown_dataset_is_refused_with_a_hint(spec, here, capsys):
    assert main(["compare", spec, "--datasets", "simulatd"]) == 1
    assert "'simulatd' is not a dataset of tiny. Did you mean 'simulated'?" in capsys.readouterr().err


def test_a_missing_specification_file_is_an_error(here, capsys):
    assert main(["compare", "nowhere.toml"]) == 1
    assert capsys.readouterr().err == "scarless: nowhere.toml: No such file or directory\n"


def test_folder_of_another_experiment_is_refused(spec, here, capsys):
    store = Store("found")
    store.open_for("other", "0123456789ab", {})
    assert main(["compare", spec, "--out", "found", "--jobs", "1"]) == 1
    assert "found has results of another specification: its name is other and its digest 0123456789ab," in plain(
        capsys.readouterr().err
    )


def test_report_on_an_empty_folder(here, capsys):
    assert main(["report", "."]) == 1
    assert (
        "has no results: there is no spec.json. Run `scarless compare` or `scarless reproduce` first."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("package", cli.experiments.PACKAGES)
def test_missing_packages_are_named_before_anything_is_run(spec, here, capsys, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["compare", spec, "--out", "found"]) == 2
    assert (
        capsys.readouterr().err
        == f'scarless: this command needs {package}. Install it with pip install "scarless[reproduce]".\n'
    )
    assert not (here / "found").exists()


@pytest.mark.parametrize("jobs", ["0", "-1", "two", "1.5"])
def test_number_of_jobs_is_checked(capsys, jobs):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", f"--jobs={jobs}"])
    assert f"the number of worker processes must be a whole number of at least 1; got '{jobs}'" in plain(
        capsys.readouterr().err
    )


def test_stopping_says_what_is_stored_and_how_to_continue(spec, here, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(RUN, interrupted)
    assert main(["compare", spec, "--out", "found"]) == 130
    error = plain(capsys.readouterr().err)
    assert "Stopped. All finished runs are stored in found. Repeat the command to continue" in error
    assert "or use `scarless report found` to write a page of the finished runs." in error


def test_a_killed_worker_is_reported_without_a_traceback(spec, here, capsys, monkeypatch):
    def killed(*_, **__):
        raise RuntimeError("A worker process was killed, perhaps because memory ran out.")

    monkeypatch.setattr(RUN, killed)
    assert main(["compare", spec, "--out", "found"]) == 1
    assert "scarless: A worker process was killed" in capsys.readouterr().err


def test_failed_runs_are_reported_and_do_not_stop_other_runs(spec, here, capsys, monkeypatch):
    def fails(_):
        raise ValueError("the sky fell")

    monkeypatch.setitem(METHODS, "naive", fails)
    assert main(["compare", spec, "--quick", "--out", "found", "--jobs", "1"]) == 0
    assert "simulated/all/2/0/0/naive: ValueError: the sky fell" in plain(capsys.readouterr().err)
    page = (here / "found" / "report.html").read_text()
    assert "1 finished of 2, 1 failed" in page
    assert "ValueError: the sky fell" in page


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert re.fullmatch(r"scarless \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_without_a_command_the_usage_is_printed(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "usage: scarless" in capsys.readouterr().err


def test_bars_show_the_share_and_the_time_left(monkeypatch, capsys):
    with cli.screen.Bars() as bars:
        bars.start("preparing", 0)
        bars.start("running", 4.0)
        for _ in range(3):
            bars.advance(1.0, "adult, sar-em")
        (task,) = bars.bars.tasks
        assert (task.description, task.percentage) == ("running", 75)
        assert task.fields["left"].endswith(" left")
        bars.advance(1.0, "adult, sar-em")
        assert task.finished
    assert "running" in capsys.readouterr().err


def test_the_manifest_contains_the_requested_specification(spec, here):
    main(["compare", spec, "--quick", "--out", "found", "--jobs", "1"])
    found = json.loads((here / "found" / "spec.json").read_text())
    assert (found["name"], found["spec"]["datasets"]) == ("tiny", ["simulated"])


@pytest.mark.parametrize("command", [["report", "found"], ["compare", "SPEC", "--quick", "--out", "found"]])
def test_stopping_while_the_page_is_written(spec, here, capsys, monkeypatch, command):
    command = [spec if word == "SPEC" else word for word in command]
    assert main(["compare", spec, "--quick", "--out", "found", "--jobs", "1"]) == 0
    (here / "found" / "report.html").unlink()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("scarless.report.page.render_page", interrupted)
        assert main(command) == 130
    error = plain(capsys.readouterr().err)
    assert "Stopped while the page was being written. All results are stored in found. Use `scarless report" in error
    assert not [path for path in (here / "found").iterdir() if path.suffix == ".part"]
    assert main(["report", "found"]) == 0
    assert (here / "found" / "report.html").exists()


def test_stopping_before_anything_is_done(spec, here, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("scarless.experiments.read_spec", interrupted)
    assert main(["compare", spec]) == 130
    assert capsys.readouterr().err.strip() == "Stopped."


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("spec.json", "{}", r"scarless: found/spec\.json is damaged: it must have the name, the digest"),
        ("spec.json", '{"name": "a", "digest": "b", "spec": {}}', r"scarless: found/spec\.json lacks C, .*title"),
        ("records.jsonl", "[1]\n", r"scarless: Line 1 of found/records\.jsonl is damaged"),
        ("timings.jsonl", "[1]\n", r"scarless: Line 1 of found/timings\.jsonl is damaged"),
    ],
)
def test_damaged_files_give_one_message(spec, here, capsys, file, content, message):
    assert main(["compare", spec, "--quick", "--out", "found", "--jobs", "1"]) == 0
    (here / "found" / file).write_text(content)
    capsys.readouterr()
    assert main(["report", "found"]) == 1
    assert re.match(message, capsys.readouterr().err)


def test_the_error_about_a_full_disk_names_the_file(spec, here, capsys, monkeypatch):
    assert main(["compare", spec, "--quick", "--out", "found", "--jobs", "1"]) == 0
    capsys.readouterr()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert main(["report", "found"]) == 1
    assert capsys.readouterr().err == "scarless: found/results.csv: No space left on device\n"
