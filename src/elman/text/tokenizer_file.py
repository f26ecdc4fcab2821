"""A tokenizer from the text of a `tokenizer.json`, checked to the last key."""

import json
from collections.abc import Iterable
from typing import Any

from elman.config.fields import check_value, setting_facts
from elman.config.text_settings import TextSettings
from elman.errors import ElmanError, RunError
from elman.text.byte_values import ByteTokenizer, byte_vocabulary
from elman.text.characters import CharacterTokenizer
from elman.text.encodings import holds_surrogate
from elman.text.tokenizer import FILE_SCHEMA, NOT_OF_TOKENIZER, Tokenizer
from elman.text.vocabulary import Vocabulary, specials_for
from elman.text.words import WordTokenizer


def tokenizer_from_json(text: str) -> Tokenizer:
    """Return the tokenizer that `Tokenizer.to_json` wrote.

    The file is accepted only where writing the tokenizer again gives the same content, so that
    nothing in it can be altered unnoticed. Raises `RunError` for everything else: no JSON, a
    missing part, ids with gaps, a symbol twice, a newer schema, a file of another program.
    """
    try:
        whole = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise _refusal("it is not valid JSON", str(error)) from None
    model = _part(whole, "model", dict)
    elman = model.get("elman")
    if not isinstance(elman, dict):
        raise RunError(
            "tokenizer.json was not written by Elman", hint="give a tokenizer.json of a run"
        )
    schema = elman.get("schema")
    if schema != FILE_SCHEMA:
        raise _refusal(
            f"its schema is {schema!r}, and this version of Elman reads {FILE_SCHEMA}",
            "a file of another version",
        )
    try:
        tokenizer = _rebuilt(model, elman)
    except RunError:
        raise
    except ElmanError as error:
        raise _refusal("its content does not fit together", str(error)) from None
    written = json.loads(tokenizer.to_json())
    if _exact(written) != _exact(whole):
        raise _refusal("it was altered", f"a difference in {_difference(written, whole)}")
    return tokenizer


def _rebuilt(model: dict[str, Any], elman: dict[str, Any]) -> Tokenizer:
    settings = _settings(_part(elman, "settings", dict))
    symbols = _symbols(_part(model, "vocab", dict))
    notices = tuple(_texts(_part(elman, "notices", list)))
    vocabulary = Vocabulary(symbols, tuple(_texts(_part(elman, "specials", list))))
    if vocabulary.specials != specials_for(settings):
        raise _refusal("its specials are not those of its settings", repr(vocabulary.specials))
    match settings.level:
        case "char":
            if any(len(symbol) != 1 for symbol in symbols[len(vocabulary.specials) :]):
                raise _refusal("a symbol is more than one character")
            return CharacterTokenizer(vocabulary, settings, notices=notices)
        case "byte":
            if vocabulary != byte_vocabulary(settings):
                raise _refusal("its symbols are not the bytes in order")
            return ByteTokenizer(vocabulary, settings, notices=notices)
        case "word":
            return WordTokenizer(vocabulary, settings, notices=notices)
        case "bpe":
            from elman.text.subwords import subword_tokenizer

            merges = tuple(_pair(pair) for pair in _part(model, "merges", list))
            return subword_tokenizer(vocabulary, settings, merges, notices=notices)


def _settings(values: dict[str, Any]) -> TextSettings:
    facts = {fact.name: fact for fact in setting_facts() if fact.section == "text"}
    for name in NOT_OF_TOKENIZER:
        facts.pop(name)
    if values.keys() != facts.keys():
        odd = sorted(values.keys() ^ facts.keys())
        raise _refusal("its settings are not those of this version", ", ".join(odd))
    checked: dict[str, Any] = {name: check_value(facts[name], values[name]) for name in facts}
    return TextSettings(**checked)


def _symbols(ids: dict[str, Any]) -> tuple[str, ...]:
    if any(type(number) is not int for number in ids.values()):
        raise _refusal("an id is not an integer")
    if sorted(ids.values()) != list(range(len(ids))):
        raise _refusal(f"the ids are not 0 to {len(ids) - 1}, each once")
    symbols = tuple(sorted(ids, key=ids.__getitem__))
    for symbol in symbols:
        if not symbol or holds_surrogate(symbol):
            raise _refusal("a symbol is no text", ascii(symbol))
    return symbols


def _pair(pair: object) -> tuple[str, str]:
    if isinstance(pair, list) and len(pair) == 2:
        left, right = _texts(pair)
        return left, right
    raise _refusal("a merge is not a pair of symbols", repr(pair))


def _texts(values: Iterable[object]) -> list[str]:
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(list(values)):
        raise _refusal("a number stands where a text must be")
    return texts


def _part(whole: object, key: str, kind: type) -> Any:
    part = whole.get(key) if isinstance(whole, dict) else None
    if not isinstance(part, kind):
        raise _refusal(f"its part {key!r} is missing or of the wrong kind")
    return part


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _exact(part: object) -> str:
    """Return a spelling of JSON in which 1, 1.0 and true differ."""
    return json.dumps(part, sort_keys=True)


def _difference(written: dict[str, Any], found: dict[str, Any]) -> str:
    keys = [k for k in {**written, **found} if _exact(written.get(k)) != _exact(found.get(k))]
    if keys == ["model"]:
        return f"model: {_difference(written['model'], found['model'])}"
    return ", ".join(keys) or "a key that should not be there"


def _refusal(what: str, got: str = "") -> RunError:
    return RunError(
        f"tokenizer.json cannot be used: {what}",
        got=got,
        hint="restore the file that the run was saved with",
    )
