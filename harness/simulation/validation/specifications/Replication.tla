----------------------------- MODULE Replication -----------------------------
(***************************************************************************)
(* The replication of one partition: followers fetch from the leader, the    *)
(* controller decides leader and ISR (KIP-497), and remembers which replicas *)
(* may have all committed records (KIP-966).                                 *)
(*                                                                           *)
(* As in Quorum there are no messages: what was said stays true and may be   *)
(* used by any later action. The controller is one; Quorum describes how it  *)
(* can be.                                                                   *)
(*                                                                           *)
(* Not described: changes of min.insync.replicas, and disks that lose what   *)
(* was flushed. A loss of power is described: a replica that lost records is *)
(* held to nothing until it is in sync again.                                *)
(***************************************************************************)
EXTENDS Logs, FiniteSets, TLC

CONSTANTS Brokers,  \* numbers above 0
          MinIsr,   \* min.insync.replicas
          Eligible, \* whether eligible leader replicas are enabled (KIP-966)
          Unclean,  \* whether any replica may be elected
          Flushes   \* whether a record counts only once it is flushed (flush.messages=1)

VARIABLES
  brokers,    \* for each broker: what it has in memory and on its disk
  registry,   \* for each partition epoch: the partition as the controller registered it
  proposed,   \* <<leader epoch, partition epoch, members>> that a leader proposed
  leaders,    \* for each leader epoch that began: the leader, where its records begin,
              \* its log, its high watermark
  fetched,    \* for <<leader epoch, broker>>: the end of the log that its fetches claimed
  committed,  \* the log that was ever committed, without what an unclean election gave up
  lost,       \* the brokers that may lack records which they had claimed
  since       \* the epoch of the last leader that was elected although it may lack
              \* committed records; what earlier leaders still commit is given up
vars == <<brokers, registry, proposed, leaders, fetched, committed, lost, since>>

Absent == [role |-> "none", epoch |-> 0, pe |-> 0, maximal |-> {}, log |-> <<>>,
           flushed |-> 0, hw |-> 0]
Down == {"stopped", "failed"}
Runs(s) == s.role \in {"leader", "follower", "offline"}

Newest == CHOOSE pe \in DOMAIN registry : \A other \in DOMAIN registry : other <= pe
Registered == registry[Newest]
Enough(isr, replicas) == Cardinality(isr) >= Min(MinIsr, Cardinality(replicas))

Init ==
  /\ brokers = [b \in Brokers |-> Absent]
  /\ registry = <<>>
  /\ proposed = {}
  /\ leaders = <<>>
  /\ fetched = <<>>
  /\ committed = <<>>
  /\ lost = {}
  /\ since = 0

Claimed(e, b) == IF <<e, b>> \in DOMAIN fetched THEN fetched[<<e, b>>] ELSE 0

(* A follower whose log the leader's log continues has fetched, or may have. *)
Claims(s, leads) ==
  /\ s.role = "follower"
  /\ Flushes => s.flushed = End(s.log)
  /\ IsPrefix(s.log, leads)

Becomes(b, s) ==
  /\ brokers' = [brokers EXCEPT ![b] = s]
  /\ fetched' = IF s.epoch \in DOMAIN leaders /\ Claims(s, leaders[s.epoch].log)
                THEN (<<s.epoch, b>> :> Max(End(s.log), Claimed(s.epoch, b))) @@ fetched
                ELSE fetched

-----------------------------------------------------------------------------
(* The controller *)

(* The first registration. *)
Create(r) ==
  /\ registry = <<>>
  /\ r.leader \in r.isr \cup {0}
  /\ r.isr \subseteq r.replicas
  /\ r.elr = {}
  /\ registry' = (r.pe :> r)
  /\ UNCHANGED <<brokers, proposed, leaders, fetched, committed, lost, since>>

(* Who was removed from the ISR while it was too small is remembered: as     *)
(* eligible, or, if it restarted uncleanly, as last known. Without that, the  *)
(* last member stays in the ISR, whatever it lost.                           *)
Remembers(o, r) ==
  IF ~Eligible THEN r.elr = {} /\ r.known = {} /\ r.isr # {}
  ELSE IF Enough(r.isr, r.replicas)
  THEN r.elr = {} /\ r.known = {}
  ELSE /\ r.elr \subseteq (o.isr \cup o.elr) \ r.isr
       /\ r.elr \cup r.known = ((o.isr \cup o.elr \cup o.known) \cap r.replicas) \ r.isr
       /\ r.elr \cap r.known = {}

(* Who is new in the ISR: what the leader proposed in its epoch, if it knew  *)
(* the present registration; or a leader that was elected because nobody is  *)
(* in sync: an eligible one, or else one of the last known.                  *)
Joins(o, r) ==
  \/ r.isr \subseteq o.isr
  \/ \E p \in proposed : p[1] = o.epoch /\ p[2] = o.pe /\ r.isr \subseteq p[3]
  \/ /\ r.isr = {r.leader}
     /\ r.leader # o.leader
     /\ r.leader \in CASE ~r.unclean -> o.elr
                       [] r.unclean /\ ~Unclean -> o.isr \cup o.elr \cup o.known
                       [] OTHER -> r.replicas

(* A new leader has a new epoch. So has one whose replicas were removed.     *)
Leads(o, r) ==
  /\ r.leader \in r.isr \cup {0}
  /\ r.epoch \in {o.epoch, o.epoch + 1}
  /\ r.leader # o.leader => r.epoch = o.epoch + 1
  /\ r.epoch # o.epoch => r.leader # o.leader \/ ~(o.replicas \subseteq r.replicas)

(* Last known replicas may lead once all of them are back; an unclean        *)
(* election may take any replica. Such a leader may lack committed records.  *)
Register(r) ==
  LET o == Registered IN
  /\ r.pe = o.pe + 1
  /\ r.isr \cup r.elr \cup r.known \subseteq r.replicas
  /\ Remembers(o, r)
  /\ Joins(o, r)
  /\ Leads(o, r)
  /\ registry' = (r.pe :> r) @@ registry
  /\ lost' = IF r.leader \notin {0, o.leader}
             THEN IF r.unclean THEN lost \cup {r.leader} ELSE lost
             ELSE lost \ {b \in r.isr \ o.isr : Runs(brokers[b])}
  /\ UNCHANGED <<brokers, proposed, leaders, fetched, committed, since>>

-----------------------------------------------------------------------------
(* Brokers *)

(* The longest log that the committed one and another have in common. *)
Common(log) ==
  LET ends == {end \in 0..Min(End(committed), End(log)) : Cut(committed, end) = Cut(log, end)}
  IN  Cut(committed, CHOOSE end \in ends : \A other \in ends : other <= end)

(* Followers may have learned of the epoch before their leader. A leader     *)
(* that may lack committed records gives them up: it was elected uncleanly,  *)
(* or, without eligible replicas, it was the last member.                    *)
BeginEpoch(b, s) ==
  LET waiting == {f \in Brokers : brokers[f].epoch = s.epoch /\ Claims(brokers[f], s.log)} IN
  /\ s.epoch \notin DOMAIN leaders
  /\ b \in lost => registry[s.pe].unclean \/ ~Eligible
  /\ brokers' = [brokers EXCEPT ![b] = s]
  /\ leaders' = (s.epoch :> [node |-> b, start |-> End(s.log), log |-> s.log, hw |-> s.hw])
                @@ leaders
  /\ fetched' = [key \in {<<s.epoch, f>> : f \in waiting} |-> End(brokers[key[2]].log)] @@ fetched
  /\ IF b \in lost
     THEN committed' = Common(s.log) /\ lost' = {} /\ since' = s.epoch
     ELSE UNCHANGED <<committed, lost, since>>

(* A broker learns of a registration. Its role ends or begins with the       *)
(* leader epoch, which no broker begins twice; the ISR of the registration   *)
(* replaces what was proposed.                                               *)
Apply(b, pe) ==
  LET s == brokers[b]
      r == registry[pe]
      role == IF b \notin r.replicas \/ r.leader = 0 THEN "offline"
              ELSE IF r.leader = b THEN "leader" ELSE "follower"
      t == [s EXCEPT !.role = role, !.epoch = r.epoch, !.pe = pe, !.maximal = r.isr] IN
  /\ Runs(s)
  /\ pe > s.pe
  /\ IF role = "leader" /\ (s.role # "leader" \/ s.epoch # r.epoch)
     THEN BeginEpoch(b, t)
     ELSE Becomes(b, t) /\ UNCHANGED <<leaders, committed, lost, since>>
  /\ UNCHANGED <<registry, proposed>>

(* A replica may join when it has the high watermark and the start of this   *)
(* epoch (KAFKA-7128), in its present incarnation (KIP-903). Everybody who is asked for counts from now on, as if  *)
(* the controller had agreed already: the maximal ISR.                       *)
Propose(b, maximal) ==
  LET s == brokers[b]
      isr == registry[s.pe].isr
      needed == Max(s.hw, leaders[s.epoch].start) IN
  /\ s.role = "leader"
  /\ isr \subseteq maximal
  /\ maximal \subseteq registry[s.pe].replicas
  /\ \A m \in maximal \ isr :
       /\ Claimed(s.epoch, m) >= needed
       /\ m \in lost => End(brokers[m].log) >= needed
  /\ brokers' = [brokers EXCEPT ![b].maximal = maximal]
  /\ proposed' = proposed \cup {<<s.epoch, s.pe, maximal>>}
  /\ UNCHANGED <<registry, leaders, fetched, committed, lost, since>>

(* The controller surely refused. *)
Withdraw(b) ==
  /\ brokers[b].role = "leader"
  /\ brokers' = [brokers EXCEPT ![b].maximal = registry[brokers[b].pe].isr]
  /\ UNCHANGED <<registry, proposed, leaders, fetched, committed, lost, since>>

AppendRecords(b, count) ==
  LET s == brokers[b]
      log == Extended(s.log, s.epoch, count) IN
  /\ s.role = "leader"
  /\ count > 0
  /\ brokers' = [brokers EXCEPT ![b].log = log]
  /\ leaders' = [leaders EXCEPT ![s.epoch].log = log]
  /\ UNCHANGED <<registry, proposed, fetched, committed, lost, since>>

Follows(s) == s.role = "follower" /\ s.epoch \in DOMAIN leaders

FetchRecords(b, end) ==
  LET s == brokers[b]
      leads == leaders[s.epoch].log IN
  /\ Follows(s)
  /\ IsPrefix(s.log, leads)
  /\ end > End(s.log)
  /\ end <= End(leads)
  /\ Becomes(b, [s EXCEPT !.log = Cut(leads, end)])
  /\ UNCHANGED <<registry, proposed, leaders, committed, lost, since>>

(* By epoch, never by high watermark (KIP-101). *)
Truncate(b) ==
  LET s == brokers[b]
      leads == leaders[s.epoch].log
      end == TruncationPoint(s.log, leads) IN
  /\ Follows(s)
  /\ Diverges(s.log, leads)
  /\ Becomes(b, [s EXCEPT !.log = Cut(@, end), !.flushed = Min(@, end), !.hw = Min(@, end)])
  /\ UNCHANGED <<registry, proposed, leaders, committed, lost, since>>

(* The leader's log begins behind the end of this one: retention. *)
BeginAgain(b, start) ==
  LET s == brokers[b] IN
  /\ Follows(s)
  /\ start > End(s.log)
  /\ start <= leaders[s.epoch].hw
  /\ Becomes(b, [s EXCEPT !.log = Cut(leaders[s.epoch].log, start), !.flushed = start,
                          !.hw = start])
  /\ UNCHANGED <<registry, proposed, leaders, committed, lost, since>>

Flush(b, end) ==
  LET s == brokers[b] IN
  /\ Runs(s)
  /\ end > s.flushed
  /\ end <= End(s.log)
  /\ Becomes(b, [s EXCEPT !.flushed = end])
  /\ UNCHANGED <<registry, proposed, leaders, committed, lost, since>>

(* Every member of the maximal ISR has it, and the ISR has its minimum.      *)
LeaderCommit(b, end) ==
  LET s == brokers[b]
      r == registry[s.pe] IN
  /\ s.role = "leader"
  /\ end > s.hw
  /\ end <= IF Flushes THEN s.flushed ELSE End(s.log)
  /\ Enough(r.isr, r.replicas)
  /\ \A m \in s.maximal \ {b} : Claimed(s.epoch, m) >= end
  /\ brokers' = [brokers EXCEPT ![b].hw = end]
  /\ leaders' = [leaders EXCEPT ![s.epoch].hw = end]
  /\ committed' = IF s.epoch >= since /\ end > End(committed) THEN Cut(s.log, end) ELSE committed
  /\ UNCHANGED <<registry, proposed, fetched, lost, since>>

FollowerCommit(b, end) ==
  LET s == brokers[b] IN
  /\ Follows(s)
  /\ IsPrefix(s.log, leaders[s.epoch].log)
  /\ end > s.hw
  /\ end <= Min(End(s.log), leaders[s.epoch].hw)
  /\ Becomes(b, [s EXCEPT !.hw = end])
  /\ UNCHANGED <<registry, proposed, leaders, committed, lost, since>>

-----------------------------------------------------------------------------
(* Hosting, stops and starts *)

Host(b) ==
  /\ brokers[b].role = "none"
  /\ registry # <<>>
  /\ brokers' = [brokers EXCEPT ![b] = [Absent EXCEPT !.role = "offline"]]
  /\ UNCHANGED <<registry, proposed, leaders, fetched, committed, lost, since>>

(* The replica was moved elsewhere: its log is deleted. *)
Remove(b) ==
  LET s == brokers[b] IN
  /\ s.role # "none"
  /\ \E pe \in DOMAIN registry : pe >= s.pe /\ b \notin registry[pe].replicas
  /\ brokers' = [brokers EXCEPT ![b] = Absent]
  /\ lost' = lost \ {b}
  /\ UNCHANGED <<registry, proposed, leaders, fetched, committed, since>>

Stop(b, lossy) ==
  LET s == brokers[b] IN
  /\ brokers' = [brokers EXCEPT ![b].role =
       IF s.role = "none" THEN "none" ELSE IF lossy THEN "failed" ELSE "stopped"]
  /\ lost' = IF lossy /\ s.flushed < End(s.log) THEN lost \cup {b} ELSE lost
  /\ UNCHANGED <<registry, proposed, leaders, fetched, committed, since>>

(* The log is found up to `end`; the high watermark is what was written down *)
(* of it. The broker has registered again, so the controller refuses what    *)
(* was proposed with its incarnation before (KIP-903).                       *)
Start(b, end, flushed, hw) ==
  LET s == brokers[b] IN
  /\ s.role \in Down
  /\ end <= End(s.log)
  /\ end >= IF s.role = "failed" THEN s.flushed ELSE End(s.log)
  /\ flushed \in s.flushed..end
  /\ hw <= Min(s.hw, end)
  /\ brokers' = [brokers EXCEPT ![b] =
       [s EXCEPT !.role = "offline", !.epoch = 0, !.pe = 0, !.maximal = {},
                 !.log = Cut(s.log, end), !.flushed = flushed, !.hw = hw]]
  /\ proposed' = {p \in proposed : b \notin p[3]}
  /\ UNCHANGED <<registry, leaders, fetched, committed, lost, since>>

-----------------------------------------------------------------------------
(* What must hold *)

OneLeaderPerEpoch ==
  /\ \A a, b \in Brokers :
       brokers[a].role = "leader" /\ brokers[b].role = "leader"
       /\ brokers[a].epoch = brokers[b].epoch => a = b
  /\ \A p, q \in DOMAIN registry :
       /\ registry[p].epoch = registry[q].epoch
       /\ registry[p].leader # 0 /\ registry[q].leader # 0
       => registry[p].leader = registry[q].leader

LogsMatch == \A a, b \in Brokers : Matching(brokers[a].log, brokers[b].log)

HasCommitted(b) == b \in lost \/ IsPrefix(committed, brokers[b].log)

(* The members of the ISR and the eligible replicas (KIP-966). *)
MembersHaveAllCommitted ==
  registry # <<>> => \A b \in Registered.isr \cup Registered.elr : HasCommitted(b)

LeaderHasAllCommitted ==
  \A b \in Brokers :
    brokers[b].role = "leader" /\ brokers[b].epoch = Registered.epoch => HasCommitted(b)

OnlyCommittedIsBelievedCommitted ==
  \A b \in Brokers \ lost :
    LET s == brokers[b]
        believed == Cut(s.log, s.hw) IN
    /\ s.role \in {"leader", "follower"}
    /\ s.epoch = Registered.epoch
    /\ s.epoch \in DOMAIN leaders
    /\ IsPrefix(believed, leaders[s.epoch].log)
    => IsPrefix(believed, committed)

(* Unless a new leader gives them up. *)
CommittedStays == [][since' # since \/ IsPrefix(committed, committed')]_committed

HighWatermarkRises ==
  [][\A b \in Brokers :
       brokers[b].role = "leader" /\ brokers'[b].role = "leader"
       /\ brokers[b].epoch = brokers'[b].epoch => brokers'[b].hw >= brokers[b].hw]_brokers
=============================================================================
