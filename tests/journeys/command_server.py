"""A process that has loaded torch and forks a child for each command: seconds less for each.

Each command is still a process of its own: its own arguments, standard streams, state and exit
status, and the same way in as `python -m elman`. Only what loading leaves behind is shared, as it
was before any command ran. What is asked for with another environment is started anew instead.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import elman

COMMAND = Path(elman.__file__).with_name("__main__.py")
STREAMS = 3
LOADED = (
    "torch",
    "torch._dynamo",  # the optimisers of torch load it
    "elman.apps.cli.main",
    *(f"elman.recipes.{name}" for name in ("language_model", "classify", "tag", "translate")),
    *(f"elman.recipes.{name}" for name in ("scoring", "generating", "predicting", "data_check")),
)
"""What no child has to load. Loading starts no thread, so that a child may be forked."""


class CommandServer:
    """Runs commands, one at a time, in children of a process that is kept for them."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self, arguments: Sequence[str], *, stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `elman` with the arguments in the folder of this process, and wait for its end."""
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            told = {"arguments": list(arguments), "folder": str(Path.cwd()), "timeout_s": timeout_s}
            with os.fdopen(reader, "rb") as given:
                streams = [given.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(self._socket, [json.dumps(told).encode() + b"\n"], streams)
            feeding = threading.Thread(target=_feed, args=(writer, stdin.encode()))
            feeding.start()
            answer = self._socket.recv(64)
            feeding.join()
            if not answer:
                raise RuntimeError("the process that runs commands has died")
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"))
        status = int(answer)
        if status == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(list(arguments), timeout_s, texts[0], texts[1])
        return subprocess.CompletedProcess(["elman", *arguments], status, *texts)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()


def _feed(writer: int, data: bytes) -> None:
    """Write standard input and close it; a command may end without reading it."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as file:
        file.write(data)


def serve(asked: socket.socket) -> None:
    """Fork a child for each request; answer with its exit status, −signal where one ended it."""
    for name in LOADED:
        importlib.import_module(name)
    while True:
        told, streams, _, _ = socket.recv_fds(asked, 1 << 20, STREAMS)
        if not told:
            return
        while not told.endswith(b"\n"):
            told += asked.recv(1 << 20)
        child = os.fork()
        if child == 0:
            asked.close()
            _be_the_command(json.loads(told), streams)
        for stream in streams:
            os.close(stream)
        _, ended = os.waitpid(child, 0)
        asked.sendall(str(os.waitstatus_to_exitcode(ended)).encode())


def _be_the_command(told: dict[str, object], streams: Sequence[int]) -> None:
    """Run the command in this process and leave it."""
    from elman.apps.cli.entry import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        if stream >= STREAMS:
            os.close(stream)
    os.chdir(str(told["folder"]))
    signal.setitimer(signal.ITIMER_REAL, float(str(told["timeout_s"])))
    sys.argv = [str(COMMAND), *told["arguments"]]  # type: ignore[misc]
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        mode = "r" if number == 0 else "w"
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    status: object = 1
    try:
        main()
    except SystemExit as leaving:
        status = leaving.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    if isinstance(status, str):
        print(status, file=sys.stderr)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)
