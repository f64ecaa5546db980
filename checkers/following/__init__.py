"""Judge a run while it goes on, segment by segment, with a state that does not grow with time.

    suspects      what a suspect is, and maps with a bounded size
    columns       the rows that following looks at, a column at a time
    intervals     a compact set of sequence numbers with a bounded size
    logs          what is kept of the log of a partition
    readers       what is kept of consumers: their positions
    producers     what is kept of producers: the sequences that were read
    state         what is kept of the history from segment to segment, and the suspects it shows
    singly        the rows that need a look at each of them
    transactions  what is kept of transactions
    groups        what is kept of groups
    copies        what is kept of the copies that groups make
    keys          what is kept of the keys of compacted topics, and of passes over them
    recent_rows   rows of numbers with a bounded size
    outputs       what is kept of a tested program's output
    memory        what is kept of the cluster's rows and of faults
    evidence      which rows concern a suspect, and which detectors judge it
    follow        from segments to the first alarm: detectors and contract judge the suspects

An alarm is an anomaly that the contract forbids, whatever rows may still come. It may come late or
not at all. The final verdict is left to the check of the whole run after its end.
"""
