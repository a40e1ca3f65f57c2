package service

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// condition is the bucket that a task is sorted into. Stopping a task of an earlier condition loses
// less.
type condition uint8

const (
	provisioning   condition = iota // waits for an instance
	starting                        // has an instance and is not RUNNING yet
	awaitingChecks                  // RUNNING; its health checks have not found it healthy yet
	unhealthy                       // a health check fails, and the grace period is over
	disconnected                    // its instance has been disconnected for too long
	stabilizing                     // RUNNING without health checks, too short a time to count as healthy
	healthy
	conditions = iota
)

// task is a task that counts for its service: it should run, is not being stopped, and its instance
// is registered.
type task struct {
	row            *cluster.Task
	target         *cluster.Target // nil if it is registered nowhere
	revision       string          // id of its deployment
	condition      condition
	onDraining     bool      // its instance is draining
	protectedUntil time.Time // zero if it is not protected now
}

// isUp reports whether the task is RUNNING and nothing speaks against it.
func (t *task) isUp() bool { return t.condition >= stabilizing }

// isFailing reports whether the task has to be replaced, if its health checks are to be believed.
func (t *task) isFailing() bool { return t.condition == unhealthy || t.condition == disconnected }

// isServing reports whether the task is taken to do its work. While checks are distrusted,
// unhealthy tasks are.
func (t *task) isServing(distrustChecks bool) bool {
	return t.isUp() || distrustChecks && t.condition == unhealthy
}

func (t *task) isProtected() bool { return !t.protectedUntil.IsZero() }

// bucket holds the tasks of one revision that are in one condition, sorted by id.
type bucket struct {
	tasks []*task
	// kept counts tasks of earlier choices that will stay. Which of the candidates they are,
	// placement decides.
	kept int
}

func (b bucket) count() int { return len(b.tasks) + b.kept }

// taskBuckets are tasks by condition.
type taskBuckets [conditions]bucket

// revisionTasks are the tasks of one revision, as the decisions so far leave them.
type revisionTasks struct {
	deployment *cluster.Deployment
	primary    bool
	listed     bool // the service's row has the deployment
	// abandoned is set for an older deployment of which no more tasks are started.
	abandoned bool
	desired   int
	// all are the tasks before anything was decided, sorted by id.
	all []*task
	// staying and onDraining are the tasks that nothing decided so far stops, apart by the state of
	// their instance.
	staying, onDraining taskBuckets
	pairs               []pair
	// stopping are tasks that are being stopped already. Those on instances that have timed out are
	// not among them: they end when the agent is back, and nothing waits for that.
	stopping int
	// justEnded are tasks that ran, but so briefly that their replacement has to wait (S6).
	justEnded int
}

// count returns how many tasks of a condition are left.
func (r *revisionTasks) count(c condition) int { return r.staying[c].count() + r.onDraining[c].count() }

// totalCount returns how many tasks are left.
func (r *revisionTasks) totalCount() (n int) {
	for c := range condition(conditions) {
		n += r.count(c)
	}
	return n
}

// failingCount returns how many of the tasks left are unhealthy or disconnected.
func (r *revisionTasks) failingCount() int { return r.count(unhealthy) + r.count(disconnected) }

// drainingCount returns how many of the tasks left have to go only because their instance is
// draining.
func (r *revisionTasks) drainingCount() (n int) {
	for c, b := range r.onDraining {
		if condition(c) != unhealthy {
			n += b.count()
		}
	}
	return n
}

// stayingCount returns how many of the tasks left are to stay. A task and its replacement are one.
func (r *revisionTasks) stayingCount() int {
	return r.totalCount() - r.failingCount() - r.drainingCount() - r.pairsInProgress()
}

// undecidedCount returns how many of the tasks that are to stay may still turn out healthy or
// unhealthy.
func (r *revisionTasks) undecidedCount() (n int) {
	for _, c := range []condition{provisioning, starting, awaitingChecks, stabilizing} {
		n += r.staying[c].count()
	}
	return n
}

// steadyCount returns how many of the tasks left are up. A task and its replacement are one.
func (r *revisionTasks) steadyCount() int {
	n := r.count(stabilizing) + r.count(healthy)
	for _, p := range r.pairs {
		if !p.broken && p.task != nil && p.task.isUp() && p.replacement.isUp() {
			n--
		}
	}
	return n
}

// tasksLeft returns the tasks of some conditions that nothing decided so far stops, sorted by id.
func (r *revisionTasks) tasksLeft(of func(*task) bool) (out []*task) {
	for c := range condition(conditions) {
		for _, b := range []bucket{r.staying[c], r.onDraining[c]} {
			for _, t := range b.tasks {
				if of(t) {
					out = append(out, t)
				}
			}
		}
	}
	slices.SortFunc(out, compareIDs)
	return out
}

// hasTask reports whether the task is left.
func (r *revisionTasks) hasTask(t *task) bool {
	_, found := slices.BinarySearchFunc(r.bucketOf(t).tasks, t, compareIDs)
	return found
}

func (r *revisionTasks) bucketOf(t *task) *bucket {
	if t.onDraining {
		return &r.onDraining[t.condition]
	}
	return &r.staying[t.condition]
}

// isFailed reports whether the revision's deployment has failed: it starts no more tasks and
// replaces nothing.
func (r *revisionTasks) isFailed() bool { return r.deployment.State == cluster.RolloutFailed }

// scalingReason is why tasks stop of which the deployment wants fewer, in ECS's words.
func (r *revisionTasks) scalingReason(*task) string {
	return "Scaling activity initiated by (deployment " + r.deployment.ID + ")"
}

// withoutTasks returns the revision without the given tasks.
func (r revisionTasks) withoutTasks(gone map[*task]bool) revisionTasks {
	isGone := func(t *task) bool { return gone[t] }
	for _, buckets := range []*taskBuckets{&r.staying, &r.onDraining} {
		for c := range buckets {
			if b := &buckets[c]; slices.ContainsFunc(b.tasks, isGone) {
				b.tasks = slices.DeleteFunc(slices.Clone(b.tasks), isGone)
			}
		}
	}
	r.pairs = slices.Clone(r.pairs)
	for i, p := range r.pairs {
		r.pairs[i].broken = p.broken || gone[p.task] || gone[p.replacement]
	}
	return r
}

func compareIDs(a, b *task) int { return cmp.Compare(a.row.ID, b.row.ID) }
