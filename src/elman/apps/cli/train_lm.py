"""`elman train lm`: learn a language model from text that is yours."""

from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.train_options import FileOptions, Out, RunOptions, invocation


def lm(
    *,
    out: Out,
    files: FileOptions | None = None,
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None, Parameter(help="What one token is.")
    ] = None,
    unit: Annotated[
        Literal["line", "stream"] | None,
        Parameter(help="line: every line stands alone; stream: one long text."),
    ] = None,
    preset: Annotated[
        Literal["small", "medium", "large"] | None,
        Parameter(help="Sizes and noise by name, beneath a settings file and each --set."),
    ] = None,
    options: RunOptions | None = None,
) -> int:
    """Train a language model: next-token prediction on a text file.

    Progress goes to standard error. Ctrl-C saves and stops with status 130; --resume goes on, to
    the same bits. docs/settings.md lists every setting.
    """
    asked = invocation(out, files, options, {"text.level": level, "text.unit": unit})
    asked = replace(asked, preset=preset or "")
    from elman.apps.cli.language_view import LanguageView
    from elman.apps.cli.training_run import require_alone, run_training, train_request
    from elman.recipes.counting import finished_counts, is_counted

    counted = finished_counts(asked.out) if asked.resume else None
    if counted is not None:
        require_alone(asked)
        from elman.apps.cli.counting_run import tell_finished

        return tell_finished(asked.out, counted, as_json=asked.as_json)
    request = train_request(asked)
    if not asked.resume and is_counted(request):
        from elman.apps.cli.counting_run import run_counting
        from elman.recipes.launching import require_one_process

        require_one_process("counts")
        return run_counting(request, asked)
    return run_training(LanguageView(), asked)
