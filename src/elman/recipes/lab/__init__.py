"""claims → experiments → verdicts: what is said of recurrent networks, measured and checked."""
