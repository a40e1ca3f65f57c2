package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// applicationLimits names the limit of the configuration behind each filter of applications.
var applicationLimits = map[cluster.Filter]string{
	cluster.FilterApplicationNodes: "maximumNodes",
	cluster.FilterApplicationNode:  "maximumNodeCapacity",
	cluster.FilterApplicationTotal: "totalApplicationCapacity",
}

// describeLimits says which limits a service's application has reached, and whose tasks use them. The
// commands raise the limits and, if other services share what is used up, ask for fewer tasks of the
// largest one.
func describeLimits(f *finder, s *cluster.Service, d *cluster.Diagnosis) (text string, help []Help) {
	sharesLoad := false
	for _, r := range sortedRejections(d) {
		if limit := applicationLimits[r.Filter]; limit != "" {
			text += fmt.Sprintf(" Application %s has reached its %s.", s.Rules.Application, limit)
			sharesLoad = sharesLoad || r.Filter != cluster.FilterApplicationNodes
		}
	}
	if text == "" {
		return "", nil
	}
	help = raiseHelp(f, s, d)
	users := applicationUsers(f, s.Rules.Application)
	if len(users) == 0 {
		return text, help
	}
	var parts []string
	for _, u := range users[:min(len(users), listed)] {
		parts = append(parts, fmt.Sprintf("%s of service %s", whatif.CountNoun(u.tasks, "task"), u.service.Name))
	}
	text += fmt.Sprintf(" It has %s.", strings.Join(parts, ", "))
	at := slices.IndexFunc(users, func(u applicationUser) bool { return u.service != s && u.service.Desired > 0 })
	if at < 0 || !sharesLoad {
		return text, help
	}
	other := users[at].service
	fewer := max(0, other.Desired-max(1, d.Unplaced))
	return text, append(help, Help{"Ask for fewer tasks of service " + other.Name + ", which shares the limit",
		f.aws("update-service --service %s --desired-count %d", other.Name, fewer)})
}

// raiseHelp returns the command that raises the limits which the service's tasks without an instance have
// met: by one instance, or by the load of these tasks, which the rejected instances share. Berth refuses a
// limit in all below what the instances together may have, so the command raises it with theirs.
func raiseHelp(f *finder, s *cluster.Service, d *cluster.Diagnosis) []Help {
	was := f.in.Snapshot.Configuration.Applications[s.Rules.Application]
	next := was
	next.Metrics = maps.Clone(was.Metrics)
	for _, r := range d.Rejected {
		_, metric, _ := strings.Cut(r.Detail, ", ") // of an application's load: "shop, connections"
		m := next.Metrics[metric]
		switch r.Filter {
		case cluster.FilterApplicationNodes:
			next.MaximumNodes++
			continue
		case cluster.FilterApplicationNode:
			each := (max(1, d.Unplaced) + r.Count - 1) / r.Count
			m.NodeCapacity += int64(r.Need)*int64(each) - int64(r.Best)
		case cluster.FilterApplicationTotal:
			m.TotalCapacity += int64(r.Need)*int64(max(1, d.Unplaced)) - int64(r.Best)
		default:
			continue
		}
		next.Metrics[metric] = m
	}
	flags := ""
	if next.MaximumNodes != was.MaximumNodes {
		flags += fmt.Sprintf(" --maximum-nodes %d", next.MaximumNodes)
	}
	for _, metric := range slices.Sorted(maps.Keys(next.Metrics)) {
		m, old := next.Metrics[metric], was.Metrics[metric]
		if m.TotalCapacity > 0 {
			m.TotalCapacity = max(m.TotalCapacity, m.NodeCapacity*int64(next.MaximumNodes))
		}
		if m.NodeCapacity != old.NodeCapacity {
			flags += " --node-capacity " + QuoteArgument(fmt.Sprintf("%s=%d", metric, m.NodeCapacity))
		}
		if m.TotalCapacity != old.TotalCapacity {
			flags += " --total-capacity " + QuoteArgument(fmt.Sprintf("%s=%d", metric, m.TotalCapacity))
		}
	}
	if flags == "" {
		return nil
	}
	return []Help{{"Raise the limit, if the application may have more",
		f.berth("limit %s%s", QuoteArgument(s.Rules.Application), flags)}}
}

// applicationUser is a service of an application, with how many tasks it has on instances.
type applicationUser struct {
	service *cluster.Service
	tasks   int
}

// applicationUsers returns the services that have tasks of an application, those with the most first.
func applicationUsers(f *finder, application string) (users []applicationUser) {
	for _, s := range f.in.Snapshot.Services {
		if s.Rules.Application != application {
			continue
		}
		u := applicationUser{service: s}
		for _, t := range f.in.Snapshot.TasksOf(s.Short) {
			if t.IsActive() && t.Instance != "" {
				u.tasks++
			}
		}
		if u.tasks > 0 {
			users = append(users, u)
		}
	}
	slices.SortFunc(users, func(a, b applicationUser) int {
		return cmp.Or(cmp.Compare(b.tasks, a.tasks), strings.Compare(a.service.Name, b.service.Name))
	})
	return users
}
