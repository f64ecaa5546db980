------------------------------- MODULE Quorum -------------------------------
(***************************************************************************)
(* The metadata quorum: elections with pre-votes (KIP-595, KIP-996),         *)
(* replication by fetching, snapshots (KIP-630), and what a kill or a loss   *)
(* of power leaves of a node.                                                *)
(*                                                                           *)
(* There are no messages. A request or a response carries a fact that stays  *)
(* true: who stood in an epoch, who voted, who leads and with which log, how *)
(* much a follower had flushed. The variables below keep these facts, and an *)
(* action of a node may use any of them. This includes each message that was *)
(* lost, late, doubled or out of order.                                      *)
(*                                                                           *)
(* Not described: changes of the voters (KIP-853), and disks that lose what  *)
(* was flushed. When something happens is not described either: any node may *)
(* stand, resign or lose a round at any time.                                *)
(***************************************************************************)
EXTENDS Logs, FiniteSets, TLC

CONSTANTS Nodes,   \* numbers above 0
          Voters   \* some of the nodes; the others are observers

VARIABLES
  nodes,       \* for each node: what it has in memory and on its disk
  candidates,  \* those who stood: their epoch and node, their log's last epoch and end
  votes,       \* <<epoch, voter, candidate>>
  leaders,     \* for each epoch that was led: the leader, where its records begin, its log
               \* and its high watermark
  fetched,     \* for <<epoch, node>>: the end of the log that its fetches claimed to have flushed
  committed    \* the log that was ever committed
vars == <<nodes, candidates, votes, leaders, fetched, committed>>

Down == {"stopped", "failed"}
(* A failed node may have lost what it had not flushed. *)
Fetching == {"follower", "prospective", "observer"}
Stands == {"unattached", "voted", "follower", "resigned"}

IsMajority(some) == 2 * Cardinality(some) > Cardinality(Voters)

Unborn == [role |-> "stopped", epoch |-> 0, vote |-> 0, leader |-> 0,
           log |-> <<>>, flushed |-> 0, hw |-> 0]

Init ==
  /\ nodes = [n \in Nodes |-> Unborn]
  /\ candidates = {}
  /\ votes = {}
  /\ leaders = <<>>
  /\ fetched = <<>>
  /\ committed = <<>>

(* The role that follows from epoch, vote and leader alone. *)
Resting(n, s) ==
  CASE n \notin Voters -> "observer"
    [] n \in Voters /\ s.leader = n -> "resigned"
    [] n \in Voters /\ s.leader \notin {0, n} -> "follower"
    [] n \in Voters /\ s.leader = 0 /\ s.vote = 0 -> "unattached"
    [] OTHER -> "voted"

Rests(n, s) == [s EXCEPT !.role = Resting(n, s)]

(* A node that fetches claims all of its log once it is flushed, and the     *)
(* leader believes the claim if its own log continues that log.              *)
Claim(n, s) ==
  IF /\ s.role \in Fetching
     /\ s.leader # 0
     /\ s.flushed = End(s.log)
     /\ IsPrefix(s.log, leaders[s.epoch].log)
  THEN (<<s.epoch, n>> :> End(s.log)) @@ fetched
  ELSE fetched

Claimed(e, n) == IF <<e, n>> \in DOMAIN fetched THEN fetched[<<e, n>>] ELSE 0

Becomes(n, s) ==
  /\ nodes' = [nodes EXCEPT ![n] = s]
  /\ fetched' = Claim(n, s)

-----------------------------------------------------------------------------
(* Elections *)

(* Learn of a newer epoch, and of its leader `l` if there is one (else 0). *)
LearnEpoch(n, e, l) ==
  LET s == nodes[n] IN
  /\ s.role \notin Down
  /\ e > s.epoch
  /\ \E c \in candidates : c.epoch = e
  /\ l # 0 => e \in DOMAIN leaders /\ leaders[e].node = l
  /\ Becomes(n, Rests(n, [s EXCEPT !.epoch = e, !.vote = 0, !.leader = l]))
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

LearnLeader(n) ==
  LET s == nodes[n] IN
  /\ s.role \notin Down
  /\ s.leader = 0
  /\ s.epoch \in DOMAIN leaders
  /\ Becomes(n, Rests(n, [s EXCEPT !.leader = leaders[s.epoch].node]))
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

IsAtLeast(c, log) ==
  \/ c.last > LastEpoch(log)
  \/ c.last = LastEpoch(log) /\ c.end >= End(log)

Vote(n, c) ==
  LET s == nodes[n] IN
  /\ n \in Voters
  /\ s.role \notin Down
  /\ c.epoch = s.epoch
  /\ c.node # n
  /\ s.vote = 0
  /\ s.leader = 0
  /\ IsAtLeast(c, s.log)
  /\ Becomes(n, Rests(n, [s EXCEPT !.vote = c.node]))
  /\ votes' = votes \cup {<<s.epoch, n, c.node>>}
  /\ UNCHANGED <<candidates, leaders, committed>>

StartPreVote(n) ==
  /\ nodes[n].role \in Stands
  /\ Becomes(n, [nodes[n] EXCEPT !.role = "prospective"])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

(* Pre-votes leave no trace, and nothing but the rate of elections depends   *)
(* on them: any prospective node may have got them.                          *)
StartElection(n) ==
  LET s == nodes[n]
      e == s.epoch + 1 IN
  /\ s.role = "prospective"
  /\ Becomes(n, [s EXCEPT !.role = "candidate", !.epoch = e, !.vote = n, !.leader = 0])
  /\ candidates' = candidates \cup
       {[epoch |-> e, node |-> n, last |-> LastEpoch(s.log), end |-> End(s.log)]}
  /\ votes' = votes \cup {<<e, n, n>>}
  /\ UNCHANGED <<leaders, committed>>

LoseRound(n) ==
  /\ nodes[n].role \in {"prospective", "candidate"}
  /\ Becomes(n, Rests(n, nodes[n]))
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

(* A new leader appends the first record of its epoch at once. *)
BecomeLeader(n) ==
  LET s == nodes[n]
      log == Extended(s.log, s.epoch, 1) IN
  /\ s.role = "candidate"
  /\ IsMajority({v \in Voters : <<s.epoch, v, n>> \in votes})
  /\ nodes' = [nodes EXCEPT ![n] = [s EXCEPT !.role = "leader", !.leader = n, !.log = log]]
  /\ leaders' = (s.epoch :> [node |-> n, start |-> End(s.log), log |-> log, hw |-> s.hw]) @@ leaders
  /\ UNCHANGED <<candidates, votes, fetched, committed>>

(* For good: a node never leads an epoch again. *)
Resign(n) ==
  /\ nodes[n].role = "leader"
  /\ Becomes(n, [nodes[n] EXCEPT !.role = "resigned"])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

-----------------------------------------------------------------------------
(* Replication *)

AppendRecords(n, count) ==
  LET s == nodes[n]
      log == Extended(s.log, s.epoch, count) IN
  /\ s.role = "leader"
  /\ count > 0
  /\ nodes' = [nodes EXCEPT ![n].log = log]
  /\ leaders' = [leaders EXCEPT ![s.epoch].log = log]
  /\ UNCHANGED <<candidates, votes, fetched, committed>>

Follows(s) == s.role \in Fetching /\ s.leader # 0

FetchRecords(n, end) ==
  LET s == nodes[n]
      leads == leaders[s.epoch].log IN
  /\ Follows(s)
  /\ IsPrefix(s.log, leads)
  /\ end > End(s.log)
  /\ end <= End(leads)
  /\ Becomes(n, [s EXCEPT !.log = Cut(leads, end)])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

(* By epoch, never by high watermark; and never what is committed. *)
Truncate(n) ==
  LET s == nodes[n]
      leads == leaders[s.epoch].log
      end == TruncationPoint(s.log, leads) IN
  /\ Follows(s)
  /\ Diverges(s.log, leads)
  /\ end >= s.hw
  /\ Becomes(n, [s EXCEPT !.log = Cut(@, end), !.flushed = Min(@, end)])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

(* The leader's log begins behind the node's end, or in a later epoch: the   *)
(* leader's snapshot replaces the whole log.                                 *)
InstallSnapshot(n, end) ==
  LET s == nodes[n] IN
  /\ Follows(s)
  /\ end > End(s.log) \/ LastEpoch(s.log) < LastEpoch(Cut(committed, end))
  /\ end >= s.hw
  /\ end <= End(committed)
  /\ Becomes(n, [s EXCEPT !.log = Cut(committed, end), !.flushed = end, !.hw = end])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

Flush(n, end) ==
  LET s == nodes[n] IN
  /\ s.role \notin Down
  /\ end > s.flushed
  /\ end <= End(s.log)
  /\ Becomes(n, [s EXCEPT !.flushed = end])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

(* A majority has flushed it, together with a record of this epoch           *)
(* (KAFKA-12619). The leader itself may be slower than the majority.         *)
LeaderCommit(n, end) ==
  LET s == nodes[n]
      have == {v \in Voters : IF v = n THEN s.flushed >= end ELSE Claimed(s.epoch, v) >= end} IN
  /\ s.role = "leader"
  /\ end > s.hw
  /\ end <= End(s.log)
  /\ end > leaders[s.epoch].start
  /\ IsMajority(have)
  /\ nodes' = [nodes EXCEPT ![n].hw = end]
  /\ leaders' = [leaders EXCEPT ![s.epoch].hw = end]
  /\ committed' = IF end > End(committed) THEN Cut(s.log, end) ELSE committed
  /\ UNCHANGED <<candidates, votes, fetched>>

FollowerCommit(n, end) ==
  LET s == nodes[n] IN
  /\ Follows(s)
  /\ IsPrefix(s.log, leaders[s.epoch].log)
  /\ end > s.hw
  /\ end <= Min(End(s.log), leaders[s.epoch].hw)
  /\ Becomes(n, [s EXCEPT !.hw = end])
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

-----------------------------------------------------------------------------
(* Stops and starts *)

Stop(n, lossy) ==
  /\ nodes[n].role \notin Down
  /\ nodes' = [nodes EXCEPT ![n].role = IF lossy THEN "failed" ELSE "stopped", ![n].hw = 0]
  /\ UNCHANGED <<candidates, votes, leaders, fetched, committed>>

LosePower(n) ==
  /\ nodes[n].role \in Down
  /\ nodes' = [nodes EXCEPT ![n].role = "failed"]
  /\ UNCHANGED <<candidates, votes, leaders, fetched, committed>>

(* The node finds its log up to `end`, and a snapshot up to `snapshot` (or   *)
(* 0). A log that ends before its snapshot begins again behind it. All that  *)
(* was found is flushed.                                                     *)
Start(n, end, snapshot) ==
  LET s == nodes[n]
      log == IF snapshot > end THEN Cut(committed, snapshot) ELSE Cut(s.log, end) IN
  /\ s.role \in Down
  /\ end <= End(s.log)
  /\ end >= IF s.role = "failed" THEN s.flushed ELSE End(s.log)
  /\ snapshot <= End(committed)
  /\ Becomes(n, Rests(n, [s EXCEPT !.log = log, !.flushed = End(log), !.hw = snapshot]))
  /\ UNCHANGED <<candidates, votes, leaders, committed>>

-----------------------------------------------------------------------------
Elects(n) ==
  \/ \E c \in candidates : LearnEpoch(n, c.epoch, 0)
  \/ \E e \in DOMAIN leaders : LearnEpoch(n, e, leaders[e].node)
  \/ LearnLeader(n)
  \/ \E c \in candidates : Vote(n, c)
  \/ StartPreVote(n)
  \/ StartElection(n)
  \/ LoseRound(n)
  \/ BecomeLeader(n)
  \/ Resign(n)

Next ==
  \E n \in Nodes :
    \/ Elects(n)
    \/ AppendRecords(n, 1)
    \/ \E end \in 0..End(IF Follows(nodes[n]) THEN leaders[nodes[n].epoch].log ELSE <<>>) :
         FetchRecords(n, end) \/ FollowerCommit(n, end)
    \/ Truncate(n)
    \/ \E end \in 0..End(committed) : InstallSnapshot(n, end)
    \/ \E end \in 0..End(nodes[n].log) : Flush(n, end) \/ LeaderCommit(n, end)
    \/ \E lossy \in BOOLEAN : Stop(n, lossy)
    \/ LosePower(n)
    \/ \E end \in 0..End(nodes[n].log), snapshot \in 0..End(committed) : Start(n, end, snapshot)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

OneLeaderPerEpoch ==
  /\ \A n \in Nodes : nodes[n].leader # 0 =>
       /\ nodes[n].epoch \in DOMAIN leaders
       /\ leaders[nodes[n].epoch].node = nodes[n].leader
  /\ \A m, n \in Nodes :
       nodes[m].role = "leader" /\ nodes[n].role = "leader" /\ nodes[m].epoch = nodes[n].epoch
       => m = n

OneVotePerEpoch ==
  \A v, w \in votes : v[1] = w[1] /\ v[2] = w[2] => v[3] = w[3]

LogsMatch == \A m, n \in Nodes : Matching(nodes[m].log, nodes[n].log)

(* The newest leader has everything. An older one may not know it yet. *)
LeaderHasAllCommitted ==
  \A n \in Nodes :
    nodes[n].role = "leader" /\ (\A e \in DOMAIN leaders : e <= nodes[n].epoch)
    => IsPrefix(committed, nodes[n].log)

MajorityHasCommitted ==
  IsMajority({v \in Voters : /\ nodes[v].flushed >= End(committed)
                             /\ IsPrefix(committed, nodes[v].log)})

OnlyCommittedIsBelievedCommitted ==
  \A n \in Nodes : /\ nodes[n].hw <= End(nodes[n].log)
                   /\ IsPrefix(Cut(nodes[n].log, nodes[n].hw), committed)

CommittedStays == [][IsPrefix(committed, committed')]_committed

HighWatermarkRises ==
  [][\A n \in Nodes : nodes'[n].role \notin Down => nodes'[n].hw >= nodes[n].hw]_nodes
=============================================================================
