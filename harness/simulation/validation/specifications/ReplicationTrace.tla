--------------------------- MODULE ReplicationTrace ---------------------------
(***************************************************************************)
(* Whether traces of one partition are behaviours of Replication, as in      *)
(* QuorumTrace. An entry shows one broker after one event, or (of node 0)    *)
(* what the controller registered. Epochs are one higher than in the log,    *)
(* so that 0 is none.                                                        *)
(***************************************************************************)
EXTENDS Replication, Traces

VARIABLES trace,  \* the number of a trace
          at      \* the number of its next entry

AllVars == <<vars, trace, at>>

Entry == Traces[trace][at]

(* Of a broker: node, event, role, leader epoch, partition epoch, maximal    *)
(* ISR, log, the log's start and end, flushed offset, high watermark.        *)
Shown == [node |-> Entry[1], event |-> Entry[2], role |-> Entry[3], epoch |-> Entry[4],
          pe |-> Entry[5], maximal |-> Entry[6], log |-> Entry[7], start |-> Entry[8],
          end |-> Entry[9], flushed |-> Entry[10], hw |-> Entry[11]]

(* Of the controller: 0, "registered", leader, leader epoch, partition       *)
(* epoch, ISR, eligible and last known replicas, replicas, and whether the   *)
(* leader was elected uncleanly.                                             *)
Registration == [leader |-> Entry[3], epoch |-> Entry[4], pe |-> Entry[5], isr |-> Entry[6],
                 elr |-> Entry[7], known |-> Entry[8], replicas |-> Entry[9],
                 unclean |-> Entry[10]]

IsApplied(s, e) ==
  s.role = e.role /\ s.epoch = e.epoch /\ s.pe = e.pe /\ s.maximal = e.maximal
HasLog(s, e) == End(s.log) = e.end /\ From(s.log, e.start) = e.log
IsShown(s, e) ==
  IsApplied(s, e) /\ HasLog(s, e) /\ s.flushed = e.flushed /\ s.hw = e.hw

(* Steps that lead to the entry. A leader that applies several registrations *)
(* in one event may commit by any of them.                                   *)
Applies(b, s, e) ==
  \/ \E pe \in DOMAIN registry :
       (pe = e.pe \/ (pe < e.pe /\ s.hw < e.hw)) /\ Apply(b, pe)
  \/ s.pe = e.pe /\ s.maximal # e.maximal /\ (Propose(b, e.maximal) \/ Withdraw(b))

Moves(b, s, e) ==
  CASE s.role = "none" -> Host(b)
    [] s.role # "none" /\ e.role = "none" -> Remove(b)
    [] s.role \in Down /\ e.role # "none" ->
         \/ Start(b, Min(e.end, End(s.log)), Min(e.flushed, Min(e.end, End(s.log))),
                  Min(e.hw, Min(s.hw, e.end)))
         \/ Remove(b)
    [] OTHER ->
         \/ s.role = "leader" /\ s.hw < e.hw /\ LeaderCommit(b, e.hw)
         \/ IF ~IsApplied(s, e) THEN Applies(b, s, e)
            ELSE IF ~HasLog(s, e) THEN
              \/ AppendRecords(b, e.end - End(s.log))
              \/ FetchRecords(b, e.end)
              \/ Truncate(b)
              \/ BeginAgain(b, e.start)
            ELSE
              \/ Flush(b, e.flushed)
              \/ s.flushed = e.flushed /\ FollowerCommit(b, e.hw)

TraceInit ==
  /\ Init
  /\ trace \in 1..Len(Traces)
  /\ at = 1

TraceNext ==
  /\ at <= Len(Traces[trace])
  /\ trace' = trace
  /\ LET event == Entry[2]
         b == Entry[1] IN
     CASE event = "registered" ->
            /\ at' = at + 1
            /\ IF registry = <<>> THEN Create(Registration) ELSE Register(Registration)
       [] event = "step" ->
            IF IsShown(brokers[b], Shown)
            THEN at' = at + 1 /\ UNCHANGED vars
            ELSE at' = at /\ Moves(b, brokers[b], Shown)
       [] event = "stop" -> at' = at + 1 /\ Stop(b, FALSE)
       [] event \in {"halt", "power"} -> at' = at + 1 /\ Stop(b, TRUE)

TraceSpec == TraceInit /\ [][TraceNext]_AllVars

(* Prints how far each trace was followed, whenever one goes further. *)
ASSUME \A each \in 1..Len(Traces) : TLCSet(each, 0)
Progress ==
  at > TLCGet(trace) => TLCSet(trace, at) /\ PrintT(<<"reached", trace, at>>)
=============================================================================
