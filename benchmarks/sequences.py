"""Train and score the models of rows, tags and sequences on public data, in a queue.

    python benchmarks/sequences.py DATA CUT OUT [PATTERN …] [--threads N] [--list]

DATA holds the public files, CUT what benchmarks/prepare.py wrote. Every step whose name begins with
a PATTERN is done, all of them without one; OUT/NAME is the run of a training step, OUT/NAME.json
what a step printed. A step whose JSON is there is not done again, and a training that was stopped
goes on: stop the queue (Ctrl-C, or kill) and begin it again at any time. --threads: those of every
step. --list shows the steps. At the end stand the figures of all steps done so far.
"""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reversal import write_pairs
from run_queue import Step, chosen, queue_arguments, told_by, work_through

SETTINGS = Path(__file__).parent / "settings"
LANGUAGES = ("arm_e", "bul", "dut", "eng_us", "fre", "geo", "hbs_latn", "hun", "jpn_hira", "kor")
LANGUAGES += ("vie_hanoi",)
MEMBERS = (1, 2, 3)
"""Seeds of an ensemble: one run each, scored alone (the first) and together."""

PAIR = MEMBERS[:2]
"""Those of a pair, where there are ten folds."""

FIGURES = (
    ("accuracy", "accuracy", 100.0),
    ("macro F1", "macro_f1", 100.0),
    ("token accuracy", "token_accuracy", 100.0),
    ("exact", "exact_match", 100.0),
    ("BLEU", "bleu", 1.0),
    ("chrF2", "chrf", 1.0),
    ("phone errors", "phone_error_rate", 100.0),
    ("wrong rows", "rows_with_wrong_phone_percent", 1.0),
)


def g2p(cut: Path, out: Path) -> Iterator[Step]:
    """A run alone and an ensemble. Passes are set, not time, so that load changes nothing."""
    for language in LANGUAGES:
        epochs = 6 if language == "eng_us" else 24
        train, dev, test = (
            str(cut / f"g2p.{language}.{part}.tsv") for part in ("train", "dev", "test")
        )
        names = [f"g2p-{language}-{seed}" for seed in MEMBERS]
        for seed, name in zip(MEMBERS, names, strict=True):
            files = ("--data", train, "--test", test)
            how = ("--config", str(SETTINGS / "g2p.toml"), "--seed", str(seed))
            passes = f"--set=training.epochs={epochs}"
            yield Step(name, ("translate", *files, *how, passes), trains=True)
        others = tuple(part for name in names[1:] for part in ("--ensemble", str(out / name)))
        # The likeliest answer as a whole: an average over its phones favours longer ones.
        searched = ("--phones", "--beam", "5", "--normalisation", "none")
        for part, path in (("dev", dev), ("test", test)):
            first = (str(out / names[0]), path, *searched)
            yield Step(f"g2p-{language}-one-{part}", first)
            yield Step(f"g2p-{language}-all-{part}", (*first, *others))


def tatoeba(cut: Path, out: Path) -> Iterator[Step]:
    """English to French, twenty minutes for each way to meet, the rest of the settings alike."""
    train, dev, test = (str(cut / f"tatoeba.{part}.tsv") for part in ("train", "valid", "test"))
    for attention, context in (("none", "both"), ("dot", "output"), ("additive", "output")):
        name = f"tatoeba-{attention}"
        files = ("--data", train, "--valid", dev, "--test", test, "--budget", "20m")
        how = ("--config", str(SETTINGS / "tatoeba.toml"), f"--set=model.attention={attention}")
        how += (f"--set=model.context={context}",)
        if attention == "dot":  # needs readers that are together as wide as the decoder
            how += ("--set=model.encoder_size=160",)
        yield Step(name, ("translate", *files, *how), trains=True)
        yield Step(f"{name}-test", (str(out / name), test, "--beam", "5"))


def reversal(data: Path, cut: Path, out: Path) -> Iterator[Step]:
    """Names without their noise, backwards, with attention and through one fixed vector."""
    pairs = cut / "reversal.tsv"
    if not pairs.exists():
        write_pairs(str(data / "names-makemore" / "names.txt"), str(pairs))
    files = ("--data", str(pairs), "--test", str(pairs.with_suffix(".test.tsv")))
    how = ("--config", str(SETTINGS / "reversal.toml"))
    yield Step("reversal", ("translate", *files, *how), trains=True)
    fixed = ("--set=model.attention=none", "--set=model.context=state", "--set=training.epochs=10")
    yield Step("reversal-fixed", ("translate", *files, *how, *fixed), trains=True)


def labels(cut: Path, out: Path) -> Iterator[Step]:
    """Intents, polarity in ten folds, names by language: each with the bag of words beside it."""
    valid = ("--valid", str(cut / "intents.valid.jsonl"))
    yield _labelled(cut, "intents", "intents", *valid)
    for fold in range(10):
        name = f"polarity.{fold}"
        members = [f"{name}-{seed}" for seed in PAIR]
        for seed, member in zip(PAIR, members, strict=True):
            yield _labelled(cut, name, member, "--seed", str(seed))
        others = [part for member in members[1:] for part in ("--ensemble", str(out / member))]
        yield Step(f"{name}-all", (str(out / members[0]), str(cut / f"{name}.test.jsonl"), *others))
    yield _labelled(cut, "languages", "languages")


def _labelled(cut: Path, data: str, name: str, *more: str) -> Step:
    files = ("--data", str(cut / f"{data}.train.jsonl"), "--test", str(cut / f"{data}.test.jsonl"))
    settings = f"{data.split('.')[0]}.toml"
    return Step(
        name, ("classify", *files, "--config", str(SETTINGS / settings), *more), trains=True
    )


def tags(data: Path) -> Iterator[Step]:
    """Parts of speech within thirty minutes; entities with a split of the file by chance."""
    ewt = [str(data / "ud-english-ewt" / f"en_ewt-ud-{part}.conllu") for part in _PARTS]
    files = ("--data", ewt[0], "--valid", ewt[1], "--test", ewt[2])
    yield Step("ewt", ("tag", *files, "--config", str(SETTINGS / "ewt.toml")), trains=True)
    gold = str(data / "ner-wikigold" / "wikigold.conll.txt")
    how = ("--config", str(SETTINGS / "wikigold.toml"))
    yield Step("wikigold", ("tag", "--data", gold, *how), trains=True)


_PARTS = ("train", "dev", "test")


def all_steps(data: Path, cut: Path, out: Path) -> list[Step]:
    return [
        *tags(data),
        *reversal(data, cut, out),
        *tatoeba(cut, out),
        *g2p(cut, out),
        *labels(cut, out),
    ]


def show(steps: list[Step], out: Path) -> None:
    table = Table(box=None)
    for title in ("step", "seconds", "processor", *(title for title, _, _ in FIGURES)):
        table.add_column(title, justify="left" if title == "step" else "right")
    for step in steps:
        told = told_by(step, out)
        if told is not None:
            figures = told.get("scores", {}).get("test", {}) if step.trains else told
            cells = [_cell(figures.get(key), factor) for _, key, factor in FIGURES]
            spent = (f"{told[key]:.0f}" for key in ("seconds", "processor_seconds"))
            table.add_row(step.name, *spent, *cells)
    Console(width=140).print(table)


def _cell(value: object, factor: float) -> str:
    if isinstance(value, dict):
        value = value.get("score")
    return f"{value * factor:.2f}" if isinstance(value, int | float) else ""


def main() -> None:
    args = queue_arguments(__doc__)
    steps = all_steps(args.data, args.cut, args.out)
    work_through(steps, args)
    show(chosen(steps, args.patterns), args.out)


if __name__ == "__main__":
    main()
