"""The conda recipe agrees with pyproject.toml. It is rendered here, but never built."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # names that differ between the package index and conda-forge


@pytest.fixture(scope="module")
def recipe():
    """Render the recipe as conda-build does: Jinja first, then YAML. An unknown variable is an error."""
    jinja2, yaml = pytest.importorskip("jinja2"), pytest.importorskip("yaml")
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(
        (ROOT / "conda" / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    )
    return yaml.safe_load(template.render(PYTHON="python"))


def as_conda(requirement: str) -> str:
    """Return a requirement of pyproject.toml as conda writes it."""
    name, bound = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(>=[\d.]+)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {bound}"


def test_name_version_and_licence_are_those_of_the_project(recipe):
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license_file"] == PROJECT["license-files"]
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_requirements_are_those_of_the_project(recipe):
    python = f"python {PROJECT['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(as_conda, PROJECT["dependencies"])]
    assert recipe["requirements"]["host"][0] == python


def test_optional_packages_have_the_bounds_of_the_extras(recipe):
    extras = PROJECT["optional-dependencies"]
    wanted = {as_conda(each) for name in ("plot", "tool", "excel") for each in extras[name] if "scarless" not in each}
    assert set(recipe["requirements"]["run_constrained"]) == wanted


def test_one_package_serves_all_systems_and_has_the_command(recipe):
    assert recipe["build"]["noarch"] == "python"
    assert recipe["build"]["entry_points"] == [f"{name} = {call}" for name, call in PROJECT["scripts"].items()]
    assert "--no-deps" in recipe["build"]["script"]
    assert (ROOT / "conda" / "recipe" / recipe["source"]["path"] / "pyproject.toml").is_file()


def test_the_recipe_tests_the_import_and_the_command(recipe):
    assert recipe["test"]["imports"][0] == "scarless"
    assert recipe["test"]["requires"][1] == f"python {PROJECT['requires-python'].removeprefix('>=')}"
    assert {"pip check", "scarless --version"} <= set(recipe["test"]["commands"])


def test_a_requirement_is_written_as_conda_writes_it():
    assert as_conda("numpy>=1.25") == "numpy >=1.25"
    assert as_conda("matplotlib>=3.8") == "matplotlib-base >=3.8"
