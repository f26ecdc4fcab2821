"""A trained encoder-decoder at work: answers, their attention, and figures of any pairs."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from elman.checkpoints.run_folder import TARGET, RunFolder
from elman.config.settings import Settings
from elman.config.text_settings import UnknownPolicy
from elman.data.batches import BatchSource
from elman.data.examples import PairBatch
from elman.data.pairs import TextPair
from elman.decoding.in_order import Exchange, decode_in_order
from elman.decoding.search import Hypothesis
from elman.decoding.translation_steps import TranslationSearch, search_answers
from elman.errors import DataError, MissingPackageError, RunError, SettingError
from elman.evaluation.translation import TranslationScores, translation_scores
from elman.evaluation.translation_report import TranslationReport, forced_score, num_in_place
from elman.kernels.dispatch import KernelPlan
from elman.models.encoder_decoder import EncoderDecoder
from elman.processes import Processes
from elman.recipes.pair_preparing import (
    PairPart,
    PreparedPairs,
    encoded_pairs,
    source_text,
    target_ids,
    target_text,
)
from elman.recipes.pairs import PairReader
from elman.recipes.trained import open_members, require_same_text
from elman.recipes.unknown_tokens import UnknownTokens, known_and_unknown
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Answer:
    """What is said to one source: texts, best first, and the hypotheses they come from.

    source_tokens, and target_tokens of the best hypothesis without its stop mark, tell what its
    attention is about; they are empty where a search keeps none.
    """

    texts: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]
    source_tokens: tuple[str, ...] = ()
    target_tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Translator:
    """A model with both of its tokenizers; `growth` bounds answers by the lengths of sources.

    Of several models, an ensemble, the probabilities are averaged.
    """

    settings: Settings
    source: Tokenizer
    target: Tokenizer
    models: tuple[EncoderDecoder, ...]
    plan: KernelPlan
    growth: float
    processes: Processes = field(default_factory=Processes)

    @property
    def attends(self) -> bool:
        """Whether one of the models has attention."""
        return any(model.decoder.attention is not None for model in self.models)

    def answers(
        self,
        texts: Iterable[str],
        search: TranslationSearch,
        *,
        batch_size: int = ROWS_AT_ONCE,
        on_answered: Callable[[int], None] = lambda num_rows: None,
        unknown: UnknownTokens | None = None,
    ) -> Iterator[Answer | None]:
        """Yield the answer to each text in order, None for one without tokens or blank.

        Sources of like length are searched together; neither that nor `batch_size` changes an
        answer. Unknown symbols are read as `text.prompt_unknown` says, and counted in `unknown`.
        """
        policy = self.settings.text.prompt_unknown
        counts = unknown or UnknownTokens()
        read = deque[str]()

        def encoded() -> Iterator[Sequence[int]]:
            for text in texts:
                read.append(text)
                if not text.strip():
                    yield []
                    continue
                ids = self.source.encode(text, policy=policy)
                counts.add(*known_and_unknown(self.source, text, ids, policy))
                yield list(map(int, ids))

        def decode(sources: list[Sequence[int]]) -> list[list[Hypothesis]]:
            return search_answers(
                self.models, sources, target_ids(self.target), search, plan=self.plan
            )

        exchange = Exchange(
            self.processes,
            lambda found: [one.to_json() for one in found],
            lambda told: [Hypothesis.from_json(one) for one in told],
        )
        found = decode_in_order(encoded(), decode, batch_size=batch_size, exchange=exchange)
        for number, hypotheses in enumerate(found, 1):
            text = read.popleft()
            yield None if hypotheses is None else self._answer(text, hypotheses, search)
            on_answered(number)

    def search(
        self, search: TranslationSearch, *, keep_attention: bool = False
    ) -> TranslationSearch:
        """Return `search` with the growth of this run. Raises `SettingError` where it cannot be."""
        if search.keep_unknown and not self.attends:
            raise SettingError(
                "unknown words are copied from where the model attends",
                got='a run with model.attention = "none"',
            )
        return replace(search, growth=self.growth, keep_attention=keep_attention)

    def _answer(self, text: str, hypotheses: list[Hypothesis], search: TranslationSearch) -> Answer:
        if not search.needs_attention:
            return Answer(
                tuple(self.target.decode(one.ids) for one in hypotheses), tuple(hypotheses)
            )
        tokens = tokens_as_spelled(self.source, text, self.settings.text.prompt_unknown)
        texts = tuple(
            self._text(one, tokens) if search.keep_unknown else self.target.decode(one.ids)
            for one in hypotheses
        )
        spelled = tuple(self.target.decode([number]) for number in hypotheses[0].ids)
        return Answer(texts, tuple(hypotheses), tokens, spelled)

    def _text(self, one: Hypothesis, source_tokens: Sequence[str]) -> str:
        """Return the text with each unknown symbol copied from where its step attended most."""
        pieces = self.pieces(one, source_tokens)
        return self.target.token_separator.decode().join(pieces)

    def pieces(self, one: Hypothesis, source_tokens: Sequence[str]) -> list[str]:
        """Return what each id of an answer is written as, unknown ones copied."""
        unk_id = self.target.vocabulary.unk_id
        return [
            source_tokens[int(np.argmax(one.weights_TS[step]))]
            if number == unk_id and one.weights_TS is not None
            else self.target.decode([number])
            for step, number in enumerate(one.ids)
        ]

    def with_copies_right(self, one: Hypothesis, pair: TextPair) -> tuple[str, list[int]]:
        """Return the text of an answer that copies, and its ids: −1 where a copy is not right.

        A copied symbol is right where the reference has the very same in its place.
        """
        text = self.settings.text
        sources = tokens_as_spelled(self.source, pair.source, text.prompt_unknown)
        wanted = tokens_as_spelled(self.target, pair.target, "replace")
        unk_id, ids = self.target.vocabulary.unk_id, []
        pieces = zip(one.ids, self.pieces(one, sources), strict=True)
        for step, (number, piece) in enumerate(pieces):
            is_right = step < len(wanted) and piece == wanted[step]
            ids.append(number if number != unk_id or is_right else -1)
        return self._text(one, sources), ids


def tokens_as_spelled(tokenizer: Tokenizer, text: str, policy: UnknownPolicy) -> tuple[str, ...]:
    """Return the tokens of a text as they are spelled in it, unknown ones too."""
    normal = tokenizer.normalise(text)
    _, starts, ends = tokenizer.encode_with_offsets(text, policy=policy)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return tuple(normal[start:stop] for start, stop in spans)


def open_translator(path: str | Path, ensemble: Sequence[str | Path] = ()) -> Translator:
    """Open the run at `path` and load its best weights; those of `ensemble` are averaged with it.

    Raises `RunError` where that cannot be, or where a run does not have the vocabularies of the
    first.
    """
    folders = open_members(path, ensemble, task="translate", otherwise="does not write sequences")
    first = folders[0]
    source, target = run_tokenizers(first)
    models = []
    for folder in folders:
        model = EncoderDecoder(
            folder.settings.model,
            len(source.vocabulary),
            len(target.vocabulary),
            generator(0, "initialisation"),
        )
        folder.load_weights(model)
        models.append(model)
    return Translator(
        first.settings,
        source,
        target,
        tuple(models),
        KernelPlan(first.settings.training.kernels),
        max(map(_growth_of, folders)),
    )


def _growth_of(folder: RunFolder) -> float:
    growth = folder.read_manifest().data.get("growth")
    if not isinstance(growth, float):
        raise RunError(
            f"the manifest of {folder.path} does not tell how long answers may become",
            got=f"growth = {growth!r}",
        )
    return growth


def run_tokenizers(folder: RunFolder) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of sources and targets. Raises `RunError` where they do not belong."""
    text = folder.settings.text
    source = tokenizer_from_json(folder.tokenizer_json)
    target = tokenizer_from_json(folder.vocabularies[TARGET])
    require_same_text(source_text(text), source, folder.path)
    require_same_text(target_text(text), target, folder.path)
    return source, target


def report_of(
    translator: Translator,
    part: PairPart,
    batches: BatchSource[PairBatch],
    search: TranslationSearch,
    *,
    word_unit: bool = False,
    batch_size: int = ROWS_AT_ONCE,
    on_scored: Callable[[int], None] = lambda num_rows: None,
) -> TranslationReport:
    """Return the figures of an encoded part: under teacher forcing, and of what is written."""
    models, ids = translator.models, target_ids(translator.target)
    every = (batches.batch(0, index) for index in range(batches.batches_per_epoch(0)))
    forced = forced_score(models, every, boundary_id=ids.boundary_id, plan=translator.plan)

    def decode(sources: list[Sequence[int]]) -> list[Hypothesis]:
        found = search_answers(models, sources, ids, search, plan=translator.plan)
        return [several[0] for several in found]

    sources = (list(map(int, line)) for line in part.sources)
    hypotheses: list[str] = []
    in_place = exact = 0
    exchange = Exchange(translator.processes, Hypothesis.to_json, Hypothesis.from_json)
    found = decode_in_order(sources, decode, batch_size=batch_size, exchange=exchange)
    rows = zip(found, part.targets, part.texts, strict=True)
    for number, (one, reference, pair) in enumerate(rows, 1):
        assert one is not None  # sources without tokens are left out before
        right, answer = list(map(int, reference)), list(one.ids)
        text = translator.target.decode(one.ids)
        if search.keep_unknown:
            text, answer = translator.with_copies_right(one, pair)
        in_place += num_in_place(answer, right)
        exact += answer == right
        hypotheses.append(text)
        on_scored(number)
    # In the normal form that is written too: a letter and its mark apart are still that letter.
    references = [[translator.target.normalise(pair.target)] for pair in part.texts]
    texts = _text_scores(hypotheses, references, phones=word_unit)
    return TranslationReport(forced, part.num_rows, in_place, exact, texts)


def score_pairs(
    translator: Translator,
    names: Sequence[str],
    targets: Sequence[str],
    search: TranslationSearch,
    *,
    encoding: str | None = None,
    source_column: str = "",
    target_column: str = "",
    phones: bool = False,
    batch_size: int = ROWS_AT_ONCE,
    on_scored: Callable[[int], None] = lambda num_rows: None,
) -> tuple[TranslationReport, tuple[str, ...]]:
    """Return the figures on files of pairs, and lines to show: what was left out of them.

    Columns that are not named are those of training.
    """
    settings = translator.settings
    if encoding is not None:
        settings = replace(settings, text=replace(settings.text, encoding=encoding))
    data = replace(
        settings.data,
        source_column=source_column or settings.data.source_column,
        target_column=target_column or settings.data.target_column,
    )
    settings = replace(settings, data=data)
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        reader = PairReader(settings, Path(scratch))
        pairs: list[TextPair] = list(reader.pairs(names, targets))
    part, told = encoded_pairs(pairs, translator.source, translator.target, "test")
    if not part.num_rows:
        raise DataError("there is no pair to score", got=", ".join(names))
    unknown = UnknownTokens()
    for pair, line in zip(part.texts, part.sources, strict=True):
        unknown.add(*known_and_unknown(translator.source, pair.source, line))
    prepared = PreparedPairs(translator.source, translator.target, {"test": part}, ())
    batches = prepared.batches("test", batch_size=batch_size, seed=0, order="stored")
    report = report_of(
        translator,
        part,
        batches,
        search,
        word_unit=phones,
        batch_size=batch_size,
        on_scored=on_scored,
    )
    return report, (*reader.notices, *told, *unknown.notices())


def _text_scores(
    hypotheses: list[str], references: list[list[str]], *, phones: bool
) -> TranslationScores | None:
    """Return the metrics of texts, or None where the packages that measure them are missing."""
    try:
        return translation_scores(hypotheses, references, word_unit="phone" if phones else "word")
    except MissingPackageError:
        return None
