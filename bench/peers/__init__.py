"""Antiphon compared with other systems, and with the limits of the machine: one driver, one load, one clock.

Every system is a number of member processes, in whatever language is its own. A member is started with the arguments

    RANK PORTS SIZE WARMUP COUNT       (PORTS: one free port for each member, with commas between)

1. It takes its port or joins its group, and prints `ready`.
2. When it reads `go` it sends WARMUP messages, receives everybody's, and prints `ready` again.
3. When it reads `go` it does the same with COUNT messages and prints one line of JSON:

    received    messages of the others
    wrong       how often a message was not the next of its sender
    seconds     from `go` to the last of them
    cpu_s       seconds of processor time of this process in between

4. It keeps serving the others until its input ends, or for LIFE_S at most.

Byte 0 of a message is its number modulo 256, byte 1 the rank of its sender. Programs that get messages one by one
check each; those that get batches check the first and the last of each.

driver.py runs the members once; plan.py finds the right COUNT, repeats and takes the median; must.py holds ratios to
targets; one file for each system tells how it is installed and started.
"""
