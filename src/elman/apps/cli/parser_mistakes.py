"""What the parser of options refuses, in one line that names things as a person types them."""

from collections.abc import Sequence
from difflib import get_close_matches

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError

from elman.errors import SettingError, one_line


def told_mistake(error: CycloptsError) -> str:
    """Return a mistake in the options as one line, with the help of the verb that was meant."""
    verb = " ".join(["elman", *(error.command_chain or ())])
    see = f"see {verb} --help"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        return _unknown_command(error, error.unused_tokens[0], verb, see)
    if type(error) is MissingArgumentError and error.argument is not None:
        name = error.keyword or error.argument.name
        if error.keyword is not None:
            return _no_value(name, error.root_input_tokens or (), see)
        if error.argument.index is not None:
            name = name.lstrip("-").upper()
        return str(SettingError(f"{verb} needs {name}", got="none", hint=see))
    what = one_line(str(error).strip().rstrip("."))
    if isinstance(error, UnusedCliTokensError):
        what = f"nothing here takes {' '.join(map(repr, error.unused_tokens or ()))}"
        if "train" in (error.command_chain or ()):
            what += "; files to learn from are named by --data, each setting by a --set of its own"
    return f"{what}{'' if what.endswith('?') else ';'} {see}"


def _unknown_command(error: UnknownCommandError, token: str, verb: str, see: str) -> str:
    commands = [name for name in error.app or () if not name.startswith("-")]
    nearest = get_close_matches(token, commands, n=1)
    return str(
        SettingError(
            f"{verb} has no such {'option' if token.startswith('-') else 'command'}",
            got=token,
            allowed=", ".join(commands),
            hint=f"did you mean {nearest[0]}? {see}" if nearest else see,
        )
    )


def _no_value(option: str, given: Sequence[str], see: str) -> str:
    """Return that `option` has no value; what follows it may have been taken for another one."""
    after = given[given.index(option) + 1 :] if option in given else ()
    got, hint = "none", see
    if after and after[0].startswith("--"):
        got = f"the option {after[0]}"
    elif after and after[0].startswith("-"):
        got = f"{after[0]}, which begins with - and is taken for an option"
        hint = f"a value that begins so is given as {option}={after[0]}; {see}"
    return str(SettingError(f"{option} needs a value", got=got, hint=hint))
