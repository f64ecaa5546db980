----------------------------- MODULE QuorumModel -----------------------------
(***************************************************************************)
(* All short behaviours of Quorum that begin where a mistake would show: a   *)
(* leader has committed one record with one follower, and appended another;  *)
(* the third voter knows no more than the epoch.                             *)
(***************************************************************************)
EXTENDS Quorum

CONSTANT Depth   \* the number of steps

ModelInit ==
  /\ nodes = <<[role |-> "leader", epoch |-> 1, vote |-> 1, leader |-> 1,
                log |-> <<<<1, 2>>>>, flushed |-> 2, hw |-> 1],
               [role |-> "follower", epoch |-> 1, vote |-> 1, leader |-> 1,
                log |-> <<<<1, 1>>>>, flushed |-> 1, hw |-> 1],
               [Unborn EXCEPT !.role = "unattached", !.epoch = 1]>>
  /\ candidates = {[epoch |-> 1, node |-> 1, last |-> 0, end |-> 0]}
  /\ votes = {<<1, 1, 1>>, <<1, 2, 1>>}
  /\ leaders = (1 :> [node |-> 1, start |-> 0, log |-> <<<<1, 2>>>>, hw |-> 1])
  /\ fetched = (<<1, 2>> :> 1)
  /\ committed = <<<<1, 1>>>>

ModelSpec == ModelInit /\ [][Next]_vars

Near == TLCGet("level") <= Depth
=============================================================================
