"""`elman train tag`: learn a tag for each token of a sentence."""

from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.train_options import FileOptions, Out, RunOptions, invocation


def tag(
    *,
    out: Out,
    files: FileOptions | None = None,
    format_: Annotated[
        Literal["conll", "conllu"] | None,
        Parameter(name="--format", help="How the files are read. [default: as they are called]"),
    ] = None,
    token_column: Annotated[
        str | None, Parameter(help="Column of the tokens: FORM, or a number from 1.")
    ] = None,
    tag_column: Annotated[
        str | None,
        Parameter(
            name="--column",
            help="Column of the tags: UPOS, XPOS, …, or a number; -1 is the last.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    head: Annotated[
        Literal["softmax", "crf"] | None,
        Parameter(help="Tags by themselves, or in a chain. [default: crf for spans]"),
    ] = None,
    options: RunOptions | None = None,
) -> int:
    """Train a tagger: a tag for each token of sentences in CoNLL or CoNLL-U.

    Tags that tell spans (BIO, IOB1, BIOES) are learnt as BIOES and come back as they were. Beside
    its figures stand those of each word's most frequent tag, on the same sentences.
    """
    asked = invocation(
        out,
        files,
        options,
        {
            "data.format": format_,
            "data.token_column": token_column,
            "data.tag_column": tag_column,
            "model.head": head,
        },
    )
    from elman.apps.cli.tag_view import TagView
    from elman.apps.cli.training_run import run_training

    return run_training(TagView(), asked)
