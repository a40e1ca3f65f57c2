package problem

import (
	"fmt"
	"slices"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// describeAffinity says beside which service the tasks of a service without room have to run, and where
// that one runs; empty if no instance was rejected for that. The command shows the other
// service's tasks.
func describeAffinity(f *finder, s *cluster.Service, d *cluster.Diagnosis) (text string, help []Help) {
	if !slices.ContainsFunc(d.Rejected, func(r cluster.Rejection) bool { return r.Filter == cluster.FilterAffinity }) {
		return "", nil
	}
	name := s.Rules.Affinity
	help = []Help{{"See where service " + name + " runs, and what keeps it elsewhere",
		f.berth("explain service %s", name)}}
	text = fmt.Sprintf(" Tasks of service %s run only beside those of service %s, which", s.Name, name)
	parent := f.in.Snapshot.Services[name]
	if parent == nil { // deleted meanwhile: placement tries again without the rule
		return text + " no longer exists.", nil
	}
	var on []string
	for _, t := range f.in.Snapshot.TasksOf(parent.Short) {
		if t.IsActive() && t.Instance != "" && !slices.Contains(on, t.Instance) {
			on = append(on, t.Instance)
		}
	}
	if len(on) == 0 {
		return text + " runs nowhere.", help
	}
	return fmt.Sprintf("%s has tasks on %s: %s.", text, whatif.CountNoun(len(on), "instance"), listNames(on)), help
}
