package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/sim/autoscaling"
	"berth/shared/state"
)

// upgradeJudge watches a node group and what is done to it, and knows nothing of how that is decided: invariants 6 and 7,
// and what N2 to N5 promise.
type upgradeJudge struct {
	*upgrading
	// sizes are the group's as its user has them, count its nodes by zone, when the last update began that no failed one
	// was before.
	sizes cluster.Sizes
	count map[string]int
	// upToDate are the EC2 ids of nodes that were when the update began.
	upToDate map[string]bool
	// ours are the nodes that updates have taken out of service, drained for how long they have been DRAINING while somebody
	// was awake.
	ours    map[string]bool
	drained map[string]time.Duration
	most    int // nodes in service since old ones are replaced
	// What would explain a failure: nodes that go by themselves, launches that fail, tasks that do not leave, calls that are
	// denied. scaledAt is when managed scaling last changed the group, grewAt when it last enlarged it.
	disturbed, strange, blocked, denied bool
	codes                               map[string]bool // of launches that failed
	scaledAt, grewAt                    time.Time
	// surged reports that the update has enlarged the group: from then on nobody else may take what it has added.
	surged bool
	// calm holds an update to success.
	calm    bool
	began   time.Time
	entered map[cluster.UpdatePhase]time.Time
	ends    []*cluster.Update
}

func newUpgradeJudge(u *upgrading) *upgradeJudge {
	return &upgradeJudge{
		upgrading: u, ours: map[string]bool{}, drained: map[string]time.Duration{}, codes: map[string]bool{}, upToDate: map[string]bool{},
	}
}

// begin looks from now on.
func (j *upgradeJudge) begin() {
	j.sizes, j.count = j.pool.sizes(), j.zones()
	j.Loop.After(time.Minute, j.minute)
}

// minute is how often it looks though nothing is done.
func (j *upgradeJudge) minute() {
	u := j.last()
	for _, n := range j.nodes() {
		if j.ours[n.ID] && n.draining() && j.Loop.Now().Sub(u.ReconciledAt) < 150*time.Second {
			j.drained[n.ID] += time.Minute
		} else if !n.draining() {
			delete(j.drained, n.ID)
		}
	}
	j.look()
	j.Loop.After(time.Minute, j.minute)
}

// launching is called for each launch that something is wrong with.
func (j *upgradeJudge) launching(f autoscaling.LaunchFault) {
	switch {
	case f.Reason != "":
		j.codes[f.Reason] = true
	case f.Silent:
		j.codes["silent"] = true
	}
	j.strange = true
}

// instance is the EC2 id of a container instance.
func (j *upgradeJudge) instance(id string) *node {
	for _, n := range j.nodes() {
		if n.row != nil && n.row.ID == id || n.ID == id {
			return n
		}
	}
	return nil
}

// drains is called before a container instance is made DRAINING.
func (j *upgradeJudge) drains(function, id string) {
	if j == nil || function != upgrader {
		return
	}
	n, u := j.instance(id), j.last()
	if n == nil || u == nil {
		return
	}
	if !n.draining() && !n.leaving() {
		j.ours[n.ID] = true
	}
	if u.Phase != cluster.PhaseUpgrade {
		return
	}
	if j.upToDate[n.ID] {
		j.checker.fail("N3: node %s was up to date when update %s began, and is drained", n.ID, u.ID)
	}
	if u.Config.Strategy == cluster.UpdateMinimal || u.ByDomain {
		return
	}
	for _, o := range j.nodes() {
		if _, marked := o.attribute(cluster.AttributeUnschedulable); o.serving() && o.old(u) && !marked && j.settledNode(o) {
			j.checker.fail("N3: node %s is drained, and old node %s still takes tasks", n.ID, o.ID)
		}
	}
}

// settledNode reports whether an instance registered long enough ago for everybody to know.
func (j *upgradeJudge) settledNode(n *node) bool {
	return n.row != nil && j.Loop.Now().Sub(n.row.RegisteredAt.Time()) >= lately
}

// released is called when an update has put a node back.
func (j *upgradeJudge) released(id string) {
	if j == nil {
		return
	}
	if n := j.instance(id); n != nil {
		delete(j.ours, n.ID)
	}
}

// terminates is called before an instance is terminated through the group.
func (j *upgradeJudge) terminates(function, id string, lower bool) {
	if j == nil {
		return
	}
	if function != upgrader {
		j.scaled(false)
		return
	}
	n, u, g := j.instance(id), j.last(), j.group()
	if n == nil || u == nil || g == nil || n.leaving() {
		return
	}
	if known := n.row != nil && j.checker.known[n.row.ID] != nil; known && (n.serving() || n.draining()) {
		j.ours[n.ID] = true
		j.Loop.After(u.Timeouts.Terminate, func() { delete(j.ours, n.ID) }) // then it is no longer waited for
	}
	if lower && g.Desired <= j.sizes.Desired && j.scaledAt.IsZero() {
		j.checker.fail("invariant 6: node %s is terminated, and the desired capacity falls to %d, below %d", n.ID, g.Desired-1, j.sizes.Desired)
	}
	if lower && !j.grewAt.IsZero() && j.shrinking(u) && j.Loop.Now().Sub(j.grewAt) > lately && j.grewAt.After(j.began) && j.grewAt.After(j.shrinkAt(u)) {
		j.checker.fail("N5: managed scaling enlarged the group %s ago, and update %s goes on to shrink it", j.Loop.Now().Sub(j.grewAt), u.ID)
	}
	j.tasksOn(n, u)
}

// tasksOn checks what is taken away with a node: nothing, unless by force (N4, invariant 7). What has only just been started
// nobody can have known of.
func (j *upgradeJudge) tasksOn(n *node, u *cluster.Update) {
	for _, t := range n.tasks {
		row := j.checker.byECS(t.ID)
		switch {
		case !t.Alive || j.Loop.Now().Sub(t.Created) < j.checker.tolerance || t.Last == cluster.TaskRunning && j.Loop.Now().Sub(t.Started) < j.checker.tolerance:
		case row != nil && j.checker.protects(row, time.Minute) && !u.ForceProtected:
			j.checker.fail("invariant 7: node %s is terminated with task %s, which is protected", n.ID, row.ID)
		case !u.Force && n.row.AgentConnected:
			j.checker.fail("N4: node %s is terminated with task %s (%s)", n.ID, t.ID, t.Last)
		}
	}
	const wait = time.Minute
	if j.chaos.rates[Skew] > 0 || j.chaos.rates[Linger] > 0 || u.Force || !n.live() {
		return
	}
	if ago := j.Loop.Now().Sub(n.empty); !n.empty.IsZero() && ago < wait {
		j.checker.fail("N4: node %s is terminated %s after its last task stopped, not %s", n.ID, ago, wait)
	}
}

// stopped checks a task that an update has stopped by force (invariant 7).
func (j *upgradeJudge) stopped(t *cluster.Task) {
	u := j.last()
	if t.Desired != cluster.TaskStopped || u == nil || !strings.HasSuffix(t.Reason, "by update "+u.ID) {
		return
	}
	j.mark(MarkForced)
	if j.checker.protects(t, time.Minute) && !u.ForceProtected {
		j.checker.fail("invariant 7: task %s, which is protected, is stopped by force", t.ID)
	}
}

// forces reports whether an update may stop whatever runs on a container instance.
func (u *upgrading) forces(id string) bool {
	if u == nil || u.last() == nil || !u.last().Force {
		return false
	}
	n := u.judge.instance(id)
	return n != nil && u.judge.ours[n.ID]
}

// byECS is the row of an ECS task.
func (c *checker) byECS(id string) *cluster.Task {
	t, _ := c.rows[c.byECSID[id]].(*cluster.Task)
	return t
}

// protects reports whether a task is protected for so long yet, and has been for a while.
func (c *checker) protects(t *cluster.Task, yet time.Duration) bool {
	key := state.ProtectionKey(t.Cluster, t.Owner, t.ID)
	p, ok := c.rows[key].(*cluster.Protection)
	return ok && p != nil && p.Until.After(c.now().Add(yet)) && c.now().Sub(c.old[key].at) >= c.tolerance
}

// meantToGrow reports whether managed scaling has said since a time that it enlarges the group: it says so before it does.
func (j *upgradeJudge) meantToGrow(since time.Time) bool {
	for _, row := range j.checker.rows {
		if h, ok := row.(*cluster.ScalingHistory); ok && h.LastScaleOut.After(since) {
			return true
		}
	}
	return false
}

// desired is called before somebody sets the desired capacity.
func (j *upgradeJudge) desired(function string, n int) {
	if j == nil || function == upgrader {
		return
	}
	g := j.group()
	if g == nil || g.Desired == n {
		return
	}
	j.scaled(n > g.Desired)
	ng, u := j.nodeGroup(), j.last()
	if n < g.Desired && u != nil && ng.Status == cluster.NodeGroupUpdating && (j.surged || j.Loop.Now().Sub(j.began) > j.checker.tolerance) {
		j.checker.fail("C1: managed scaling takes nodes of a group under update, from %d to %d", g.Desired, n)
	}
}

func (j *upgradeJudge) scaled(grew bool) {
	j.scaledAt = j.Loop.Now()
	if grew {
		j.grewAt = j.scaledAt
		j.mark(MarkScaledOut)
	}
}

// sized is called when the sizes have been set.
func (j *upgradeJudge) sized(function string) {
	if j == nil || function != upgrader {
		return
	}
	s := j.group()
	if s == nil {
		return
	}
	surge := j.pool.surge(j.sizes.Desired)
	if s.Max > j.sizes.Max+surge || s.Desired > j.sizes.Desired+surge && j.scaledAt.IsZero() {
		j.checker.fail("N2: the group is %d of %d; with a surge of %d, %+v may be enlarged", s.Desired, s.Max, surge, j.sizes)
	}
	if u := j.last(); u != nil && u.Phase == cluster.PhaseScaleUp {
		j.surged = true
	}
	j.look()
}

// acted is called when something that was done has taken effect.
func (j *upgradeJudge) acted(function string) {
	if j != nil && function == upgrader {
		j.look()
	}
}

// look holds what is there against invariant 6.
func (j *upgradeJudge) look() {
	g, u := j.group(), j.last()
	if g == nil || u == nil || j.began.IsZero() {
		return
	}
	if g.Min != j.sizes.Min {
		j.checker.fail("invariant 6: the group's minimum is %d, was %d", g.Min, j.sizes.Min)
	}
	out, serving := 0, 0
	for _, n := range j.nodes() {
		if j.ours[n.ID] && (n.draining() || n.leaving()) {
			out++
		}
		if n.serving() {
			serving++
		}
		if j.drained[n.ID] > j.longestDrain() && !u.Force {
			j.checker.fail("N4: node %s has been DRAINING for %s", n.ID, j.drained[n.ID])
		}
	}
	most := j.pool.parallel(j.sizes.Desired)
	if out > most {
		j.checker.fail("invariant 6: %d nodes are out of service at once, at most %d may be (%s)", out, most, u.Phase)
	}
	if u.HasEnded() || u.Phase != cluster.PhaseUpgrade {
		j.most = 0
		return
	}
	j.most = max(j.most, serving)
	if !j.disturbed && serving < j.most-most {
		j.checker.fail("invariant 6: %d nodes are in service, of %d at most %d may be missing", serving, j.most, most)
	}
}

// longestDrain is 15 minutes, and what the last steps take; longer where some looks come to nothing.
func (j *upgradeJudge) longestDrain() time.Duration {
	if j.chaos.struckAny() || j.denied {
		return 45 * time.Minute
	}
	return 18 * time.Minute
}

func (j *upgradeJudge) shrinking(u *cluster.Update) bool {
	return u.Phase == cluster.PhaseScaleDown || u.Phase == cluster.PhaseRestore
}

// shrinkAt is when the update's row last entered its phase.
func (j *upgradeJudge) shrinkAt(u *cluster.Update) time.Time { return j.entered[u.Phase] }

// update sees what an update has become.
func (j *upgradeJudge) update(old, now *cluster.Update) {
	if now.Type != cluster.UpdateVersion {
		return
	}
	if old == nil {
		j.first(now)
	}
	if old == nil || old.Phase != now.Phase {
		j.entered[now.Phase] = j.Loop.Now()
		j.note("update %s: %s", now.ID, now.Phase)
	}
	j.domains(now)
	if now.HasEnded() && (old == nil || !old.HasEnded()) {
		j.end(now)
	}
}

// domains checks that the nodes being replaced are of one upgrade domain (N7).
func (j *upgradeJudge) domains(u *cluster.Update) {
	if !u.ByDomain || u.Phase != cluster.PhaseUpgrade {
		return
	}
	of := map[string]bool{}
	for _, w := range u.Removals {
		if n := j.instance(w.Instance); n != nil {
			if d, known := n.attribute(cluster.AttributeUpgrade); known {
				of[d] = true
			}
		}
	}
	if len(of) > 1 {
		j.checker.fail("N7: nodes of upgrade domains %v are replaced at once", slices.Sorted(maps.Keys(of)))
	}
}

func (j *upgradeJudge) first(u *cluster.Update) {
	j.surged = false
	j.began, j.most, j.entered = j.Loop.Now(), 0, map[cluster.UpdatePhase]time.Time{}
	clear(j.upToDate)
	for _, n := range j.nodes() {
		if label, _ := n.attribute(nodegroup.LabelImage); label == u.Target.Image {
			j.upToDate[n.ID] = true
		}
	}
	j.mark(MarkUpdate)
	left := func(g *cluster.AutoScalingGroup) bool { // the group has what the last update left of its own
		return u.UnrestoredSizes != nil && u.UnrestoredSizes.Desired < u.LeftSizes.Desired && u.LeftSizes != nil && *u.LeftSizes == cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired}
	}
	if g := j.group(); g != nil && !left(g) {
		if !j.scaledAt.IsZero() {
			j.sizes.Desired = min(g.Desired, j.sizes.Max) // an update may have left it room for more
		}
		if u.UnrestoredSizes == nil || u.LeftSizes.Desired != g.Desired || u.UnrestoredSizes.Desired == u.LeftSizes.Desired {
			j.count = j.zones()
		}
	}
	j.scaledAt, j.grewAt = time.Time{}, time.Time{}
}

// end looks at what an update leaves.
func (j *upgradeJudge) end(u *cluster.Update) {
	j.ends = append(j.ends, u)
	j.note("update %s: %s, zones %v of %v, sizes %+v, errors %+v, stopped %q", u.ID, u.Status, j.zones(), u.Zones, u.FinalSizes, u.Errors, u.SizesReason)
	j.mark(Mark("upgrade: " + string(u.Status)))
	for _, e := range u.Errors {
		j.mark(Mark("upgrade: " + string(e.Code)))
		j.justified(u, e)
	}
	if u.SizesReason != "" {
		j.mark(MarkStopped)
	}
	if j.calm && u.Status != cluster.UpdateSuccessful {
		j.checker.fail("invariant 8: nothing went wrong, and update %s failed: %+v", u.ID, u.Errors)
	}
	g := j.group()
	if g == nil {
		return
	}
	j.endSizes(u, cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired})
	if u.Status == cluster.UpdateSuccessful {
		j.succeeded(u)
	}
	j.Loop.After(5*time.Minute, func() { // what was late has happened
		if j.last() == u && (u.SizesReason == "" || !j.denied) && !j.lost {
			j.usable()
		}
	})
}

// endSizes checks that the group has its sizes again, or that there is a reason that it has not, and is told.
func (j *upgradeJudge) endSizes(u *cluster.Update, now cluster.Sizes) {
	if now == j.sizes {
		return
	}
	kept := len(u.RetainedNodes) > 0 && slices.ContainsFunc(u.Errors, func(e cluster.UpdateError) bool {
		return e.Code == cluster.PodEvictionFailure && strings.Contains(e.Message, "nodes more than")
	})
	switch {
	case kept && (j.blocked || j.chaos.struckAny()), j.lost && u.SizesReason != "", j.denied && u.SizesReason != "", !j.scaledAt.IsZero() && u.SizesReason != "":
	case u.SizesReason != "" && j.meantToGrow(j.began.Add(-lately-cluster.DefaultScaling.Warmup)):
	case !j.scaledAt.IsZero() && j.Loop.Now().Sub(j.scaledAt) < lately: // just now
	case !j.scaledAt.IsZero() && u.OriginalSizes != nil && now == *u.OriginalSizes: // it was scaled before the update looked at it
	default:
		j.checker.fail("invariant 6: the sizes are %+v, were %+v, and nothing justifies that: %q, kept %v, errors %+v", now, j.sizes, u.SizesReason, u.RetainedNodes, u.Errors)
	}
}

// succeeded checks that every node was replaced, and that the zones have what they had.
func (j *upgradeJudge) succeeded(u *cluster.Update) {
	for _, n := range j.nodes() {
		if n.old(u) && !n.leaving() && j.settledNode(n) {
			j.checker.fail("N4: update %s is Successful, and node %s is from %s", u.ID, n.ID, n.Template)
		}
	}
	if now := j.zones(); !j.disturbed && !j.strange && len(u.RetainedNodes) == 0 && j.scaledAt.IsZero() && !maps.Equal(now, j.count) && j.group().Desired == j.sizes.Desired {
		j.checker.fail("N2: the zones have %v, had %v", now, j.count)
	}
}

// justified checks an error of an update: its code has to go back to something that went wrong, and name it.
func (j *upgradeJudge) justified(u *cluster.Update, e cluster.UpdateError) {
	chaotic := j.chaos.struckAny()
	switch e.Code {
	case cluster.NodeCreationFailure:
		if len(j.codes) == 0 && !j.disturbed && !chaotic {
			j.checker.fail("N2: update %s failed, and every launch was fine: %s", u.ID, e.Message)
		}
	case cluster.PodEvictionFailure:
		if !j.blocked && !chaotic {
			j.checker.fail("N4: update %s failed, and nothing kept tasks: %s", u.ID, e.Message)
		}
	case cluster.UpdateAccessDenied:
		if !j.denied && j.chaos.hits[ECSDenied] == 0 {
			j.checker.fail("update %s failed, and nothing was denied: %s", u.ID, e.Message)
		}
	case cluster.UnknownUpdateError:
		if !chaotic {
			j.checker.fail("update %s failed: %s", u.ID, e.Message)
		}
	default:
		if refused := chaotic && strings.HasPrefix(e.Message, "Nodes cannot be made unschedulable"); !j.lost && !refused {
			j.checker.fail("update %s failed by %s: %s", u.ID, e.Code, e.Message)
		}
	}
	if len(e.Resources) == 0 {
		j.checker.fail("N6: the error %+v names no resource", e)
	}
}

// atRest checks what no update may leave, and what the last has made of the node group, having succeeded.
func (j *upgradeJudge) atRest() {
	j.usable()
	j.labelled()
	if image, u := j.nodeGroup().Target.Image, j.last(); image != u.Target.Image {
		j.checker.fail("N6: the node group's image is %s, the update's was %s", image, u.Target.Image)
	}
}

// usable checks what no update may leave.
func (j *upgradeJudge) usable() {
	ng, u := j.nodeGroup(), j.last()
	if ng.Status != cluster.NodeGroupActive || !u.HasEnded() {
		j.checker.fail("invariant 8: the node group is %s, its update %s", ng.Status, u.Status)
		return
	}
	for _, n := range j.nodes() {
		if by, marked := n.attribute(cluster.AttributeUnschedulable); marked {
			j.checker.fail("N6: node %s is left unschedulable by %s", n.ID, by)
		}
		if j.ours[n.ID] && n.draining() {
			j.checker.fail("N6: node %s is left DRAINING", n.ID)
		}
	}
}
