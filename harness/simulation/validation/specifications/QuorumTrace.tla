----------------------------- MODULE QuorumTrace -----------------------------
(***************************************************************************)
(* Whether traces of a run are behaviours of Quorum. Each entry shows one    *)
(* node after one event. The node may take some steps of the specification   *)
(* to get there, in the order of `Moves`; the other nodes take none. A trace *)
(* is a behaviour if all of its entries can be reached, one after another.   *)
(***************************************************************************)
EXTENDS Quorum, Traces

VARIABLES trace,  \* the number of a trace
          at      \* the number of its next entry

AllVars == <<vars, trace, at>>

(* Of an entry: node, event, role, epoch, vote, leader, log, the log's start *)
(* and end, flushed offset, high watermark.                                  *)
Entry == Traces[trace][at]
Shown == [node |-> Entry[1], event |-> Entry[2], role |-> Entry[3], epoch |-> Entry[4],
          vote |-> Entry[5], leader |-> Entry[6], log |-> Entry[7], start |-> Entry[8],
          end |-> Entry[9], flushed |-> Entry[10], hw |-> Entry[11]]

IsElected(s, e) ==
  s.role = e.role /\ s.epoch = e.epoch /\ s.vote = e.vote /\ s.leader = e.leader
HasLog(s, e) == End(s.log) = e.end /\ From(s.log, e.start) = e.log
IsShown(s, e) ==
  IsElected(s, e) /\ HasLog(s, e) /\ s.flushed = e.flushed /\ s.hw = e.hw

(* Steps that lead to the entry: first the epoch and the role, then the log, *)
(* then what is flushed and committed of it. A node that stood may have      *)
(* learned the epoch before in the same event.                               *)
Moves(n, s, e) ==
  IF ~IsElected(s, e) THEN
    \/ \E to \in {e.epoch} \cup IF e.vote = n THEN {e.epoch - 1} ELSE {} :
         \/ LearnEpoch(n, to, 0)
         \/ to \in DOMAIN leaders /\ LearnEpoch(n, to, leaders[to].node)
    \/ LearnLeader(n)
    \/ \E c \in candidates : c.epoch = e.epoch /\ c.node = e.vote /\ Vote(n, c)
    \/ (e.role = "prospective" \/ e.vote = n) /\ StartPreVote(n)
    \/ e.vote = n /\ s.epoch + 1 = e.epoch /\ StartElection(n)
    \/ s.role # e.role /\ LoseRound(n)
    \/ e.leader = n /\ BecomeLeader(n)
    \/ Resign(n)
  ELSE IF ~HasLog(s, e) THEN
    \/ AppendRecords(n, e.end - End(s.log))
    \/ FetchRecords(n, e.end)
    \/ Truncate(n)
    \/ e.end = e.hw /\ e.start = e.hw /\ InstallSnapshot(n, e.hw)
  ELSE
    \/ Flush(n, e.flushed)
    \/ s.flushed = e.flushed /\ (LeaderCommit(n, e.hw) \/ FollowerCommit(n, e.hw))

(* A start shows what the node found. *)
Starts(n, e) ==
  LET ends == {Min(e.end, End(nodes[n].log)), nodes[n].flushed}
  IN  \E end \in ends :
        /\ Start(n, end, e.hw)
        /\ IsShown(nodes'[n], e)

TraceInit ==
  /\ Init
  /\ trace \in 1..Len(Traces)
  /\ at = 1

TraceNext ==
  /\ at <= Len(Traces[trace])
  /\ trace' = trace
  /\ LET e == Shown
         n == e.node IN
     \/ /\ e.event = "step"
        /\ nodes[n].role \notin Down
        /\ IF IsShown(nodes[n], e)
           THEN at' = at + 1 /\ UNCHANGED vars
           ELSE at' = at /\ Moves(n, nodes[n], e)
     \/ e.event = "start" /\ at' = at + 1 /\ Starts(n, e)
     \/ e.event = "stop" /\ at' = at + 1 /\ Stop(n, FALSE)
     \/ e.event = "halt" /\ at' = at + 1 /\ Stop(n, TRUE)
     \/ e.event = "power" /\ at' = at + 1 /\ LosePower(n)

TraceSpec == TraceInit /\ [][TraceNext]_AllVars

(* Prints how far each trace was followed, whenever one goes further. *)
ASSUME \A each \in 1..Len(Traces) : TLCSet(each, 0)
Progress ==
  at > TLCGet(trace) => TLCSet(trace, at) /\ PrintT(<<"reached", trace, at>>)
=============================================================================
