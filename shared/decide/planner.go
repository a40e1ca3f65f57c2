package decide

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// planner gathers writes into a chain of commits of at most [state.MaxWrites] rows, and keeps the snapshot as it
// will be after them. Ids follow from the placement version that a commit will make, so a start is made for the
// commit that is open; [planner.room] closes it when what belongs together would not fit.
type planner struct {
	snap   *snapshot.Snapshot
	now    time.Time
	done   []state.Commit
	writes []state.Write
	keys   map[state.Key]bool
	// versioned reports that the open commit rests on the placement version.
	versioned bool
	next      int64 // placement version that the open commit makes, if versioned
	outbox    []*state.Outbox
	beside    *state.Outbox  // of the open commit: registrations and events, which rest on no version; nil for none
	rounds    map[string]int // per owner and instance, within the open commit
	// dues are timers that are set already, by what they are for: to be set once is enough.
	dues map[timer]time.Time
}

// timer is what a due row is for.
type timer struct {
	kind    state.DueKind
	subject string
}

func newPlanner(warm *Warm, now time.Time) *planner {
	p := &planner{snap: warm.Snap, now: now, next: warm.Snap.Meta.Version + 1, dues: warm.Dues}
	p.open()
	return p
}

func (p *planner) open() {
	p.writes, p.outbox, p.beside, p.versioned = nil, nil, nil, false
	p.keys, p.rounds = map[state.Key]bool{}, map[string]int{}
}

// used is how many rows the open commit has.
func (p *planner) used() int {
	n := len(p.writes) + len(p.outbox)
	if p.beside != nil {
		n++
	}
	return n
}

// left is how many rows the open commit can still take.
func (p *planner) left() int { return state.MaxWrites - p.used() }

// room makes sure that n rows that belong together go into one commit.
func (p *planner) room(n int) {
	if p.left() < n {
		p.close()
	}
}

func (p *planner) close() {
	if p.used() == 0 {
		return
	}
	for _, o := range p.outbox {
		p.writes = append(p.writes, state.Write{Put: o})
	}
	if p.beside != nil {
		p.beside.ID = p.besideID()
		p.writes = append(p.writes, state.Write{Put: p.beside, Any: true})
	}
	c := state.Commit{Cluster: p.snap.Meta.Cluster, Version: state.NoVersion, Writes: p.writes}
	if p.versioned {
		c.Version = p.next - 1
		p.next++
	}
	p.done = append(p.done, c)
	p.open()
}

func (p *planner) commits() []state.Commit {
	p.close()
	return p.done
}

// add appends a write unless the open commit has one of the same row.
func (p *planner) add(w state.Write) {
	if key := w.Key(); !p.keys[key] {
		p.keys[key] = true
		p.writes = append(p.writes, w)
	}
}

// put writes a row that was read as Rev one less. Only tasks rest on the version.
func (p *planner) put(row state.Row) {
	p.add(state.Write{Put: row})
	p.snap.Put(row)
	if _, ok := row.(*cluster.Task); ok {
		p.versioned = true
	}
}

// due has something looked at at a time, whole seconds after it.
func (p *planner) due(kind state.DueKind, subject string, at time.Time) {
	at = at.Add(time.Second - 1).Truncate(time.Second)
	if at.After(p.now) && p.dues[timer{kind, subject}].Equal(at) {
		return
	}
	p.dues[timer{kind, subject}] = at
	p.room(1)
	p.add(state.Write{Any: true, Put: &state.Due{
		Head: cluster.Head{Cluster: p.snap.Meta.Cluster}, At: at, Kind: kind, Subject: subject,
	}})
}

// start gives the task its batch and id and writes it with what dispatch needs: at most 3 rows. A task that has an id
// already, because it waited, also gets the alias that leads ECS's reports to it.
func (p *planner) start(t *cluster.Task) {
	slot := t.Owner + "/" + t.Instance
	round := p.rounds[slot]
	p.rounds[slot]++
	t.Cluster, t.Desired, t.Batch = p.snap.Meta.Cluster, cluster.TaskRunning, cluster.StartedBy(t.Owner, p.next, round)
	derived := cluster.TaskID(t.Batch, t.Instance)
	item := state.StartItem{Instance: t.Instance, Alone: t.Overrides != nil}
	if v := p.snap.Instances[t.Instance]; v != nil && v.Instance != nil && v.ReleasedIn != "" {
		item.ReleasedIn, item.EC2InstanceID = v.ReleasedIn, v.EC2InstanceID
	}
	if t.ID == "" {
		t.ID = derived
	} else {
		item.ID = t.ID
		p.add(state.Write{Any: true, Put: &state.Alias{
			Head: cluster.Head{Cluster: t.Cluster}, Derived: derived, Owner: t.Owner, ID: t.ID,
		}})
	}
	t.Rev++
	p.put(t)
	o := p.out(t.Owner, t.TaskDefinition, t.Batch, p.network(t))
	if s := p.snap.Services[t.Service]; s != nil && s.Short == t.Owner {
		o.Launch = s.Launch()
	}
	o.Starts = append(o.Starts, item)
}

// stop wants a task that has an instance stopped, after its registrations if it has any: at most 2 rows.
func (p *planner) stop(t *cluster.Task, code, reason string) {
	p.add(state.Write{Stop: &state.Stop{Task: state.KeyOf(t), Code: code, Reason: reason}})
	p.versioned = true
	next := *t
	next.Rev++
	next.Desired, next.StopCode, next.Reason = cluster.TaskStopped, code, reason
	p.snap.Put(&next)
	o := p.out("", "", "", nil)
	o.Stops = append(o.Stops, state.StopItem{
		Owner: t.Owner, ID: t.ID, ECSID: t.ECSID, Reason: reason,
		Drain: p.snap.Target(t.Owner, t.ID) != nil,
	})
}

// registrations has dispatch look at where a task should be registered: at most 1 row.
func (p *planner) registrations(owner, id string) {
	o := p.outBeside()
	o.Targets = append(o.Targets, state.TargetItem{Owner: owner, ID: id})
}

// publish has events sent to the event bus: at most 1 row.
func (p *planner) publish(events ...state.PublishedEvent) {
	o := p.outBeside()
	o.Publish = append(o.Publish, events...)
}

// outBeside is the open commit's outbox row for what takes no token: it does not wait behind starts that do.
func (p *planner) outBeside() *state.Outbox {
	if p.beside == nil {
		p.beside = &state.Outbox{Head: cluster.Head{Cluster: p.snap.Meta.Cluster}, CreatedAt: p.now}
	}
	return p.beside
}

// besideID is the id of the open commit's row of [planner.outBeside]. It sorts before those of starts and stops, the oldest
// first, and follows from the commit: only the same decision made again makes the same row.
func (p *planner) besideID() string {
	of := make([]string, 0, 2*len(p.writes))
	for _, w := range p.writes {
		of = append(of, w.Key().Sort)
		if w.Put != nil && !w.Any {
			of = append(of, fmt.Sprint(w.Put.Header().Rev))
		}
	}
	for _, t := range p.beside.Targets {
		of = append(of, t.Owner, t.ID)
	}
	return fmt.Sprintf("%s%013d-%s", state.OutboxFirst, p.now.UnixMilli(), cluster.Digest(of...)[:16])
}

// network is the task's, or its revision's.
func (p *planner) network(t *cluster.Task) *cluster.Network {
	if s := p.snap.Services[t.Service]; s != nil && t.Service != "" {
		if r := s.Revision(t.Revision); r != nil {
			return r.Network
		}
	}
	return t.Network
}

// out is the open commit's outbox row for one batch of starts, or for its stops. These rest on the version, so that no other
// commit makes its id.
func (p *planner) out(owner, definition, batch string, network *cluster.Network) *state.Outbox {
	i := slices.IndexFunc(p.outbox, func(o *state.Outbox) bool {
		return o.Owner == owner && o.TaskDefinition == definition && o.Batch == batch && o.Network.Equal(network)
	})
	if i >= 0 {
		return p.outbox[i]
	}
	o := &state.Outbox{
		Head: cluster.Head{Cluster: p.snap.Meta.Cluster, Rev: 1}, ID: fmt.Sprintf("%013d-%02d", p.next, len(p.outbox)),
		CreatedAt: p.now, Owner: owner, TaskDefinition: definition, Batch: batch, Network: network,
	}
	p.outbox = append(p.outbox, o)
	return o
}
