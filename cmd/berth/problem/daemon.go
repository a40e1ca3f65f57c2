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
			if kept := v.ReservedCapacity(); v.HasFree(d.Needs) && (v.CPU-kept.CPU < d.Needs.CPU ||
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

// describeHeldRoom says whose tasks hold the room that a DAEMON service lacks, and returns the command
// that stops one of them: the room is kept for the DAEMON service then.
func (f serviceFinder) describeHeldRoom(s *cluster.Service) (text string, help []Help) {
	definition := f.in.Snapshot.Definitions[s.Deployment.TaskDefinition]
	held := map[string]cluster.Resources{} // by service
	var stop *cluster.Task
	for v := range f.in.Snapshot.Reservations(s.Short) {
		if definition == nil || v.HasFree(definition.Needs) {
			continue
		}
		for _, t := range v.Tasks {
			other := f.in.Snapshot.Services[t.Service]
			if !t.IsActive() || other == nil || other.Strategy == cluster.Daemon {
				continue
			}
			h := held[t.Service]
			h.CPU, h.Memory = h.CPU+t.Needs.CPU, h.Memory+t.Needs.Memory
			held[t.Service] = h
			enough := v.CPU+t.Needs.CPU >= definition.Needs.CPU && v.Memory+t.Needs.Memory >= definition.Needs.Memory
			if enough && !f.isProtected(t) && (stop == nil || t.ID < stop.ID) {
				stop = t
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b].Memory, held[a].Memory), cmp.Compare(held[b].CPU, held[a].CPU),
			strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), listed)] {
		text += fmt.Sprintf(" Tasks of service %s hold %d CPU units and %d MiB there.", name,
			held[name].CPU/cluster.CPUUnit, held[name].Memory)
	}
	if stop != nil {
		help = []Help{{"Stop a task of service " + stop.Service + " on one of them: its room is kept for this service",
			f.aws("stop-task --task %s", stop.ID)}}
	}
	return text, help
}

func (f *finder) isProtected(t *cluster.Task) bool {
	p := f.in.Snapshot.Protection(t.Owner, t.ID)
	return p != nil && p.Until.After(f.in.Now)
}
