"""Calls every public name and command with unusual arguments; each call must return a valid result or a clear error.

Data: small random tables and files.
Time: about a quarter of an hour for 20,000 calls on 2 cores.

A call is unclear if it returns NaN, a probability outside [0, 1] or an error that was not written for users, if it
warns about arithmetic, or if it does not end. The exit status is 1 if any call is unclear. --only 17 repeats call
number 17 and prints its arguments and its traceback.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from tqdm import tqdm

from benchmarks.fuzz.run import begin, try_call, try_calls
from benchmarks.runner import command_parser

CALLS_PER_CHUNK = 25


def run_all(numbers: range, seed: int, jobs: int) -> tuple[Counter[str], list[tuple[int, object]]]:
    """Make the calls with these numbers; return how many have each verdict, and the unclear calls by number."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # The workers read these variables when they start.
    counts: Counter[str] = Counter()
    unclear = []
    executor = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=begin)
    try:
        chunks = [numbers[i : i + CALLS_PER_CHUNK] for i in range(0, len(numbers), CALLS_PER_CHUNK)]
        futures = [executor.submit(try_calls, seed, chunk) for chunk in chunks]
        with tqdm(total=len(numbers), unit="call", file=sys.stderr) as bar:
            for future in as_completed(futures):
                try:
                    found, bad = future.result()
                except BrokenProcessPool:
                    ahead = [chunk.start for chunk, other in zip(chunks, futures, strict=True) if other.exception()]
                    sys.exit(f"A call killed its process (see above): --only {ahead[0]} or one of the next calls.")
                counts.update(found)
                for number, trial in bad:
                    bar.write(f"--only {number}: {trial.what[:80]} at {trial.where}", file=sys.stderr)
                unclear.extend(bad)
                bar.set_postfix(unclear=counts["unclear"], refresh=False)
                bar.update(sum(found.values()))
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    return counts, sorted(unclear, key=lambda pair: pair[0])


def report(counts: Counter[str], unclear: list, *, width: int = 160) -> None:
    """Print the unclear calls in groups, each with the call that has the fewest unusual arguments."""
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("fine", "clear", "unclear")))
    groups = defaultdict(list)
    for number, trial in unclear:
        groups[trial.group].append((number, trial))
    for (where, what), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(members)} x {what[:width]} at {where}")
        names = Counter(trial.target for _, trial in members)
        print("    " + ", ".join(f"{name} ({count})" if count > 1 else name for name, count in names.items()))
        number, trial = min(members, key=lambda pair: (len(pair[1].arguments), len(pair[1].steps), pair[0]))
        print(f"    --only {number}: {', '.join(trial.arguments)}")
        if message := (trial.text.strip().splitlines() or [""])[-1][:width]:
            print(f"    {message}")


def main(arguments: list[str]) -> int:
    parser = command_parser("fuzz", __doc__)
    parser.add_argument("-n", type=int, default=20_000, help="number of calls (default: 20,000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first call, to continue an earlier run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    parser.add_argument("--only", type=int, help="repeat the call with this number")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    options = parser.parse_args(arguments)
    if options.only is not None:
        trial = try_call(options.seed, options.only)
        print(f"{trial.target}: {trial.verdict}\n{trial.what} {trial.where}\n{trial.text}")
        print("\n".join([*trial.arguments, "steps: " + ", ".join(trial.steps)]))
        return int(trial.verdict == "unclear")
    try:
        counts, unclear = run_all(range(options.first, options.first + options.n), options.seed, options.jobs)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    report(counts, unclear)
    return int(bool(unclear))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
