"""SARNetClassifier against other ways to train the same network, and what a training step costs.

Data: without an option, scikit-learn's digits; with --images MNIST, Fashion-MNIST or CIFAR-10; with --text posts of 20
Newsgroups; with --tables four small tables. Images and posts are never downloaded: --folder names the folder of their
files. Tables are downloaded once, or read from the folder in SCARLESS_DATA.
Time: about ten minutes for digits; hours for the other images on a processor.
Needs: pip install "scarless[torch]"; --images also needs torchvision, --tables also lightgbm.

Labels are given to positives by several mechanisms. Each table shows the test error, its standard error and maximum,
the AUC, the MSE of the propensities, the error of the class prior, and the share of fits with a warning. The methods
are naive training, nnPU with the true class prior, known propensities, and SARNetClassifier. --overhead compares a
training step with a supervised one of the same network: epochs take turns, and CPU time is measured.
"""

import sys
import warnings

from benchmarks.runner import command_parser


def main(arguments: list[str]) -> None:
    parser = command_parser("networks", __doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--images", default="digits", help="digits, mnist, fashion-mnist or cifar10 (default: digits)")
    what.add_argument("--text", action="store_true", help="posts of 20 Newsgroups as token ids, embedding-bag network")
    what.add_argument("--tables", action="store_true", help="two networks, logistic models and LightGBM on tables")
    what.add_argument("--overhead", action="store_true", help="time of a training step against a supervised one")
    parser.add_argument("--folder", help="folder of the files of images or posts")
    parser.add_argument(
        "--dense", action="store_true", help="one hidden layer instead of convolutions, which is faster"
    )
    parser.add_argument("--rows", type=int, default=0, help="number of training rows; 0 takes all (default)")
    parser.add_argument(
        "--labels",
        nargs="+",
        help="mechanisms: scar, attribute, brightness (posts: length), 'class probability', or, for images, "
        "'class probability, pixels', where the propensity sees every pixel (default: the first four)",
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--device", default="cpu", help="torch device, such as cuda (default: cpu)")
    parser.add_argument(
        "--means", type=int, default=5, help="also show the mean of this many networks of nnPU and known e; 1: do not"
    )
    parser.add_argument("--repeats", type=int, default=30, help="number of epochs for --overhead (default: 30)")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    seeds = range(given.first, given.first + given.seeds)
    if given.overhead:
        from benchmarks.networks import overhead

        overhead.run(given.repeats, given.device)
    elif given.tables:
        from benchmarks.networks import tables

        tables.run(seeds)
    elif given.text:
        from benchmarks.networks import text

        kinds = tuple(given.labels or text.KINDS)
        text.run(
            folder=given.folder, seeds=seeds, rows=given.rows, kinds=kinds, device=given.device, n_mean=given.means
        )
    else:
        from benchmarks.networks import images

        kinds = tuple(given.labels or images.KINDS)
        make = images.dense if given.dense else images.convolutions
        options = {"make": make, "rows": given.rows, "device": given.device, "kinds": kinds, "n_mean": given.means}
        images.run(given.images, folder=given.folder or ".", seeds=seeds, **options)


if __name__ == "__main__":
    main(sys.argv[1:])
