--------------------------- MODULE ReplicationModel ---------------------------
(***************************************************************************)
(* All short behaviours of Replication that begin where a mistake would      *)
(* show: a leader has committed one record with one follower and appended    *)
(* another; the third replica has left the ISR before both. The registered   *)
(* ISR may shrink and grow, and any member or eligible replica may lead.     *)
(***************************************************************************)
EXTENDS Replication

CONSTANT Depth   \* the number of steps

First == [leader |-> 1, epoch |-> 1, pe |-> 1, isr |-> {1, 2}, elr |-> {}, known |-> {},
          replicas |-> {1, 2, 3}, unclean |-> FALSE]
Replica(b, role, log) ==
  [role |-> role, epoch |-> 1, pe |-> 1, maximal |-> {1, 2}, log |-> log, flushed |-> 0, hw |-> 0]

ModelInit ==
  /\ brokers = <<[Replica(1, "leader", <<<<1, 2>>>>) EXCEPT !.hw = 1],
                 Replica(2, "follower", <<<<1, 1>>>>),
                 Replica(3, "follower", <<>>)>>
  /\ registry = (1 :> First)
  /\ proposed = {}
  /\ leaders = (1 :> [node |-> 1, start |-> 0, log |-> <<<<1, 2>>>>, hw |-> 1])
  /\ fetched = (<<1, 2>> :> 1)
  /\ committed = <<<<1, 1>>>>
  /\ lost = {}
  /\ since = 0

(* What a controller might register next. *)
Changed(leader, isr, elr) ==
  LET o == Registered IN
  [o EXCEPT !.pe = o.pe + 1, !.leader = leader, !.isr = isr, !.elr = elr,
            !.epoch = IF leader = o.leader THEN o.epoch ELSE o.epoch + 1,
            !.known = IF Enough(isr, o.replicas) THEN {}
                      ELSE ((o.isr \cup o.elr \cup o.known) \ isr) \ elr]

ModelNext ==
  \/ \E leader \in 0..3, isr \in SUBSET {1, 2, 3} :
       \E elr \in {{}, (Registered.isr \cup Registered.elr) \ isr} :
         Register(Changed(leader, isr, elr))
  \/ \E b \in Brokers :
       \/ \E pe \in DOMAIN registry : Apply(b, pe)
       \/ \E maximal \in SUBSET {1, 2, 3} : Propose(b, maximal)
       \/ Withdraw(b)
       \/ AppendRecords(b, 1)
       \/ \E end \in 0..3 : FetchRecords(b, end) \/ LeaderCommit(b, end) \/ FollowerCommit(b, end)
       \/ Truncate(b)
       \/ \E end \in 0..3 : Flush(b, end)
       \/ Runs(brokers[b]) /\ \E lossy \in BOOLEAN : Stop(b, lossy)
       \/ \E end \in 0..3 : Start(b, end, brokers[b].flushed, Min(brokers[b].hw, end))

ModelSpec == ModelInit /\ [][ModelNext]_vars

Near == TLCGet("level") <= Depth
=============================================================================
