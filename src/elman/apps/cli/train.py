"""`elman train`: learn a model from data that is yours; a command for each task."""

from cyclopts import App

from elman.apps.cli.train_classify import classify
from elman.apps.cli.train_ladder import ladder
from elman.apps.cli.train_lm import lm
from elman.apps.cli.train_tag import tag
from elman.apps.cli.train_translate import translate

train = App(name="train", help="Train a model on your own text.")

for _command in (lm, classify, tag, translate, ladder):
    train.command(_command)
