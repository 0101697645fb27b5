"""Networks on rows whose labels are biased. Needs ``pip install "scarless[torch]"``.

Without a choice: scikit-learn's digits. Images are never downloaded; tables of `scarless` are, where they are missing.
"""

import argparse
import warnings


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nets", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--images", default="digits", help="digits, mnist, fashion-mnist or cifar10")
    what.add_argument("--text", action="store_true", help="20 Newsgroups by an embedding-bag network")
    what.add_argument("--tables", action="store_true", help="beside logistic models and LightGBM")
    what.add_argument("--overhead", action="store_true", help="what a training step costs beside a supervised one")
    parser.add_argument("--folder", help="where the files of images or posts are")
    parser.add_argument("--dense", action="store_true", help="a hidden layer in the place of convolutions: quicker")
    parser.add_argument("--rows", type=int, default=0, help="training rows; 0 takes all")
    parser.add_argument("--labels", nargs="+", help="only these mechanisms")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--means", type=int, default=5, help="networks of nnPU and known e whose mean is shown too")
    parser.add_argument("--repeats", type=int, default=30, help="epochs of --overhead")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    seeds = range(given.first, given.first + given.seeds)
    if given.overhead:
        from benchmarks.nets import overhead

        overhead.run(given.repeats, given.device)
    elif given.tables:
        from benchmarks.nets import tables

        tables.run(seeds)
    elif given.text:
        from benchmarks.nets import text

        kinds = tuple(given.labels or text.KINDS)
        text.run(
            folder=given.folder, seeds=seeds, rows=given.rows, kinds=kinds, device=given.device, n_mean=given.means
        )
    else:
        from benchmarks.nets import images

        kinds = tuple(given.labels or images.KINDS)
        make = images.dense if given.dense else images.convolutions
        options = {"make": make, "rows": given.rows, "device": given.device, "kinds": kinds, "n_mean": given.means}
        images.run(given.images, folder=given.folder or ".", seeds=seeds, **options)


if __name__ == "__main__":
    main()
