"""`elman generate --beam`: the best continuations in place of drawn ones."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole, naming_options, require_at_least
from elman.apps.cli.output import print_json, say
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.generating import WriteRequest
    from elman.recipes.trained import TrainedModel


@Parameter(name="*")
@dataclass(frozen=True)
class BeamOptions:
    """The best continuations by beam search, in place of drawn ones."""

    beam: Annotated[
        Whole, Parameter(help="Search for the best text, following so many at once; 0: draw.")
    ] = 0
    n_best: Annotated[Whole, Parameter(help="Texts that --beam writes, at most --beam.")] = 1
    normalisation: Annotated[
        Literal["none", "average", "gnmt"],
        Parameter(help="How --beam divides scores by the lengths of texts."),
    ] = "none"
    min_length: Annotated[
        Whole, Parameter(help="Tokens that --beam writes before a stop mark at least.")
    ] = 0


def require_beam(options: BeamOptions, *, draws: bool) -> None:
    """Refuse what a beam would leave without effect, and its options without it.

    `draws`: an option of drawing was given. Raises `SettingError`.
    """
    require_at_least("--beam", options.beam, 0)
    if not options.beam and options != BeamOptions():
        raise SettingError(
            "--n-best, --normalisation and --min-length need a beam",
            got="none of them with --beam",
            hint="add --beam 5",
        )
    if options.beam and draws:
        raise SettingError(
            "--beam draws nothing",
            got="--beam with an option of drawing, several samples or --state",
            hint="leave out --temperature, --top-k, --top-p, --min-p, --seed, --num-samples and "
            "--state",
        )


def write_best(
    trained: "TrainedModel", request: "WriteRequest", options: BeamOptions, *, as_json: bool
) -> None:
    """Print the best continuations, one after the other, or all with their scores as JSON."""
    from elman.decoding.beam import BeamSettings
    from elman.recipes.following import FollowRequest, follow

    with naming_options("beam", "n_best", "min_length", "max_tokens"):
        settings = BeamSettings(options.beam, options.n_best, options.normalisation)
        found = follow(trained, FollowRequest(request, settings, options.min_length))
    if as_json:
        texts = [asdict(one) for one in found]
        print_json({"prompt": request.prompt, "score": settings.score_name, "texts": texts})
        return
    for number, one in enumerate(found, 1):
        if len(found) > 1 and trained.settings.text.unit == "stream":
            print(f"--- {number} ---", flush=True)
        print(one.text)
    if not found:
        say("note: nothing can follow")
