-------------------------------- MODULE Logs --------------------------------
(***************************************************************************)
(* Logs as their leader epochs. A log is a sequence of pairs <<epoch, end>>: *)
(* the records from the end of the pair before (or from 0) up to `end` were  *)
(* appended by the leader of `epoch`. One leader appends in one order, so    *)
(* two logs with the same epochs at the same offsets have the same records.  *)
(* Epochs and ends both ascend. Epoch 0 means that there is no record.       *)
(***************************************************************************)
EXTENDS Naturals, Sequences

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

End(log) == IF log = <<>> THEN 0 ELSE log[Len(log)][2]
LastEpoch(log) == IF log = <<>> THEN 0 ELSE log[Len(log)][1]
StartOf(log, i) == IF i = 1 THEN 0 ELSE log[i - 1][2]

(* The part of the log below an offset. *)
Cut(log, offset) ==
  IF offset >= End(log) THEN log
  ELSE LET kept == {i \in DOMAIN log : StartOf(log, i) < offset}
       IN  [i \in kept |-> <<log[i][1], Min(log[i][2], offset)>>]

(* What a node shows of the log once its beginning, up to `start`, was       *)
(* deleted: all epochs that end later.                                       *)
From(log, start) == SelectSeq(log, LAMBDA pair : pair[2] > start)

IsPrefix(a, b) == End(a) <= End(b) /\ Cut(b, End(a)) = a

(* The log with `count` more records of an epoch. *)
Extended(log, atEpoch, count) ==
  IF LastEpoch(log) = atEpoch
  THEN [log EXCEPT ![Len(log)][2] = @ + count]
  ELSE Append(log, <<atEpoch, End(log) + count>>)

(* The largest epoch of the log that is not above the given one, and its     *)
(* end; <<0, 0>> if all its epochs are above.                                *)
EpochEnd(log, atMost) ==
  LET known == {i \in DOMAIN log : log[i][1] <= atMost}
  IN  IF known = {} THEN <<0, 0>>
      ELSE log[CHOOSE i \in known : \A j \in known : j <= i]

(* Whether a leader with log `leads` tells a follower with log `follows` to  *)
(* truncate, by the epoch and the end of the follower's last record.         *)
Diverges(follows, leads) ==
  LET found == EpochEnd(leads, LastEpoch(follows))
  IN  /\ follows # <<>>
      /\ ~(found[1] = LastEpoch(follows) /\ End(follows) <= found[2])

(* Where the follower then truncates (KIP-101, KIP-279): at the smaller of   *)
(* the two ends of the leader's epoch, or, if the follower lacks that epoch, *)
(* at the end of the follower's next lower one. The next fetch goes on.      *)
TruncationPoint(follows, leads) ==
  LET asked == EpochEnd(leads, LastEpoch(follows))
      own == EpochEnd(follows, asked[1])
  IN  IF own[1] = asked[1] THEN Min(own[2], asked[2]) ELSE own[2]

(* Two logs that have one epoch in common are equal up to the records of it  *)
(* that both have.                                                           *)
Matching(a, b) ==
  \A i \in DOMAIN a, j \in DOMAIN b :
    a[i][1] = b[j][1] => LET common == Min(a[i][2], b[j][2])
                         IN  Cut(a, common) = Cut(b, common)
=============================================================================
