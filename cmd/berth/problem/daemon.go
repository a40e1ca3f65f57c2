package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// describeKeptRoom says how many instances have room for a task of the service and keep it free for
// DAEMON services; empty if none does.
func describeKeptRoom(snap *snapshot.Snapshot, s *cluster.Service) (text string) {
	d := snap.Definitions[s.Deployment.TaskDefinition]
	if d == nil || s.Strategy == cluster.Daemon {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(snap.DaemonServices())) {
		n := 0
		for v := range snap.Reservations(snap.DaemonServices()[name].Short) {
			kept := v.ReservedCapacity()
			takesTasks := v.Instance != nil && v.IsAvailable() && !isCordoned(v.Instance)
			if takesTasks && v.HasFree(d.Needs) && (v.CPU-kept.CPU < d.Needs.CPU ||
				v.Memory-kept.Memory < d.Needs.Memory || v.ENIs-int(kept.ENIs) < int(d.Needs.ENIs)) {
				n++
			}
		}
		if n > 0 {
			text += fmt.Sprintf(" %s would have room, but it is kept for DAEMON service %s, which does not run there "+
				"yet.", whatif.CountNoun(n, "instance"), name)
		}
	}
	return text
}

// roomHolder is a service or standalone task definition whose tasks hold room on instances.
type roomHolder struct {
	tasks []*cluster.Task
	held  cluster.Resources
}

// holderKey returns what tasks have in common that are named together as holders of room.
func holderKey(t *cluster.Task) string {
	if t.Service != "" {
		return "service " + t.Service
	}
	return fmt.Sprintf("%s %t", t.TaskDefinition, t.Foreign)
}

// String says what the holder's tasks hold.
func (h *roomHolder) String() string {
	first := h.tasks[0]
	what, verb := "Tasks of service "+first.Service, "hold"
	switch {
	case first.Service != "":
	case len(h.tasks) > 1 && first.Foreign:
		what = fmt.Sprintf("%d tasks of %s, which Berth did not start,", len(h.tasks), first.TaskDefinition)
	case len(h.tasks) > 1:
		what = fmt.Sprintf("%d standalone tasks of %s", len(h.tasks), first.TaskDefinition)
	case first.Foreign:
		what, verb = fmt.Sprintf("Task %s of %s, which Berth did not start,", first.ID, first.TaskDefinition), "holds"
	default:
		what, verb = fmt.Sprintf("Standalone task %s of %s", first.ID, first.TaskDefinition), "holds"
	}
	return fmt.Sprintf("%s %s %d CPU units and %d MiB there.", what, verb, h.held.CPU/cluster.CPUUnit, h.held.Memory)
}

// describeHeldRoom says whose tasks hold the room that a DAEMON service lacks, and returns the command
// that stops as few of them as make room on one instance: the room is kept for the DAEMON service
// then.
func (f roomFinder) describeHeldRoom(s *cluster.Service) (text string, help []Help) {
	definition := f.in.Snapshot.Definitions[s.Deployment.TaskDefinition]
	held := map[string]*roomHolder{} // by holderKey
	var stop []*cluster.Task
	for v := range f.in.Snapshot.Reservations(s.Short) {
		if definition == nil || v.HasFree(definition.Needs) {
			continue
		}
		var holders []*cluster.Task
		for _, t := range v.Tasks {
			other := f.in.Snapshot.Services[t.Service]
			if !t.IsActive() || other != nil && other.Strategy == cluster.Daemon {
				continue
			}
			h := held[holderKey(t)]
			if h == nil {
				h = &roomHolder{}
				held[holderKey(t)] = h
			}
			h.tasks, holders = append(h.tasks, t), append(holders, t)
			h.held.CPU, h.held.Memory = h.held.CPU+t.Needs.CPU, h.held.Memory+t.Needs.Memory
		}
		if tasks := tasksInTheWay(f.finder, v, definition.Needs, holders); len(tasks) > 0 && (stop == nil ||
			len(tasks) < len(stop) || len(tasks) == len(stop) && tasks[0].ID < stop[0].ID) {
			stop = tasks
		}
	}
	largest := slices.SortedFunc(maps.Values(held), func(a, b *roomHolder) int {
		return cmp.Or(cmp.Compare(b.held.Memory, a.held.Memory), cmp.Compare(b.held.CPU, a.held.CPU),
			strings.Compare(holderKey(a.tasks[0]), holderKey(b.tasks[0])))
	})
	for _, h := range largest[:min(len(largest), listed)] {
		text += " " + h.String()
	}
	return text, stopHelp(f.finder, stop)
}

// stopHelp returns the command that stops the tasks in the way of a DAEMON service; nil for none.
func stopHelp(f *finder, stop []*cluster.Task) []Help {
	switch {
	case len(stop) == 0:
		return nil
	case len(stop) == 1 && stop[0].Service == "":
		return []Help{{"Stop task " + stop[0].ID + ": its room is kept for this service, and Berth starts no other " +
			"in its place", f.aws("stop-task --task %s", stop[0].ID)}}
	case len(stop) == 1:
		return []Help{{
			"Stop a task of service " + stop[0].Service + " on one of them: its room is kept for this service",
			f.aws("stop-task --task %s", stop[0].ID)}}
	}
	ids := make([]string, len(stop))
	for n, t := range stop {
		ids[n] = t.ID
	}
	return []Help{{fmt.Sprintf("Stop %d tasks on one of them: their room is kept for this service", len(stop)),
		"for task in " + strings.Join(ids, " ") + "; do " + f.aws("stop-task --task $task") + "; done"}}
}

// maxStops is how many tasks a command stops to make room on an instance.
const maxStops = 5

// tasksInTheWay returns the fewest of the holders, the largest first, without which an instance has
// room for the needs; nil if that takes more than a command should stop.
func tasksInTheWay(
	f *finder, v *snapshot.InstanceView, needs cluster.Resources, holders []*cluster.Task,
) (stop []*cluster.Task) {
	slices.SortFunc(holders, func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(b.Needs.Memory, a.Needs.Memory), cmp.Compare(b.Needs.CPU, a.Needs.CPU),
			strings.Compare(a.ID, b.ID))
	})
	cpu, memory := v.CPU, v.Memory
	for _, t := range holders {
		if len(stop) == maxStops || f.isProtected(t) {
			continue
		}
		stop, cpu, memory = append(stop, t), cpu+t.Needs.CPU, memory+t.Needs.Memory
		if cpu >= needs.CPU && memory >= needs.Memory {
			return stop
		}
	}
	return nil
}

func (f *finder) isProtected(t *cluster.Task) bool {
	return f.in.Snapshot.Protection(t.Owner, t.ID).IsActive(f.in.Now)
}
