"""Write a model file for the tests of old files: ``python tools/save_model_file.py tests/saved/files``.

Run it once for each schema number, with a version of scarless that writes this number. An existing file is never
overwritten.
"""

import sys
from pathlib import Path

import numpy as np

import scarless
from scarless.saved.files import SCHEMA_NUMBER


def main(folder: Path) -> None:
    path = folder / f"schema-{SCHEMA_NUMBER}-sarem.skops"
    if path.exists():
        sys.exit(f"{path} exists and is not overwritten: later versions must be able to read it.")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0]))
    s = (y & (rng.random(400) < 1 / (1 + np.exp(-1 - X[:, 2])))).astype(int)
    model = scarless.SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    scarless.save(model, path)
    rows = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [-2.0, 0.5, 2.0]])
    print(path, [model.predict_proba(rows)[:, 1].tolist(), model.predict_propensity(rows).tolist()])
    print(model.class_prior_, model.class_prior_interval())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
