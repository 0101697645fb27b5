"""The benchmark programs: the entry point, the stored records, and the results page."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

entry = pytest.importorskip("benchmarks.__main__", reason="the benchmarks are not part of the distribution")
page = pytest.importorskip("benchmarks.page")
records = pytest.importorskip("benchmarks.records")
runner = pytest.importorskip("benchmarks.runner")

ROOT = Path(__file__).parents[1]


def help_of(name, capsys):
    with pytest.raises(SystemExit) as ended:
        entry.main([name, "--help"])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(set(entry.PROGRAMS) - {"page"}))
def test_the_help_of_every_program_describes_data_and_time(name, capsys):
    text = help_of(name, capsys)
    assert text.startswith(f"usage: python -m benchmarks {name} ")
    assert entry.summary(entry.PROGRAMS[name]) in text
    assert "\nData: " in text
    assert "\nTime: " in text


def test_all_programs_are_listed_with_one_line(capsys):
    assert entry.main([]) == 0
    listed = capsys.readouterr().out
    for name, module in entry.PROGRAMS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.summary(module))}$", listed, re.MULTILINE)
        assert 20 < len(entry.summary(module)) <= 120


def test_an_unknown_program_is_refused(capsys):
    assert entry.main(["nonsense"]) == 2
    assert "Unknown program 'nonsense'. `python -m benchmarks` lists all programs." in capsys.readouterr().err


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        entry.main(["starts", "nonsense"])
    assert ended.value.code == 2
    assert "unknown part 'nonsense'; expected missed or table" in capsys.readouterr().err


def test_every_module_with_a_main_function_is_a_program():
    known = set(entry.PROGRAMS.values()) | {"__main__"}
    for path in (ROOT / "benchmarks").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "benchmarks").with_suffix("").parts)
        if re.search(r"^def main\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert module in known, f"{module} is not in PROGRAMS of benchmarks/__main__.py"


def test_the_page_agrees_with_the_records():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks page"


def test_records_have_their_fields_and_name_no_machine():
    found = records.read()
    assert len(found) > 300
    for record in found:
        assert {"benchmark", "table", "case", "values", "version", "machine", "source"} <= set(record)
        assert record["values"]
        assert not re.search(r"/(home|root|work|tmp|Users)/", records.dumps(record))


def test_a_new_record_replaces_the_old_one_and_keeps_its_goal(tmp_path):
    records.append("speed", "fit", "adult", {"seconds": Decimal("0.290")}, goal="at most 1 s", folder=tmp_path)
    assert records.dumps(records.read(tmp_path)[0]["values"]) == '{"seconds": 0.290}'
    records.append("speed", "fit", "adult", {"seconds": 0.123456}, folder=tmp_path)
    (record,) = records.read(tmp_path)
    assert (record["goal"], record["values"]["seconds"]) == ("at most 1 s", Decimal("0.1235"))
    assert len((tmp_path / "speed.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_a_measured_row_becomes_a_record(tmp_path):
    row = {"part": "fit", "dataset": "adult", "rows": 5000, "shape": [5000, 3], "seeds": [1, 2], "same": True}
    row |= {"seconds": {"ours": 1.23456, "theirs": 123456.7}, "machine": "x86_64"}
    record = records.append_row("speed", row, folder=tmp_path)
    assert (record["table"], record["case"]) == ("fit", "adult, 5,000")
    expected = {"shape": "5,000 x 3", "same": "yes", "seconds ours": 1.235, "seconds theirs": 123500}
    assert record["values"] == expected


def test_a_program_records_what_it_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(records, "RESULTS", tmp_path)

    def measure():
        """Measure something."""
        yield {"part": "fit", "dataset": "adult", "seconds": 2.0}

    runner.run_parts("speed", "Speed.", {"fit": measure}, ["fit", "--record"])
    assert json.loads(capsys.readouterr().out)["seconds"] == 2.0
    (record,) = records.read(tmp_path)
    assert (record["benchmark"], record["case"], record["source"]) == ("speed", "adult", "python -m benchmarks speed")


@pytest.mark.parametrize(
    ("placeholder", "text"),
    [
        ("b.t[one].seconds", "1,234"),
        ("b.t[one].goal", "at most 2"),
        ("lowest b.t[*].ratio", "0.50"),
        ("highest b.t[*].ratio", "1.5"),
        ("table b.t | case: data | ratio", "| data | ratio |\n|---|---|\n| one | 0.50 |\n| two | 1.5 |"),
        ("table b.t | case: data | other/ratio: r | only: one", "| data | r |\n|---|---|\n| one | 7 |"),
        ("table b.t | goal | but: two", "| goal |\n|---|\n| at most 2 |"),
    ],
)
def test_placeholders_are_filled(placeholder, text):
    def record(table, case, **values):
        return {"benchmark": "b", "table": table, "case": case, "values": values}

    first = record("t", "one", seconds=1234, ratio=Decimal("0.50")) | {"goal": "at most 2"}
    results = page.Results([first, record("t", "two", ratio=Decimal("1.5")), record("other", "one", ratio=7)])
    assert results.fill(placeholder) == text


@pytest.mark.parametrize("placeholder", ["b.t[one].x", "b.t[two].x", "b.u[one].x", "nonsense", "lowest b.t[*].x"])
def test_placeholders_without_a_record_are_refused(placeholder):
    results = page.Results([{"benchmark": "b", "table": "t", "case": "one", "values": {"y": 1}}])
    with pytest.raises(LookupError, match=r"^(No |Cannot read)"):
        results.fill(placeholder)


def test_other_files_name_programs_that_exist():
    modules = {module.removesuffix(".__main__") for module in entry.PROGRAMS.values()}
    known = set(entry.PROGRAMS) | modules | {"all", "results", "page_template", "fuzz", "data", "README"}
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]
    for path in [*files, *ROOT.glob("papers/*/README.md"), ROOT / "Makefile"]:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"python -m\s+benchmarks[. ]([a-z_]+)|`benchmarks\.([a-z_]+)|benchmarks/([a-z_]+)", text)
        for name in {each for group in named for each in group if each}:
            assert name in known, f"{path.relative_to(ROOT)} names the benchmark {name!r}, which does not exist"
