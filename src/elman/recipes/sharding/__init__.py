"""text → ids of a large text: shard by shard, by several processes, and what is done is kept."""
