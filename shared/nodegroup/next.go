// Package nodegroup decides the next steps of a node group's update: which launch template version and sizes its Auto
// Scaling group is to have, which nodes are taken out of service, drained, terminated or put back. It acts on nothing
// and reads no clock: the update's row, what is there and the time in, the row and what to do out.
package nodegroup

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/shared/cluster"
)

// Group is the Auto Scaling group as it is, and what else an update has to know.
type Group struct {
	Name string
	cluster.Sizes
	// Zones are the availability zones that it is deployed in, whether they have nodes or not.
	Zones []string
	// Template is the launch template version that it launches from, as ID:VERSION.
	Template string
	// Made is the version of its launch template with the description [TemplateName]; empty where there is none.
	Made string
	// Failures are its launches that failed since the update was created.
	Failures []LaunchFailure
	// Growing reports that managed scaling is raising the desired capacity, or would if it were let (N5).
	Growing bool
	// Sick are what is unhealthy in the cluster, each in words by its name: looked at after each upgrade domain (N7).
	Sick map[string]string
	// Room says why the rest of the cluster has no room for the load of some nodes, by container instance id; empty where it
	// has (N7). nil: it always has.
	Room func(leaving []string) string
}

// LaunchFailure is an instance that the Auto Scaling group could not launch.
type LaunchFailure struct {
	Zone    string
	Code    string // of EC2, as InsufficientInstanceCapacity; empty where only the message is known
	Message string
}

// Lifecycle is an instance's lifecycle state in its Auto Scaling group.
type Lifecycle uint8

// The lifecycle states that an update tells apart.
const (
	InService   Lifecycle = iota
	Pending               // being launched
	Terminating           // on its way out
)

// Instance is a member of the Auto Scaling group.
type Instance struct {
	ID        string // EC2 instance id
	Zone      string
	Template  string // launch template version that it was made from, as ID:VERSION
	Lifecycle Lifecycle
	// Row is the container instance that it registered as; nil where it has not.
	Row *cluster.Instance
	// Tasks are those that hold capacity on it.
	Tasks []Task
}

// Task is a task on a node.
type Task struct {
	*cluster.Task
	Daemon    bool // of a DAEMON service
	Protected bool
	// Why says why its service does not let it go, where that is known.
	Why string
}

const (
	// tick is how often an update in progress is looked at: no event tells of an Auto Scaling group's instances.
	tick = time.Minute
	// asleep is the time without a look from which on nobody is taken to have been awake: nothing could be replaced in it,
	// so no wait goes on (static stability).
	asleep = 5 * time.Minute
	// rounds is more than the steps that an update can take at once; if it ever is not, the next look goes on.
	rounds = 100
)

// Next takes an update as far as it can go now and says what is to be done for it to go on (N1 to N7). The update comes
// back as the same pointer where nothing has changed, else as a new row, to be written before anything is done. The
// same inputs give the same answer, and the row given back gives the same actions again: each is an intent that can be
// repeated, or lost, at any time. Nothing is to be done for an update that has ended.
func Next(u *cluster.Update, g Group, instances []Instance, now time.Time) (*cluster.Update, []Action) {
	if u.Ended() {
		return u, nil
	}
	w := newWork(u, instances)
	w.group, w.now = g, now
	w.look()
	w.watchMax()
	maps.DeleteFunc(w.Refused, func(id, _ string) bool { return w.byID[id] == nil })
	for range rounds {
		before := clone(w.Update)
		w.advance()
		if w.Ended() || reflect.DeepEqual(before, w.Update) {
			break
		}
	}
	var actions []Action
	w.Waiting = ""
	if !w.Ended() {
		actions = w.act()
		w.noteMax(actions)
		w.Waiting = w.waiting()
	}
	if reflect.DeepEqual(u, w.Update) {
		return u, actions
	}
	return w.Update, actions
}

// work is an update with what is there while its next step is found.
type work struct {
	*cluster.Update
	group   Group
	members []Instance // in order of id
	byID    map[string]*Instance
	labels  map[string]string // of a node that is up to date
	now     time.Time
}

func newWork(u *cluster.Update, instances []Instance) *work {
	w := &work{Update: clone(u), members: slices.Clone(instances), byID: make(map[string]*Instance, len(instances)), labels: Labels(u)}
	slices.SortFunc(w.members, func(a, b Instance) int { return compare(a.ID, b.ID) })
	for i := range w.members {
		w.byID[w.members[i].ID] = &w.members[i]
	}
	return w
}

func clone(u *cluster.Update) *cluster.Update {
	c := *u
	c.Errors, c.Work = slices.Clone(u.Errors), slices.Clone(u.Work)
	c.Unready, c.Sick = slices.Clone(u.Unready), slices.Clone(u.Sick)
	c.Maxima, c.Refused = slices.Clone(u.Maxima), maps.Clone(u.Refused)
	c.Kept, c.Blocked, c.Abandoned = slices.Clone(u.Kept), slices.Clone(u.Blocked), slices.Clone(u.Abandoned)
	return &c
}

// advance takes one step of the phase.
func (w *work) advance() {
	switch w.Phase {
	case cluster.PhaseSetup:
		w.setUp()
	case cluster.PhaseScaleUp:
		w.scaleUp()
	case cluster.PhaseUpgrade:
		w.upgrade()
	case cluster.PhaseScaleDown, cluster.PhaseRestore:
		w.shrink()
	}
}

// act is what the phase wants done.
func (w *work) act() []Action {
	switch w.Phase {
	case cluster.PhaseSetup:
		return w.actSetUp()
	case cluster.PhaseScaleUp:
		return w.actScaleUp()
	case cluster.PhaseUpgrade:
		return w.actUpgrade()
	}
	return w.actShrink()
}

func (w *work) enter(p cluster.UpdatePhase) {
	if w.Phase != cluster.PhaseScaleDown {
		w.SeenDesired = 0
	}
	w.Phase, w.Since = p, time.Time{}
}

// end closes the update, with the sizes that the group has now.
func (w *work) end(s cluster.UpdateStatus) {
	final := w.group.Sizes
	w.Status, w.EndedAt, w.Final, w.Work, w.Since = s, w.now, &final, nil, time.Time{}
}

// look notes that somebody is awake. A gap since the last look stops the clock of every wait.
func (w *work) look() {
	gap := w.now.Sub(w.LookedAt)
	switch {
	case w.LookedAt.IsZero() || gap < 0:
		w.LookedAt = w.now
	case gap >= asleep:
		w.LookedAt = w.now
		for _, t := range []*time.Time{&w.Since, &w.Short.Since, &w.Stalled, &w.DomainDone} {
			shift(t, gap)
		}
		for i := range w.Work {
			shift(&w.Work[i].Since, gap)
			shift(&w.Work[i].DrainingAt, gap)
		}
	case gap >= tick:
		w.LookedAt = w.now
	}
}

func shift(t *time.Time, by time.Duration) {
	if !t.IsZero() {
		*t = t.Add(by)
	}
}

// over reports whether a wait that began at a time has ended; one that has not begun has not.
func (w *work) over(since time.Time, wait time.Duration) bool {
	return !since.IsZero() && !w.now.Before(since.Add(wait))
}

// nearlyOver is the same of a wait that may end a tenth early: looks come a minute apart, give or take some seconds, and one
// that comes just before the end of a wait of a minute would have it take two.
func (w *work) nearlyOver(since time.Time, wait time.Duration) bool {
	return w.over(since, wait-wait/10)
}
