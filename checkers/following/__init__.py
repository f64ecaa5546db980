"""Judging a run while it goes on, segment by segment, with a state that does not grow with time.

    intervals     a compact set of sequence numbers that may forget
    carried       what is remembered from segment to segment, and what it makes suspicious
    remembered    the same of what the cluster said, and of faults
    follow        from segments to the first alarm: suspects are judged by detectors and contract

An alarm is only what the contract forbids whatever may still be recorded; it may come late or not
at all. Whether all is well, the one check of the whole run says when it is over.
"""
