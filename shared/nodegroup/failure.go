package nodegroup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// Fail ends an update's way forward for an error that no retry can help, as a call that is refused: what it has changed
// is put back, and then it has failed. An update that has ended stays as it is.
func Fail(u *cluster.Update, e cluster.UpdateError) *cluster.Update {
	if u.Ended() {
		return u
	}
	w := newWork(u, nil)
	w.fail(e)
	return w.Update
}

// fail has everything put back that the update has changed. A launch template version that nobody has seen work is given
// up; one with Ready nodes stays, and the update can be run again from there.
func (w *work) fail(errors ...cluster.UpdateError) {
	w.Errors = append(w.Errors, errors...)
	if w.Phase == cluster.PhaseRestore {
		return
	}
	unseen := w.Phase == cluster.PhaseSetup || w.Phase == cluster.PhaseScaleUp || len(w.members) > 0 && w.readyCount() == 0
	w.Revert = unseen && w.OriginalTemplate != "" && w.OriginalTemplate != w.Template
	w.Short, w.Stalled, w.Sick, w.Domain, w.DomainDone = cluster.NodeShortage{}, zero, nil, "", zero
	w.enter(cluster.PhaseRestore)
	for k := range w.Work {
		w.release(&w.Work[k])
	}
}

// GiveUp is called where something that a failed update has to put back is refused for good, or cannot even be looked at.
// After as long as tasks have to leave a node it leaves the sizes as they are and only puts nodes back into service; after as
// long again it ends, and says what it leaves. The sizes are the group's, nil where they are not known: then they are taken to
// be those that it was given last.
func GiveUp(u *cluster.Update, why string, sizes *cluster.Sizes, now time.Time) *cluster.Update {
	if u.Ended() {
		return u
	}
	w := newWork(u, nil)
	w.now = now
	w.look()
	w.Waiting = "to be allowed to put back what was changed: " + why
	switch {
	case w.Since.IsZero():
		w.Since = now
	case !w.over(w.Since, w.Waits.Drain):
	case w.Stopped == "":
		w.Since, w.Stopped = zero, "What was changed could not be put back: "+why
	default:
		w.group.Sizes = w.lastSizes(sizes)
		w.Stopped += w.leaves()
		w.Waiting = ""
		w.end(cluster.UpdateFailed)
	}
	return w.Update
}

func (w *work) lastSizes(known *cluster.Sizes) cluster.Sizes {
	switch {
	case known != nil:
		return *known
	case w.Original == nil:
		return cluster.Sizes{}
	}
	return w.enlarged()
}

// leaves names the nodes that an update leaves out of service.
func (w *work) leaves() string {
	var ids []string
	for _, n := range w.Work {
		ids = append(ids, n.Instance)
	}
	if len(ids) == 0 {
		return ""
	}
	return "; nodes may be left out of service: " + list(ids)
}

// creationErrors say why there are fewer new nodes than there should be (N2).
func (w *work) creationErrors() (out []cluster.UpdateError) {
	add := func(ids []string, format string, args ...any) {
		if len(ids) > 0 {
			out = append(out, cluster.UpdateError{
				Code: cluster.NodeCreationFailure, Message: fmt.Sprintf(format, args...), Resources: ids,
			})
		}
	}
	group := []string{w.group.Name}
	if count := w.count(); count < w.group.Desired {
		causes := w.launchCauses()
		for _, cause := range causes {
			add(group, "%s", cause)
		}
		if len(causes) == 0 {
			add(group, "The Auto Scaling group has launched %d of %d instances, and says of no launch that it failed", count, w.group.Desired)
		}
	}
	absent, bare, sick := w.unready()
	add(absent, "Instances failed to join the cluster: they were launched, and no agent ever registered. See the user data of the launch template")
	add(bare, "Instances lack the labels of the node group, %s. See the user data of the launch template", w.wantedLabels())
	add(sick, "Instances joined the cluster and are not Ready: their agent is not connected, or they are not ACTIVE")
	if zones := w.emptyZones(); len(zones) > 0 && w.Phase == cluster.PhaseScaleUp {
		add(group, "No new node is Ready in %s", strings.Join(zones, ", "))
	}
	return out
}

// launchCauses are why instances could not be launched, in words, the zones and messages of one cause together.
func (w *work) launchCauses() (out []string) {
	var order []string
	said := map[string][]string{}
	for _, f := range w.group.Failures {
		cause := cause(f.Code)
		if said[cause] == nil {
			order = append(order, cause)
		}
		line := strings.TrimSpace(strings.TrimPrefix(f.Zone+": "+f.Message, ": "))
		if !slices.Contains(said[cause], line) {
			said[cause] = append(said[cause], line)
		}
	}
	slices.Sort(order)
	for _, cause := range order {
		out = append(out, cause+": "+list(said[cause]))
	}
	return out
}

// cause is what an error code of EC2's means for a launch.
func cause(code string) string {
	switch code {
	case "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "SpotMaxPriceTooLow":
		return "There is not enough capacity for the instance types (" + code + ")"
	case "InstanceLimitExceeded", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded":
		return "The account's limit is reached (" + code + ")"
	case "":
		return "Instances could not be launched"
	}
	return "Instances could not be launched (" + code + ")"
}

// unready are the new nodes that are not Ready: those that never registered, those without their labels, and the rest.
func (w *work) unready() (absent, bare, sick []string) {
	for i := range w.members {
		m := &w.members[i]
		switch {
		case m.Lifecycle == Terminating || !w.updated(m) || w.ready(m):
		case m.Row == nil:
			absent = append(absent, m.ID)
		case m.connected():
			bare = append(bare, m.ID)
		default:
			sick = append(sick, m.ID)
		}
	}
	return absent, bare, sick
}

func (w *work) emptyZones() (out []string) {
	ids := map[string]bool{}
	for _, name := range w.unproven() {
		ids[name] = true
	}
	return slices.DeleteFunc(w.oldZones(), func(zone string) bool { return !ids[zone] })
}

func (w *work) wantedLabels() string {
	var out []string
	for k, v := range w.labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// evictionErrors name what keeps nodes from getting empty (N4).
func (w *work) evictionErrors(stuck []*cluster.NodeWork) (out []cluster.UpdateError) {
	for _, n := range stuck {
		why := fmt.Sprintf("Tasks did not leave node %s: %s", n.Instance, w.blocks(n))
		if !w.byID[n.Instance].draining() {
			why = fmt.Sprintf("Node %s does not become DRAINING%s", n.Instance, w.refusal(n.Instance))
		}
		out = append(out, cluster.UpdateError{Code: cluster.PodEvictionFailure, Resources: []string{n.Instance}, Message: why})
	}
	return out
}

// refusal is what ECS said of a node when it refused what was wanted of it, to be put behind it.
func (w *work) refusal(id string) string {
	if why := w.Refused[id]; why != "" {
		return " (" + why + ")"
	}
	return ""
}

// Refuse notes why ECS has refused something for single nodes, by EC2 instance id: an update that waits for them in vain says
// so. It comes back as the same pointer where that is known, or the update has ended.
func Refuse(u *cluster.Update, why map[string]string) *cluster.Update {
	next := u
	for id, said := range why {
		if next.Refused[id] == said || u.Ended() {
			continue
		}
		if next == u {
			next = clone(u)
		}
		if next.Refused == nil {
			next.Refused = map[string]string{}
		}
		next.Refused[id] = said
	}
	return next
}

func (w *work) terminationError(late []*cluster.NodeWork) cluster.UpdateError {
	var ids []string
	for _, n := range late {
		ids = append(ids, n.Instance)
	}
	return cluster.UpdateError{
		Code: cluster.UnknownUpdateError, Resources: ids, Message: "Instances are not gone though they were terminated: " + list(ids),
	}
}

// blocks says what is left on a node and why it does not leave.
func (w *work) blocks(n *cluster.NodeWork) string {
	var whys []string
	for _, t := range w.byID[n.Instance].held() {
		whys = append(whys, w.block(n, t))
	}
	return list(once(whys))
}

// once says each thing once, and how many tasks it is said of.
func once(whys []string) (order []string) {
	count := map[string]int{}
	for _, why := range whys {
		if count[why]++; count[why] == 1 {
			order = append(order, why)
		}
	}
	for k, why := range order {
		if count[why] > 1 {
			order[k] = fmt.Sprintf("%s (%d tasks)", why, count[why])
		}
	}
	return order
}

// block says why a task does not leave.
func (w *work) block(n *cluster.NodeWork, t Task) string {
	switch {
	case stopping(t):
		return fmt.Sprintf("task %s is still stopping", t.ID)
	case !n.DrainingAt.IsZero() && t.CreatedAt.Time().After(n.DrainingAt):
		return fmt.Sprintf("task %s of %s was started there though the node is DRAINING: it matches everything", t.ID, owner(t))
	case t.Protected:
		return fmt.Sprintf("task %s of %s is protected", t.ID, owner(t))
	case t.Foreign:
		return fmt.Sprintf("task %s was started by somebody else", t.ID)
	case t.Service == "":
		return fmt.Sprintf("standalone task %s (%s)", t.ID, t.TaskDefinition)
	case t.Daemon:
		return fmt.Sprintf("%s is a daemon, and leaves last", owner(t))
	case t.Why != "":
		return fmt.Sprintf("the percentages of %s (%s)", owner(t), t.Why)
	}
	return fmt.Sprintf("the percentages of %s", owner(t))
}

func owner(t Task) string {
	if t.Service == "" {
		return t.Group
	}
	return "service " + t.Service
}

// listed is how many things one message names.
const listed = 5

// list names the first few.
func list(of []string) string {
	if len(of) <= listed {
		return strings.Join(of, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(of[:listed], "; "), len(of)-listed)
}
