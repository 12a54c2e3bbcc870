"""Processes between a group and a stream processor: the listener writes a journal, the feeder empties a spool."""
