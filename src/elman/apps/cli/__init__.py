"""person → recipes, through a terminal: one verb a job, one file a verb."""
