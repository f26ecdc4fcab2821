"""The page of a run in a real browser: its numbers are those of the JSON, and keys step through."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
TEXT = "the cat sat"
KINDS = ("elman", "gru", "gru/before/replace", "lstm")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def runs(elman: Elman, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    text = folder / "text.txt"
    text.write_text("the cat sat on the mat and the dog sat on the log\n" * 30, encoding="utf-8")
    found = {}
    for name in KINDS:
        kind, *conventions = name.split("/")
        options = [f"--set=model.kind={kind}", "--set=model.hidden_size=8"]
        options += ["--set=training.updates=3", "--set=model.num_layers=2"]
        if conventions:
            reset, update = conventions
            options += [f"--set=model.reset={reset}", f"--set=model.update={update}"]
        run = folder / name.replace("/", "-")
        done = elman("train", "lm", "--data", text, "--out", run, *options)
        assert done.returncode == 0, done.stderr
        found[name] = run
    return found


def written(elman: Elman, run: Path, folder: Path, *options: str) -> tuple[Path, dict[str, Any]]:
    path = folder / "page.html"
    units = [f"--unit={unit}" for unit in range(1, 9)]
    done = elman("inspect", run, TEXT, "--html", path, "--json", *units, *options)
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


def opened(browser: Any, path: Path) -> tuple[Any, list[str]]:
    page, problems = browser.new_page(viewport={"width": 1100, "height": 900}), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.on(
        "request", lambda one: None if one.url.startswith("file:") else problems.append(one.url)
    )
    page.goto(path.as_uri())
    return page, problems


def shown(page: Any) -> dict[str, float]:
    rows = page.locator("#arithmetic tr").all()
    return {
        row.get_attribute("data-name"): float(row.locator("td").last.inner_text().replace("−", "-"))
        for row in rows
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_the_json(
    browser: Any, elman: Elman, runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path, told = written(elman, runs[kind], tmp_path)
    page, problems = opened(browser, path)
    page.select_option("#layer", "1")  # the last one, which the JSON has
    for _ in range(4):
        page.click("#forward")
    page.fill("#unit", "3")
    page.locator("#unit").dispatch_event("change")
    unit = told["trace"]["steps"][4]["units"][2]
    assert unit["unit"] == 3
    wanted = unit["gates"] | unit["after"]
    assert shown(page) == pytest.approx(wanted, abs=5.1e-5)
    step = told["trace"]["steps"][4]
    assert f"rank {step['next']['rank']}, {step['next']['surprisal_bits']:.2f} bits" in (
        page.inner_text("#where")
    )
    first = page.locator("#choices tbody tr").first.inner_text()
    assert f"{step['top'][0]['probability']:.4f}" in first
    assert not problems
    page.close()


def test_keys_step_through_text_and_units_and_space_plays(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path, _ = written(elman, runs["lstm"], tmp_path)
    page, problems = opened(browser, path)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#where").startswith("step 2 of 11: reads “h”, layer 1, unit 3")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#where").startswith("step 1 of 11: reads “t”, layer 1, unit 2")
    page.keyboard.press(" ")
    page.wait_for_function("document.getElementById('where').textContent.startsWith('step 3')")
    assert page.inner_text("#play") == "⏸ pause"
    page.keyboard.press(" ")
    assert page.inner_text("#play") == "▶ play"
    page.locator("#strip button").nth(7).click()
    assert page.inner_text("#where").startswith("step 8 of 11")
    assert not problems
    page.close()


def test_the_worked_step_is_the_first_example(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path, _ = written(elman, runs["gru"], tmp_path)
    page, _ = opened(browser, path)
    page.select_option("#example", index=0)
    assert shown(page) == pytest.approx(
        {"forget": 0.8, "input": 0.3, "candidate": 0.4, "c": 0.52, "output": 0.6, "h": 0.2866},
        abs=5e-5,
    )
    assert "0.8000 · 0.5000 + 0.3000 · 0.4000" in page.inner_text("#arithmetic")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_in_light_and_in_dark(
    browser: Any, elman: Elman, runs: dict[str, Path], scheme: str, tmp_path: Path
) -> None:
    path, _ = written(elman, runs["lstm"], tmp_path)
    page = browser.new_page(color_scheme=scheme)
    page.goto(path.as_uri())
    told = page.evaluate(
        "() => ['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"
    )
    ink, ground = (
        sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) / 3
        for colour in told
    )
    assert abs(ink - ground) > 150
    assert (ground > ink) == (scheme == "light")
    assert len(page.screenshot()) > 10_000
    page.close()


def test_a_long_text_says_what_each_panel_covers_and_is_shown_in_parts(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path, text = tmp_path / "page.html", tmp_path / "long.txt"
    text.write_text("the dog sat on the mat and the cat sat on the log\n" * 6, encoding="utf-8")
    done = elman("inspect", runs["elman"], "--file", text, "--html", path)
    assert done.returncode == 0, done.stderr
    page, problems = opened(browser, path)
    assert page.inner_text("#facts").endswith("all 300 tokens shown")
    assert "Over tokens 100 to 299 of 300" in page.inner_text("#chart-reach")
    assert "Over all 300 tokens" in page.inner_text("#gates-told")
    assert "preactivation is the sum" in page.inner_text("#gates-told")
    assert "Of a gate" not in page.inner_text("#gates-told")
    assert page.locator("section.chart").count() == 3
    # The part that is shown follows the player, and goes where it is sent.
    assert page.inner_text("#part-told") == "tokens 1 to 120 of 300"
    page.locator("#strip button").nth(200).click()
    first = int(page.inner_text("#part-told").split()[1])
    assert first <= 201 < first + 120
    page.select_option("#width", "40")
    assert page.locator("#maps canvas").first.get_attribute("width") == "40"
    assert page.locator("#maps .tokens").first.locator("span").count() == 40
    page.fill("#from", "7")
    assert page.inner_text("#part-told") == "tokens 8 to 47 of 300"
    assert page.inner_text("#maps .key >> nth=0").startswith("blue: −")
    assert not problems
    page.close()


def test_curves_fall_off_the_axis_and_run_along_no_floor(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path, _ = written(elman, runs["elman"], tmp_path)
    whole = path.read_text(encoding="utf-8")
    opening, end = '<script type="application/json" id="data">', "</script>"
    before, rest = whole.split(opening)
    data, after = rest.split(end, 1)
    told = json.loads(data)
    told["charts"][0]["curves"][0] |= {
        "xs": list(range(30)),
        "ys": [10.0**-back for back in range(29)] + [0.0],
    }
    path.write_text(before + opening + json.dumps(told) + end + after, encoding="utf-8")
    page, problems = opened(browser, path)
    curve = page.locator("#chart-reach .curve.first").first
    assert curve.get_attribute("clip-path") == "url(#clip-reach)"
    heights = [float(part.split(",")[1]) for part in curve.get_attribute("d")[1:].split("L")]
    assert heights == sorted(set(heights))
    assert len(heights) == 29
    assert heights[-1] > 214.0  # below the axis, where nothing is drawn
    assert "Curves end where they fall below 1e-16" in page.inner_text("#chart-reach")
    assert not problems
    page.close()


def test_tokens_that_may_come_next_are_all_written_alike(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path, _ = written(elman, runs["gru"], tmp_path, "--top", "1")
    page, _ = opened(browser, path)
    for _ in range(len(TEXT) - 1):
        tokens = page.locator("#choices tbody tr td:first-child").all_inner_texts()
        plain = [token for token in tokens if not token.startswith("[ ")]
        assert plain, tokens
        assert all(token[0] == token[-1] == "'" for token in plain), tokens
        page.keyboard.press("ArrowRight")
    page.close()


@pytest.mark.parametrize("kind", ["gru/before/replace", "lstm"])
def test_nothing_stands_out_of_a_narrow_window(
    browser: Any, elman: Elman, runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path, _ = written(elman, runs[kind], tmp_path)
    page, _ = opened(browser, path)
    page.set_viewport_size({"width": 500, "height": 800})
    out = page.evaluate(
        """() => [...document.querySelectorAll("section")].filter((card) =>
          [...card.querySelectorAll(".wide, .controls, .map, svg")].some((part) =>
            part.getBoundingClientRect().right > card.getBoundingClientRect().right)).length"""
    )
    assert out == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") == 500
    page.close()


def test_a_text_cannot_end_the_script(
    browser: Any, elman: Elman, runs: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    text = "</script><b>the"
    done = elman("inspect", runs["gru"], text, "--unknown", "replace", "--html", path)
    assert done.returncode == 0, done.stderr
    page, problems = opened(browser, path)
    assert page.locator("#strip button").count() == len(text)
    assert not problems
    page.close()
