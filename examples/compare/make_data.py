"""Write ``tumours.csv``: the ten mean measurements of scikit-learn's breast cancer data, and the diagnosis as text."""

from pathlib import Path

from sklearn.datasets import load_breast_cancer


def main():
    data = load_breast_cancer(as_frame=True)
    table = data.data.filter(like="mean ")
    table = table.assign(diagnosis=data.target.map({0: "malignant", 1: "benign"}))
    table.to_csv(Path(__file__).with_name("tumours.csv"), index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
